"""Commands: what a call does with whole arrays, as a list for machine code.

    interior    one run, on the arrays themselves
    slabs       each is moved into a padded block, and run on that; so is all of a small array
    zones       moved from the constant, or from a field

What to do is found out once for each layout, and for each part of it that a thread computes.  It
is written as a list that one call of machine code carries out (`ninepoint.backends.llvm.entries`
says how); for programs that take no list it is done here, on the way.

A list knows memory by the number of a base and the bytes from there on.  While it is written, each
base stands at an address of nobody, so that views of NumPy say where all that is moved lies.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..backends.compiled import Compiled
from ..backends.memory import empty
from ..backends.threads import CREW_HANDOFF, run_lists, run_parallel
from ..base import limits
from ..base.remembered import Remembered
from ..language.dtypes import short
from .layout import (
    COPY,
    FACE,
    MIX,
    VALUE,
    Array,
    Border,
    Extension,
    Extensions,
    Gather,
    Layout,
    Region,
    Runs,
    Shape,
    around,
    cut,
    into,
    layout,
)
from .numpy import check_values
from .strided import address, merged_axes, stacked, standing

# What takes longer than this [s] is shared among threads so that it can be interrupted.
LASTING = 0.1

# What Python goes through is shared if it takes longer [s]: each part costs half a millisecond.
BY_PYTHON = 20e-3

# Parts for each thread: enough that a thread which starts late takes less of the work.
PARTS = 4

# A part has at least as many points, as long as there is one for each thread: some begin with rows
# that others make as well.
PART_POINTS = 1 << 16

# What `ninepoint.backends.llvm.entries` has: the commands, and axes of a move.
_MOVE, _RUN, _GHOSTS = range(3)
_AXES = 5

_LINE = 64

# The kinds of floats, as machine code counts them.
_FLOATS = {"f": 0, "d": 1, "F": 2, "D": 3}

# How far apart bases stand while a list is written, and the part of it that may lie before one:
# no address of real memory, which is of base 0, is as large.
_APART, _BEFORE = 1 << 54, 1 << 53


@dataclass(frozen=True, slots=True, eq=False)
class Single:
    """A program on whole arrays, and what stands outside of its fields: a border and its constant.

    Beyond sides that are a "ghost" there are the `ghosts` of each field.
    """

    compiled: Compiled
    border: Border
    cval: Any = 0
    ghosts: tuple[Extensions, ...] = ()

    @property
    def ndim(self) -> int:
        """How many core axes it has."""
        return self.compiled.ndim

    @property
    def every(self) -> Shape:
        """Along each axis, of how many points it computes one; nothing if it computes all."""
        return self.compiled.every

    @property
    def any_stack(self) -> bool:
        """Whether a stack may lie innermost, or be done in parts: no values are laid for it."""
        return not self.ghosts

    def turned(self, how: int | tuple[int, ...]) -> Single | None:
        """The same for arrays that lie in another way (see `Compiled.turned`)."""
        compiled = self.compiled.turned(how)
        if compiled is None:
            return None
        return replace(self, compiled=compiled, border=self.border.turned(how))

    def shapes(self, core: Shape) -> Sequence[Shape]:
        """The shapes of results of such fields, whose constants fit; along core axes."""
        self._constants()
        return self._layout(core).out_shapes

    def way(self, fields: Sequence[Array], outs: Sequence[Array]) -> Commands:
        """How it is done on arrays like these, from memory if some were done before."""
        arrays = [stacked(one, self.ndim) for one in (*fields, *outs)]
        stack, *core = arrays[0].shape
        plan, strides = self._layout(tuple(core)), tuple(array.strides for array in arrays)
        constants = self._constants()
        made = Commands(self, plan, constants, stack, strides)
        # Those with ghosts read what is laid for them alone.
        key = limits.current, plan, stack, strides, tuple([one.tobytes() for one in constants])
        return made if self.ghosts else self.compiled.ways.made(key, lambda: made)

    def _layout(self, core: Shape) -> Layout:
        program = self.compiled
        # Positions are no arrays of that size.
        given = program.field_dtypes[: len(program.field_dtypes) - len(program.along)]
        size = sum(dtype.itemsize for dtype in given)
        return layout(core, program.reaches, self.border, size, every=program.every)

    def _constants(self) -> list[Array]:
        """What stands beside fields and in results, checked."""
        # What phases keep, and fill in, is the same for all of them.
        program, phases = self.compiled, self.compiled.phases
        fields, outs = program.field_dtypes, program.out_dtypes
        outs = outs[: len(outs) // phases]
        found = check_values(self.border, self.cval, fields, outs, len(program.positions))
        return found[: len(fields)] + found[len(fields) :] * phases


@dataclass(frozen=True, slots=True)
class Part:
    """Some images of a stack, and the points from `first` on and before `last` in them."""

    start: int
    stop: int
    first: int
    last: int


class Commands:
    """What a call does on arrays of one kind, which have one axis for the stack.

    The constants are those of fields and results, without axes; `strides` say where both lie.
    """

    def __init__(
        self,
        call: Single,
        plan: Layout,
        constants: Sequence[Array],
        stack: int,
        strides: Sequence[Shape],
    ) -> None:
        self.program, self.ghosts, self.plan = call.compiled, call.ghosts, plan
        self.constants, self.strides, self._stack = constants, strides, stack
        fields, outs = self.program.field_dtypes, self.program.out_dtypes
        self.dtypes = *fields, *outs
        kept = zip(fields, outs[: len(outs) // self.program.phases], strict=False)
        # What is kept and converted, and ghosts of 16 bits, are made here.
        self.by_machine = (
            self.program.loaded.lists
            and not (plan.border.uses("keep") and any(one != other for one, other in kept))
            and not (self.ghosts and any(map(short, fields)))
        )
        self.points, self.handoff = plan.points, CREW_HANDOFF if self.by_machine else BY_PYTHON
        # So many images are done together at the most: of blocks as many stay in cache.
        size = max(1, plan.itemsize * plan.points)
        most = max(1, limits.current.block_elements * 8 // size)
        self._images = stack if plan.inside else min(stack, most)
        self._made = Remembered[Part, Array](64)
        self._lists = dict[int, list[Array]]()
        # The list that does all images; None if there is none that does.
        is_one = self.by_machine and 0 < stack == self._images
        self.direct = self.lists(1)[0] if is_one else None
        self._entry, self._ndim = self.program.loaded.entry, len(plan.shape)

    def run(
        self, numbers: Sequence[Any], fields: Sequence[Array], outs: Sequence[Array], threads: int
    ) -> None:
        """Compute on so many threads.

        What would keep somebody waiting who interrupts it is done part by part.
        """
        direct, ndim = self.direct, self._ndim
        if threads == 1 and direct is not None and fields[0].ndim < ndim + 2:
            # All arrays as they are.
            self._entry(*fields, *outs, *numbers, direct)
            return
        arrays = [stacked(one, ndim) for one in (*fields, *outs)]
        pace = self.program.pace
        lasts = not pace or pace[0] * self._stack * self.points > LASTING
        if threads > 1 and direct is not None and not lasts:
            run_lists(self._entry, (*arrays, *numbers), self.lists(threads), threads)
            return
        parts = self._divided(threads)
        run_parallel([partial(self._compute, arrays, numbers, one) for one in parts], threads)

    def lists(self, threads: int) -> list[Array]:
        """The lists of the parts that so many threads share."""
        found = self._lists.get(threads)
        if found is None:
            found = self._lists[threads] = list(map(self._of, self._divided(threads)))
        return found

    def _divided(self, threads: int) -> list[Part]:
        """Cut for so many threads, along the stack, else along the first axis."""
        plan, stack = self.plan, self._stack
        if threads == 1:
            return [Part(0, stack, 0, plan.shape[0])]
        count = max(threads, min(threads * PARTS, stack * plan.points // PART_POINTS))
        if stack >= count:
            return [Part(a, b, 0, plan.shape[0]) for a, b in cut((0, stack), count)]
        bands = plan.bands(-(-count // stack))
        return [Part(k, k + 1, first, last) for k in range(stack) for first, last in bands]

    def _compute(self, arrays: Sequence[Array], numbers: Sequence[Any], part: Part) -> None:
        """Compute a part of fields and results."""
        together = max(1, self._images)
        for k in range(part.start, part.stop, together):
            some = replace(part, start=k, stop=min(k + together, part.stop))
            own = [one[some.start : some.stop] for one in arrays]
            if not self.by_machine:
                with np.errstate(all="ignore"):
                    _Walk(self, some, own, _AtOnce(self, some, numbers)).walk()
            elif some == part or self.ghosts:
                # Values at the border may be others for each image.
                self._entry(*arrays, *numbers, self._of(some))
            else:
                told = self._of(replace(some, start=0, stop=some.stop - k))
                self._entry(*own, *numbers, told)

    def _of(self, part: Part) -> Array:
        """List what to do for a part of the arrays."""
        return self._made.made(part, lambda: _listed(self, part))


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
        interior = self.plan.interior.clip(box)
        if not box.points:
            return
        if interior != box and (not interior.points or self.plan.is_small):
            self._on(box)
            return
        for piece in (interior, *around(interior, box)):
            self._on(piece)

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

    def _on(self, region: Region) -> None:
        """Compute points from the fields themselves, or from blocks with all that lies outside."""
        plan = self.plan
        source = plan.source(region)
        is_inside = plan.has(source)
        gather = plan.gather(region, bool(self.lists.ghosts))
        views, moves = list[Array](), list[tuple[Array, Array]]()
        for k in range(self.fields):
            axis = self.program.along[k - self.copied] if k >= self.copied else None
            array, start = self.arrays[k], (0,) * len(plan.shape)
            if not is_inside:
                # Of positions none beyond the array is asked for, and any will do.
                array, start = self._filled(k, gather, axis), gather.start
            views.append(array[source.index(start)])
        for k, output in enumerate(plan.outputs):
            part = region.clip(output.extent)
            target = self._result(k, part)
            if part != region:
                # An output does not cover the region: it is computed apart.
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
            source = self.lists.constants[k]
            if all(run.first >= 0 for run in part):
                source = self.arrays[k][into(run.elements() for run in part)]
            self.hand.move(block[into(run.places for run in part)], source)
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
