"""Ways: how machine code computes parts of arrays that have one axis for the stack, on threads.

Listed      lists of commands: a part is some rows of some images, and one call of machine code
Elements    NumPy's own loop, for what looks at no neighbour and lies anywhere
Copied      block by block, from copies where neighbours are missing or an array cannot be read
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from .. import limits
from ..backends.compiled import Bound
from ..backends.memory import empty
from ..backends.threads import thread_count
from ..language.dtypes import short
from .borders import Array
from .commands import Commands, Part, has_movable_zones
from .gathering import Extensions, copied
from .layout import Layout, Region, Values

# What takes longer than this [s] is shared among threads so that it can be interrupted.
LASTING = 0.1

# Fewer points are done by one thread, whatever they cost: to look up how many cores there are
# takes 1.5 us, of the 5 us of a small call (Zen 4).
SPLIT_POINTS = 16_384

# Parts for each thread: enough that a thread which starts late takes less of the work.
PARTS = 4

# A part for a thread has at least as many points: at 1 ns each, as it is with simple kernels, it
# takes about as long as to hand it over (`CREW_HANDOFF`).
PART_POINTS = 1 << 16


@dataclass(frozen=True, slots=True)
class Listed:
    """Lists of commands for machine code, each of which is for so many images at the most."""

    lists: Commands
    images: int

    def run(
        self, program: Bound, fields: Sequence[Array], outs: Sequence[Array], part: Part
    ) -> None:
        """Compute a part."""
        together = self.images
        if part.over:
            # A band is a few rows of each of them.
            rows = self.lists.band_rows(1)
            together = min(together, max(1, rows // (2 * self.lists.plan.spans[0] + 1)))
        if part.stop - part.start <= together:
            program.run(fields, outs, self.lists.of(part))
            return
        for k in range(part.start, part.stop, together):
            stop = min(k + together, part.stop)
            if self.lists.values.ghosts:
                # Values at the border may be others for each image.
                program.run(fields, outs, self.lists.of(replace(part, start=k, stop=stop)))
                continue
            told = self.lists.of(replace(part, start=0, stop=stop - k))
            program.run([one[k:stop] for one in fields], [one[k:stop] for one in outs], told)


@dataclass(frozen=True, slots=True)
class Elements:
    """What looks at no neighbour, of elements that lie anywhere."""

    def run(
        self, program: Bound, fields: Sequence[Array], outs: Sequence[Array], part: Part
    ) -> None:
        """Compute a part."""
        cut = slice(part.start, part.stop), slice(part.first, part.last)
        program.run_elements([one[cut] for one in fields], [one[cut] for one in outs])


@dataclass(frozen=True, slots=True)
class Copied:
    """Block by block, from copies where neighbours are missing or an array cannot be read."""

    plan: Layout
    values: Values

    def run(
        self, program: Bound, fields: Sequence[Array], outs: Sequence[Array], part: Part
    ) -> None:
        """Compute a part."""
        region = self.plan.computed.within(part.first, part.last)
        if not region.points:
            return
        blocks = [(slice(part.start, part.stop), region)]
        if not (are_readable(program, fields) and self.plan.gather(region).is_inside):
            blocks = list(_blocks(part, region, _limit(program)))
        for images, one in blocks:
            self._run_block(
                program,
                [one[images] for one in fields],
                [one[images] for one in outs],
                images,
                one,
            )

    def _run_block(
        self,
        program: Bound,
        fields: Sequence[Array],
        outs: Sequence[Array],
        images: slice,
        region: Region,
    ) -> None:
        """Compute a region of some images."""
        blocks = self._blocks(program, fields, images, region)
        results: list[Array] = []
        pending: list[tuple[Array, Array]] = []
        for out, output, dtype in zip(outs, self.plan.outputs, program.out_dtypes, strict=True):
            part = region.clip(output.extent)
            place = out[part.index(output.extent.start)]
            if part == region and is_readable(out, dtype):
                results.append(place)
                continue
            fresh: Array = empty((len(out), *region.shape), dtype)
            results.append(fresh)
            if part.points:
                pending.append((place, fresh[part.index(region.start)]))
        program.run(blocks, results)
        for place, computed in pending:
            write(place, computed)

    def _blocks(
        self, program: Bound, fields: Sequence[Array], images: slice, region: Region
    ) -> list[Array]:
        """What a region depends on, of some images."""
        values, source = self.values, self.plan.source(region)
        gather, start = self.plan.with_ghosts(region, values.ghosts)
        inside = source.index((0,) * len(self.plan.shape))
        given = len(fields) - len(program.along)
        blocks: list[Array] = []
        for k, (field, dtype) in enumerate(
            zip(fields[:given], program.field_dtypes, strict=False)
        ):
            if not gather.is_inside:
                ghosts = _of_images(values.ghosts[k], images) if values.ghosts else ()
                block = gather(field, values.fields[k], dtype, ghosts)
                blocks.append(block[source.index(start)])
            elif is_readable(field, dtype):
                blocks.append(field[inside])
            else:
                blocks.append(copied(field[inside], dtype))
        places = zip(fields[given:], program.along, strict=True)
        return [*blocks, *(_stretched(field, axis, source) for field, axis in places)]


def _of_images(sides: Extensions, images: slice) -> Extensions:
    """What is laid of a field, for some images."""
    return tuple(
        (before and before.of_images(images), after and after.of_images(images))
        for before, after in sides
    )


Way: TypeAlias = Listed | Elements | Copied


def way_of(
    program: Bound, plan: Layout, values: Values, fields: Sequence[Array], outs: Sequence[Array]
) -> Way:
    """How a program is done on arrays like these."""
    moved = moved_arrays(program, fields, outs, values)
    if moved is not None:
        images = 1 << 62
        if moved or not plan.inside:
            # Blocks of as many stay in cache.
            images = max(1, _limit(program) // max(1, plan.points))
        return Listed(Commands(program, plan, values, (*fields, *outs), moved), images)
    pairs = zip((*fields, *outs), (*program.field_dtypes, *program.out_dtypes), strict=True)
    if program.takes_elements and all(array.dtype == dtype for array, dtype in pairs):
        return Elements()
    return Copied(plan, values)


def takes_over(
    program: Bound, plan: Layout, fields: Sequence[Array], outs: Sequence[Array], threads: int
) -> bool:
    """Whether results can be written to the place of fields while these are read.

    Those that share memory must be the same elements.  What a row is made of is then read before
    it is written; on several threads, where nobody reads rows that another one writes.
    """
    readable = are_readable(program, fields) and all(map(is_readable, outs, program.out_dtypes))
    if not (readable and program.takes_commands and has_movable_zones(program, plan)):
        return False
    if any(out.shape != fields[0].shape for out in outs):
        return False
    lead = len(outs[0].shape) - len(plan.shape)
    if lead > 1 and not all(mergeable(array, lead) for array in (*fields, *outs)):
        return False
    known = program.in_row or (not plan.spans[0],) * len(fields)
    for field, in_row in zip(fields, known, strict=True):
        shared = [out for out in outs if np.may_share_memory(out, field)]
        if not all(_is_same(out, field) for out in shared):
            return False
        if shared and not in_row and (threads > 1 or "wrap" in plan.border.rules[0]):
            return False
    return True


def _is_same(one: Array, other: Array) -> bool:
    """Whether two arrays of one shape are the same elements."""
    places = (array.__array_interface__["data"][0] for array in (one, other))
    return one.dtype == other.dtype and one.strides == other.strides and len(set(places)) == 1


def mergeable(array: Array, lead: int) -> bool:
    """Whether the first `lead` axes lie in memory as one axis would."""
    axes = [k for k in range(lead) if array.shape[k] != 1]
    return all(array.strides[a] == array.strides[b] * array.shape[b] for a, b in pairwise(axes))


def threads_for(program: Bound, points: int, most: int | None) -> int:
    """How many threads do so many points, of the number that a call allows.

    One alone does what takes less long than to ask others.  How long a point takes was measured in
    an earlier call; what was not is taken to be slow.  (With one and two threads a mean of 3x3
    took 14 and 48 us where the others slept, 37 and 23 to 40, 82 and 42; a median of 3x3 77 and
    43, Zen 5.)
    """
    if program.pace and program.pace[0] * points <= program.handoff:
        return 1
    return thread_count(most)


def note_pace(program: Bound, points: float, took: float, threads: int) -> None:
    """Remember how long a point takes, of so many that took so long [s].

    What takes longer than before may do so for another reason, and counts four times as much at
    most.  What is shared is taken to become faster, so that one thread is tried again in a while.
    """
    known = program.pace
    if not known:
        known[:] = [took * threads / points]
    elif threads == 1:
        known[0] = min(took / points, 4 * known[0])
    else:
        known[0] = 0.97 * min(known[0], took * threads / points)


def divided(plan: Layout, stack: int, count: int) -> list[Part]:
    """Cut into about so many parts along the stack, else along the first axis."""
    count = max(1, min(count, stack * plan.points // PART_POINTS))
    if stack >= count:
        edges = [stack * k // count for k in range(count + 1)]
        return [Part(a, b, 0, plan.shape[0]) for a, b in pairwise(edges)]
    bands = plan.bands(-(-count // stack))
    return [Part(k, k + 1, first, last) for k in range(stack) for first, last in bands]


def _limit(program: Bound) -> int:
    """How many points are copied together."""
    return limits.current.block_elements * 8 // max(1, itemsize_of(program))


def itemsize_of(program: Bound) -> int:
    """The bytes of one element of every field together; positions are no arrays of that size."""
    count = len(program.field_dtypes) - len(program.along)
    return sum(dtype.itemsize for dtype in program.field_dtypes[:count])


def write_zones(
    program: Bound, plan: Layout, values: Values, fields: Sequence[Array], outs: Sequence[Array]
) -> None:
    """Write what is not computed, after all that is; arrays have one stack axis."""
    for k, (output, dtype) in enumerate(zip(plan.outputs, program.out_dtypes, strict=True)):
        for zone, keeps in output.zones:
            place = outs[k][zone.index(output.extent.start)]
            if keeps:
                write(place, fields[k][plan.kept(zone)].astype(dtype, copy=False))
            elif place.dtype == dtype:
                place.fill(values.outs[k])
            else:
                write(place, np.array(values.outs[k], dtype))


def write(target: Array, values: Array) -> None:
    """Write values to an array that may be of another dtype; like a kernel, without warnings."""
    if target.dtype == values.dtype:
        target[...] = values
        return
    with np.errstate(over="ignore", invalid="ignore"):
        target[...] = values


def _blocks(part: Part, region: Region, limit: int) -> Iterator[tuple[slice, Region]]:
    """Cut into blocks of about so many points: several images, or some rows of one."""
    images = max(1, limit // region.points)
    rows = max(1, limit * region.shape[0] // region.points)
    for k in range(part.start, part.stop, images):
        for first in range(region.start[0], region.stop[0], rows):
            yield slice(k, min(k + images, part.stop)), region.within(first, first + rows)


def _stretched(field: Array, axis: int, region: Region) -> Array:
    """Positions of a region of an array, which are read nowhere outside of this."""
    first = [slice(0, 1)] * field.ndim
    first[axis + 1] = slice(None)
    places = np.arange(region.start[axis], region.stop[axis]).clip(0, field.shape[axis + 1] - 1)
    line = field[tuple(first)].take(places, axis + 1)
    return np.broadcast_to(line, (len(field), *region.shape))


def is_readable(array: Array, dtype: np.dtype[Any]) -> bool:
    """Whether a program can work on `array` itself."""
    return array.dtype == dtype and array.strides[-1] == dtype.itemsize and array.flags.aligned


def _is_read(array: Array, dtype: np.dtype[Any], one_a_row: bool) -> bool:
    """Whether a program works on `array` itself, of which it may read one element a row only."""
    return is_readable(array, dtype) or (one_a_row and array.dtype == dtype)


def rows_of(program: Bound) -> list[int]:
    """The fields of which one element of each row is read, wherever the others lie."""
    given = len(program.field_dtypes) - len(program.along)
    return [given + k for k, axis in enumerate(program.along) if axis < program.ndim - 1]


def moved_arrays(
    program: Bound, fields: Sequence[Array], outs: Sequence[Array], values: Values
) -> tuple[int, ...] | None:
    """Which fields and results commands move into blocks, by number; None if they take not all."""
    if not program.takes_commands or (values.ghosts and any(map(short, program.field_dtypes))):
        return None
    rows, given = rows_of(program), len(program.field_dtypes) - len(program.along)
    # Results that are yet to be made have no gaps.
    dtypes = (*program.field_dtypes, *program.out_dtypes[: len(outs)])
    moved: list[int] = []
    for k, (array, dtype) in enumerate(zip((*fields, *outs), dtypes, strict=True)):
        if _is_read(array, dtype, k in rows):
            continue
        if not is_movable(array, dtype) or given <= k < len(fields):
            return None
        moved.append(k)
    # Of elements that lie anywhere no copy is made where none is needed.
    return None if moved and program.takes_elements else tuple(moved)


def is_movable(array: Array, dtype: np.dtype[Any]) -> bool:
    """Whether commands can move elements of `array`, whatever its strides."""
    return array.dtype == dtype and array.flags.aligned


def are_readable(program: Bound, fields: Sequence[Array]) -> bool:
    """Whether a program can work on the fields themselves."""
    rows = rows_of(program)
    pairs = zip(fields, program.field_dtypes, strict=True)
    return all(_is_read(field, dtype, k in rows) for k, (field, dtype) in enumerate(pairs))
