"""Commands: what a call does with whole arrays, as a list for machine code.

    interior    one run, on the arrays themselves
    slabs       each is moved into a padded block, and run on that; so is all of a small array
    zones       moved from the constant, or from a field

Arrays whose rows have gaps or run backwards are moved, too: the interior is then done in pieces,
each of which is moved into a block that stays in cache.

What to do is found out once for each layout, and for each part of it that a thread computes.  It
is written as a list that one call of machine code carries out (`ninepoint.backends.llvm.commands`
says how); for programs that take no list, and arrays whose elements are converted, it is done
here, command by command.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, TypeAlias, assert_never

import numpy as np

from ..backends.compiled import Bound
from ..backends.memory import empty
from ..base import limits
from ..base.remembered import Remembered
from .borders import Array
from .gathering import COPY, FACE, MIX, VALUE, Beyond, Gather, Run
from .layout import Layout, Region, Shape, Values, around
from .strided import merged_axes

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

    Bases are the arrays of the caller, by number, then memory for blocks, the list, whose head is
    followed by constants, and nothing, for what lies at an address.  The first axis is the stack.
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


@dataclass(frozen=True, slots=True)
class _Move:
    """Elements of the type of an array, from one place to another."""

    array: int
    shape: Shape
    to: Place
    at: Place


@dataclass(frozen=True, slots=True)
class _Compute:
    """The program on arrays, or parts of such: where each lies, and its shape."""

    views: Sequence[tuple[Place, Shape]]


@dataclass(frozen=True, slots=True)
class _Mix:
    """Ghosts of a field, of what they mirror, alpha and beta.

    Says how, how many terms there are, and the bytes to the next element and alpha of these.
    """

    array: int
    how: tuple[int, ...]
    shape: Shape
    places: Sequence[Place]


_Command: TypeAlias = _Move | _Compute | _Mix


@dataclass(eq=False)
class Commands:
    """What a program does on arrays of one kind, which have one axis for the stack.

    The arrays of the numbers `moved` are read and written by moves alone, in whatever strides.  So
    many `images` are done together at the most, `by_machine` where machine code takes them.
    """

    program: Bound
    plan: Layout
    values: Values
    strides: Sequence[Shape]
    moved: Sequence[int]
    images: int
    by_machine: bool
    _made: Remembered[Part, Any] = field(default_factory=lambda: Remembered(64))

    @property
    def dtypes(self) -> Sequence[np.dtype]:
        """The types of fields and results, in blocks."""
        return *self.program.field_dtypes, *self.program.out_dtypes

    def run(
        self, program: Bound, fields: Sequence[Array], outs: Sequence[Array], part: Part
    ) -> None:
        """Compute a part, by a program that has its numbers."""
        together = self.images
        for k in range(part.start, part.stop, together):
            some = replace(part, start=k, stop=min(k + together, part.stop))
            if not self.by_machine:
                self._perform(program, (*fields, *outs), some)
            elif some == part or self.values.ghosts:
                # Values at the border may be others for each image.
                program.run(fields, outs, self.of(some))
            else:
                cut = slice(some.start, some.stop)
                told = self.of(replace(some, start=0, stop=some.stop - k))
                program.run([one[cut] for one in fields], [one[cut] for one in outs], told)

    def of(self, part: Part) -> Array:
        """List what to do for a part of the arrays."""
        found: Array | None = self._made.get(part)
        if found is None:
            found = self._made[part] = self._written(_Walk(self, part))
        return found

    @property
    def constants(self) -> bytes:
        """Those of fields and results, each in two words."""
        given = *self.values.fields, *self.values.outs
        pairs = zip(given, self.dtypes, strict=True)
        return b"".join(np.array(one).astype(own).tobytes().ljust(16, b"\0") for one, own in pairs)

    def _written(self, walk: _Walk) -> Array:
        """The list for machine code."""
        words: list[int] = []
        count = 0
        for one in walk.commands:
            match one:
                case _Compute(views):
                    words.append(_RUN)
                    for place, lengths in views:
                        words += (place.base, place.start, *lengths, *place.strides)
                    count += 1
                case _Move(array, shape, to, at):
                    size = self.dtypes[array].itemsize
                    if size > 8:
                        # Machine code knows numbers of one part.
                        shape = (*shape, size // 8)
                        to, at = (replace(p, strides=(*p.strides, 8)) for p in (to, at))
                    count += _put(words, (_MOVE, min(size, 8)), shape, (to, at))
                case _Mix(array, how, shape, places):
                    begin = (_GHOSTS, _FLOATS[self.dtypes[array].char], *how)
                    count += _put(words, begin, shape, places)
                case _:
                    assert_never(one)
        head = (len(self.dtypes), 2 * len(self.strides[0]) + 1, walk.memory, count)
        constants = np.frombuffer(self.constants, np.int64)
        return np.concatenate([np.array(head), constants, np.array(words, np.int64)])

    def _perform(self, program: Bound, arrays: Sequence[Array], part: Part) -> None:
        """Do it without a list."""
        walk: _Walk | None = self._made.get(part)
        if walk is None:
            walk = self._made[part] = _Walk(self, part)
        memory = empty((walk.memory,), np.uint8)
        constants = np.frombuffer(bytes(8 * _HEAD) + self.constants, np.uint8)
        bases = [one.__array_interface__["data"][0] for one in (*arrays, memory, constants)] + [0]

        def lying(place: Place, shape: Shape, dtype: np.dtype) -> Array:
            # Those of the caller may be of another type.
            own = arrays[place.base].dtype if place.base < len(arrays) else dtype
            found = _Lying(bases[place.base] + place.start, shape, place.strides, own.itemsize)
            return np.asarray(found).view(own)

        fields = len(program.field_dtypes)
        with np.errstate(all="ignore"):
            for one in walk.commands:
                match one:
                    case _Compute(views):
                        pairs = zip(views, self.dtypes, strict=True)
                        own = [lying(place, shape, dtype) for (place, shape), dtype in pairs]
                        program.run(own[:fields], own[fields:])
                    case _Move(array, shape, to, at):
                        dtype = self.dtypes[array]
                        lying(to, shape, dtype)[...] = lying(at, shape, dtype)
                    case _Mix(array, _, shape, places):
                        dtype = self.dtypes[array]
                        lying(places[0], shape, dtype)[...] = _mixed(one, dtype, lying)
                    case _:
                        assert_never(one)


def _put(words: list[int], begin: Shape, shape: Shape, places: Sequence[Place]) -> int:
    """Write commands for elements of arrays of one shape; how many these are."""
    lengths, steps = merged_axes(shape, [place.strides for place in places])
    extra = max(0, len(lengths) - _AXES)
    missing = _AXES - len(lengths) + extra
    for index in product(*map(range, lengths[:extra])):
        words += begin
        for place, step in zip(places, steps, strict=True):
            further = sum(map(operator.mul, index, step))
            words += (place.base, place.start + further)
        words += (*(1,) * missing, *lengths[extra:])
        for step in steps:
            words += (*(0,) * missing, *step[extra:])
    return int(np.prod(lengths[:extra]))


class _Lying:
    """Elements at an address, as NumPy asks for them."""

    def __init__(self, address: int, shape: Shape, strides: Shape, size: int) -> None:
        self.__array_interface__ = {
            "version": 3, "data": (address, False), "shape": shape, "strides": strides,
            "typestr": f"|V{size}",
        }  # fmt: skip


def _mixed(one: _Mix, dtype: np.dtype, lying: Callable[..., Array]) -> Array:
    """The ghosts of a field of this type."""
    kind, count, *far = one.how
    wide = np.dtype("complex128" if dtype.kind == "c" else "float64")
    _, mirrored, alpha, beta = one.places
    made = lying(beta, one.shape, wide)
    for term in range(count):
        at, factor = (
            replace(place, start=place.start + term * step)
            for place, step in zip((mirrored, alpha), far, strict=True)
        )
        value = lying(at, one.shape, dtype).astype(wide)
        if kind == FACE:
            made = made - value
        else:
            made = made + (lying(factor, one.shape, wide) * value if kind == MIX else value)
    return made


class _Walk:
    """The commands for a part of the arrays, in order, and how much `memory` their blocks take."""

    def __init__(self, lists: Commands, part: Part) -> None:
        self.lists, self.program, self.plan = lists, lists.program, lists.plan
        self.part, self.stack = part, part.stop - part.start
        self.sizes = [dtype.itemsize for dtype in lists.dtypes]
        self.fields = len(self.program.field_dtypes)
        # How many fields are copied where neighbours are missing: all but lines of positions.
        self.copied = self.fields - len(self.program.along)
        # Where the arrays of the caller are; results may be made elsewhere, and moved there.
        self.places = [
            Place(k, part.start * strides[0], strides) for k, strides in enumerate(lists.strides)
        ]
        self.commands: list[_Command] = []
        # Bytes of memory that the blocks of a piece take, and that those of any piece did.
        self.used = self.memory = 0
        first, last = part.first, part.last
        self._compute(self.plan.computed.within(first, last))
        for k, output in enumerate(self.plan.outputs):
            for zone, keeps in output.zones:
                self._zone(k, zone.within(first, last), keeps)

    def _compute(self, box: Region) -> None:
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

    # Pieces.

    def _pieces(self, region: Region, axis: int = 0) -> Iterator[Region]:
        """Cut a region so that the blocks of each piece stay in cache."""
        last, current = len(self.plan.shape) - 1, limits.current
        # A command costs more where it is done here.
        bytes_ = current.moved_piece_bytes if self.lists.by_machine else 8 * current.block_elements
        (begin, end), length = region.spans[axis], region.shape[axis]
        source = self.plan.source(region)
        moved = (
            self.sizes[k] * (source if k < self.fields else region).points
            for k in self.lists.moved
        )
        size = self.stack * sum(moved)
        warm = self.program.warm if axis == last - 1 else 0
        twice = max(1, self.plan.spans[axis], warm)
        rows = max(current.rows_moved_twice * twice, bytes_ * length // max(1, size))
        for first in range(begin, end, rows):
            piece = region.along(axis, first, min(first + rows, end))
            if axis < last - 1:
                yield from self._pieces(piece, axis + 1)
            else:
                yield piece

    def _on(self, region: Region) -> None:
        """Compute points from the fields themselves, or from blocks with all that lies outside."""
        plan, source, moved = self.plan, self.plan.source(region), self.lists.moved
        is_inside = plan.has(source)
        gather, start = plan.with_ghosts(region, self.lists.values.ghosts)
        first = tuple(map(operator.sub, source.start, start))
        fields: list[Place] = []
        for k in range(self.copied):
            if is_inside and k not in moved:
                fields.append(self.places[k].at(source.start))
            else:
                fields.append(self._filled(k, gather).at(first))
        for k, axis in enumerate(self.program.along, self.copied):
            # Positions: beyond the array none is asked for, and any will do.
            line = self.places[k] if is_inside else self._filled(k, gather.line(axis))
            at = source.start if is_inside else first
            stack, *others = line.strides
            strides = [step if j == axis else 0 for j, step in enumerate(others)]
            fields.append(replace(line, strides=(stack, *strides)).at(at))
        self._run_on(fields, region)

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
        if 0 not in shape:
            places = to, mirrored, alpha, beta
            self.commands.append(_Mix(field, (extension.how, *terms), shape, places))

    def _elsewhere(self, values: Array, of_terms: bool) -> Place:
        """An array of values, which are those of each image or of all."""
        pairs = zip(values.shape, values.strides, strict=True)
        strides = [0 if n == 1 else step for n, step in pairs]
        strides[0] = 0 if of_terms else strides[0]
        start = values.ctypes.data + self.part.start * strides[0]
        return Place(len(self.places) + 2, start, tuple(strides))

    def _run_on(self, fields: Sequence[Place], region: Region) -> None:
        """Run on arrays, or parts of such, that hold the neighbours of a region."""
        plan, made = self.plan, (self.stack, *region.shape)
        shape = (self.stack, *plan.source(region).shape)
        views = [(place, shape) for place in fields]
        moves = []
        for k, output in enumerate(plan.outputs, self.fields):
            part = region.clip(output.extent)
            place = self.places[k].at(tuple(map(operator.sub, part.start, output.extent.start)))
            if part != region or k in self.lists.moved:
                # An output does not cover the region, or has gaps: it is computed apart.
                block = self._block(region.shape, k)
                at = block.at(tuple(map(operator.sub, part.start, region.start)))
                moves.append((k, part.shape, place, at))
                place = block
            views.append((place, made))
        self.commands.append(_Compute(views))
        for move in moves:
            self._move(*move)
        # Nobody needs the blocks any more.
        self.used = 0

    def _zone(self, k: int, zone: Region, keeps: bool) -> None:
        """Write what is not computed."""
        if not zone.points:
            return
        number, start = self.fields + k, self.plan.outputs[k].extent.start
        to = self.places[number].at(tuple(map(operator.sub, zone.start, start)))
        source = self._constant(number)
        if keeps:
            # All phases of a result keep the same.
            k %= len(self.plan.outputs) // self.program.compiled.phases
            source = self.places[k].at(self.plan.at(zone.start), self.plan.every)
        self._move(number, zone.shape, to, source)

    def _move(self, k: int, lengths: Shape, to: Place, at: Place) -> None:
        """Move elements of the type of a field or output."""
        shape = (self.stack, *lengths)
        if 0 not in shape:
            self.commands.append(_Move(k, shape, to, at))

    def _constant(self, k: int) -> Place:
        """The constant of a field or an output, at every place."""
        strides = (0,) * len(self.places[0].strides)
        return Place(len(self.places) + 1, 8 * _HEAD + 16 * k, strides)

    def _block(self, shape: Shape, k: int) -> Place:
        """Memory for a block of a field or an output."""
        strides = [self.sizes[k]]
        for n in reversed(shape):
            strides.insert(0, strides[0] * n)
        start, size = self.used, self.stack * strides[0]
        self.used += -(-size // _LINE) * _LINE
        self.memory = max(self.memory, self.used)
        return Place(len(self.places), start, tuple(strides))
