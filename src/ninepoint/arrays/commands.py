"""Commands: what a call does with whole arrays, as a list for machine code.

    interior    one run, on the arrays themselves
    slabs       each is moved into a padded block, and run on that; so is all of a small array
    ends        the first and the last points of every row, together
    zones       moved from the constant, or from a field

Arrays whose rows have gaps or run backwards are moved, too: the interior is then done in pieces,
each of which is moved into a block that stays in cache.

A list is made once for each layout, and for each part of it that a thread computes, and carried
out by one call of machine code; `ninepoint.backends.llvm.commands` says how it is written.

A block of few columns is slow to compute row by row.  But where rows lie one after the other,
it is also one long row, with as many copies below it as the stencil looks down, which overlap:

    0 1 2         0 1 2 3 4 5
    3 4 5    ->   3 4 5 6 7 8        the neighbour one row on stands below, as it should
    6 7 8         6 7 8 . . .

so that the ends are computed as one row.  What comes out where two rows meet is dropped.

Results that take the place of fields are made in bands, in memory of their own.  A band is moved
to its place once the next one has been made, which may read what stood there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np

from .. import limits
from ..backends.compiled import Bound
from ..remembered import Remembered
from .borders import Array
from .gathering import COPY, VALUE, Beyond, Gather, Run, Span
from .layout import Layout, Region, Shape, Values, around
from .strided import merged_axes

# A program that keeps rows of stages makes them anew for the one long row: up to this many
# that costs less than to start on a thousand short rows.
FLAT_ROWS = 4

# What `ninepoint.backends.llvm.commands` has: the commands, words of the head, axes of a move.
_MOVE, _RUN, _GHOSTS = range(3)
_HEAD, _AXES = 4, 5

_LINE = 64

# The kinds of floats, as machine code counts them.
_FLOATS = {"f": 0, "d": 1, "F": 2, "D": 3}


@dataclass(frozen=True, slots=True)
class Part:
    """Some images of a stack, and the points from `first` on and before `last` in them.

    The results may lie `over` fields, element by element.
    """

    start: int
    stop: int
    first: int
    last: int
    over: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where elements lie: a base, the bytes from there on, and those to the next along each axis.

    Bases are the arrays of the caller, by number, and what follows them.  The first axis is the
    stack.
    """

    base: int
    start: int
    strides: Shape

    def at(self, first: Shape, step: Shape | None = None) -> Place:
        """The elements from one on, in each image; all, or some steps apart."""
        start = self.start + sum(map(operator.mul, first, self.strides[1:]))
        if step is None:
            return Place(self.base, start, self.strides)
        strides = map(operator.mul, (1, *step), self.strides)
        return Place(self.base, start, tuple(strides))

    def of(self, runs: Sequence[Run]) -> Place:
        """The elements that runs are made of."""
        return self.at(tuple(run.first for run in runs), tuple(run.step for run in runs))


# An array of a kernel, or a part of one: where it lies, and its shape.
_View: TypeAlias = tuple[Place, Shape]


