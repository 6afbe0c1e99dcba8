"""Parts: some rows of some images of arrays that have one axis for the stack, on threads.

    Commands    lists of commands: a part is one call of machine code, or is done here
    Elements    NumPy's own loop, for what looks at no neighbour and lies anywhere

How many threads there are is said by how long a point took in an earlier call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from .. import limits
from ..backends.compiled import Bound
from ..backends.threads import thread_count
from ..language.dtypes import short
from .borders import Array
from .commands import Commands, Part
from .layout import Layout, Values

# What takes longer than this [s] is shared among threads so that it can be interrupted.
LASTING = 0.1

# Fewer points are done by one thread, whatever they cost: to look up how many cores there are
# takes 1.5 us, of the 5 us of a small call (Zen 4).
SPLIT_POINTS = 16_384

# What Python goes through is shared if it takes longer [s]: each part costs half a millisecond.
BY_PYTHON = 20e-3

# Parts for each thread: enough that a thread which starts late takes less of the work.
PARTS = 4

# A part has at least as many points, as long as there is one for each thread: some begin with rows
# that others make as well.
PART_POINTS = 1 << 16


@dataclass(frozen=True, slots=True)
class Elements:
    """What looks at no neighbour, of elements that lie anywhere, in the place of fields too."""

    def run(
        self, program: Bound, fields: Sequence[Array], outs: Sequence[Array], part: Part
    ) -> None:
        """Compute a part."""
        cut = slice(part.start, part.stop), slice(part.first, part.last)
        program.run_elements([one[cut] for one in fields], [one[cut] for one in outs])


Way: TypeAlias = Commands | Elements


def way_of(
    program: Bound, plan: Layout, values: Values, fields: Sequence[Array], outs: Sequence[Array]
) -> Way:
    """How a program is done on arrays like these."""
    arrays, rows = (*fields, *outs), rows_of(program)
    given, dtypes = len(fields) - len(program.along), (*program.field_dtypes, *program.out_dtypes)
    moved = tuple(
        k
        for k, (array, dtype) in enumerate(zip(arrays, dtypes, strict=True))
        # Of some one element a row is read, wherever the others lie.
        if not is_readable(array, dtype) and not (k in rows and array.dtype == dtype)
    )
    exact = dtypes == tuple(array.dtype for array in arrays)
    by_machine = (
        program.takes_commands
        and has_movable_zones(program, plan)
        and not (values.ghosts and any(map(short, program.field_dtypes)))
        and all(is_movable(arrays[k], dtypes[k]) and not given <= k < len(fields) for k in moved)
        # Of elements that lie anywhere no copy is made where none is needed.
        and not (moved and program.takes_elements)
    )
    if not by_machine and program.takes_elements and exact:
        return Elements()
    images = 1 << 62
    if moved or not plan.inside:
        # Blocks of as many stay in cache.
        limit = limits.current.block_elements * 8 // max(1, itemsize_of(program))
        images = max(1, limit // max(1, plan.points))
    strides = tuple(array.strides for array in arrays)
    made = Commands(program, plan, values, strides, moved, images, by_machine)
    if values.ghosts:
        return made
    # An iteration is bound each time that it is called.
    key = limits.current, plan, strides, moved, by_machine, made.constants
    ways = program.compiled.ways
    if key not in ways:
        ways[key] = made
    found: Way = ways[key]
    return found


def has_movable_zones(program: Bound, plan: Layout) -> bool:
    """Whether what "keep" keeps needs no conversion."""
    count = len(program.out_dtypes) // program.compiled.phases
    pairs = zip(program.field_dtypes, program.out_dtypes[:count], strict=False)
    return not plan.border.uses("keep") or all(field == out for field, out in pairs)


def are_same(one: Array, other: Array) -> bool:
    """Whether two arrays of one shape are the same elements."""
    places = (array.__array_interface__["data"][0] for array in (one, other))
    return one.dtype == other.dtype and one.strides == other.strides and len(set(places)) == 1


def mergeable(array: Array, lead: int) -> bool:
    """Whether the first `lead` axes lie in memory as one axis would."""
    axes = [k for k in range(lead) if array.shape[k] != 1]
    return all(array.strides[a] == array.strides[b] * array.shape[b] for a, b in pairwise(axes))


def threads_for(pace: Sequence[float], points: int, most: int | None, handoff: float) -> int:
    """How many threads do so many points, of the number that a call allows.

    One alone does what takes less long than to ask others.  How long a point takes was measured in
    an earlier call; what was not is taken to be slow.  (With one and two threads a mean of 3x3
    took 14 and 48 us where the others slept, 37 and 23 to 40, 82 and 42; a median of 3x3 77 and
    43, Zen 5.)
    """
    if pace and pace[0] * points <= handoff:
        return 1
    return thread_count(most)


def note_pace(known: list[float], points: float, took: float, threads: int) -> None:
    """Remember how long one thread takes for a point, of so many that took so long [s].

    What takes longer than before may do so for another reason, and counts four times as much at
    most.  To share costs time as well: what is shared is taken for a little faster each time, so
    that one thread is tried again, in one of fifty calls.
    """
    pace = took * threads / points
    if known:
        pace = min(pace, 4 * known[0]) if threads == 1 else 0.97 * min(pace, known[0])
    known[:] = [pace]


def paced(
    known: list[float],
    points: int,
    most: int | None,
    handoff: float,
    compute: Callable[[int], None],
) -> None:
    """Compute so many points on as many threads as they are worth; remember how long it took."""
    threads = threads_for(known, points, most, handoff)
    began = perf_counter()
    compute(threads)
    note_pace(known, points, perf_counter() - began, threads)


def divided(plan: Layout, stack: int, threads: int) -> list[Part]:
    """Cut for so many threads, along the stack, else along the first axis."""
    count = max(threads, min(threads * PARTS, stack * plan.points // PART_POINTS))
    if stack >= count:
        edges = [stack * k // count for k in range(count + 1)]
        return [Part(a, b, 0, plan.shape[0]) for a, b in pairwise(edges)]
    bands = plan.bands(-(-count // stack))
    return [Part(k, k + 1, first, last) for k in range(stack) for first, last in bands]


def itemsize_of(program: Bound) -> int:
    """The bytes of one element of every field together; positions are no arrays of that size."""
    count = len(program.field_dtypes) - len(program.along)
    return sum(dtype.itemsize for dtype in program.field_dtypes[:count])


def is_readable(array: Array, dtype: np.dtype[Any]) -> bool:
    """Whether a program can work on `array` itself."""
    return array.dtype == dtype and array.strides[-1] == dtype.itemsize and array.flags.aligned


def rows_of(program: Bound) -> list[int]:
    """The fields of which one element of each row is read, wherever the others lie."""
    given = len(program.field_dtypes) - len(program.along)
    return [given + k for k, axis in enumerate(program.along) if axis < program.ndim - 1]


def is_movable(array: Array, dtype: np.dtype[Any]) -> bool:
    """Whether commands can move elements of `array`, whatever its strides."""
    return array.dtype == dtype and array.flags.aligned
