"""Kept: which points of each stage are needed, and how much of it is kept while loops run.

    v = x[0, 1] - x[0, -1]                  v: rows -1..1, columns 0..0 around a row of the result
    out = v[-1, 0] + v[1, 0]        ->      three rows are kept, and row i + 1 is made with row i

Stages roll down the first axis along which any of them is read at an offset: rows as a rule,
planes (of rows) where a stage is read in other planes.
"""

from __future__ import annotations

from ..analysis.rewrite import bodies, reads
from ..base.frozen import frozen
from ..language.ir import Body, Box, Kernel, Offset, Stage, State, joined


@frozen
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
    need, axis = needed(kernel), rolling_axis(kernel)
    used = [stage for stage in kernel.stages if stage.names[0] in need]
    # Each body, and which of its planes is made in one turn.
    made = [(kernel.body, 0), *((one.body, need[one.names[0]][1][axis]) for one in used)]
    found = list[Kept]()
    for stage in used:
        low, high = need[stage.names[0]]
        planes = [
            plane + full(read.offset)[axis]
            for body, plane in made
            for read in reads(body, stage.names)
        ]
        # From the last one that is read back to the first.
        found.append(Kept(stage, low, high, axis, high[axis] - min(planes) + 1))
    return tuple(found)


def rows_kept(kernel: Kernel) -> dict[str, int]:
    """How many rows (or planes) of each stage are kept."""
    return {name: one.count for one in kept_stages(kernel) for name in one.stage.names}


def needed(
    kernel: Kernel, *, stored: bool = False, mirrored: bool = False
) -> dict[str, tuple[Offset, Offset]]:
    """The lowest and the highest offset at which each stage is needed; all names of a stage alike.

    With `stored` a state is itself computed at the points of the result only: what stands beyond
    them is copied, not computed.  With `mirrored` a state is needed at the points of the result
    too, since what lies beyond its ends may be a copy of them.
    """
    here = full((0,) * kernel.ndim)
    need = dict[str, Box]()

    def visit(body: Body, at: Box) -> None:
        for read in reads(body, kernel.stage_names):
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
    staged = kernel.stage_names
    offsets = [full(read.offset) for body in bodies(kernel) for read in reads(body, staged)]
    axes = [next((k for k, o in enumerate(at) if o), len(at)) - len(at) for at in offsets]
    return min((-2, *axes))


def full(offset: Offset) -> Offset:
    """An offset of at least two axes: one row is the only row of its plane."""
    return offset if len(offset) > 1 else (0, *offset)
