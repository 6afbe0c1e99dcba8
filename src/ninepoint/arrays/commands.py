"""Commands: what a call does with whole arrays, as a list for machine code.

    interior    one run, on the arrays themselves
    slabs       each is moved into a padded block, and run on that; so is all of a small array
    zones       moved from the constant, or from a field

Arrays whose rows have gaps or run backwards are moved, too: the interior is then done in pieces,
each of which is moved into a block that stays in cache.

What to do is found out once for each layout, and for each part of it that a thread computes.  It
is written as a list that one call of machine code carries out (`ninepoint.backends.llvm.commands`
says how); for programs that take no list, and arrays whose elements are converted, it is done
here, on the way.

A list knows memory by the number of a base and the bytes from there on.  While it is written, each
base stands at an address of nobody, so that views of NumPy say where all that is moved lies.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..backends.compiled import Compiled
from ..backends.memory import empty
from ..base import limits
from ..base.remembered import Remembered
from .borders import Array
from .layout import (
    COPY,
    FACE,
    MIX,
    VALUE,
    Extension,
    Extensions,
    Gather,
    Layout,
    Region,
    Runs,
    Shape,
    around,
    into,
)
from .strided import address, merged_axes, standing

# What `ninepoint.backends.llvm.commands` has: the commands, and axes of a move.
_MOVE, _RUN, _GHOSTS = range(3)
_AXES = 5

_LINE = 64

# The kinds of floats, as machine code counts them.
_FLOATS = {"f": 0, "d": 1, "F": 2, "D": 3}

# How far apart bases stand while a list is written, and the part of it that may lie before one:
# no address of real memory, which is of base 0, is as large.
_APART, _BEFORE = 1 << 54, 1 << 53


@dataclass(frozen=True, slots=True)
class Part:
    """Some images of a stack, and the points from `first` on and before `last` in them."""

    start: int
    stop: int
    first: int
    last: int


@dataclass(eq=False)
class Commands:
    """What a program does on arrays of one kind, which have one axis for the stack.

    The arrays of the numbers `moved` are read and written by moves alone, in whatever strides.  So
    many `images` are done together at the most, `by_machine` where machine code takes them.
    """

    program: Compiled
    plan: Layout
    # Of fields and results, without axes; lists say where they lie.
    constants: Sequence[Array]
    ghosts: tuple[Extensions, ...]
    strides: Sequence[Shape]
    moved: Sequence[int]
    images: int
    by_machine: bool
    _made: Remembered[Part, Array] = field(default_factory=lambda: Remembered(64))

    @property
    def dtypes(self) -> Sequence[np.dtype]:
        """The types of fields and results, in blocks."""
        return *self.program.field_dtypes, *self.program.out_dtypes

    def run(self, arrays: Sequence[Array], numbers: Sequence[Any], part: Part) -> None:
        """Compute a part of fields and results."""
        together, entry = self.images, self.program.loaded.entry
        for k in range(part.start, part.stop, together):
            some = replace(part, start=k, stop=min(k + together, part.stop))
            cut = slice(some.start, some.stop)
            if not self.by_machine:
                with np.errstate(all="ignore"):
                    some_arrays = [one[cut] for one in arrays]
                    _Walk(self, some, some_arrays, _AtOnce(self, some, numbers)).walk()
            elif some == part or self.ghosts:
                # Values at the border may be others for each image.
                entry(*arrays, *numbers, self.of(some))
            else:
                told = self.of(replace(some, start=0, stop=some.stop - k))
                entry(*[one[cut] for one in arrays], *numbers, told)

    def of(self, part: Part) -> Array:
        """List what to do for a part of the arrays."""
        found = self._made.get(part)
        if found is None:
            found = self._made[part] = _listed(self, part)
        return found


class _Walk:
    """What is done with a part of some arrays, in order; by whom, is told."""

    def __init__(
        self, lists: Commands, part: Part, arrays: Sequence[Array], hand: _AtOnce | _List
    ) -> None:
        self.lists, self.program, self.plan = lists, lists.program, lists.plan
        self.part, self.arrays, self.hand = part, arrays, hand
        self.fields = len(self.program.field_dtypes)
        # How many fields are copied where neighbours are missing: all but lines of positions.
        self.copied = self.fields - len(self.program.along)

    def walk(self) -> None:
        """Do all."""
        plan, (first, last) = self.plan, (self.part.first, self.part.last)
        self._box(plan.computed.within(first, last))
        for k, output in enumerate(plan.outputs):
            for zone, keeps in output.zones:
                self._zone(k, zone.within(first, last), keeps)

    def _box(self, box: Region) -> None:
        plan = self.plan
        interior = plan.interior.clip(box)
        if not box.points:
            return
        if interior != box and (not interior.points or plan.is_small):
            self._on(box)
            return
        for piece in self._pieces(interior) if self.lists.moved else (interior,):
            self._on(piece)
        for slab in around(interior, box):
            self._on(slab)

    def _zone(self, k: int, zone: Region, keeps: bool) -> None:
        """Write what is not computed."""
        if not zone.points:
            return
        if keeps:
            # All phases of a result keep the same.
            field = k % (len(self.plan.outputs) // self.program.phases)
            starts, steps = self.plan.at(zone.start), self.plan.every
            axes = zip(starts, zone.shape, steps, strict=True)
            source = self.arrays[field][into(slice(a, a + n * s, s) for a, n, s in axes)]
        else:
            source = self.lists.constants[self.fields + k]
        self.hand.move(self._result(k, zone), source)

    def _result(self, k: int, region: Region) -> Array:
        """The part of an output that is some of its points."""
        start = self.plan.outputs[k].extent.start
        found: Array = self.arrays[self.fields + k][region.index(start)]
        return found

    def _pieces(self, region: Region, axis: int = 0) -> Iterator[Region]:
        """Cut a region so that the blocks of each piece stay in cache."""
        last, current = len(self.plan.shape) - 1, limits.current
        (begin, end), length = region.spans[axis], region.shape[axis]
        source = self.plan.source(region)
        moved = (
            self.lists.dtypes[k].itemsize * (source if k < self.fields else region).points
            for k in self.lists.moved
        )
        size = (self.part.stop - self.part.start) * sum(moved)
        warm = self.program.module.warm if axis == last - 1 else 0
        twice = max(1, self.plan.spans[axis], warm)
        # A command costs more where it is done here.
        bytes_ = current.moved_piece_bytes if self.lists.by_machine else 8 * current.block_elements
        rows = max(current.rows_moved_twice * twice, bytes_ * length // max(1, size))
        for first in range(begin, end, rows):
            piece = region.along(axis, first, min(first + rows, end))
            if axis < last - 1:
                yield from self._pieces(piece, axis + 1)
            else:
                yield piece

    def _on(self, region: Region) -> None:
        """Compute points from the fields themselves, or from blocks with all that lies outside."""
        plan, moved = self.plan, self.lists.moved
        source = plan.source(region)
        is_inside = plan.has(source)
        gather = plan.gather(region, bool(self.lists.ghosts))
        views, moves = list[Array](), list[tuple[Array, Array]]()
        for k in range(self.fields):
            axis = self.program.along[k - self.copied] if k >= self.copied else None
            array, start = self.arrays[k], (0,) * len(plan.shape)
            if not is_inside or (k in moved and axis is None):
                # Of positions none beyond the array is asked for, and any will do.
                array, start = self._filled(k, gather, axis), gather.start
            views.append(array[source.index(start)])
        for k, output in enumerate(plan.outputs):
            part = region.clip(output.extent)
            target = self._result(k, part)
            if part != region or self.fields + k in moved:
                # An output does not cover the region, or has gaps: it is computed apart.
                block = self.hand.block(self.fields + k, region.shape)
                moves.append((target, block[part.index(region.start)]))
                target = block
            views.append(target)
        self.hand.compute(views)
        for to, at in moves:
            self.hand.move(to, at)

    def _filled(self, k: int, gather: Gather, axis: int | None) -> Array:
        """A block of a field with all that stands outside; it may be a line along an axis."""
        if axis is not None:
            line = self._filled(k, gather.line(axis), None)
            return np.broadcast_to(line, (*line.shape[:1], *gather.shape))
        block, ghosts = self.hand.block(k, gather.shape), self.lists.ghosts
        for part in gather.taken:
            source = self.arrays[k][into(run.elements() for run in part)]
            self.hand.move(block[into(run.places for run in part)], source)
        whole = slice(None)
        for part in gather.again:
            *places, last = (run.places for run in part)
            source = self.lists.constants[k]
            if part[-1].first >= 0:
                inside = part[-1].elements(gather.start[len(places)])
                source = block[(whole, *places, inside)]
            self.hand.move(block[(whole, *places, last)], source)
        if k < len(ghosts):
            for end, side, part in gather.ghosts:
                extension = ghosts[k][end][side]
                assert extension is not None
                self._extended(block, gather.start[end], end, part, extension)
        return block

    def _extended(
        self, block: Array, start: int, axis: int, part: Runs, extension: Extension
    ) -> None:
        """Make ghosts beyond one end of an axis, along which the block begins at `start`."""
        run, places = part[axis], [one.places for one in part]
        to, terms = block[into(places)], list[tuple[Array, Array]]()
        if extension.from_end:
            run = replace(run, first=self.plan.shape[axis] - 1 if run.side else 0, step=0)
        for k, alpha in enumerate(extension.alpha):
            # Terms go inward.
            places[axis] = run.elements(start + (k if run.side else -k))
            terms.append((self._beside(alpha, axis, part), block[into(places)]))
        beta = self._beside(extension.beta, axis, part)
        if extension.how in (VALUE, COPY):
            self.hand.move(to, beta if extension.how == VALUE else terms[0][1])
        else:
            self.hand.extend(extension.how, to, terms, beta)

    def _beside(self, values: Array, axis: int, part: Runs) -> Array:
        """Those values along an edge that are beside some elements; one may stand for all."""
        index = [slice(self.part.start, self.part.stop) if len(values) > 1 else slice(None)]
        for k, (run, n) in enumerate(zip(part, values.shape[1:], strict=True)):
            if n == 1:
                index.append(slice(None))
            elif k == axis:
                index.append(slice(run.number, run.number + run.stop - run.start))
            elif run.side is None:
                index.append(run.elements())
            else:
                # Beyond the ends of an edge its last value stands.
                index.append(slice(n - 1, n) if run.side else slice(0, 1))
        return values[tuple(index)]


class _AtOnce:
    """Does what there is to do, with the program's numbers."""

    def __init__(self, lists: Commands, part: Part, numbers: Sequence[Any]) -> None:
        self._dtypes, self._stack = lists.dtypes, part.stop - part.start
        self._program, self._numbers = lists.program, numbers

    def block(self, k: int, shape: Shape) -> Array:
        """Memory for a block of a field or an output, until something is computed."""
        return empty((self._stack, *shape), self._dtypes[k])

    def move(self, to: Array, at: Array) -> None:
        """Move elements, of which one may stand for all along an axis; convert them, too."""
        to[...] = at

    def compute(self, arrays: Sequence[Array]) -> None:
        """Run the program on fields and results."""
        self._program.loaded.entry(*arrays, *self._numbers)

    def extend(
        self, how: int, to: Array, terms: Sequence[tuple[Array, Array]], beta: Array
    ) -> None:
        """Make ghosts of beta, and of each alpha and what it is multiplied with."""
        made = beta
        for alpha, mirrored in terms:
            value = mirrored.astype(beta.dtype)
            if how == MIX:
                value = alpha * value
            made = made - value if how == FACE else made + value
        to[...] = made


