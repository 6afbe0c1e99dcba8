"""Kept: which points of each stage are needed, and how much of it is kept while loops run.

    v = x[0, 1] - x[0, -1]                  v: rows -1..1, columns 0..0 around a row of the result
    out = v[-1, 0] + v[1, 0]        ->      three rows are kept, and row i + 1 is made with row i

Stages roll down the first axis along which any of them is read at an offset: rows as a rule,
planes (of rows) where a stage is read in other planes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..analysis.rewrite import bodies, reads
from ..language.box import Box, joined
from ..language.ir import (
    Body,
    Kernel,
    Offset,
    Stage,
    State,
)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is needed of a stage, relative to a point of the result, and how much is kept.

    Plane i of the result (or row, or volume: whatever lies along `axis`) is made in the same
    turn as plane i + `high` of the stage, so that only those planes are kept, `count` of them,
    which a reader of that turn looks at.  Axes are counted from the last, which is -1.
    """

    stage: Stage
    low: Offset
    high: Offset
    axis: int
    count: int

    @property
    def warm(self) -> int:
        """How many planes are made before the first of the result."""
        return self.high[self.axis] - self.low[self.axis]


def kept_stages(kernel: Kernel) -> tuple[Kept, ...]:
    """What is kept of each stage that is read, in their order."""
    need = needed(kernel)
    axis = rolling_axis(kernel)
    read = [stage for stage in kernel.stages if stage.names[0] in need]
    found = [Kept(stage, *need[stage.names[0]], axis, 1) for stage in read]
    return tuple(replace(one, count=_count(kernel, one, found)) for one in found)


def rows_kept(kernel: Kernel) -> dict[str, int]:
    """How many rows (or planes) of each stage are kept."""
    return {name: one.count for one in kept_stages(kernel) for name in one.stage.names}


def needed(
    kernel: Kernel, *, stored: bool = False, mirrored: bool = False
) -> dict[str, tuple[Offset, Offset]]:
    """The lowest and the highest offset at which each stage is needed; all names of a stage alike.

    With `stored` a state is itself computed at the points of the result
    only: what is needed beyond them is not computed from anything.  With `mirrored` it is needed
    at the points themselves too, which may be what lies beyond the ends.
    """
    here = full((0,) * kernel.ndim)
    need: dict[str, Box] = {}
    staged = {name for stage in kernel.stages for name in stage.names}

    def visit(body: Body, at: Box) -> None:
        for read in reads(body, staged):
            one = at.shift(full(read.offset))
            need[read.field] = one | need.get(read.field, one)

    visit(kernel.body, Box(here, here))
    for stage in reversed(kernel.stages):
        boxes = [need[name] for name in stage.names if name in need]
        if not boxes:
            continue  # nothing reads it
        at = joined(boxes)
        if mirrored and isinstance(stage, State):
            at |= Box(here, here)
        need |= dict.fromkeys(stage.names, at)
        if stored and isinstance(stage, State):
            at = Box(here, here)
        visit(stage.body, at)
    return {name: box.ends for name, box in need.items()}


def computed_at(kernel: Kernel) -> list[tuple[Body, Box]]:
    """The bodies of a kernel, and the offsets at which each is computed."""
    here = full((0,) * kernel.ndim)
    need = needed(kernel)
    return [(kernel.body, Box(here, here))] + [
        (stage.body, Box(*need[stage.names[0]]))
        for stage in kernel.stages
        if stage.names[0] in need
    ]


def rolling_axis(kernel: Kernel) -> int:
    """The axis down which stages roll, counted from the last: -2 for rows, -3 for planes."""
    staged = {name for stage in kernel.stages for name in stage.names}
    offsets = [full(read.offset) for body in bodies(kernel) for read in reads(body, staged)]
    axes = [next((k for k, o in enumerate(at) if o), len(at)) - len(at) for at in offsets]
    return min((-2, *axes))


def full(offset: Offset) -> Offset:
    """An offset of at least two axes: one row is the only row of its plane."""
    return offset if len(offset) > 1 else (0, *offset)


def _count(kernel: Kernel, kept: Kept, others: list[Kept]) -> int:
    """How many planes of a stage are read in one turn, from the last one back."""
    axis = kept.axis
    lowest = kept.high[axis]
    readers = [(0, kernel.body)]
    readers += [(one.high[axis], one.stage.body) for one in others]
    for plane, body in readers:
        for read in reads(body, kept.stage.names):
            lowest = min(lowest, plane + full(read.offset)[axis])
    return kept.high[axis] - lowest + 1