class Commands:
    """The lists of a program on arrays of one kind, which have one axis for the stack.

    The arrays of the numbers `moved` are read and written by moves alone, in whatever strides.
    """

    def __init__(
        self,
        program: Bound,
        plan: Layout,
        values: Values,
        arrays: Sequence[Array],
        moved: Sequence[int],
    ) -> None:
        self.program, self.plan, self.values, self.moved = program, plan, values, moved
        self.dtypes = (*program.field_dtypes, *program.out_dtypes)
        self.strides = [array.strides for array in arrays]
        self._made: Remembered[Part, Array] = Remembered(64)

    def of(self, part: Part) -> Array:
        """List what to do for a part of the arrays."""
        found = self._made.get(part)
        if found is None:
            found = self._made[part] = _Writer(self, part).written()
        return found

    def band_rows(self, images: int) -> int:
        """How many rows of so many images are made before they are moved over a field."""
        size = sum(dtype.itemsize for dtype in self.program.out_dtypes)
        row = images * size * math.prod(self.plan.shape[1:])
        # What stands two bands before is read by nobody any more.
        return max(2 * self.plan.spans[0] + 1, limits.current.band_bytes // max(1, row))

    @property
    def has_zones(self) -> bool:
        """Whether what is written without being computed needs no conversion."""
        return has_movable_zones(self.program, self.plan)

    def constant(self, k: int) -> bytes:
        """The constant of a field or a result, in two words."""
        plan, values, count = self.plan, self.values, len(self.program.field_dtypes)
        used, value = (
            (plan.has_constant, values.fields[k])
            if k < count
            else (plan.has_fill, values.outs[k - count])
        )
        found = np.array(value).astype(self.dtypes[k]).tobytes() if used else b""
        return found.ljust(16, b"\0")


def has_movable_zones(program: Bound, plan: Layout) -> bool:
    """Whether what "keep" keeps needs no conversion."""
    pairs = zip(program.field_dtypes, program.out_dtypes, strict=False)
    return not plan.has_keep or all(field == out for field, out in pairs)


class _Writer:
    def __init__(self, lists: Commands, part: Part) -> None:
        self.lists, self.program, self.plan = lists, lists.program, lists.plan
        self.part = part
        self.stack = part.stop - part.start
        self.sizes = [dtype.itemsize for dtype in lists.dtypes]
        self.given = len(self.sizes)
        # Where the arrays of the caller are; results may be made elsewhere, and moved there.
        self.places = [
            Place(k, part.start * strides[0], strides) for k, strides in enumerate(lists.strides)
        ]
        self.words: list[int] = []
        self.count = 0
        # Bytes of memory that the blocks of a piece take, that those of any piece did, and bytes
        # that stay.
        self.used = self.memory = self.held = 0

    @property
    def fields(self) -> int:
        return len(self.program.field_dtypes)

    @property
    def copied(self) -> int:
        """How many fields are copied where neighbours are missing: all but lines of positions."""
        return self.fields - len(self.program.along)

    def written(self) -> Array:
        """The list."""
        if self.part.over:
            self._make_over(self.part.first, self.part.last)
        else:
            self._make(self.part.first, self.part.last)
        constants = b"".join(map(self.lists.constant, range(self.given)))
        head = (self.given, 2 * len(self.places[0].strides) + 1, self.memory, self.count)
        return np.concatenate(
            [
                np.array(head, np.int64),
                np.frombuffer(constants, np.int64),
                np.array(self.words, np.int64),
            ]
        )

    def _make_over(self, first: int, last: int) -> None:
        """Make results in the place of fields."""
        shape, places = self.plan.shape, self.places
        rows = min(self.lists.band_rows(self.stack), last - first)
        sizes = self.sizes[self.fields :]
        blocks = [[self._block((rows, *shape[1:]), size) for size in sizes] for _ in range(2)]
        self.held = self.used
        bands = range(first, last, max(1, rows))
        for k, start in enumerate(bands):
            # In the blocks of a band its own first row is the first.
            before = (-start, *(0 for _ in shape[1:]))
            outs = [block.at(before) for block in blocks[k % 2]]
            self.places = [*places[: self.fields], *outs]
            self._make(start, min(start + rows, last))
            if k:
                self._move_band(bands[k - 1], start, blocks[(k - 1) % 2], places)
        if bands:
            self._move_band(bands[-1], last, blocks[(len(bands) - 1) % 2], places)

    def _move_band(
        self, first: int, last: int, blocks: Sequence[Place], places: Sequence[Place]
    ) -> None:
        """Move the results of a band to their place."""
        shape = self.plan.shape
        for number, block in enumerate(blocks, self.fields):
            to = places[number].at((first, *(0 for _ in shape[1:])))
            self._move(self.sizes[number], (last - first, *shape[1:]), to, block)

    def _make(self, first: int, last: int) -> None:
        """Compute points, and write what is not computed."""
        self._compute(self.plan.computed.within(first, last))
        for k, output in enumerate(self.plan.outputs if self.lists.has_zones else ()):
            for zone, keeps in output.zones:
                self._zone(k, zone.within(first, last), keeps)

    def _compute(self, box: Region) -> None:
        plan = self.plan
        interior = plan.interior.clip(box)
        if not box.points:
            return
        if interior == box:
            self._inside(box)
            return
        if not interior.points or plan.is_small:
            self._padded(box)
            return
        self._inside(interior)
        slabs = around(interior, box)
        if len(plan.shape) > 1:
            slabs = [
                slab
                for slab in slabs
                if slab.start[:-1] != interior.start[:-1] or slab.stop[:-1] != interior.stop[:-1]
            ]
            self._ends(interior, box)
        for slab in slabs:
            self._padded(slab)

    # Pieces.

    def _inside(self, region: Region) -> None:
        """Compute points whose neighbours all lie inside, from the fields themselves."""
        for piece in self._pieces(region) if self.lists.moved else (region,):
            self._piece_inside(piece)

    def _pieces(self, region: Region, axis: int = 0) -> Iterator[Region]:
        """Cut a region so that the blocks of each piece stay in cache."""
        last = len(self.plan.shape) - 1
        length = region.shape[axis]
        source = self.plan.source(region)
        moved = (
            self.sizes[k] * (source if k < self.fields else region).points
            for k in self.lists.moved
        )
        size = self.stack * sum(moved)
        warm = self.program.warm if axis == last - 1 else 0
        twice = max(1, self.plan.spans[axis], warm)
        rows = max(
            limits.current.rows_moved_twice * twice,
            limits.current.moved_piece_bytes * length // max(1, size),
        )
        for first in range(region.start[axis], region.stop[axis], rows):
            start, stop = list(region.start), list(region.stop)
            start[axis], stop[axis] = first, min(first + rows, region.stop[axis])
            piece = Region(tuple(start), tuple(stop))
            if axis < last - 1:
                yield from self._pieces(piece, axis + 1)
            else:
                yield piece

    def _piece_inside(self, region: Region) -> None:
        source = self.plan.source(region)
        fields: list[Place] = []
        for k in range(self.copied):
            place = self.places[k].at(source.start)
            if k in self.lists.moved:
                block = self._block(source.shape, self.sizes[k])
                self._move(self.sizes[k], source.shape, block, place)
                place = block
            fields.append(place)
        for k, axis in enumerate(self.program.along, self.copied):
            fields.append(self.places[k].at(self._only(axis, source.start[axis])))
        self._run_on([(one, source.shape) for one in fields], region)

    def _padded(self, region: Region) -> None:
        """Compute points from a copy with all that lies outside."""
        plan = self.plan
        if plan.gather(region).is_inside:
            self._inside(region)
            return
        source = plan.source(region)
        gather, start = plan.with_ghosts(region, self.lists.values.ghosts)
        first = tuple(map(operator.sub, source.start, start))
        blocks = self._blocks(gather)
        self._run_on([(block.at(first), source.shape) for block in blocks], region)

    def _blocks(self, gather: Gather) -> list[Place]:
        """Blocks of all fields."""
        blocks = [self._filled(k, gather) for k in range(self.copied)]
        for k, axis in enumerate(self.program.along, self.copied):
            # Positions: beyond the array none is asked for, and any will do.
            own, size = gather.axes[axis], self.sizes[k]
            block = Place(self.given, self.used, (0, *self._only(axis, size)))
            self._take(own.length * size)
            for source, runs in ((self.places[k], own.taken), (block, own.own)):
                for run in runs:
                    to = block.at(self._only(axis, run.start))
                    steps = self._only(axis, run.step, 1)
                    at = source.at(self._only(axis, run.first), steps)
                    self._move(size, self._only(axis, run.length, 1), to, at)
            blocks.append(block)
        return blocks

    def _filled(self, field: int, gather: Gather) -> Place:
        """A block of a field with all that stands outside."""
        sides, size = self.lists.values.ghosts, self.sizes[field]
        block = self._block(gather.shape, size)
        for part in gather.taken:
            self._fill(size, block, part, self.places[field].of(part))
        for ghosts in gather.ghosts(sides[field]) if sides else ():
            self._make_ghosts(field, block, ghosts)
        for part, constant in gather.patches:
            source = self._constant(field) if constant else block.of(part)
            self._fill(size, block, part, source)
        return block

    def _fill(self, size: int, block: Place, part: Sequence[Run], source: Place) -> None:
        """Copy elements to the places of runs in a block."""
        to = block.at(tuple(run.start for run in part))
        self._move(size, tuple(run.length for run in part), to, source)

    def _make_ghosts(self, field: int, block: Place, ghosts: Beyond) -> None:
        """Make ghosts of a field in a block."""
        extension, part = ghosts.extension, ghosts.part
        mirrored = block.of(ghosts.elements(0))
        alpha, beta = (
            self._elsewhere(one, of_terms).of(ghosts.values(one))
            for one, of_terms in ((extension.alpha, extension.from_end), (extension.beta, False))
        )
        if extension.how in (VALUE, COPY):
            source = beta if extension.how == VALUE else mirrored
            self._fill(self.sizes[field], block, part, source)
            return
        # From the end of the array on, or from what is mirrored: there is but one term of this.
        terms = (1, 0, 0)
        if extension.from_end:
            further = block.strides[ghosts.axis + 1] * (-1 if ghosts.side else 1)
            terms = (len(ghosts.runs), further, extension.alpha.strides[0])
        to = block.at(tuple(run.start for run in part))
        kind = _FLOATS[self.program.field_dtypes[field].char]
        shape = (self.stack, *(run.length for run in part))
        self._strided((_GHOSTS, kind, extension.how, *terms), shape, (to, mirrored, alpha, beta))

    def _elsewhere(self, values: Array, of_terms: bool) -> Place:
        """An array of values, which are those of each image or of all."""
        pairs = zip(values.shape, values.strides, strict=True)
        strides = [0 if n == 1 else step for n, step in pairs]
        strides[0] = 0 if of_terms else strides[0]
        start = values.ctypes.data + self.part.start * strides[0]
        return Place(self.given + 2, start, tuple(strides))

    def _run_on(self, fields: Sequence[_View], region: Region) -> None:
        """Run on arrays, or parts of such, that hold the neighbours of a region."""
        outs: list[_View] = []
        moves = []
        for k, output in enumerate(self.plan.outputs, self.fields):
            part = region.clip(output.extent)
            place = self.places[k].at(tuple(map(operator.sub, part.start, output.extent.start)))
            if part == region and k not in self.lists.moved:
                outs.append((place, region.shape))
                continue
            # An output does not cover the region, or has gaps: it is computed apart.
            block = self._block(region.shape, self.sizes[k])
            outs.append((block, region.shape))
            if part.points:
                at = block.at(tuple(map(operator.sub, part.start, region.start)))
                moves.append((self.sizes[k], part.shape, place, at))
        self._run([*fields, *outs])
        for move in moves:
            self._move(*move)
        self.used = self.held

    def _ends(self, interior: Region, box: Region) -> None:
        """Compute the points before and after the interior in each of its rows."""
        plan, warm = self.plan, self.program.warm
        spans = [(box.start[-1], interior.start[-1]), (interior.stop[-1], box.stop[-1])]
        spans = [(a, b) for a, b in spans if a < b]
        if not spans:
            return
        every, apart, span = plan.every[-1], plan.every[-2], plan.spans[-1]
        groups, firsts = self._groups(spans)
        columns = sum(stop - start for start, stop in groups)
        rows = plan.source(interior)
        outer = [(pair,) for pair in zip(rows.start[:-1], rows.stop[:-1], strict=True)]
        gather = plan.gathered([*outer, tuple(groups)])
        shape, blocks = gather.shape, self._blocks(gather)
        made = interior.shape[:-1]
        # Positions are those of one row.
        flat = warm <= FLAT_ROWS and apart <= FLAT_ROWS and not self.program.positions
        # Of rows that are one, those between the ones that are wanted are computed as well.
        width = apart * columns // every if flat else (columns - 1 - span) // every + 1
        results = [self._block((*made, width), size) for size in self.sizes[self.fields :]]
        lengths, wide = shape, (*made, width)
        if flat:
            # The same memory, whose rows are as long.
            long = (apart * (made[-1] - 1) + 1) * columns
            lengths = (*shape[:-2], plan.spans[-2] + 1, long)
            wide = (*made[:-1], 1, (long - 1 - span) // every + 1)
        self._run([*((one, lengths) for one in blocks), *((one, wide) for one in results)])
        for (a, b), first in zip(spans, firsts, strict=True):
            part = Region((*interior.start[:-1], a), (*interior.stop[:-1], b))
            origin = (*interior.start[:-1], a - first)
            for k, output in enumerate(plan.outputs):
                wanted = part.clip(output.extent)
                if wanted.points:
                    start = tuple(map(operator.sub, wanted.start, output.extent.start))
                    to = self.places[self.fields + k].at(start)
                    at = results[k].at(tuple(map(operator.sub, wanted.start, origin)))
                    self._move(self.sizes[self.fields + k], wanted.shape, to, at)
        self.used = self.held

    def _groups(self, spans: Sequence[Span]) -> tuple[list[Span], list[int]]:
        """The columns that some results at the ends of rows depend on, and where these are made.

        There is a column for each neighbour of the ends, low | high; and some more, where results
        are made at every other one, for those of the last end to begin at such a one.
        """
        plan, last = self.plan, len(self.plan.shape) - 1
        every, columns = plan.every[last], 0
        groups: list[Span] = []
        places: list[int] = []
        for a, b in spans:
            first = plan.first[last] + every * a + plan.reach.lo[last]
            stop = first + every * (b - a - 1) + 1 + plan.spans[last]
            start, stop = plan.with_mirrored(last, (first, stop), self.lists.values.ghosts)
            before = -(-(first - start) // every)
            start = first - every * before
            length = -(-(stop - start) // every) * every
            groups.append((start, start + length))
            places.append(columns // every + before)
            columns += length
        return groups, places

    def _zone(self, k: int, zone: Region, keeps: bool) -> None:
        """Write what is not computed."""
        if not zone.points:
            return
        number, start = self.fields + k, self.plan.outputs[k].extent.start
        to = self.places[number].at(tuple(map(operator.sub, zone.start, start)))
        source = self._constant(number)
        if keeps:
            source = self.places[k].at(self.plan.at(zone.start), self.plan.every)
        self._move(self.sizes[number], zone.shape, to, source)

    # Memory.

    def _block(self, shape: Shape, size: int) -> Place:
        """An array in the memory for blocks."""
        strides = [size]
        for n in reversed(shape):
            strides.insert(0, strides[0] * n)
        place = Place(self.given, self.used, tuple(strides))
        self._take(self.stack * strides[0])
        return place

    def _take(self, size: int) -> None:
        """Take so many bytes of the memory for blocks."""
        self.used += -(-size // _LINE) * _LINE
        self.memory = max(self.memory, self.used)

    def _only(self, axis: int, value: int, other: int = 0) -> Shape:
        """A number for each axis, of which one differs."""
        return tuple(value if k == axis else other for k in range(len(self.plan.shape)))

    def _constant(self, k: int) -> Place:
        """The constant of a field or an output, at every place."""
        return Place(self.given + 1, 8 * _HEAD + 16 * k, (0,) * len(self.places[0].strides))

    # Commands.

    def _move(self, size: int, lengths: Shape, to: Place, at: Place) -> None:
        """Move elements of so many bytes."""
        self._strided((_MOVE, size), (self.stack, *lengths), (to, at))

    def _run(self, arrays: Sequence[_View]) -> None:
        self.words.append(_RUN)
        for place, lengths in arrays:
            self.words += (place.base, place.start, self.stack, *lengths, *place.strides)
        self.count += 1

    def _strided(self, begin: Shape, shape: Shape, places: Sequence[Place]) -> None:
        """Write a command for elements of arrays of one shape."""
        if 0 in shape:
            return
        lengths, steps = merged_axes(shape, [place.strides for place in places])
        code, size, *rest = begin
        if code == _MOVE and size > 8:
            # Machine code knows numbers of one part.
            lengths, steps = [*lengths, size // 8], [[*one, 8] for one in steps]
            lengths, steps = merged_axes(lengths, steps)
            size = 8
        extra = max(0, len(lengths) - _AXES)
        missing = _AXES - len(lengths) + extra
        for index in product(*map(range, lengths[:extra])):
            self.words += (code, size, *rest)
            for place, step in zip(places, steps, strict=True):
                further = sum(map(operator.mul, index, step))
                self.words += (place.base, place.start + further)
            self.words += (1,) * missing + tuple(lengths[extra:])
            for step in steps:
                self.words += (0,) * missing + tuple(step[extra:])
            self.count += 1
