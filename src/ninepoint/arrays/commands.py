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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ninepoint import limits
from ninepoint.arrays.gathering import COPY, VALUE, Beyond, Extensions, Gather, Run, Span
from ninepoint.arrays.layout import Layout, Region, Shape, around

# A program that keeps rows of stages makes them anew for the one long row: up to this many
# that costs less than to start on a thousand short rows.
FLAT_ROWS = 4

_MOVE, _RUN, _GHOSTS = 0, 1, 2
_LINE = 64

# Words of the head of a list.
_HEAD = 5

# Where arrays are that are none of the caller's.
_IN_LIST, _IN_MEMORY, _ELSEWHERE = range(3)


@dataclass(frozen=True, slots=True)
class Machine:
    """What a list depends on beside the layout.

    `sizes` are those of an element of each field, then of each output [bytes]; `values` are the
    constant of each of them as its bytes; `zones` says whether zones are written, too; `warm` is
    how many rows are made before the first of a result; `flat` says whether rows may be computed
    as one: positions are those of one row.  Of the last fields, positions, it says `along` which
    axis they have other elements: along others the first of equal ones is read.  The arrays of the
    numbers `moved` are read and written by moves alone, in whatever strides.  Of fields with
    `ghosts`, floats, `kinds` say which these are.
    """

    sizes: tuple[int, ...]
    fields: int
    values: tuple[bytes, ...]
    zones: bool
    warm: int
    flat: bool = True
    along: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    ghosts: tuple[Extensions, ...] = ()
    kinds: tuple[int, ...] = ()

    @property
    def copied(self) -> int:
        """How many fields are copied where neighbours are missing: all but such positions."""
        return self.fields - len(self.along)


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


def commands(plan: Layout, machine: Machine, part: Part) -> np.ndarray:
    """List what to do for a part of the arrays."""
    key = machine, part
    found = plan.made.get(key)
    if found is None:
        found = plan.made[key] = _Writer(plan, machine, part).written(part.first, part.last)
    return found


