"""Abreast: several rows of the result made at once, so that what they share is done once.

    2 rows of                                 h = max of x[1] over -1..1;  g = x[0] over ...
    max of x over 3 x 3        ->             out0 = max(f, g, h)
                                              out1 = max(g, h, k)

Neighbours along a row share work by keeping rows in memory: each value is stored once and
loaded as often as it is needed.  Neighbours along a column can share it in registers, when one
turn of the loop makes their results together.  Which of the two is less work is counted: loads,
stores and operations for each point.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from ..analysis.rewrite import Body, Lines, bodies, replayed, rows
from ..language.ir import Atom, Call, Kernel, Offset, Reduce, State, Values, shifted
from .cost import FUNCTION, PASS, lane_size, row_effort, sizes_of
from .kept import kept_stages, rolling_axis
from .schedule import Schedule

# Rows, read and written, that one loop has pointers to: x86-64 has 16 registers, of which the
# column and the stack take one each.  6 rows of a 3 x 3 median (8 read, 6 written) were as
# fast as 4 (Zen 4).
_POINTERS = 14

# Operations up to which several rows are made at once: a median of 5 x 3 bytes, 307 of them,
# took 0.1 s longer to compile, a bilateral filter of 3 x 3 with its 36 exponentials 4 s.
_LONGEST = 310

# By how much several rows must be less work than as many by themselves, where stages are kept.
_GAIN = 0.95

# And all of a turn: sums of 9 x 9 and maxima of 9 x 9 float32, 0.95 of the work, lost 10 to 18 %
# in cache, where those of 5 x 5, 0.86 to 0.91, gained 5 to 20 % (512 x 512, Zen 4).
_TURN = 0.92

# Values wider than the widest load or store take several registers each, which those of several
# rows do not fit into: a 5 x 5 window of float32, weighted in float64, lost a third of its speed,
# one of 3 x 3 bytes as well (Zen 4).  So floats more than twice as wide are not tried.
_WIDEST = 2


def fastest(kept: Kernel, in_place: Kernel, schedule: Schedule) -> tuple[Kernel, Kernel | None]:
    """The kernel whose values are kept in rows, or several rows of the other at once.

    Both give the same results; `in_place` is the one whose small windows are done so.  The second
    is several rows at once where it depends on the array whether to do so, and nothing where one
    of the two is faster with all arrays.
    """
    of_bytes = _depends(kept, in_place)
    depends = schedule.gain < 1 and (of_bytes or (kept.stages and not _of_bytes(kept)))
    # Sums of floats could differ; the rows after the last turn would need rows of stages
    # that were not made.
    alike = _exact(kept) and rolling_axis(kept) == -2
    alike = alike and not any(one.warm for one in kept_stages(kept))
    if depends and of_bytes and not alike:
        return kept, None
    several = _less_work(kept, in_place, schedule)
    if several is None:
        return kept, None
    if not depends:
        return several, None
    return kept if of_bytes else several, several if alike else None


def _depends(kept: Kernel, in_place: Kernel) -> bool:
    """Whether it depends on the array what is faster.

    The first cache holds rows of bytes: 4096 x 4096 lost a tenth, where 16 and 32 bits gained up
    to a half (Laplace and Sobel).  Only what stays in bytes always gains by it: a median of
    3 x 3, 1000 x 1000, a third; a mean, which needs 16 bits, lost a tenth, and a third where 64
    such frames are read from memory (Zen 4).
    """
    return _of_bytes(kept) and not (kept.stages and _stays_in_bytes(in_place))


def _less_work(kept: Kernel, in_place: Kernel, schedule: Schedule) -> Kernel | None:
    """Several rows of `in_place` at once, if they can be made and are less work than `kept`."""
    if schedule.rows == 1 or not _suitable(in_place):
        return None
    several = replace(in_place, rows=schedule.rows)
    written = abreast(several)
    if not _fits(written):
        return None
    return several if effort(several) < effort(kept) * schedule.gain else None


def _exact(kernel: Kernel) -> bool:
    """Whether all values are whole numbers, whose sums do not depend on their order."""
    return all(one.value.dtype.is_integer for body in bodies(kernel) for one in body)


def _suitable(kernel: Kernel) -> bool:
    """Whether rows can be made together, and registers would hold their values."""
    if kernel.ndim < 2 or kernel.stages:
        return False
    if any(isinstance(assign.value, Reduce) for assign in kernel.body):
        return False
    if len({offset[:-1] for _, offset in rows(kernel.body)}) > 1:
        # Too many rows at once: 7 points of float32, 256 x 256 x 256, lost a third (Zen 4).
        return False
    return _narrow(kernel)


def _of_bytes(kernel: Kernel) -> bool:
    return max(dtype.itemsize for _, dtype in kernel.fields) == 1


def _stays_in_bytes(kernel: Kernel) -> bool:
    """Whether no value is wider than a byte."""
    sizes = sizes_of(kernel)
    return all(sizes[assign.name] == 1 for assign in kernel.body)


def _narrow(kernel: Kernel) -> bool:
    """Whether registers would hold the floats of several rows."""
    sizes = sizes_of(kernel)
    floats = [sizes[assign.name] for assign in kernel.body if not assign.value.dtype.is_integer]
    return max(floats, default=0) <= _WIDEST * lane_size(kernel.body, kernel.outputs, sizes)


def rolled(kernel: Kernel, schedule: Schedule) -> Kernel:
    """Several rows in each turn, where stages roll down the rows and one of them gains by it."""
    if schedule.rows == 1 or not kernel.stages:
        return kernel
    if kernel.ndim < 2 or rolling_axis(kernel) != -2 or _of_bytes(kernel):
        return kernel
    if not all(isinstance(stage, Values | State) for stage in kernel.stages):
        return kernel
    if any(isinstance(assign.value, Reduce) for body in bodies(kernel) for assign in body):
        return kernel
    several = replace(kernel, rows=schedule.rows)
    made = [(stage.body, stage.values) for stage in kernel.stages]
    single = together = 0.0
    for body, values in (*made, (kernel.body, kernel.outputs)):
        alone, best = _efforts(replace(several, body=body, outputs=values))
        single, together = single + alone, together + best
    sizes = sizes_of(kernel)
    passes = sum(PASS * sizes[stage.names[0]] for stage in kernel.stages)
    return several if together + passes < (single + passes) * min(schedule.gain, _TURN) else kernel


def _efforts(kernel: Kernel) -> tuple[float, float]:
    """What a row costs, the stages aside: by itself, and as one of several if that is better."""
    written = abreast(kernel)
    sizes = sizes_of(written)
    alone = row_effort(kernel.body, kernel.outputs, sizes | sizes_of(kernel))
    together = row_effort(written.body, written.outputs, sizes) / kernel.rows
    better = _fits(written) and _narrow(kernel) and together < alone * _GAIN
    return alone, together if better else alone


def worthwhile(kernel: Kernel) -> bool:
    """Whether the rows of a kernel, its stages aside, are better made several at once."""
    alone, best = _efforts(kernel)
    return best < alone


def abreast(kernel: Kernel, prefix: str = "r", columns: int = 1) -> Kernel:
    """The operations of `kernel.rows` rows, equal ones once; outputs of the first row first.

    Of each row so many `columns` may be made as well, one after the other.
    """
    if kernel.rows == columns == 1:
        return kernel
    lines = Lines(prefix)
    outputs: list[Atom] = []

    def written(by: Offset) -> tuple[Atom, ...]:
        return replayed(kernel.body, kernel.outputs, lambda _, e: lines.emit(shifted(e, by)))

    for row, column in product(range(kernel.rows), range(columns)):
        outputs += written((*(0,) * (kernel.ndim - 2), row, column)[-kernel.ndim :])
    return replace(kernel, body=tuple(lines.body), outputs=tuple(outputs), rows=1)


def effort(kernel: Kernel) -> float:
    """What a point costs: bytes of vectors, as if all were additions."""
    written = abreast(kernel)
    sizes = sizes_of(written)
    total = row_effort(written.body, written.outputs, sizes) / kernel.rows
    for stage in kernel.stages:
        total += row_effort(stage.body, stage.values, sizes) + PASS * sizes[stage.names[0]]
    return total


def _fits(written: Kernel) -> bool:
    """Whether one loop can make rows that are written side by side."""
    pointers = len(rows(written.body)) + len(written.outputs)
    return pointers <= _POINTERS and _length(written.body) <= _LONGEST


def _length(body: Body) -> int:
    """How much machine code a body becomes, in operations."""
    return sum(FUNCTION if isinstance(assign.value, Call) else 1 for assign in body)
