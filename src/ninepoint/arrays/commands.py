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
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from .. import limits
from ..backends.compiled import Bound
from ..backends.memory import empty
from ..remembered import Remembered
from .borders import Array
from .gathering import COPY, FACE, MIX, VALUE, Beyond, Gather, Run
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
    """Some images of a stack, and the points from `first` on and before `last` in them."""

    start: int
    stop: int
    first: int
    last: int


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
            writer = _Writer(self, part)
            writer.walk()
            found = self._made[part] = writer.written()
        return found

    def perform(self, program: Bound, arrays: Sequence[Array], part: Part) -> None:
        """Do it without a list, with a program that has its numbers."""
        with np.errstate(all="ignore"):
            _Performer(self, part, program, arrays).walk()

    def constant(self, k: int) -> Array:
        """The constant of a field or a result."""
        plan, values, count = self.plan, self.values, len(self.program.field_dtypes)
        used, value = (
            (plan.has_constant, values.fields[k])
            if k < count
            else (plan.has_fill, values.outs[k - count])
        )
        return np.array(value if used else 0).astype(self.dtypes[k])


class _Walk(ABC):
    """What is done for a part of the arrays, one after the other: by a list, or at once."""

    # Whether rows at the ends are computed as one.
    joins_rows = True

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

    # How it is done.

    @property
    def piece_bytes(self) -> int:
        """Bytes of the blocks of a piece, where arrays are moved into them."""
        return limits.current.moved_piece_bytes

    @abstractmethod
    def _memory(self, size: int) -> tuple[int, int]:
        """So many bytes for a block: a base, and where they begin."""

    @abstractmethod
    def _forget(self) -> None:
        """Nobody needs the blocks any more."""

    @abstractmethod
    def _outside(self, array: Array) -> tuple[int, int]:
        """An array that is none of the caller's: a base, and where it begins."""

    @abstractmethod
    def _constant(self, k: int) -> Place:
        """The constant of a field or an output, at every place."""

    @abstractmethod
    def _move(self, k: int, lengths: Shape, to: Place, at: Place) -> None:
        """Move elements of the type of a field or output."""

    @abstractmethod
    def _run(self, arrays: Sequence[_View]) -> None:
        """Run the program."""

    @abstractmethod
    def _mix(self, k: int, how: tuple[int, ...], shape: Shape, places: Sequence[Place]) -> None:
        """Make ghosts of a field, of what they mirror, alpha and beta.

        Says how, how many terms there are, and the bytes to the next element and alpha of these.
        """

    # What is done.

    @property
    def fields(self) -> int:
        return len(self.program.field_dtypes)

    @property
    def copied(self) -> int:
        """How many fields are copied where neighbours are missing: all but lines of positions."""
        return self.fields - len(self.program.along)

    def walk(self) -> None:
        """Compute points, and write what is not computed."""
        first, last = self.part.first, self.part.last
        self._compute(self.plan.computed.within(first, last))
        for k, output in enumerate(self.plan.outputs):
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
        for slab in around(interior, box):
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
            self.piece_bytes * length // max(1, size),
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
        for k in range(self.fields):
            line = k >= self.copied
            first = source.start
            if line:
                # The first of those that are equal.
                axis = self.program.along[k - self.copied]
                first = tuple(start if j == axis else 0 for j, start in enumerate(source.start))
            place = self.places[k].at(first)
            if k in self.lists.moved:
                block = self._block(source.shape, k)
                self._move(k, source.shape, block, place)
                place = block
            fields.append(place)
        self._run_on(fields, region)

    def _padded(self, region: Region) -> None:
        """Compute points from a copy with all that lies outside."""
        plan, program, source = self.plan, self.program, self.plan.source(region)
        if plan.has(source):
            self._inside(region)
            return
        gather, start = plan.with_ghosts(region, self.lists.values.ghosts)
        first = tuple(map(operator.sub, source.start, start))
        fields = [block.at(first) for block in self._blocks(gather)]
        columns = 0
        # Positions are those of one row; between rows that are apart, others are made as well.
        if len(plan.shape) > 1 and region.shape[-1] < plan.computed.shape[-1]:
            few = program.warm <= FLAT_ROWS and plan.every[-2] <= FLAT_ROWS
            few = few and self.joins_rows and not program.positions
            columns = gather.shape[-1] if few and not gather.shape[-1] % plan.every[-1] else 0
        self._run_on(fields, region, columns)

    def _blocks(self, gather: Gather) -> list[Place]:
        """Blocks of all fields."""
        blocks = [self._filled(k, gather) for k in range(self.copied)]
        for k, axis in enumerate(self.program.along, self.copied):
            # Positions: beyond the array none is asked for, and any will do.
            block = self._filled(k, gather.line(axis))
            stack, *others = block.strides
            strides = [step if k == axis else 0 for k, step in enumerate(others)]
            blocks.append(replace(block, strides=(stack, *strides)))
        return blocks

    def _filled(self, field: int, gather: Gather) -> Place:
        """A block of a field with all that stands outside."""
        sides = self.lists.values.ghosts
        block = self._block(gather.shape, field)
        for part in gather.taken:
            self._fill(field, block, part, self.places[field].of(part))
        for ghosts in gather.ghosts(sides[field]) if field < len(sides) else ():
            self._make_ghosts(field, block, ghosts)
        for part, constant in gather.patches:
            source = self._constant(field) if constant else block.of(part)
            self._fill(field, block, part, source)
        return block

    def _fill(self, field: int, block: Place, part: Sequence[Run], source: Place) -> None:
        """Copy elements to the places of runs in a block."""
        to = block.at(tuple(run.start for run in part))
        self._move(field, tuple(run.length for run in part), to, source)

    def _make_ghosts(self, field: int, block: Place, ghosts: Beyond) -> None:
        """Make ghosts of a field in a block."""
        extension, part = ghosts.extension, ghosts.part
        mirrored = block.of(ghosts.mirrored)
        alpha, beta = (
            self._elsewhere(one, of_terms).of(ghosts.values(one))
            for one, of_terms in ((extension.alpha, extension.from_end), (extension.beta, False))
        )
        if extension.how in (VALUE, COPY):
            self._fill(field, block, part, beta if extension.how == VALUE else mirrored)
            return
        # From the end of the array on, or from what is mirrored: there is but one term of this.
        terms = (1, 0, 0)
        if extension.from_end:
            further = block.strides[ghosts.axis + 1] * (-1 if ghosts.side else 1)
            terms = (len(extension.alpha), further, extension.alpha.strides[0])
        to = block.at(tuple(run.start for run in part))
        shape = (self.stack, *(run.length for run in part))
        self._mix(field, (extension.how, *terms), shape, (to, mirrored, alpha, beta))

    def _elsewhere(self, values: Array, of_terms: bool) -> Place:
        """An array of values, which are those of each image or of all."""
        pairs = zip(values.shape, values.strides, strict=True)
        strides = [0 if n == 1 else step for n, step in pairs]
        strides[0] = 0 if of_terms else strides[0]
        base, start = self._outside(values)
        return Place(base, start + self.part.start * strides[0], tuple(strides))

    def _run_on(self, fields: Sequence[Place], region: Region, columns: int = 0) -> None:
        """Run on arrays, or parts of such, that hold the neighbours of a region.

        If these have so many `columns`, their rows are computed as one.
        """
        plan, made, block_shape = self.plan, region.shape, region.shape
        shape = plan.source(region).shape
        if columns:
            # The same memory, whose rows are as long.
            *lead, rows, width = region.shape
            wide = plan.every[-2] * columns // plan.every[-1]
            long = plan.every[-2] * (rows - 1) * columns + shape[-1]
            shape = (*shape[:-2], plan.spans[-2] + 1, long)
            block_shape, made = (*lead, rows, wide), (*lead, 1, (rows - 1) * wide + width)
        views = [(place, shape) for place in fields]
        moves = []
        for k, output in enumerate(plan.outputs, self.fields):
            part = region.clip(output.extent)
            place = self.places[k].at(tuple(map(operator.sub, part.start, output.extent.start)))
            if columns or part != region or k in self.lists.moved:
                # An output does not cover the region, or has gaps: it is computed apart.
                block = self._block(block_shape, k)
                at = block.at(tuple(map(operator.sub, part.start, region.start)))
                moves.append((k, part.shape, place, at))
                place = block
            views.append((place, made))
        self._run(views)
        for move in moves:
            self._move(*move)
        self._forget()

    def _zone(self, k: int, zone: Region, keeps: bool) -> None:
        """Write what is not computed."""
        if not zone.points:
            return
        number, start = self.fields + k, self.plan.outputs[k].extent.start
        to = self.places[number].at(tuple(map(operator.sub, zone.start, start)))
        source = self._constant(number)
        if keeps:
            source = self.places[k].at(self.plan.at(zone.start), self.plan.every)
        self._move(number, zone.shape, to, source)

    def _block(self, shape: Shape, k: int) -> Place:
        """Memory for a block of a field or an output."""
        strides = [self.sizes[k]]
        for n in reversed(shape):
            strides.insert(0, strides[0] * n)
        return Place(*self._memory(self.stack * strides[0]), tuple(strides))


