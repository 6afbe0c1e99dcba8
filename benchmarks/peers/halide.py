"""Halide: the best of several schedules by hand and its Mullapudi2016 auto-scheduler.

Each problem is an algorithm: the functions from the input to the output, first to last.  The
schedules know nothing of the problem, but are those that work for a chain of filters: all
inlined; each intermediate computed for a row of the output; each kept in a rolling buffer over
strips of rows, as Halide's apps/harris and apps/unsharp do; tiles were never the fastest.  Every
one is compiled and tried, and the fastest is what is measured.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import kernels, peers

# Bytes in a vector register that Halide is asked to fill: AVX-512 and its narrower relations.
_VECTOR = 64

Algorithm = Callable[[Any, Any, Any], Sequence[Any]]
Schedule = Callable[[Sequence[Any], list[Any], int, Any], None]


def _inline(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
    last = stages[-1]
    if len(axes) > 1:
        last.vectorize(axes[0], lanes).parallel(axes[-1])
        return
    # A line has nothing but itself to be parallel over: in pieces of so many vectors.
    outer, vectors, lane = hl.Var("outer"), hl.Var("vectors"), hl.Var("lane")
    last.split(axes[0], vectors, lane, lanes).vectorize(lane)
    last.split(vectors, outer, vectors, 4096, hl.TailStrategy.GuardWithIf).parallel(outer)


def _by_rows(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
    stages[-1].vectorize(axes[0], lanes).parallel(axes[-1])
    for stage in stages[:-1]:
        stage.compute_at(stages[-1], axes[1]).vectorize(axes[0], lanes)


def _by_strips(length: int, columns: bool = False) -> Schedule:
    """Rolling rows; with `columns` the intermediate is computed for each vector of the output."""

    def schedule(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
        strip, last = hl.Var("strip"), stages[-1]
        last.split(axes[1], strip, axes[1], length).vectorize(axes[0], lanes)
        last.parallel(axes[-1] if len(axes) > 2 else strip)
        stored, computed = (axes[1], axes[0]) if columns else (strip, axes[1])
        for stage in stages[:-1]:
            stage.store_at(last, stored).compute_at(last, computed).vectorize(axes[0], lanes)

    return schedule


def _together(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
    """In one loop, as apps/harris has them: 8 % faster (Zen 4, two threads, 2560x3072)."""
    _by_strips(128)(stages, axes, lanes, hl)
    stages[0].compute_with(stages[1], axes[0])


INLINED = "inlined"
SCHEDULES = {INLINED: _inline, "rows": _by_rows, "strips": _by_strips(32)}
SCHEDULES["vectors"] = _by_strips(32, columns=True)
PIPELINES = SCHEDULES | {"strips of 128": _by_strips(128), "strips of 512": _by_strips(512)}


def halide(
    *near: int,
    schedules: Mapping[str, Schedule] = SCHEDULES,
    result: Callable[[np.dtype], Any] = peers.same,
    **options: Any,
) -> Callable[[Algorithm], peers.Peer]:
    """Make a peer of `algorithm(hl, input, axes)`, which leaves out `near` at the border.

    `near` is for all axes of the array, in its order; Halide's first axis is the last of NumPy.
    """

    def peer(algorithm: Algorithm) -> peers.Peer:
        def build(hl: Any, x: np.ndarray, threads: int) -> peers.Work:
            shape = [n - 2 * reach for n, reach in zip(x.shape, near, strict=True)]
            out = np.zeros(shape, result(x.dtype))
            source = hl.Buffer(x, reverse_axes=True)
            target = hl.Buffer(out, reverse_axes=True)
            target.set_min(list(reversed(near)))
            lanes = _VECTOR // min(x.dtype.itemsize, out.dtype.itemsize)

            def begun() -> tuple[Any, Sequence[Any], list[Any]]:
                maker = {"i": hl.Int, "u": hl.UInt, "f": hl.Float}[x.dtype.kind]
                given = hl.ImageParam(maker(8 * x.dtype.itemsize), x.ndim, "given")
                axes = [hl.Var(name) for name in "xyz"[: x.ndim]]
                stages = algorithm(hl, given, axes)
                given.set(source)
                return given, stages, axes

            works: dict[str, Any] = {}
            for name, schedule in schedules.items():
                given, stages, axes = begun()
                if name == INLINED and max(near) > 7 and len(stages) > 1:
                    continue  # a thousand terms at every point, which compile for minutes
                if name != INLINED and len(stages) == 1:
                    continue  # nothing that could be kept
                schedule(stages, axes, lanes, hl)
                stages[-1].compile_jit()
                works[name] = (stages[-1], given)
            given, stages, _ = begun()
            made = _scheduled(hl, given, stages[-1], x.shape, shape, near, threads)
            works["Mullapudi2016"] = (made, given)
            best = min(works, key=lambda name: _tried(works[name][0], target))
            chosen = works[best]

            def work() -> np.ndarray:
                chosen[0].realize(target)
                return out

            work.note = best  # type: ignore[attr-defined]
            return work

        return peers.built("Halide", "halide", build, threads=True, **options)

    return peer


def _scheduled(
    hl: Any, given: Any, last: Any, before: Any, after: Any, near: Any, threads: int
) -> Any:
    plugin = Path(hl.__file__).parent / "lib64" / "libautoschedule_mullapudi2016.so"
    hl.load_plugin(str(plugin))
    given.set_estimates([(0, length) for length in before[::-1]])
    last.set_estimates(list(zip(near[::-1], after[::-1], strict=True)))
    pipeline = hl.Pipeline(last)
    target = hl.get_jit_target_from_environment()
    options = hl.AutoschedulerParams("Mullapudi2016", {"parallelism": str(threads)})
    pipeline.apply_autoscheduler(target, options)
    pipeline.compile_jit(target)
    return pipeline


def _tried(work: Any, target: Any) -> float:
    """The shortest time of three."""
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        work.realize(target)
        times.append(time.perf_counter() - begin)
    return min(times)


def _sum(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _number(hl: Any, given: Any, value: float) -> Any:
    """A number of a type that holds sums; what is a stage is of float32."""
    kind = given.type() if isinstance(given, hl.ImageParam) else hl.Float(32)
    if kind.is_float():
        return hl.f64(float(value)) if kind.bits() == 64 else hl.f32(float(value))
    return hl.i16(int(value)) if kind.bits() == 8 else hl.i32(int(value))


def _same(value: Any) -> Any:
    return value


def _wide(hl: Any, given: Any) -> Callable[[Any], Any]:
    """A cast to what holds sums of a few of them."""
    if given.type().is_float():
        return _same
    return hl.i16 if given.type().bits() == 8 else hl.i32


@halide(0, 1, 1)
def recipe(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
    x, y, z = axes
    rows, out = hl.Func("rows"), hl.Func("out")
    rows[x, y, z] = _sum([hl.i16(given[x, y + k, z]) for k in (-1, 0, 1)])
    out[x, y, z] = hl.i8(_sum([rows[x + k, y, z] for k in (-1, 0, 1)]) // 9)
    return rows, out


def linear(weights: np.ndarray, result: Any = peers.same) -> peers.Peer:
    """A sum of weighted neighbours; the weights have the shape of the neighbourhood."""
    near = [length // 2 for length in weights.shape]

    @halide(*near, result=result)
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        cast, out, terms = _wide(hl, given), hl.Func("out"), []
        for place in np.argwhere(weights):
            steps = [int(k) - reach for k, reach in zip(place, near, strict=True)]
            at = tuple(axis + step for axis, step in zip(axes, steps[::-1], strict=True))
            terms.append(cast(given[at]) * _number(hl, given, weights[tuple(place)]))
        out[tuple(axes)] = _sum(terms)
        return (out,)

    return algorithm


def _separable(
    hl: Any,
    given: Any,
    axes: Any,
    name: str,
    down: Sequence[Any],
    across: Sequence[Any],
    casts: Sequence[Callable[[Any], Any]] = (_same, _same, _same),
) -> tuple[Any, Any]:
    """Weighted sums of columns, then of these; the casts are for both, and for the result."""
    x, y = axes
    near, (wide, wider, narrow) = len(down) // 2, casts
    columns, rows = hl.Func(f"{name}_columns"), hl.Func(f"{name}_rows")
    columns[x, y] = _sum([wide(given[x, y + k - near]) * weight for k, weight in enumerate(down)])
    total = _sum([wider(columns[x + k - near, y]) * weight for k, weight in enumerate(across)])
    rows[x, y] = narrow(total)
    return columns, rows


def mean(size: int) -> peers.Peer:
    count, near = size * size, size // 2

    @halide(near, near)
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        # 31 * 31 * 255 does not fit into 16 bits.
        wide = hl.i32 if size > 11 and not given.type().is_float() else _wide(hl, given)
        narrow = hl.u8 if given.type().bits() == 8 else hl.u16

        def divided(total: Any) -> Any:
            if given.type().is_float():
                return total / _number(hl, given, count)
            return narrow((total + count // 2) // count)

        ones = [1] * size
        return _separable(hl, given, axes, "out", ones, ones, (wide, _same, divided))

    return algorithm


def _blurred(hl: Any, given: Any, axes: Any, name: str, *casts: Any) -> tuple[Any, Any]:
    """A Gaussian of 5x5 in two stages, the columns first."""
    double = isinstance(given, hl.ImageParam) and given.type().bits() == 64
    weights = [(hl.f64 if double else hl.f32)(float(weight)) for weight in kernels.bell()]
    return _separable(hl, given, axes, name, weights, weights, *casts)


@halide(2, 2, tolerance=peers.Tolerance(integers=1), why="sums in other order")
def gaussian(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
    if given.type().is_float():
        return _blurred(hl, given, axes, "out")
    if given.type().bits() == 16:
        casts = hl.f32, _same, lambda total: hl.u16(hl.round(total))
        return _blurred(hl, given, axes, "out", casts)
    weights = kernels.BELL_8.tolist()
    casts = hl.u16, hl.u32, lambda total: hl.u8((total + 32768) >> 16)
    return _separable(hl, given, axes, "out", weights, weights, casts)


@halide(1, 1, result=peers.signed)
def sobel(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
    casts = _wide(hl, given), _same, _same
    return _separable(hl, given, axes, "out", (1, 2, 1), (-1, 0, 1), casts)


@halide(1, 1)
def median3(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
    """Sorted columns, then the median of the greatest, the middle and the least ones."""
    x, y = axes
    low, mid, high, out = (hl.Func(name) for name in ("low", "mid", "high", "out"))

    def middle(a: Any, b: Any, c: Any) -> Any:
        return hl.max(hl.min(a, b), hl.min(hl.max(a, b), c))

    column = [given[x, y + k] for k in (-1, 0, 1)]
    low[x, y], mid[x, y] = functools.reduce(hl.min, column), middle(*column)
    high[x, y] = functools.reduce(hl.max, column)
    lows, mids, highs = ([one[x + k, y] for k in (-1, 0, 1)] for one in (low, mid, high))
    ends = functools.reduce(hl.max, lows), functools.reduce(hl.min, highs)
    out[x, y] = middle(ends[0], middle(*mids), ends[1])
    return low, mid, high, out


def extreme(name: str, size: int) -> peers.Peer:
    """Windows of twice the length from two of one length; the last two overlap."""
    near = size // 2

    @halide(near, near)
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        better, stages = getattr(hl, name), [given]
        for i, j in ((1, 0), (0, 1)):
            length = 1
            while length < size:
                step = min(length, size - length)
                # The first stage of an axis moves to the window's begin.
                row, column = (y - near * i, x - near * j) if length == 1 else (y, x)
                before, stage = stages[-1], hl.Func(f"{'rows' if i else 'columns'}_{length}")
                stage[x, y] = better(
                    before[column, row], before[column + step * j, row + step * i]
                )
                stages.append(stage)
                length += step
        return stages[1:]

    return algorithm


@halide(2, 2, dtypes=("float32",))
def bilateral(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
    x, y = axes
    out = hl.Func("out")
    out[x, y] = kernels.bilateral(hl.exp)(_Around(given, axes))
    return (out,)


class _Around:
    """An array that is asked for a neighbour by its offset, the last axis last."""

    def __init__(self, given: Any, axes: Any) -> None:
        self.given, self.axes = given, axes

    def __getitem__(self, offset: tuple[int, ...]) -> Any:
        return self.given[tuple(a + k for a, k in zip(self.axes, offset[::-1], strict=True))]


@halide(2, 2, schedules=PIPELINES | {"both gradients": _together})
def harris(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
    x, y = axes
    p, q, out, steps = hl.Func("p"), hl.Func("q"), hl.Func("out"), (-1, 0, 1)
    for gradient, weights in ((p, kernels.DOWN), (q, kernels.ACROSS)):
        near = [
            hl.f32(float(weights[i + 1, j + 1])) * given[x + j, y + i]
            for i, j in itertools.product(steps, repeat=2)
            if weights[i + 1, j + 1]
        ]
        gradient[x, y] = _sum(near)

    def window(one: Any, other: Any) -> Any:
        return _sum([one[x + j, y + i] * other[x + j, y + i] for i in steps for j in steps])

    a, b, c = window(p, p), window(p, q), window(q, q)
    trace = a + c
    out[x, y] = a * c - b * b - hl.f32(0.04) * trace * trace
    return p, q, out


@halide(2, 2, schedules=PIPELINES)
def unsharp(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
    x, y = axes
    out = hl.Func("out")
    columns, soft = _blurred(hl, given, axes, "soft")
    out[x, y] = given[x, y] + hl.f32(kernels.AMOUNT) * (given[x, y] - soft[x, y])
    # The sums along rows are needed at one point each, and so are part of the last stage.
    return columns, out


@halide(8, 8, schedules=PIPELINES)
def blurs(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
    made: list[Any] = []
    for k in range(4):
        made += _blurred(hl, made[-1] if made else given, axes, f"blur_{k}")
    return made