def band_rows(plan: Layout, machine: Machine, images: int) -> int:
    """How many rows of so many images are made before they are moved over a field."""
    sizes = machine.sizes[machine.fields :]
    row = images * sum(sizes) * math.prod(plan.shape[1:])
    # What stands two bands before is read by nobody any more.
    return max(2 * plan.spans[0] + 1, limits.current.band_bytes // max(1, row))


@dataclass(frozen=True, slots=True)
class _Own:
    """An array that is none of the caller's: where it begins, and its strides.

    It lies in the list, in memory for blocks, or elsewhere.
    """

    where: int
    start: int
    strides: Shape


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an array, by its number: the first elements, and how far it is to the next."""

    array: int
    first: Shape
    step: Shape


class _Writer:
    def __init__(self, plan: Layout, machine: Machine, part: Part) -> None:
        self.plan = plan
        self.machine = machine
        self.image = part.start
        self.stack = part.stop - part.start
        self.given = len(machine.sizes)
        self.axes = len(plan.shape) + 1
        self.own: list[_Own] = []
        self.blocks: dict[_Own, int] = {}
        self.constants: dict[int, int] = {}
        self.constant_bytes = b""
        self.words: list[int] = []
        self.count = 0
        # Bytes of memory that the blocks of a piece take, and that those of any piece did.
        self.used = self.memory = 0
        # Bytes that stay, and the blocks for the results of a band that begins at a row.
        self.held = 0
        # Arrays of values from which ghosts are made, by their addresses.
        self.values: dict[int, int] = {}
        self.band: tuple[int, Sequence[int]] | None = None
        self.over = part.over

    def written(self, first: int, last: int) -> np.ndarray:
        """The list."""
        if self.over:
            self._make_over(first, last)
        else:
            self._make(first, last)
        length = _HEAD + len(self.own) * (2 + self.axes) + len(self.words)
        constants = np.frombuffer(self.constant_bytes, np.int64)
        head = [self.axes, self.given, len(self.own), self.memory, self.count]
        for one in self.own:
            start = one.start + 8 * length if one.where == _IN_LIST else one.start
            head += [one.where, start, *one.strides]
        return np.concatenate([np.array([*head, *self.words], np.int64), constants])

    def _make_over(self, first: int, last: int) -> None:
        """Make results in the place of fields."""
        machine, shape = self.machine, self.plan.shape
        rows = min(band_rows(self.plan, machine, self.stack), last - first)
        sizes = machine.sizes[machine.fields :]
        blocks = [[self._block((rows, *shape[1:]), size) for size in sizes] for _ in range(2)]
        self.held = self.used
        made: list[tuple[int, int]] = []
        for start in range(first, last, max(1, rows)):
            self.band = start, blocks[len(made) % 2]
            made.append((start, min(start + rows, last)))
            self._make(*made[-1])
            if len(made) > 1:
                self._move_band(*made[-2], blocks[len(made) % 2])
        if made:
            self._move_band(*made[-1], blocks[(len(made) - 1) % 2])

    def _move_band(self, first: int, last: int, blocks: Sequence[int]) -> None:
        """Move the results of a band to their place."""
        self.band, shape = None, self.plan.shape
        for number, block in enumerate(blocks, self.machine.fields):
            to = self._all(number, (first, *(0 for _ in shape[1:])))
            at = self._all(block, (0,) * len(shape))
            self._move(number, (last - first, *shape[1:]), to, at)

    def _make(self, first: int, last: int) -> None:
        """Compute points, and write what is not computed."""
        self._compute(self.plan.computed.within(first, last))
        for k, output in enumerate(self.plan.outputs if self.machine.zones else ()):
            zones = [(zone.within(first, last), keeps) for zone, keeps in output.zones]
            zones = [(zone, keeps) for zone, keeps in zones if zone.points]
            if len(zones) > 1 and _are_columns(*zones[:2]):
                (after, keeps), (before, _) = zones[:2]
                self._zone(k, before, keeps, after.start[-1] - before.start[-1])
                zones = zones[2:]
            for zone, keeps in zones:
                self._zone(k, zone, keeps)

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
        for piece in self._pieces(region) if self.machine.moved else (region,):
            self._piece_inside(piece)

    def _pieces(self, region: Region, axis: int = 0) -> Iterator[Region]:
        """Cut a region so that the blocks of each piece stay in cache."""
        machine, last = self.machine, len(self.plan.shape) - 1
        length = region.shape[axis]
        moved = (
            machine.sizes[k] * (source if k < machine.fields else region).points
            for source in (self.plan.source(region),)
            for k in machine.moved
        )
        size = self.stack * sum(moved)
        twice = max(1, self.plan.spans[axis], machine.warm if axis == last - 1 else 0)
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
        source, here = self.plan.source(region), (0,) * self.axes
        fields = []
        for k in range(self.machine.copied):
            if k not in self.machine.moved:
                fields.append((k, (0, *source.start), source.shape))
                continue
            block = self._block(source.shape, self.machine.sizes[k])
            self._move(k, source.shape, self._all(block, here[1:]), self._all(k, source.start))
            fields.append((block, here, source.shape))
        for k, axis in enumerate(self.machine.along, self.machine.copied):
            fields.append((k, self._only(axis, source.start[axis]), source.shape))
        self._run_on(fields, region)

    def _padded(self, region: Region) -> None:
        """Compute points from a copy with all that lies outside."""
        plan = self.plan
        if plan.gather(region).is_inside:
            self._inside(region)
            return
        source = plan.source(region)
        gather, start = plan.with_ghosts(region, self.machine.ghosts)
        first = (0, *(a - b for a, b in zip(source.start, start, strict=True)))
        blocks = self._blocks(gather)
        self._run_on([(block, first, source.shape) for block in blocks], region)

    def _blocks(self, gather: Gather) -> list[int]:
        """Blocks of all fields."""
        machine = self.machine
        blocks = [self._filled(k, gather) for k in range(machine.copied)]
        for k, axis in enumerate(machine.along, machine.copied):
            # Positions: beyond the array none is asked for, and any will do.
            own = gather.axes[axis]
            block = self._line(axis, own.length, machine.sizes[k])
            for source, runs in ((k, own.taken), (block, own.own)):
                for run in runs:
                    to = self._all(block, self._only(axis, run.start)[1:])
                    steps = self._only(axis, run.step, 1)
                    at = _Part(source, self._only(axis, run.first), steps)
                    self._move(k, self._only(axis, run.length, 1)[1:], to, at)
            blocks.append(block)
        return blocks

    def _filled(self, field: int, gather: Gather) -> int:
        """A block of a field with all that stands outside."""
        machine = self.machine
        block = self._block(gather.shape, machine.sizes[field])
        for part in gather.taken:
            self._copied(field, block, field, part)
        for ghosts in gather.ghosts(machine.ghosts[field]) if machine.ghosts else ():
            self._make_ghosts(field, block, ghosts)
        for part, constant in gather.patches:
            self._copied(field, block, None if constant else block, part)
        return block

    def _copied(self, field: int, block: int, source: int | None, part: Sequence[Run]) -> None:
        """Copy runs of an array, or of the constant of a field, to their places in a block."""
        to = self._all(block, tuple(run.start for run in part))
        at = self._constant(field) if source is None else _elements(source, part)
        self._move(field, tuple(run.length for run in part), to, at)

    def _make_ghosts(self, field: int, block: int, ghosts: Beyond) -> None:
        """Make ghosts of a field in a block."""
        extension, part = ghosts.extension, ghosts.part
        shape = tuple(run.length for run in part)
        to = self._all(block, tuple(run.start for run in part))
        at = _elements(block, ghosts.elements(0))
        alpha, beta = (
            _elements(self._elsewhere(one, of_terms), ghosts.values(one))
            for one, of_terms in ((extension.alpha, extension.from_end), (extension.beta, False))
        )
        if extension.how in (VALUE, COPY):
            self._move(field, shape, to, beta if extension.how == VALUE else at)
            return
        terms = (len(ghosts.runs), extension.alpha.strides[0]) if extension.from_end else (1, 0)
        self.words += (_GHOSTS, self.machine.kinds[field], extension.how)
        self.words += (to.array, at.array, alpha.array, beta.array, *terms)
        # From the end of the array on, or from what is mirrored: there is but one term of this.
        self.words += (ghosts.axis + 1, -1 if ghosts.side else 1, self.stack, *shape)
        for one in (to, at, alpha, beta):
            self.words += (*one.first, *one.step)
        self.count += 1

    def _elsewhere(self, values: np.ndarray, of_terms: bool) -> int:
        """An array of values, which are those of each image or of all."""
        address = values.ctypes.data
        if address not in self.values:
            pairs = zip(values.shape, values.strides, strict=True)
            strides = [0 if n == 1 else step for n, step in pairs]
            strides[0] = 0 if of_terms else strides[0]
            start = address + self.image * strides[0]
            self.own.append(_Own(_ELSEWHERE, start, tuple(strides)))
            self.values[address] = self.given + len(self.own) - 1
        return self.values[address]

    def _run_on(self, fields: Sequence[tuple[int, Shape, Shape]], region: Region) -> None:
        """Run on arrays, or parts of such, that hold the neighbours of a region."""
        outs: list[tuple[int, Shape, Shape]] = []
        moves = []
        for k, output in enumerate(self.plan.outputs, self.machine.fields):
            part = region.clip(output.extent)
            first = tuple(a - b for a, b in zip(part.start, output.extent.start, strict=True))
            if part == region and k not in self.machine.moved:
                outs.append((k, (0, *first), region.shape))
                continue
            # An output does not cover the region, or has gaps: it is computed apart.
            block = self._block(region.shape, self.machine.sizes[k])
            outs.append((block, (0,) * self.axes, region.shape))
            if part.points:
                at = tuple(a - b for a, b in zip(part.start, region.start, strict=True))
                moves.append((k, part.shape, self._all(k, first), self._all(block, at)))
        self._run([*fields, *outs])
        for move in moves:
            self._move(*move)
        self.used = self.held

    def _ends(self, interior: Region, box: Region) -> None:
        """Compute the points before and after the interior in each of its rows."""
        plan, machine = self.plan, self.machine
        spans = [(box.start[-1], interior.start[-1]), (interior.stop[-1], box.stop[-1])]
        spans = [(a, b) for a, b in spans if a < b]
        if not spans:
            return
        every, apart, span = plan.every[-1], plan.every[-2], plan.spans[-1]
        groups, places = self._groups(spans)
        columns = sum(stop - start for start, stop in groups)
        rows = plan.source(interior)
        outer = [(pair,) for pair in zip(rows.start[:-1], rows.stop[:-1], strict=True)]
        gather = plan.gathered([*outer, tuple(groups)])
        shape, here = gather.shape, (0,) * self.axes
        blocks = [(block, here, shape) for block in self._blocks(gather)]
        made = interior.shape[:-1]
        if machine.warm > FLAT_ROWS or apart > FLAT_ROWS or not machine.flat:
            width = (columns - 1 - span) // every + 1
            results = [
                self._block((*made, width), size) for size in machine.sizes[machine.fields :]
            ]
            ran = blocks + [(one, here, (*made, width)) for one in results]
        else:
            # Rows between those that are wanted are computed as well.
            width = apart * columns // every
            results = [
                self._block((*made, width), size) for size in machine.sizes[machine.fields :]
            ]
            long = (apart * (made[-1] - 1) + 1) * columns
            # The same memory, whose rows are as long.
            ran = [(one, here, (*shape[:-2], plan.spans[-2] + 1, long)) for one, *_ in blocks]
            long = (long - 1 - span) // every + 1
            ran += [(one, here, (*made[:-1], 1, long)) for one in results]
        self._run(ran)
        for (a, b), place in zip(spans, places, strict=True):
            part = Region((*interior.start[:-1], a), (*interior.stop[:-1], b))
            origin = (*interior.start[:-1], a - place)
            for k, output in enumerate(plan.outputs):
                wanted = part.clip(output.extent)
                if wanted.points:
                    start = output.extent.start
                    first = tuple(x - y for x, y in zip(wanted.start, start, strict=True))
                    made_at = tuple(x - y for x, y in zip(wanted.start, origin, strict=True))
                    number = machine.fields + k
                    to, at = self._all(number, first), self._all(results[k], made_at)
                    self._move(number, wanted.shape, to, at)
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
            start, stop = plan.with_mirrored(last, (first, stop), self.machine.ghosts)
            before = -(-(first - start) // every)
            start = first - every * before
            length = -(-(stop - start) // every) * every
            groups.append((start, start + length))
            places.append(columns // every + before)
            columns += length
        return groups, places

    def _zone(self, k: int, zone: Region, keeps: bool, second: int = 0) -> None:
        """Write what is not computed; a column with a second one so far from it."""
        number, start = self.machine.fields + k, self.plan.outputs[k].extent.start
        first = tuple(a - b for a, b in zip(zone.start, start, strict=True))
        source = self._constant(number)
        if keeps:
            source = _Part(k, (0, *self.plan.at(zone.start)), (1, *self.plan.every))
        shape, to = zone.shape, self._all(number, first)
        if second:
            shape = (*shape[:-1], 2)
            to, source = (
                _Part(one.array, one.first, (*one.step[:-1], second * one.step[-1]))
                for one in (to, source)
            )
        self._move(number, shape, to, source)

    # Arrays.

    def _all(self, array: int, first: Shape) -> _Part:
        """A part of an array with all elements from the first on."""
        return _Part(array, (0, *first), (1,) * self.axes)

    def _block(self, shape: Shape, size: int) -> int:
        """An array in the memory for blocks."""
        strides = [size]
        for n in reversed(shape):
            strides.insert(0, strides[0] * n)
        own = _Own(_IN_MEMORY, self.used, tuple(strides))
        self.used += -(-self.stack * strides[0] // _LINE) * _LINE
        self.memory = max(self.memory, self.used)
        if own not in self.blocks:
            self.own.append(own)
            self.blocks[own] = self.given + len(self.own) - 1
        return self.blocks[own]

    def _line(self, axis: int, length: int, size: int) -> int:
        """An array in the memory for blocks whose elements differ along one axis only."""
        self.own.append(_Own(_IN_MEMORY, self.used, self._only(axis, size)))
        self.used += -(-length * size // _LINE) * _LINE
        self.memory = max(self.memory, self.used)
        return self.given + len(self.own) - 1

    def _only(self, axis: int, value: int, other: int = 0) -> Shape:
        """A number for each axis, the stack's first, of which one differs."""
        return tuple(value if k == axis + 1 else other for k in range(self.axes))

    def _constant(self, k: int) -> _Part:
        """The constant of a field or an output, at every place."""
        if k not in self.constants:
            strides = (0,) * self.axes
            self.own.append(_Own(_IN_LIST, len(self.constant_bytes), strides))
            self.constant_bytes += self.machine.values[k].ljust(16, b"\0")
            self.constants[k] = self.given + len(self.own) - 1
        return _Part(self.constants[k], (0,) * self.axes, (0,) * self.axes)

    # Commands.

    def _move(self, k: int, lengths: Shape, to: _Part, at: _Part) -> None:
        """Move elements of the type of field or output `k`."""
        there, first = self._placed(to.array, to.first)
        here, begin = self._placed(at.array, at.first)
        self.words += (_MOVE, self.machine.sizes[k], there, here, self.stack, *lengths)
        self.words += (*first, *to.step, *begin, *at.step)
        self.count += 1

    def _run(self, arrays: Sequence[tuple[int, Shape, Shape]]) -> None:
        self.words.append(_RUN)
        for array, first, lengths in arrays:
            number, begin = self._placed(array, first)
            self.words += (number, *begin, self.stack, *lengths)
        self.count += 1

    def _placed(self, array: int, first: Shape) -> tuple[int, Shape]:
        """An array and its first element, of the images of this part where it has all."""
        if array >= self.given:
            return array, (0, *first[1:])
        if self.band is None or array < self.machine.fields:
            return array, (self.image, *first[1:])
        start, blocks = self.band
        return blocks[array - self.machine.fields], (0, first[1] - start, *first[2:])


def _are_columns(one: tuple[Region, bool], other: tuple[Region, bool]) -> bool:
    """Whether two zones are single columns of the same rows, the second one before the first.

    Then they are written together: the end of a row and the begin of the next one lie in one
    line of the cache.
    """
    (after, keeps_after), (before, keeps_before) = one, other
    if keeps_after != keeps_before:
        return False
    alike = after.start[:-1] == before.start[:-1] and after.stop[:-1] == before.stop[:-1]
    single = after.shape[-1] == before.shape[-1] == 1
    return alike and single and after.start[-1] > before.start[-1]


def _elements(array: int, part: Sequence[Run]) -> _Part:
    """The elements of an array that runs are made of."""
    return _Part(array, (0, *(run.first for run in part)), (1, *(run.step for run in part)))