class _Writer(_Walk):
    """Writes the list for machine code."""

    def __init__(self, lists: Commands, part: Part) -> None:
        super().__init__(lists, part)
        self.words: list[int] = []
        self.count = 0
        # Bytes of memory that the blocks of a piece take, and that those of any piece did.
        self.used = self.memory = 0

    def written(self) -> Array:
        """The list."""
        constants = [self.lists.constant(k).tobytes() for k in range(self.given)]
        words = np.frombuffer(b"".join(one.ljust(16, b"\0") for one in constants), np.int64)
        head = (self.given, 2 * len(self.places[0].strides) + 1, self.memory, self.count)
        return np.concatenate([np.array(head), words, np.array(self.words, np.int64)])

    def _memory(self, size: int) -> tuple[int, int]:
        start = self.used
        self.used += -(-size // _LINE) * _LINE
        self.memory = max(self.memory, self.used)
        return self.given, start

    def _forget(self) -> None:
        self.used = 0

    def _constant(self, k: int) -> Place:
        return Place(self.given + 1, 8 * _HEAD + 16 * k, (0,) * len(self.places[0].strides))

    def _outside(self, array: Array) -> tuple[int, int]:
        return self.given + 2, array.ctypes.data

    def _move(self, k: int, lengths: Shape, to: Place, at: Place) -> None:
        shape, size = (self.stack, *lengths), self.sizes[k]
        if size > 8:
            # Machine code knows numbers of one part.
            shape = (*shape, size // 8)
            to, at = (replace(one, strides=(*one.strides, 8)) for one in (to, at))
        self._strided((_MOVE, min(size, 8)), shape, (to, at))

    def _run(self, arrays: Sequence[_View]) -> None:
        self.words.append(_RUN)
        for place, lengths in arrays:
            self.words += (place.base, place.start, self.stack, *lengths, *place.strides)
        self.count += 1

    def _mix(self, k: int, how: tuple[int, ...], shape: Shape, places: Sequence[Place]) -> None:
        self._strided((_GHOSTS, _FLOATS[self.lists.dtypes[k].char], *how), shape, places)

    def _strided(self, begin: Shape, shape: Shape, places: Sequence[Place]) -> None:
        """Write a command for elements of arrays of one shape."""
        if 0 in shape:
            return
        lengths, steps = merged_axes(shape, [place.strides for place in places])
        extra = max(0, len(lengths) - _AXES)
        missing = _AXES - len(lengths) + extra
        for index in product(*map(range, lengths[:extra])):
            self.words += begin
            for place, step in zip(places, steps, strict=True):
                further = sum(map(operator.mul, index, step))
                self.words += (place.base, place.start + further)
            self.words += (*(1,) * missing, *lengths[extra:])
            for step in steps:
                self.words += (*(0,) * missing, *step[extra:])
            self.count += 1


class _Lying:
    """Elements at an address, as NumPy asks for them; they are those of an array."""

    def __init__(self, array: Array, place: Place, shape: Shape, size: int) -> None:
        self.array = array
        data = array.__array_interface__["data"][0] + place.start, False
        self.__array_interface__ = {
            "version": 3, "data": data, "shape": shape, "strides": place.strides,
            "typestr": f"|V{size}",
        }  # fmt: skip


class _Performer(_Walk):
    """Does it at once: for programs that take no list, and arrays whose elements are converted."""

    # What loops where it is told to end would not, on elements that are no neighbours.
    joins_rows = False

    def __init__(
        self, lists: Commands, part: Part, program: Bound, arrays: Sequence[Array]
    ) -> None:
        super().__init__(lists, part)
        self.program, self.arrays = program, list(arrays)

    @property
    def piece_bytes(self) -> int:
        return 8 * limits.current.block_elements

    def _of(self, place: Place, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """The elements at a place, which are of this type if they are none of the caller's."""
        array = self.arrays[place.base]
        own = array.dtype if place.base < self.given else dtype
        found: Array = np.asarray(_Lying(array, place, shape, own.itemsize)).view(own)
        return found

    def _memory(self, size: int) -> tuple[int, int]:
        return self._outside(empty((size,), np.uint8))

    def _outside(self, array: Array) -> tuple[int, int]:
        self.arrays.append(array)
        return len(self.arrays) - 1, 0

    def _forget(self) -> None:
        del self.arrays[self.given :]

    def _constant(self, k: int) -> Place:
        return Place(*self._outside(self.lists.constant(k)), (0,) * len(self.places[0].strides))

    def _move(self, k: int, lengths: Shape, to: Place, at: Place) -> None:
        shape, dtype = (self.stack, *lengths), self.lists.dtypes[k]
        if 0 not in shape:
            self._of(to, shape, dtype)[...] = self._of(at, shape, dtype)

    def _run(self, arrays: Sequence[_View]) -> None:
        pairs = zip(arrays, self.lists.dtypes, strict=True)
        views = [self._of(place, (self.stack, *own), dtype) for (place, own), dtype in pairs]
        self.program.run(views[: self.fields], views[self.fields :])

    def _mix(self, k: int, how: tuple[int, ...], shape: Shape, places: Sequence[Place]) -> None:
        kind, count, *far = how
        dtype = self.lists.dtypes[k]
        wide = np.dtype("complex128" if dtype.kind == "c" else "float64")
        to, mirrored, alpha, beta = places
        made = self._of(beta, shape, wide)
        for term in range(count):
            at, factor = (
                replace(one, start=one.start + term * step)
                for one, step in zip((mirrored, alpha), far, strict=True)
            )
            value = self._of(at, shape, dtype).astype(wide)
            if kind == FACE:
                made = made - value
            else:
                made = made + (self._of(factor, shape, wide) * value if kind == MIX else value)
        self._of(to, shape, dtype)[...] = made
