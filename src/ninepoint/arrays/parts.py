"""Parts: what machine code computes of whole arrays, in the order of memory, on threads.

With commands a part is some rows of some images, and one call of machine code. Without, it is
computed block by block, from copies where neighbours are missing or an array cannot be read.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from ninepoint import limits
from ninepoint.arrays.borders import Array
from ninepoint.arrays.commands import Machine, Part, band_rows, commands
from ninepoint.arrays.gathering import Extensions, copied
from ninepoint.arrays.layout import Layout, Region
from ninepoint.backends.compiled import Bound
from ninepoint.backends.memory import empty
from ninepoint.backends.threads import run_parallel, thread_count
from ninepoint.language.dtypes import short

# What takes longer than this [s] is shared among threads so that it can be interrupted.
LASTING = 0.1

# Fewer points are done by one thread, whatever they cost: to look up how many cores there are
# takes 1.5 us, of the 5 us of a small call (Zen 4).
SPLIT_POINTS = 16_384

# Parts for each thread: enough that a thread which starts late takes less of the work.
PARTS = 4

# A part for a thread has at least as many points: at 1 ns each, as it is with simple kernels, it
# takes about as long as to hand it over (`CREW_HANDOFF`).
PART_POINTS = 32_768


class Values:
    """`cval` as every field and every output holds it; and what is laid for `ghosts` of fields."""

    __slots__ = ("fields", "ghosts", "outs")

    def __init__(
        self, fields: list[Any], outs: list[Any], ghosts: tuple[Extensions, ...] = ()
    ) -> None:
        self.fields = fields
        self.outs = outs
        self.ghosts = ghosts


@dataclass(frozen=True, slots=True)
class Batch:
    """A program on arrays of a stack and its core axes, by a layout of these, on so many threads.

    The results may lie `over` fields, where `takes_over` says so.
    """

    program: Bound
    plan: Layout
    values: Values
    fields: Sequence[Array]
    outs: Sequence[Array]
    threads: int
    over: bool = False

    def run(self) -> None:
        """Compute all of it, the stack as one axis: without a copy where strides allow it."""
        core, fields = len(self.plan.shape), self.fields
        lead = fields[0].shape[:-core]
        if len(lead) == 1:
            self._parts()
        elif not lead:
            self._of([one[None] for one in fields], [one[None] for one in self.outs])._parts()
        elif 0 in lead:
            return
        elif all(_mergeable(array, len(lead)) for array in (*fields, *self.outs)):
            flat = ([_merged(one, core) for one in arrays] for arrays in (fields, self.outs))
            self._of(*flat)._parts()
        else:
            self._over_stack(lead)

    def _of(self, fields: Sequence[Array], outs: Sequence[Array]) -> Batch:
        """The same on other arrays."""
        return replace(self, fields=fields, outs=outs)

    def _over_stack(self, lead: tuple[int, ...]) -> None:
        """Compute a stack of odd strides, along its first axis."""
        core, most = len(self.plan.shape), limits.current.block_elements
        inner = math.prod(lead[1:]) * max(1, math.prod(self.plan.shape))
        if inner > most:
            for k in range(lead[0]):
                self._of([one[k] for one in self.fields], [one[k] for one in self.outs]).run()
            return
        # Tiny images: many of them at a time, through a copy.
        for k in range(0, lead[0], most // inner):
            cut = slice(k, k + most // inner)
            blocks = [_merged(one[cut], core) for one in self.fields]
            fresh = [empty((len(blocks[0]), *out.shape[-core:]), out.dtype) for out in self.outs]
            replace(self, fields=blocks, outs=fresh, threads=1, over=False)._parts()
            for out, computed in zip(self.outs, fresh, strict=True):
                out[cut] = computed.reshape(out[cut].shape)

    def _parts(self) -> None:
        """Compute every part, and write the zones: the stack is one axis."""
        program, plan = self.program, self.plan
        if not len(self.fields[0]):
            return
        moved = moved_arrays(program, self.fields, self.outs, self.values)
        if moved is not None:
            self._share(_Listed(self, machine_of(program, plan, self.values, moved)))
        elif program.takes_elements and _are_exact(program, self.fields, self.outs):
            self._share(_Elements(self))
        else:
            self._share(_Copied(self))
        if moved is None or not has_movable_zones(program, plan):
            write_zones(program, plan, self.values, self.fields, self.outs)

    def _share(self, way: _Way) -> None:
        """Run the parts on threads, unless they are known or found to end sooner on this one."""
        program, plan, threads = self.program, self.plan, self.threads
        stack = len(self.fields[0])
        whole = Part(0, stack, 0, plan.shape[0], self.over)
        points = stack * plan.points
        if threads == 1 or points < SPLIT_POINTS:
            way.run(whole)
            return
        if not is_shared(program, points):
            self._timed(way, whole)
            return
        expected = program.pace[0] * points if program.pace else math.inf
        parts = [replace(one, over=self.over) for one in divided(plan, stack, threads * PARTS)]
        if way.ends_soon and expected <= LASTING:
            began = perf_counter()
            way.run_together(parts)
            note_pace(program, points, perf_counter() - began, threads)
            return
        first, *rest = parts
        self._timed(way, first)
        left = points - self._points(first)
        if rest and program.pace[0] * left > limits.current.handoff_seconds:
            run_parallel((partial(way.run, part) for part in rest), threads)
            return
        if rest and (stack == 1 or first.last == plan.shape[0]):
            # All others are one part as well.
            rest = [replace(rest[0], stop=stack, last=plan.shape[0])]
        for part in rest:
            way.run(part)

    def _points(self, part: Part) -> int:
        return (part.stop - part.start) * self.plan.computed.within(part.first, part.last).points

    def _timed(self, way: _Way, part: Part) -> None:
        """Run a part, and remember its pace."""
        began = perf_counter()
        way.run(part)
        took = perf_counter() - began
        rows = self.plan.computed.within(part.first, part.last).shape[0]
        # The rows of stages that are made before the first weigh more in a thin part.
        more = self.program.warm / rows if len(self.plan.shape) == 2 and rows else 0.0
        note_pace(self.program, max(1.0, self._points(part) * (1.0 + more)), took, 1)


class _Way(ABC):
    """How the parts of a batch are computed."""

    # Whether machine code shares parts among threads by itself.
    ends_soon = False

    def __init__(self, batch: Batch) -> None:
        self.program, self.plan, self.values = batch.program, batch.plan, batch.values
        self.fields, self.outs, self.threads = batch.fields, batch.outs, batch.threads

    @abstractmethod
    def run(self, part: Part) -> None:
        """Compute a part."""

    def run_together(self, parts: Sequence[Part]) -> None:
        """Compute parts, on threads."""
        raise NotImplementedError


class _Listed(_Way):
    """By lists of commands for machine code."""

    def __init__(self, batch: Batch, machine: Machine) -> None:
        super().__init__(batch)
        self.machine = machine
        self.images = images_together(self.program, self.plan, machine.moved)
        self.ends_soon = not batch.over and len(self.fields[0]) <= self.images

    def run(self, part: Part) -> None:
        together = self.images
        if part.over:
            # A band is a few rows of each of them.
            rows = band_rows(self.plan, self.machine, 1)
            together = min(together, max(1, rows // (2 * self.plan.spans[0] + 1)))
        if part.stop - part.start <= together:
            self.program.run(self.fields, self.outs, self._told(part))
            return
        for k in range(part.start, part.stop, together):
            stop = min(k + together, part.stop)
            if self.machine.ghosts:
                # Values at the border may be others for each image.
                told = self._told(replace(part, start=k, stop=stop))
                self.program.run(self.fields, self.outs, told)
                continue
            told = self._told(replace(part, start=0, stop=stop - k))
            fields, outs = ([one[k:stop] for one in arrays] for arrays in (self.fields, self.outs))
            self.program.run(fields, outs, told)

    def run_together(self, parts: Sequence[Part]) -> None:
        told = list(map(self._told, parts))
        self.program.run_parts(self.fields, self.outs, told, self.threads)

    def _told(self, part: Part) -> Array:
        return commands(self.plan, self.machine, part)


class _Elements(_Way):
    """What looks at no neighbour, of elements that lie anywhere."""

    def run(self, part: Part) -> None:
        cut = slice(part.start, part.stop), slice(part.first, part.last)
        fields, outs = ([one[cut] for one in arrays] for arrays in (self.fields, self.outs))
        self.program.run_elements(fields, outs)


class _Copied(_Way):
    """Block by block, from copies where neighbours are missing or an array cannot be read."""

    def run(self, part: Part) -> None:
        region = self.plan.computed.within(part.first, part.last)
        if not region.points:
            return
        if are_readable(self.program, self.fields) and self.plan.gather(region).is_inside:
            blocks = [(slice(part.start, part.stop), region)]
        else:
            blocks = list(_blocks(part, region, _limit(self.program)))
        for images, one in blocks:
            self._run_block(images, one)

    def _run_block(self, images: slice, region: Region) -> None:
        """Compute a region of some images."""
        fields, outs = ([one[images] for one in arrays] for arrays in (self.fields, self.outs))
        blocks = self._blocks(fields, images, region)
        results: list[Array] = []
        pending: list[tuple[Array, Array]] = []
        for out, output, dtype in zip(
            outs, self.plan.outputs, self.program.out_dtypes, strict=True
        ):
            part = region.clip(output.extent)
            place = out[part.index(output.extent.start)]
            if part == region and is_readable(out, dtype):
                results.append(place)
                continue
            fresh: Array = empty((len(out), *region.shape), dtype)
            results.append(fresh)
            if part.points:
                pending.append((place, fresh[part.index(region.start)]))
        self.program.run(blocks, results)
        for place, computed in pending:
            write(place, computed)

    def _blocks(self, fields: Sequence[Array], images: slice, region: Region) -> list[Array]:
        """What a region depends on, of some images."""
        program, values, source = self.program, self.values, self.plan.source(region)
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
    if lead > 1 and not all(_mergeable(array, lead) for array in (*fields, *outs)):
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


def _mergeable(array: Array, lead: int) -> bool:
    """Whether the first `lead` axes lie in memory as one axis would."""
    axes = [k for k in range(lead) if array.shape[k] != 1]
    return all(array.strides[a] == array.strides[b] * array.shape[b] for a, b in pairwise(axes))


def _merged(array: Array, core: int) -> Array:
    # Not -1: with a core axis of length 0 there would be no telling.
    lead = math.prod(array.shape[:-core])
    return array.reshape(lead, *array.shape[-core:])


def is_shared(program: Bound, points: int) -> bool:
    """Whether so many points are shared among threads: one alone takes longer than to ask others.

    How long a point takes was measured in an earlier call; what was not is taken to be slow.
    (With one and two threads a mean of 3x3 took 14 and 48 us where the others slept, 37 and 23 to
    40, 82 and 42; a median of 3x3 77 and 43, Zen 5.)
    """
    return not program.pace or program.pace[0] * points > program.handoff


def threads_for(program: Bound, points: int, most: int | None) -> int:
    """How many threads do so many points, of the number that a call allows."""
    return thread_count(most) if is_shared(program, points) else 1


def note_pace(program: Bound, points: float, took: float, threads: int) -> None:
    """Remember how long one thread takes for a point, of so many that took so long [s].

    What takes longer than before may do so for another reason: it counts four times as much at
    most, and not at all where threads shared it, which may have waited for each other.
    """
    known, pace = program.pace, took * threads / points
    if known:
        pace = min(pace, 4 * known[0] if threads == 1 else known[0])
    known[:] = [pace]


def divided(plan: Layout, stack: int, count: int) -> list[Part]:
    """Cut into about so many parts along the stack, else along the first axis."""
    count = max(1, min(count, stack * plan.points // PART_POINTS))
    if stack >= count:
        edges = [stack * k // count for k in range(count + 1)]
        return [Part(a, b, 0, plan.shape[0]) for a, b in pairwise(edges)]
    bands = plan.bands(-(-count // stack))
    return [Part(k, k + 1, first, last) for k in range(stack) for first, last in bands]


def images_together(program: Bound, plan: Layout, moved: Sequence[int] = ()) -> int:
    """How many images one list of commands is for: blocks of as many stay in cache."""
    if plan.inside and not moved:
        return 1 << 62
    return max(1, _limit(program) // max(1, plan.points))


def _limit(program: Bound) -> int:
    """How many points are copied together."""
    return limits.current.block_elements * 8 // max(1, itemsize_of(program))


def itemsize_of(program: Bound) -> int:
    """The bytes of one element of every field together; positions are no arrays of that size."""
    count = len(program.field_dtypes) - len(program.along)
    return sum(dtype.itemsize for dtype in program.field_dtypes[:count])


def machine_of(
    program: Bound, plan: Layout, values: Values, moved: tuple[int, ...] = ()
) -> Machine:
    """What commands depend on beside the layout."""
    fields, outs = program.field_dtypes, program.out_dtypes
    return Machine(
        tuple(dtype.itemsize for dtype in (*fields, *outs)),
        len(fields),
        (
            *(
                _as_bytes(v, d, plan.has_constant)
                for v, d in zip(values.fields, fields, strict=True)
            ),
            *(_as_bytes(v, d, plan.has_fill) for v, d in zip(values.outs, outs, strict=True)),
        ),
        has_movable_zones(program, plan),
        program.warm,
        not program.positions,
        program.along,
        moved,
        values.ghosts,
        tuple(_FLOATS.get(dtype.char, 0) for dtype in fields),
    )


# The kinds of floats, as machine code counts them.
_FLOATS = {"f": 0, "d": 1, "F": 2, "D": 3}


def _as_bytes(value: Any, dtype: np.dtype[Any], used: bool) -> bytes:
    return np.array(value).astype(dtype).tobytes() if used else b""


def has_movable_zones(program: Bound, plan: Layout) -> bool:
    """Whether what "keep" keeps needs no conversion."""
    pairs = zip(program.field_dtypes, program.out_dtypes, strict=False)
    return not plan.has_keep or all(field == out for field, out in pairs)


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


def _are_exact(program: Bound, fields: Sequence[Array], outs: Sequence[Array]) -> bool:
    """Whether arrays are of the program's own dtypes, whatever their strides."""
    pairs = zip((*fields, *outs), (*program.field_dtypes, *program.out_dtypes), strict=True)
    return all(array.dtype == dtype for array, dtype in pairs)


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
