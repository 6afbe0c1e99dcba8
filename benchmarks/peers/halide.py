"""Halide: the best of several schedules by hand and its Mullapudi2016 auto-scheduler.

Each problem is an algorithm: the functions from the input to the output, first to last.  The
schedules know nothing of the problem, but are those that work for a chain of filters: all
inlined; each intermediate computed for a row of the output; each kept in a rolling buffer over
strips of rows, as Halide's apps/harris and apps/unsharp do, or over tiles.  Every one is
compiled and tried, and the fastest is what is measured.
"""

from __future__ import annotations

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
    stages[-1].vectorize(axes[0], lanes).parallel(axes[-1])


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


def _by_tiles(width: int, height: int) -> Schedule:
    """Tiles that roll downward as strips do, in bands of rows that are shared out."""

    def schedule(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
        x, y = axes
        column, strip, last = hl.Var("column"), hl.Var("strip"), stages[-1]
        last.tile(x, y, column, strip, x, y, width, height).vectorize(x, lanes).parallel(strip)
        for stage in stages[:-1]:
            stage.store_at(last, column).compute_at(last, y).vectorize(x, lanes)

    return schedule


def _together(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
    """In one loop, as apps/harris has them: 8 % faster (Zen 4, two threads, 2560x3072)."""
    _by_strips(128)(stages, axes, lanes, hl)
    stages[0].compute_with(stages[1], axes[0])


INLINED = "inlined"
SCHEDULES = {INLINED: _inline, "rows": _by_rows, "strips": _by_strips(32)}
PIPELINES = SCHEDULES | {
    "vectors": _by_strips(32, columns=True),
    "strips of 128": _by_strips(128),
    "strips of 512": _by_strips(512),
    "tiles of 512x128": _by_tiles(512, 128),
    "tiles of 1024x512": _by_tiles(1024, 512),
}


def halide(
    algorithm: Algorithm,
    *near: int,
    schedules: Mapping[str, Schedule] = SCHEDULES,
    **options: Any,
) -> peers.Peer:
    """A peer from `algorithm(hl, input, axes)`, which leaves out `near` at the border.

    `near` is for all axes of the array, in its order; Halide's first axis is the last of NumPy.
    """

    def build(hl: Any, x: np.ndarray, threads: int) -> peers.Work:
        shape = [n - 2 * reach for n, reach in zip(x.shape, near, strict=True)]
        out = np.zeros(shape, x.dtype)
        source = hl.Buffer(x, reverse_axes=True)
        target = hl.Buffer(out, reverse_axes=True)
        target.set_min(list(reversed(near)))
        lanes = _VECTOR // x.dtype.itemsize

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
            if name == INLINED and max(near) > 7:
                continue  # a thousand terms at every point, which compile for minutes
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
    """A number of the array's type; what is a stage is of float32."""
    double = isinstance(given, hl.ImageParam) and given.type().bits() == 64
    return hl.f64(value) if double else hl.f32(value)


def recipe() -> peers.Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y, z = axes
        rows, out = hl.Func("rows"), hl.Func("out")
        rows[x, y, z] = _sum([hl.i16(given[x, y + k, z]) for k in (-1, 0, 1)])
        out[x, y, z] = hl.i8(_sum([rows[x + k, y, z] for k in (-1, 0, 1)]) // 9)
        return rows, out

    return halide(algorithm, 0, 1, 1)


def _blurred(hl: Any, given: Any, axes: Any, name: str) -> tuple[Any, Any]:
    """A Gaussian of 5x5 in two stages, the columns first."""
    x, y = axes
    columns, rows, steps = hl.Func(f"{name}_columns"), hl.Func(f"{name}_rows"), range(-2, 3)
    weights = [_number(hl, given, float(weight)) for weight in kernels.bell()]
    columns[x, y] = _sum([given[x, y + k] * weights[k + 2] for k in steps])
    rows[x, y] = _sum([columns[x + k, y] * weights[k + 2] for k in steps])
    return columns, rows


def gaussian() -> peers.Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        return _blurred(hl, given, axes, "out")

    return halide(algorithm, 2, 2, dtypes=("float32", "float64"))


def harris() -> peers.Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
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

    return halide(algorithm, 2, 2, schedules=PIPELINES | {"both gradients": _together})


def unsharp() -> peers.Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        out = hl.Func("out")
        columns, soft = _blurred(hl, given, axes, "soft")
        out[x, y] = given[x, y] + hl.f32(kernels.AMOUNT) * (given[x, y] - soft[x, y])
        # The sums along rows are needed at one point each, and so are part of the last stage.
        return columns, out

    return halide(algorithm, 2, 2, schedules=PIPELINES)


def blurs(schedules: Mapping[str, Schedule] = PIPELINES) -> peers.Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        made: list[Any] = []
        for k in range(4):
            made += _blurred(hl, made[-1] if made else given, axes, f"blur_{k}")
        return made

    return halide(algorithm, 8, 8, schedules=schedules)
