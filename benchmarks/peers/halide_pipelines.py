"""Halide's pipelines: scheduled as its own examples of them are, and by Mullapudi2016.

apps/harris and apps/unsharp keep the stages that many points need in rolling rows over strips
of 32 rows.  Longer strips compute less twice, and tiles keep more stages in the nearest cache;
all are tried with the other schedules by hand, and the fastest is what is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import kernels, stages
from . import Peer
from .halide import SCHEDULES, Schedule, _sum, halide


def _by_strips(length: int) -> Schedule:
    def schedule(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
        strip = hl.Var("strip")
        last = stages[-1]
        last.split(axes[1], strip, axes[1], length).vectorize(axes[0], lanes).parallel(strip)
        for stage in stages[:-1]:
            stage.store_at(last, strip).compute_at(last, axes[1]).vectorize(axes[0], lanes)

    return schedule


def _by_tiles(width: int, height: int) -> Schedule:
    """Tiles that roll downward as strips do, in bands of rows that are shared out."""

    def schedule(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
        x, y = axes
        column, strip = hl.Var("column"), hl.Var("strip")
        last = stages[-1]
        last.tile(x, y, column, strip, x, y, width, height).vectorize(x, lanes).parallel(strip)
        for stage in stages[:-1]:
            stage.store_at(last, column).compute_at(last, y).vectorize(x, lanes)

    return schedule


PIPELINES = SCHEDULES | {
    "strips of 128": _by_strips(128),
    "strips of 512": _by_strips(512),
    "tiles of 512x128": _by_tiles(512, 128),
    "tiles of 1024x512": _by_tiles(1024, 512),
}


def _together(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
    """In one loop, as apps/harris has them: 8 % faster (Zen 4, two threads, 2560x3072)."""
    _by_strips(128)(stages, axes, lanes, hl)
    stages[0].compute_with(stages[1], axes[0])


def harris() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        p, q, out = hl.Func("p"), hl.Func("q"), hl.Func("out")
        for gradient, weights in ((p, stages.DOWN), (q, stages.ACROSS)):
            gradient[x, y] = _sum(
                [
                    hl.f32(float(weights[i + 1, j + 1])) * given[x + j, y + i]
                    for i in (-1, 0, 1)
                    for j in (-1, 0, 1)
                    if weights[i + 1, j + 1]
                ]
            )

        def box(one: Any, other: Any) -> Any:
            steps = (-1, 0, 1)
            return _sum([one[x + j, y + i] * other[x + j, y + i] for i in steps for j in steps])

        a, b, c = box(p, p), box(p, q), box(q, q)
        trace = a + c
        out[x, y] = a * c - b * b - hl.f32(0.04) * trace * trace
        return p, q, out

    return halide(algorithm, (2, 2), schedules=PIPELINES | {"both gradients": _together})


def _blurred(hl: Any, given: Any, axes: Any, name: str) -> tuple[Any, Any]:
    """A Gaussian of 5x5 in two stages, the columns first."""
    x, y = axes
    columns, rows = hl.Func(f"{name}_columns"), hl.Func(f"{name}_rows")
    weights = [hl.f32(float(weight)) for weight in kernels.bell()]
    columns[x, y] = _sum([given[x, y + k] * weights[k + 2] for k in range(-2, 3)])
    rows[x, y] = _sum([columns[x + k, y] * weights[k + 2] for k in range(-2, 3)])
    return columns, rows


def unsharp() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        out = hl.Func("out")
        columns, soft = _blurred(hl, given, axes, "soft")
        out[x, y] = given[x, y] + hl.f32(stages.AMOUNT) * (given[x, y] - soft[x, y])
        # The sums along rows are needed at one point each, and so are part of the last stage.
        return columns, out

    return halide(algorithm, (2, 2), schedules=PIPELINES)


def blurs() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        made: list[Any] = []
        for k in range(4):
            made += _blurred(hl, made[-1] if made else given, axes, f"blur_{k}")
        return made

    return halide(algorithm, (8, 8), schedules=PIPELINES)
