"""Halide's results at every second point: a pool and a pyramid.

Each level of a pyramid is there as a whole before the next; sums of columns are made row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import Peer
from .halide import Schedule, _number, _sum, halide

LEVELS = 3


def _halved(length: int, times: int = 1) -> int:
    return -(-length // 2**times)


def pool() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        out = hl.Func("out")
        near = [given[2 * x + j, 2 * y + i] for i in (0, 1) for j in (0, 1)]
        out[x, y] = _sum(near) / _number(hl, given, 4)
        return (out,)

    return halide(algorithm, (0, 0), sizes=_halved)


def pyramid() -> Peer:
    def algorithm(hl: Any, given: Any, axes: Any) -> Sequence[Any]:
        x, y = axes
        weights = [_number(hl, given, weight / 16) for weight in (1, 4, 6, 4, 1)]
        lengths = [given.width(), given.height()]
        level, stages = given, []
        for k in range(LEVELS):
            bounds = [(0, length) for length in lengths]
            if k:
                level = hl.BoundaryConditions.mirror_interior(level, bounds)
            else:
                level = hl.BoundaryConditions.mirror_interior(level)
            columns, made = hl.Func(f"columns_{k}"), hl.Func(f"level_{k}")
            columns[x, y] = _sum([level[x, 2 * y + o] * weights[o + 2] for o in range(-2, 3)])
            made[x, y] = _sum([columns[2 * x + o, y] * weights[o + 2] for o in range(-2, 3)])
            stages += [columns, made]
            level, lengths = made, [(length + 1) // 2 for length in lengths]
        return stages

    # Inlined they would be a million terms.
    return halide(algorithm, (0, 0), schedules=BY_LEVELS, sizes=lambda n: _halved(n, LEVELS))


def _by_rows(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
    for columns, level in zip(stages[::2], stages[1::2], strict=True):
        columns.compute_at(level, axes[1]).vectorize(axes[0], lanes)
        level.compute_root().vectorize(axes[0], lanes, hl.TailStrategy.GuardWithIf)
        level.parallel(axes[1])


def _by_strips(stages: Sequence[Any], axes: list[Any], lanes: int, hl: Any) -> None:
    for columns, level in zip(stages[::2], stages[1::2], strict=True):
        strip = hl.Var("strip")
        guarded = hl.TailStrategy.GuardWithIf  # the last levels are small
        level.compute_root().split(axes[1], strip, axes[1], 16, guarded)
        level.vectorize(axes[0], lanes, guarded)
        level.parallel(strip)
        columns.compute_at(level, axes[1]).vectorize(axes[0], lanes)


BY_LEVELS: dict[str, Schedule] = {"levels by rows": _by_rows, "levels by strips": _by_strips}