def _listed(lists: Commands, part: Part) -> Array:
    """The list for a part of the arrays."""
    plan, fields, cut = lists.plan, len(lists.program.field_dtypes), slice(part.start, part.stop)
    shapes = (*(plan.shape,) * fields, *plan.out_shapes)
    arrays = [
        standing(base * _APART, (part.stop, *shape), dtype, strides)[cut]
        for base, (shape, dtype, strides) in enumerate(
            zip(shapes, lists.dtypes, lists.strides, strict=True), 1
        )
    ]
    found = _List(lists, part)
    _Walk(lists, part, arrays, found).walk()
    head = len(arrays), 2 * len(lists.strides[0]) + 1, found.memory, found.count
    return np.array((*head, *found.words), np.int64)


class _List:
    """Lists what there is to do, in words for machine code; how many commands they are.

    The bases are what lies at an address, the arrays of the caller, and so many bytes of memory
    for blocks.
    """

    def __init__(self, lists: Commands, part: Part) -> None:
        self._dtypes, self._stack = lists.dtypes, part.stop - part.start
        self.words, self.count, self.memory = list[int](), 0, 0
        # Bytes that the blocks take that are needed just now.
        self._used = 0

    def block(self, k: int, shape: Shape) -> Array:
        """Memory for a block of a field or an output, from a line of the cache on."""
        dtype = self._dtypes[k]
        at = (len(self._dtypes) + 1) * _APART + self._used
        made = standing(at, (self._stack, *shape), dtype)
        self._used += -(-made.nbytes // _LINE) * _LINE
        self.memory = max(self.memory, self._used)
        return made

    def move(self, to: Array, at: Array) -> None:
        """Move elements, of which one may stand for all along an axis."""
        size = to.itemsize
        # Machine code knows numbers of one part.
        parts = (size // 8,) if size > 8 else ()
        self._put((_MOVE, min(size, 8)), (to, at), parts)

    def compute(self, arrays: Sequence[Array]) -> None:
        """Run the program; nobody needs the blocks any more but to be moved from them."""
        self.words.append(_RUN)
        for one in arrays:
            self.words += (*_place(one), *one.shape, *one.strides)
        self.count += 1
        self._used = 0

    def extend(
        self, how: int, to: Array, terms: Sequence[tuple[Array, Array]], beta: Array
    ) -> None:
        """Make ghosts of beta, and of each alpha and what it is multiplied with."""
        (alpha, mirrored), (other, next_) = terms[0], terms[min(1, len(terms) - 1)]
        # Each term is as far from the one before.
        further = address(next_) - address(mirrored), address(other) - address(alpha)
        begin = (_GHOSTS, _FLOATS[to.dtype.char], how, len(terms), *further)
        self._put(begin, (to, mirrored, alpha, beta))

    def _put(self, begin: Shape, arrays: Sequence[Array], parts: Shape = ()) -> None:
        """List a command for all elements of the first array, and those of others that belong.

        Elements are so many `parts` of 8 bytes.
        """
        shape = arrays[0].shape
        if 0 in shape:
            return
        strides = [(*_steps(one, shape), *(8,) * len(parts)) for one in arrays]
        lengths, steps = merged_axes((*shape, *parts), strides)
        extra = max(0, len(lengths) - _AXES)
        missing = _AXES - len(lengths) + extra
        for index in product(*map(range, lengths[:extra])):
            self.words += begin
            for one, step in zip(arrays, steps, strict=True):
                base, start = _place(one)
                self.words += (base, start + sum(map(operator.mul, index, step)))
            self.words += (*(1,) * missing, *lengths[extra:])
            for step in steps:
                self.words += (*(0,) * missing, *step[extra:])
        self.count += prod(lengths[:extra])


def _place(array: Array) -> tuple[int, int]:
    """The base of an array, and where it begins from there."""
    base, start = divmod(address(array) + _BEFORE, _APART)
    return base, start - _BEFORE


def _steps(array: Array, shape: Shape) -> Shape:
    """The bytes from element to element of an array that is broadcast to a shape."""
    own = zip(array.shape, array.strides, strict=True)
    missing = len(shape) - array.ndim
    return (*(0,) * missing, *(0 if n == 1 else step for n, step in own))
