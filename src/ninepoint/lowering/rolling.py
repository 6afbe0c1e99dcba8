"""Rolling: which rows of stages are kept while loops run, and how many rows are made at once.

Kept: which points of each stage are needed, and how much of it is kept while loops run.

    v = x[0, 1] - x[0, -1]                  v: rows -1..1, columns 0..0 around a row of the result
    out = v[-1, 0] + v[1, 0]        ->      three rows are kept, and row i + 1 is made with row i

Stages roll down the first axis along which any of them is read at an offset: rows as a rule,
planes (of rows) where a stage is read in other planes.

Abreast: several rows of the result made at once, so that what they share is done once.

    2 rows of                                 h = max of x[1] over -1..1;  g = x[0] over ...
    max of x over 3 x 3        ->             out0 = max(f, g, h)
                                              out1 = max(g, h, k)

Neighbours along a row share work by keeping rows in memory: each value is stored once and
loaded as often as it is needed.  Neighbours along a column can share it in registers, when one
turn of the loop makes their results together.  Which of the two is less work is counted: loads,
stores and operations for each point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..analysis.ranges import machine_type, ranges
from ..analysis.rewrite import bodies, reads, rows
from ..base.frozen import frozen
from ..language.ir import (
    COMPARISONS,
    Atom,
    Atoms,
    Binary,
    Body,
    Box,
    Call,
    Histogram,
    Kernel,
    Lines,
    Offset,
    Read,
    Reduce,
    Ref,
    Stage,
    State,
    joined,
    operands,
    replayed,
    shifted,
)
from .schedule import FUNCTION, LOAD, PASS, STORE, WIDE, Schedule, operation


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
    axis, bodies = rolling_axis(kernel), computed_at(kernel)
    found = list[Kept]()
    for stage, box in _used(kernel):
        planes = [
            at.hi[axis] + full(read.offset)[axis]
            for body, at in bodies
            for read in reads(body, stage.names)
        ]
        # From the last one that is read back to the first.
        count = box.hi[axis] - min(planes) + 1
        found.append(Kept(stage, *box.ends, axis, count))
    return tuple(found)


def rows_kept(kernel: Kernel) -> dict[str, int]:
    """How many rows (or planes) of each stage are kept."""
    return {name: one.count for one in kept_stages(kernel) for name in one.stage.names}


def needed(kernel: Kernel, *, stored: bool = False, mirrored: bool = False) -> dict[str, Box]:
    """The offsets at which each stage is needed; all names of a stage alike.

    With `stored` a state is itself computed at the points of the result only: what stands beyond
    them is copied, not computed.  With `mirrored` a state is needed at the points of the result
    too, since what lies beyond its ends may be a copy of them.
    """
    here, need = _point(kernel), dict[str, Box]()

    def visit(body: Body, at: Box) -> None:
        for read in reads(body, kernel.stage_names):
            one = at.shift(full(read.offset))
            need[read.field] = one | need.get(read.field, one)

    visit(kernel.body, here)
    for stage in reversed(kernel.stages):
        boxes = [need[name] for name in stage.names if name in need]
        if not boxes:
            continue  # nothing reads it
        at = joined(boxes)
        if mirrored and isinstance(stage, State):
            at |= here
        need |= dict.fromkeys(stage.names, at)
        if stored and isinstance(stage, State):
            at = here
        visit(stage.body, at)
    return need


def computed_at(kernel: Kernel) -> list[tuple[Body, Box]]:
    """The bodies of a kernel, and the offsets at which each is computed."""
    made = ((stage.body, box) for stage, box in _used(kernel))
    return [(kernel.body, _point(kernel)), *made]


def _used(kernel: Kernel) -> list[tuple[Stage, Box]]:
    """The stages that are read, and the offsets at which each is needed."""
    need = needed(kernel)
    return [(one, need[one.names[0]]) for one in kernel.stages if one.names[0] in need]


def _point(kernel: Kernel) -> Box:
    """The offset of the point itself."""
    here = full((0,) * kernel.ndim)
    return Box(here, here)


def rolling_axis(kernel: Kernel) -> int:
    """The axis down which stages roll, counted from the last: -2 for rows, -3 for planes."""
    staged = kernel.stage_names
    offsets = [full(read.offset) for body in bodies(kernel) for read in reads(body, staged)]
    axes = [next((k for k, o in enumerate(at) if o), len(at)) - len(at) for at in offsets]
    return min((-2, *axes))


def full(offset: Offset) -> Offset:
    """An offset of at least two axes: one row is the only row of its plane."""
    return offset if len(offset) > 1 else (0, *offset)


# Rows abreast.

# Rows, read and written, that one loop has pointers to: x86-64 has 16 registers, of which the
# column and the stack take one each.  6 rows of a 3 x 3 median (8 read, 6 written) were as
# fast as 4 (Zen 4).
_POINTERS = 14

# Operations up to which several rows are made at once: a median of 5 x 3 bytes, 307 of them,
# took 0.1 s longer to compile, a bilateral filter of 3 x 3 with its 36 exponentials 4 s.
LONGEST = 310

# By how much several rows must be less work than as many by themselves, where stages are kept.
_GAIN = 0.95

# And all of a turn: sums of 9 x 9 and maxima of 9 x 9 float32, 0.95 of the work, lost 10 to 18 %
# in cache, where those of 5 x 5, 0.86 to 0.91, gained 5 to 20 % (512 x 512, Zen 4).
_TURN = 0.92

# Values wider than the widest load or store take several registers each, which those of several
# rows do not fit into: a 5 x 5 window of float32, weighted in float64, lost a third of its speed,
# one of 3 x 3 bytes as well (Zen 4).  So floats more than twice as wide are not tried.
_WIDEST = 2


def rolled(kernel: Kernel, schedule: Schedule) -> Kernel:
    """Several rows in each turn, where stages roll down the rows and one of them gains by it."""
    if not kernel.stages or not suitable(kernel, schedule):
        return kernel
    several = replace(kernel, rows=schedule.rows)
    return several if effort(several) < effort(kernel) * min(schedule.gain, _TURN) else kernel


def unfit(kernel: Kernel) -> str:
    """Why a kernel cannot be a part of another one; empty if it can."""
    if any(isinstance(stage, Histogram) for stage in kernel.stages):
        return "a histogram slides over a field only"
    if any(isinstance(assign.value, Reduce) for body in bodies(kernel) for assign in body):
        return "a window is looped over at each point, in a field only"
    return ""


def suitable(kernel: Kernel, schedule: Schedule) -> bool:
    """Whether the loops can make several rows at once."""
    if schedule.rows == 1 or kernel.ndim < 2 or unfit(kernel):
        return False
    if not kernel.stages:
        # Too many rows at once: 7 points of float32, 256 x 256 x 256, lost a third (Zen 4).
        return len({offset[:-1] for _, offset in rows(kernel.body)}) <= 1
    of_bytes = max(dtype.itemsize for _, dtype in kernel.fields) == 1
    return not of_bytes and rolling_axis(kernel) == -2


def together(kernel: Kernel, prefix: str = "r") -> tuple[Kernel | None, float]:
    """The operations of all rows, if one loop can make them; of stages, if that is less work.

    And what a point costs then, the stages aside: bytes of vectors, as if all were additions.
    """
    written, sizes = abreast(kernel, prefix), _sizes(kernel)
    alone = _row_effort(replace(kernel, rows=1))
    pointers = len(rows(written.body)) + len(written.outputs)
    # How much machine code it becomes, in operations.
    length = sum(FUNCTION if isinstance(a.value, Call) else 1 for a in written.body)
    floats = [sizes[a.name] for a in kernel.body if not a.value.dtype.is_integer]
    narrow = max(floats, default=0) <= _WIDEST * _lane(kernel, sizes)
    if pointers > _POINTERS or length > LONGEST or not narrow:
        return None, alone
    shared = _row_effort(written) / kernel.rows
    if kernel.stages and shared >= _GAIN * alone:
        return None, alone
    return written, shared


def abreast(kernel: Kernel, prefix: str = "r") -> Kernel:
    """The operations of `kernel.rows` rows, equal ones once; outputs of the first row first."""
    if kernel.rows == 1:
        return kernel
    lines = Lines(prefix)
    outputs = list[Atom]()

    def written(by: Offset) -> Atoms:
        return replayed(kernel.body, kernel.outputs, lambda _, e: lines.emit(shifted(e, by)))

    for row in range(kernel.rows):
        outputs += written((*(0,) * (kernel.ndim - 2), row, 0))
    return replace(kernel, body=lines.body, outputs=tuple(outputs), rows=1)


def effort(kernel: Kernel) -> float:
    """What a point costs: bytes of vectors, as if all were additions."""
    sizes, (_, total) = _sizes(kernel), together(kernel)
    for stage in kernel.stages:
        total += together(replace(kernel, body=stage.body, outputs=stage.values))[1]
        total += PASS * sizes[stage.names[0]]
    return total


def _row_effort(kernel: Kernel) -> float:
    """The same of a row by itself."""
    sizes = _sizes(kernel)
    lane = _lane(kernel, sizes)
    total = float(STORE * lane * len(kernel.outputs))
    varying = set[str]()
    for assign in kernel.body:
        if not isinstance(assign.value, Read) and not varying.intersection(operands(assign.value)):
            continue  # of scalars alone: done once for the whole row
        varying.add(assign.name)
        match assign.value:
            case Read():
                cost: float = LOAD
            case Binary(op=op) if op in COMPARISONS:
                cost = 0  # one instruction with the choice that it is made for
            case _:
                cost = operation(assign.value)
        size = sizes[assign.name]
        total += cost * (size * WIDE if size > lane else lane)
    return total


def _lane(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """The widest element that is loaded or stored: so wide are the lanes of the loop [bytes]."""
    read = [sizes[one.field] for one in reads(kernel.body)]
    stored = [sizes[value.name] for value in kernel.outputs if isinstance(value, Ref)]
    return max([1, *read, *stored])


def _sizes(kernel: Kernel) -> dict[str, int]:
    """The size of each value, and of the elements of each field and stage [bytes]."""
    known = ranges(kernel)
    kinds = dict(kernel.scalars)
    for stage in kernel.stages:
        kinds |= {n: v.dtype for n, v in zip(stage.names, stage.values, strict=True)}
    kinds |= {a.name: a.value.dtype for body in bodies(kernel) for a in body}
    sizes = {name: dtype.itemsize for name, dtype in kernel.fields}
    return sizes | {n: np.dtype(machine_type(d, known[n])).itemsize for n, d in kinds.items()}
