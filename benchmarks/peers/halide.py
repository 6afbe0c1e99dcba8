"""Halide: the best of several schedules by hand and its Mullapudi2016 auto-scheduler.

Each problem is an algorithm: the functions from the input to the output, first to last.  The
schedules know nothing of the problem, but are the three that work for a chain of filters: all
inlined; each intermediate computed for a row of the output; each kept in a rolling buffer over
strips of rows.  Every one is compiled and tried, and the fastest is what is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import kernels
from . import Peer, Tolerance

# Bytes in a vector register that Halide is asked to fill: AVX-512 and its narrower relations.
_VECTOR = 64
_STRIP = 32

Algorithm = Callable[[Any, Any, np.dtype], Sequence[Any]]
Schedule = Callable[[Sequence[Any], list[Any], int, Any], None]


def _variables(hl: Any, ndim: int) -> list[Any]:
    return [hl.Var(name) for name in "xyz"[:ndim]]


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


def _by_strips(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
    strip = hl.Var("strip")
    last = stages[-1]
    last.split(axes[1], strip, axes[1], _STRIP).vectorize(axes[0], lanes)
    last.parallel(axes[-1] if len(axes) > 2 else strip)
    for stage in stages[:-1]:
        stage.store_at(last, strip).compute_at(last, axes[1]).vectorize(axes[0], lanes)


def _tiny(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
    """Rolling columns as well: the intermediate is computed for each vector of the output."""
    strip = hl.Var("strip")
    last = stages[-1]
    last.split(axes[1], strip, axes[1], _STRIP).vectorize(axes[0], lanes)
    last.parallel(axes[-1] if len(axes) > 2 else strip)
    for stage in stages[:-1]:
        stage.store_at(last, axes[1]).compute_at(last, axes[0]).vectorize(axes[0], lanes)


SCHEDULES = {"inlined": _inline, "rows": _by_rows, "strips": _by_strips, "vectors": _tiny}


def halide(
    algorithm: Algorithm,
    near: tuple[int, ...],
    result: Callable[[np.dtype], Any] = lambda given: given,
    schedules: Mapping[str, Schedule] = SCHEDULES,
    sizes: Callable[[int], int] = lambda length: length,
    **options: Any,
) -> Peer:
    """A peer from `algorithm(hl, input, axes)`, which leaves out `near` at the border.

    `near` is for all axes of the array, in its order; Halide's first axis is the last of NumPy.
    `sizes` gives the length of the result for that of the array, where it is another.
    """

    def prepare(x: np.ndarray, threads: int) -> Any:
        import halide as hl

        dtype = np.dtype(result(x.dtype))
        shape = [sizes(n) - 2 * reach for n, reach in zip(x.shape, near, strict=True)]
        out = np.zeros(shape, dtype)
        source = hl.Buffer(x, reverse_axes=True)
        target = hl.Buffer(out, reverse_axes=True)
        target.set_min(list(reversed(near)))

        def build() -> tuple[Any, Sequence[Any], list[Any]]:
            given = hl.ImageParam(_type(hl, x.dtype), x.ndim, "given")
            axes = _variables(hl, x.ndim)
            stages = algorithm(hl, given, axes)
            given.set(source)
            return given, stages, axes

        lanes = _VECTOR // min(x.dtype.itemsize, dtype.itemsize)
        works: dict[str, Any] = {}
        for name, schedule in schedules.items():
            given, stages, axes = build()
            if name == "inlined" and len(stages) > 1 and max(near) > 7:
                continue  # a thousand terms at every point, which compile for minutes
            if name != "inlined" and len(stages) == 1:
                continue  # nothing that could be kept
            schedule(stages, axes, lanes, hl)
            stages[-1].compile_jit()
            works[name] = (stages[-1], given)
        given, stages, _ = build()
        if x.ndim > 1:
            made = _scheduled(hl, given, stages[-1], (x.shape, shape), near, threads)
            works["Mullapudi2016"] = (made, given)
        best = min(works, key=lambda name: _tried(works[name][0], target))
        chosen = works[best]

        def work() -> np.ndarray:
            chosen[0].realize(target)
            return out

        work.note = best  # type: ignore[attr-defined]
        return work

    return Peer("Halide", "halide", prepare, threads=True, **options)


def _scheduled(
    hl: Any,
    given: Any,
    last: Any,
    shapes: tuple[Sequence[int], Sequence[int]],
    near: tuple[int, ...],
    threads: int,
) -> Any:
    plugin = Path(hl.__file__).parent / "lib64" / "libautoschedule_mullapudi2016.so"
    hl.load_plugin(str(plugin))
    (before, after), reaches = (shape[::-1] for shape in shapes), near[::-1]
    given.set_estimates([(0, length) for length in before])
    last.set_estimates(list(zip(reaches, after, strict=True)))
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


def _type(hl: Any, dtype: np.dtype) -> Any:
    maker = {"i": hl.Int, "u": hl.UInt, "f": hl.Float}[dtype.kind]
    return maker(8 * dtype.itemsize)


def _sum(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def recipe() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y, z = axes
        rows, out = hl.Func("rows"), hl.Func("out")
        rows[x, y, z] = _sum([hl.i16(given[x, y + k, z]) for k in (-1, 0, 1)])
        out[x, y, z] = hl.i8(_sum([rows[x + k, y, z] for k in (-1, 0, 1)]) // 9)
        return rows, out

    return halide(algorithm, (0, 1, 1))


def _wide(hl: Any, given: Any) -> Callable[[Any], Any]:
    """A cast that holds sums of a few of them."""
    bits = given.type().bits()
    if given.type().is_float():
        return lambda expr: expr
    return hl.i16 if bits == 8 else hl.i32


def _narrow(hl: Any, given: Any) -> Callable[[Any], Any]:
    if given.type().is_float():
        return lambda expr: expr
    return hl.u8 if given.type().bits() == 8 else hl.u16


def _number(hl: Any, given: Any, value: float) -> Any:
    return hl.f64(value) if given.type().bits() == 64 else hl.f32(value)


def mean(size: int) -> Peer:
    near = size // 2
    count = size * size

    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        # 31 * 31 * 255 does not fit into 16 bits.
        cast = hl.i32 if size > 11 and not given.type().is_float() else _wide(hl, given)
        steps = range(-near, near + 1)
        rows, out = hl.Func("rows"), hl.Func("out")
        rows[x, y] = _sum([cast(given[x, y + k]) for k in steps])
        total = _sum([rows[x + k, y] for k in steps])
        if given.type().is_float():
            out[x, y] = total / _number(hl, given, count)
        else:
            out[x, y] = _narrow(hl, given)((total + count // 2) // count)
        return rows, out

    return halide(algorithm, (near, near))


def gaussian() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        rows, out = hl.Func("rows"), hl.Func("out")
        steps = range(-2, 3)
        if given.type().is_float() or given.type().bits() == 16:
            weights = [_number(hl, given, float(w)) for w in kernels.bell()]
            cast = _identity if given.type().is_float() else hl.f32
            rows[x, y] = _sum([cast(given[x, y + k]) * weights[k + 2] for k in steps])
            total = _sum([rows[x + k, y] * weights[k + 2] for k in steps])
            out[x, y] = total if given.type().is_float() else hl.u16(hl.round(total))
        else:
            weights = [int(weight) for weight in kernels.BELL_8]
            rows[x, y] = _sum([hl.u16(given[x, y + k]) * hl.u16(weights[k + 2]) for k in steps])
            total = _sum([hl.u32(rows[x + k, y]) * hl.u32(weights[k + 2]) for k in steps])
            out[x, y] = hl.u8((total + hl.u32(32768)) >> hl.u32(16))
        return rows, out

    return halide(algorithm, (2, 2), tolerance=Tolerance(integers=1), why="sums in another order")


def _identity(expr: Any) -> Any:
    return expr


def _signed(given: np.dtype) -> Any:
    return {"uint8": np.int16, "uint16": np.int32}.get(given.name, given)


def sobel() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        cast = _wide(hl, given)
        columns, out = hl.Func("columns"), hl.Func("out")
        above, here, below = (cast(given[x, y + k]) for k in (-1, 0, 1))
        columns[x, y] = above + here + here + below
        out[x, y] = columns[x + 1, y] - columns[x - 1, y]
        return columns, out

    return halide(algorithm, (1, 1), result=_signed)


def laplace() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        cast = _wide(hl, given)
        out = hl.Func("out")
        around = [given[x - 1, y], given[x + 1, y], given[x, y - 1], given[x, y + 1]]
        four = cast(4) if not given.type().is_float() else _number(hl, given, 4)
        out[x, y] = _sum([cast(value) for value in around]) - four * cast(given[x, y])
        return (out,)

    return halide(algorithm, (1, 1), result=_signed)


def median3() -> Peer:
    """Sorted columns, then the median of the greatest, the middle and the least ones."""

    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        low, mid, high, out = (hl.Func(name) for name in ("low", "mid", "high", "out"))
        a, b, c = given[x, y - 1], given[x, y], given[x, y + 1]
        low[x, y] = hl.min(a, hl.min(b, c))
        mid[x, y] = hl.max(hl.min(a, b), hl.min(hl.max(a, b), c))
        high[x, y] = hl.max(a, hl.max(b, c))

        def middle(p: Any, q: Any, r: Any) -> Any:
            return hl.max(hl.min(p, q), hl.min(hl.max(p, q), r))

        lows = hl.max(low[x - 1, y], hl.max(low[x, y], low[x + 1, y]))
        highs = hl.min(high[x - 1, y], hl.min(high[x, y], high[x + 1, y]))
        out[x, y] = middle(lows, middle(mid[x - 1, y], mid[x, y], mid[x + 1, y]), highs)
        return low, mid, high, out

    return halide(algorithm, (1, 1))


def extreme(size: int, name: str) -> Peer:
    """Windows of twice the length from two of one length; the last two overlap."""
    near = size // 2

    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        better = getattr(hl, name)
        stages: list[Any] = []
        last = given
        for down in (1, 0):
            length = 1
            while length < size:
                step = min(length, size - length)
                # The first stage of an axis moves to the window's begin.
                move = -near if length == 1 else 0
                here = (x, y + move) if down else (x + move, y)
                there = (x, y + move + step) if down else (x + move + step, y)
                stage = hl.Func(f"{'rows' if down else 'columns'}_{length + step}")
                stage[x, y] = better(last[here[0], here[1]], last[there[0], there[1]])
                stages.append(stage)
                last, length = stage, length + step
        return stages

    return halide(algorithm, (near, near))


def bilateral() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        out = hl.Func("out")
        values, weights = [], []
        near = _number(hl, given, -12.5)
        for i in range(-2, 3):
            for j in range(-2, 3):
                value = given[x + j, y + i]
                step = value - given[x, y]
                space = _number(hl, given, -(i * i + j * j) / 8)
                weight = hl.exp(space + near * step * step)
                weights.append(weight)
                values.append(weight * value)
        out[x, y] = _sum(values) / _sum(weights)
        return (out,)

    return halide(algorithm, (2, 2))


def branches() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        cast = _wide(hl, given)
        out = hl.Func("out")
        left, right = cast(given[x - 1, y]), cast(given[x + 1, y])
        up, down = cast(given[x, y - 1]), cast(given[x, y + 1])
        across = hl.select(right > left, right - left, left - right)
        along = hl.select(down > up, down - up, up - down)
        here = cast(given[x, y])
        value = hl.select(
            across > along + along,
            up + down,
            hl.select(along > across + across, left + right, here + here),
        )
        out[x, y] = value if given.type().is_float() else hl.u16(value)
        return (out,)

    return halide(
        algorithm, (1, 1), result=lambda given: np.uint16 if given == np.uint8 else given
    )


def seven() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y, z = axes
        out = hl.Func("out")
        centre, side = (_number(hl, given, value) for value in (0.4, 0.1))
        around = _sum(
            [
                given[x, y, z - 1], given[x, y, z + 1], given[x, y - 1, z],
                given[x, y + 1, z], given[x - 1, y, z], given[x + 1, y, z],
            ]
        )  # fmt: skip
        out[x, y, z] = given[x, y, z] * centre + side * around
        return (out,)

    return halide(algorithm, (1, 1, 1))


def cube() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y, z = axes
        out = hl.Func("out")
        steps = (-1, 0, 1)
        out[x, y, z] = _sum(
            [
                _number(hl, given, float(kernels.CUBE[i + 1, j + 1, k + 1]))
                * given[x + k, y + j, z + i]
                for i in steps
                for j in steps
                for k in steps
            ]
        )
        return (out,)

    return halide(algorithm, (1, 1, 1))


def signal() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        (x,) = axes
        out = hl.Func("out")
        out[x] = _sum(
            [
                given[x + k] * _number(hl, given, float(kernels.TAPS[k + 12]))
                for k in range(-12, 13)
            ]
        )
        return (out,)

    return halide(algorithm, (12,))
