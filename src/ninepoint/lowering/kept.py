"""Kept: which points of each stage are needed, and how much of it is kept while loops run.

    v = x[0, 1] - x[0, -1]                  v: rows -1..1, columns 0..0 around a row of the result
    out = v[-1, 0] + v[1, 0]        ->      three rows are kept, and row i + 1 is made with row i

    every second point, out = v[-1] + v[0] + v[1]

    v   0 1 2 3 4 5 ...      v_0   0 2 4 ...      out = v_0[q] + v_1[q] + v_0[q + 1]
                       ->    v_1   1 3 5 ...

Where not all points of the result are made, rows are taken apart once, while a stage is made, and
are contiguous where they are read.  Columns that no result reads are not made.

Stages roll down the first axis along which any of them is read at an offset: rows as a rule,
planes (of rows) where a stage is read in other planes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..analysis.rewrite import Body, bodies, copied, reads, rows
from ..language.box import Box, joined
from ..language.ir import (
    Atom,
    Expr,
    Kernel,
    Loop,
    Offset,
    Read,
    Reduce,
    RunningSum,
    Stage,
    State,
    Values,
    shifted,
)
from .cost import OPERATIONS, ROWS


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
        return max(self.high[self.axis] - self.low[self.axis], height(self.stage) - 1)

    @property
    def wider(self) -> int:
        """How many more columns than the result it has."""
        return self.high[-1] - self.low[-1]


def kept_stages(kernel: Kernel) -> tuple[Kept, ...]:
    """What is kept of each stage that is read, in their order."""
    need = needed(kernel)
    axis = rolling_axis(kernel)
    read = [stage for stage in kernel.stages if stage.names[0] in need]
    found = [Kept(stage, *need[stage.names[0]], axis, 1) for stage in read]
    for one in found:
        if isinstance(one.stage, RunningSum):
            assert axis == -2, "a sum that runs down the rows has one row at a time"
            assert one.low[-2] == one.high[-2]
    return tuple(replace(one, count=_count(kernel, one, found)) for one in found)


def rows_kept(kernel: Kernel) -> dict[str, int]:
    """How many rows (or planes) of each stage are kept."""
    return {name: one.count for one in kept_stages(kernel) for name in one.stage.names}


def needed(kernel: Kernel, *, stored: bool = False) -> dict[str, tuple[Offset, Offset]]:
    """The lowest and the highest offset at which each stage is needed; all names of a stage alike.

    With `stored` a state is itself computed at the points of the result
    only: what is needed beyond them is not computed from anything.
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
        need |= dict.fromkeys(stage.names, at)
        if stored and isinstance(stage, State):
            at = Box(here, here)
        visit(stage.body, _with_rows(at, stage))
    return {name: box.ends for name, box in need.items()}


def computed_at(kernel: Kernel) -> list[tuple[Body, Box]]:
    """The bodies of a kernel, and the offsets at which each is computed."""
    here = full((0,) * kernel.ndim)
    need = needed(kernel)
    return [(kernel.body, Box(here, here))] + [
        (stage.body, _with_rows(Box(*need[stage.names[0]]), stage))
        for stage in kernel.stages
        if stage.names[0] in need
    ]


def _with_rows(at: Box, stage: Stage) -> Box:
    """Where the body of a stage is computed.

    The row before its own, which a running sum takes away, is that of the turn before.
    """
    return Box(at.lo, (*at.hi[:-2], at.hi[-2] + height(stage) - 1, at.hi[-1]))


def height(stage: Stage) -> int:
    """How many rows a row of a stage is made of, of each row that its body reads."""
    return stage.rows if isinstance(stage, RunningSum) else 1


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
    readers += [(o.high[axis] - isinstance(o.stage, RunningSum), o.stage.body) for o in others]
    for plane, body in readers:
        for read in reads(body, kept.stage.names):
            lowest = min(lowest, plane + full(read.offset)[axis])
    return kept.high[axis] - lowest + 1


def parts(kernel: Kernel) -> dict[str, tuple[int, ...]]:
    """The columns of each stage that are made, counted from its lowest up to the step.

    A stage of which all columns are made one beside the other, as where the step is 1, is absent.
    """
    step = kernel.every[-1] if kernel.every else 1
    found: dict[str, tuple[int, ...]] = {}
    if step == 1:
        return found
    kept = kept_stages(kernel)
    readers: list[tuple[Body, tuple[int, ...] | None]] = [(kernel.body, (0,))]
    for one in reversed(kept):
        stage = one.stage
        columns: set[int] | None = set()
        for body, made in readers:
            for offset in {read.offset[-1] for read in reads(body, stage.names)}:
                if made is None or columns is None:
                    columns = None
                else:
                    columns |= {(column + offset - one.low[-1]) % step for column in made}
        own = None if columns is None or not _fits(one, len(columns)) else tuple(sorted(columns))
        if own is not None:
            found |= dict.fromkeys(stage.names, own)
        first = None if own is None else tuple(one.low[-1] + column for column in own)
        readers.append((stage.body, first))
    return found


def _fits(kept: Kept, count: int) -> bool:
    """Whether one function can make so many columns of a stage."""
    match kept.stage:
        case Values(body=body, values=values):
            if count == 1:
                return True
            looped = any(isinstance(a.value, Reduce | Loop) for a in body)
            pointers = len(rows(body)) + count * len(values)
            return not looped and count * len(body) <= 2 * OPERATIONS and pointers <= ROWS
        case RunningSum():
            return count == 1
        case _:
            return False


def columns_of(
    body: Body, values: tuple[Atom, ...], made: tuple[int, ...]
) -> tuple[Body, tuple[Atom, ...], dict[str, str]]:
    """Operations and values of one column, for several of them; and what the copies are copies of.

    Those of the first column, which is 0, keep their names.
    """
    found, results = list(body), list(values)
    origins: dict[str, str] = {}
    for column in made[1:]:
        one, own = _moved(body, values, column)
        origins |= {new.name: old.name for new, old in zip(one, body, strict=True)}
        found += one
        results += own
    return tuple(found), tuple(results), origins


def _moved(body: Body, values: tuple[Atom, ...], column: int) -> tuple[Body, tuple[Atom, ...]]:
    """Operations and values so many columns further, under names of their own."""

    def moved(expr: Expr) -> Expr:
        if not isinstance(expr, Read):
            return expr
        return shifted(expr, (*(0,) * (len(expr.offset) - 1), column))

    return copied(body, values, lambda name, _: f"{name}_c{column}", moved)
