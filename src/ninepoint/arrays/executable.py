"""Executables: what does calls like some on arrays of one kind, bound once, called often.

    call, fields, along, out, threads   --bind-->     Executable
    executable(fields, numbers, out)    ->            results, one for each output

All that does not depend on the data is found out once: how arrays are given to machine code, what
lies outside of them, what is checked.  Whether `out` overlaps a field is looked at each time.

A call is several as one kernel (`chains`), or a program on whole arrays, with what stands outside
of them:

    interior    one run, on the arrays themselves
    slabs       each is copied into a padded block, and run on that; so is all of a small array
    zones       written with the constant, or from a field

Where each of these lies is found out once for each layout (see `layout`).  A crew of threads
shares a large block; what takes long is done part by part instead, so that it can be interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..backends.compiled import Compiled
from ..backends.llvm import native
from ..backends.memory import copied, empty
from ..backends.threads import CREW_HANDOFF, crew_address, run_parallel, thread_count
from ..base import limits
from ..base.frozen import frozen
from .accepted import are_apart, check_values, listed, whole_shape, write
from .arranging import Turned, arranged, core_last, plain, scattered, stacked
from .borders import Boundary
from .ghosts import Edges, turned
from .layout import (
    Array,
    Axes,
    Border,
    Extensions,
    Gather,
    Index,
    Piece,
    PlainArrays,
    Shape,
    Sides,
    Span,
    Zone,
    cut,
    layout,
)
from .regions import Node

# Fewer points are done by one thread, whatever they cost: to look up how many cores there are
# takes 1.5 us, of the 5 us of a small call (Zen 4).
SPLIT_POINTS = 16_384

# What takes longer than this [s] is shared among threads so that it can be interrupted.
LASTING = 0.1

# Parts for each thread: enough that a thread which starts late takes less of the work.
PARTS = 4

# Copies of fields begin with a line of the cache [bytes].
_LINE = 64

# A part has at least as many points, as long as there is one for each thread: some begin with rows
# that others make as well.
PART_POINTS = 1 << 16


class Given(NamedTuple):
    """What calls are given beside arrays and numbers.

    The `leaves` are the numbers of all calls by name, in the order in which they were recorded;
    None where they are those of the calls.  Functions at the border are told the `step` of an
    iteration; a border of conditions may have other values, those of a `boundary`.  A point of a
    block is so far `on` in the whole array.
    """

    leaves: Sequence[Mapping[str, Any]] | None = None
    step: int | None = None
    boundary: Any = None
    on: Shape | None = None


NOTHING = Given()


class Executable:
    """Calls on arrays of one kind: shapes, strides, types; on so many threads at the most.

    Called with fields and `out` like those that it was bound to, and with numbers: coefficient
    arrays, then scalars.  `call` is a `Single`, or a `Chain`.

    Raises
    ------
    ValueError
        If shapes do not broadcast, or `cval` does not fit a dtype.
    """

    def __init__(
        self,
        call: Any,
        fields: PlainArrays,
        along: Axes,
        out: Any = None,
        threads: int | None = None,
    ) -> None:
        self._pace, self._threads = call.compiled.pace, threads
        self._shape = shape = whole_shape(fields)
        outs = listed(out)
        wide = [np.broadcast_to(field, shape) for field in fields]
        does, how = arranged(call, wide, core_last(len(shape), along), outs)
        compiled = does.compiled
        # Results are made apart where the arrays for them cannot be written to as they lie.
        pairs = zip(map(how.of, outs), compiled.out_dtypes, strict=False)
        self._apart = not all(plain(one, dtype, compiled.ndim) for one, dtype in pairs)
        alike = all(field.shape == shape for field in fields)
        stays = how == Turned(tuple(range(len(shape))))
        self._how = None if stays and alike and not self._apart else how
        fields = self._laid(fields)
        self._way = does.way(fields)
        lead = fields[0].shape[: fields[0].ndim - compiled.ndim]
        specs = zip(self._way.shapes, compiled.out_dtypes, strict=True)
        self._specs = [((*lead, *one), dtype) for one, dtype in specs]
        self._points = math.prod(lead) * self._way.points
        self._shared = self._points >= SPLIT_POINTS and threads != 1

    def __call__(
        self, fields: PlainArrays, numbers: Sequence[Any], out: Any = None, given: Given = NOTHING
    ) -> PlainArrays:
        """What a call gives: one array for each output."""
        targets = listed(out)
        results, how = targets, self._how
        if targets and not are_apart(targets, fields):
            # Results are made apart, and moved there.
            results = []
        if how is not None:
            fields = self._laid(fields)
            results = [] if self._apart else list(map(how.of, results))
        made = results or [empty(shape, dtype) for shape, dtype in self._specs]
        # To ask how many threads there are takes as long as a small call.
        if not self._shared:
            self._way.run(numbers, fields, made, 1)
        else:
            self._paced(numbers, fields, made)
        if results:
            return targets
        if how is not None:
            made = list(map(how.back, made))
        if not targets:
            return made
        for target, one in zip(targets, made, strict=True):
            write(target, one)
        return targets

    def _laid(self, fields: PlainArrays) -> PlainArrays:
        """The fields as the program reads them."""
        how, shape = self._how, self._shape
        if how is None:
            return fields
        return [
            how.of(one if one.shape == shape else np.broadcast_to(one, shape)) for one in fields
        ]

    def _paced(self, numbers: Sequence[Any], fields: PlainArrays, results: PlainArrays) -> None:
        """Compute on as many threads as the points are worth.

        One alone does what takes less long than to ask others.  How long a point takes was
        measured in an earlier call; what was not is taken to be slow.  (With one and two threads
        a mean of 3x3 took 14 and 48 us where the others slept, 37 and 23 to 40, 82 and 42; a
        median of 3x3 77 and 43, Zen 5.)
        """
        known, points, way = self._pace, self._points, self._way
        alone = known and known[0] * points <= way.handoff
        threads = 1 if alone else thread_count(self._threads)
        began = perf_counter()
        way.run(numbers, fields, results, threads)
        pace = (perf_counter() - began) * threads / points
        # What takes longer than before may do so for another reason, and counts four times as much
        # at most.  To share costs time as well: what is shared is taken for a little faster each
        # time, so that one thread is tried again, in one of fifty calls.
        if known:
            pace = min(pace, 4 * known[0]) if threads == 1 else 0.97 * min(pace, known[0])
        known[:] = [pace]

    def beyond(self, ghosts: Extensions) -> Executable:
        """The same with other values beyond the sides where a single call has some."""
        made = copy(self)
        made._way = copy(self._way)
        made._way.ghosts = ghosts
        return made


class GhostCall:
    """Calls of a node whose border has conditions, on fields like some.

    Each may have other values.  Beyond sides that are not `closed` there are no neighbours.
    """

    def __init__(
        self,
        node: Node,
        fields: PlainArrays,
        closed: Sequence[Sides],
        threads: int | None,
    ) -> None:
        self._node, self._closed, self._threads = node, closed, threads
        self._shape = shape = whole_shape(fields)
        order = core_last(len(shape), node.along)
        self._edges = Edges(node, tuple(shape[axis] for axis in order))
        # What did the last calls, under a border of names; and under which boundary, where its
        # conditions are numbers, which stay the same.
        self._last: tuple[Boundary | None, Border, Executable] | None = None

    def __call__(
        self, fields: PlainArrays, numbers: Sequence[Any], out: Any, given: Given
    ) -> PlainArrays:
        """What a call gives: one array for each output."""
        node, last = self._node, self._last
        boundary = Boundary.of(given.boundary or node.boundary)
        if last is None or last[0] != boundary:
            same = boundary if all(one.plain for one in boundary.conditions) else None
            step = given.step or 0
            now = boundary.with_conditions(lambda one, *_: one.after(step))
            # Values that do not fit are wrong beside an array without elements as well.
            opened = turned(now.opened(self._closed), self._shape, node.along)
            with np.errstate(all="ignore"):
                sides = self._edges.laid(opened)
            names: Any = [[s if isinstance(s, str) else "ghost" for s in pair] for pair in sides]
            border = Border(tuple(map(tuple, names)))
            if last is not None and last[1] == border:
                run = last[2].beyond(sides)
            else:
                call = Single(node.compiled, border, node.cval, sides)
                run = Executable(call, fields, node.along, out, self._threads)
            last = self._last = same, border, run
        return last[2](fields, numbers, out)


@frozen
class Single:
    """A program on whole arrays, and what stands outside of its fields: a border and its constant.

    Beyond sides that are a "ghost" there is what the `ghosts` say.
    """

    compiled: Compiled
    border: Border
    cval: Any = 0
    ghosts: Extensions = ()

    def turned(self, how: int | Axes) -> Single | None:
        """The same for arrays that lie in another way (see `Compiled.turned`)."""
        # Where two rules meet at a corner, the first axis says what is written.
        mixed = self.border.uses("fill") and self.border.uses("keep")
        # Values at the border are laid for the arrays as they are.
        if self.border.uses("ghost") or (mixed and isinstance(how, tuple)):
            return None
        if (compiled := self.compiled.turned(how)) is None:
            return None
        return replace(self, compiled=compiled, border=self.border.turned(how))

    def way(self, fields: PlainArrays) -> Way:
        """How it is done on arrays like these."""
        return Way(self, fields)


# What a part of a call is: where the table is of the pieces that machine code does, or 0; other
# pieces; zones.
Steps: TypeAlias = tuple[int, Sequence[Piece], Sequence[Zone]]


class Way:
    """How a call is done on arrays like these, of one shape, whose leading axes are the stack.

    Fields that are scattered are copied before they are read, some images at a time.
    """

    def __init__(self, call: Single, fields: PlainArrays) -> None:
        self._program, self.ghosts = call.compiled, call.ghosts
        program, shape, border = call.compiled, fields[0].shape, call.border
        self._constants = check_values(border, call.cval, program)
        self._lead = len(shape) - program.ndim
        # How many fields are copied where neighbours are missing: all but lines of positions.
        self._fields = len(fields)
        self._copied = self._fields - len(program.positions)
        size = sum(dtype.itemsize for dtype in program.field_dtypes[: self._copied])
        core = shape[self._lead :]
        self._plan = plan = layout(core, program.reaches, border, size, every=program.every)
        # The shapes of results along core axes.
        self.shapes = [extent.shape for extent in plan.extents]
        loaded = program.loaded
        self._entry, self._scattered = loaded.entry, scattered(program, fields)
        self._stack = math.prod(shape[: self._lead])
        # At most so many images are done together: their blocks stay in cache.
        size = max(1, plan.itemsize * plan.points)
        self._together = max(1, limits.current.block_elements * 8 // size)
        whole = not any(self._scattered)
        if whole and plan.interior == plan.computed:
            self._together = max(1, self._stack)
        self._tables = whole and loaded.crew
        self._shares = self._tables and self._stack <= self._together
        self._whole: Span = (0, plan.shape[0])
        self._known: dict[tuple[Span, int, int], Steps] = {}
        # What tables say the addresses of.
        self._held: list[Any] = []
        self.points = plan.points
        self.handoff = CREW_HANDOFF if self._shares else limits.current.handoff_seconds

    def run(
        self, numbers: Sequence[Any], fields: PlainArrays, outs: PlainArrays, threads: int
    ) -> None:
        """Compute on so many threads."""
        arrays: PlainArrays = (*fields, *outs)
        stack = self._stack
        if self._lead == 0:
            arrays = [one[None] for one in arrays]
        elif self._lead > 1:
            arrays = [stacked(one, one.ndim - self._lead) for one in arrays]
        # Whether it takes so long that somebody may want to interrupt it.
        pace = self._program.pace
        lasts = not pace or pace[0] * stack * self.points > LASTING
        if threads == 1 or (self._shares and not lasts):
            if stack <= self._together:
                self._do(arrays, numbers, threads, self._whole, slice(stack))
            else:
                self._compute(arrays, numbers, (0, stack), self._whole)
            return
        parts = self._parts(stack, self.points, threads)
        run_parallel([partial(self._compute, arrays, numbers, *one) for one in parts], threads)

    def _parts(self, stack: int, points: int, threads: int) -> list[tuple[Span, Span]]:
        """So many images of points in parts for threads: of the stack, else of the first axis."""
        count = max(threads, min(threads * PARTS, stack * points // PART_POINTS))
        if stack >= count:
            return [(images, self._whole) for images in cut((0, stack), count)]
        bands = self._plan.bands(-(-count // max(1, stack)))
        return [((k, k + 1), band) for k in range(stack) for band in bands]

    def _compute(
        self, arrays: PlainArrays, numbers: Sequence[Any], part: Span, rows: Span
    ) -> None:
        """Compute rows of a part of the stack on this thread, some images at a time."""
        for start in range(*part, self._together):
            images = slice(start, min(start + self._together, part[1]))
            self._do([one[images] for one in arrays], numbers, 1, rows, images)

    def _do(
        self,
        arrays: PlainArrays,
        numbers: Sequence[Any],
        threads: int,
        rows: Span,
        images: slice,
    ) -> None:
        """Compute rows of some images, of which these are the arrays."""
        key = rows, len(arrays[0]), threads
        steps = self._known.get(key)
        if steps is None:
            steps = self._known[key] = self._steps(*key)
        table, pieces, zones = steps
        if table and threads > 1:
            self._entry(*arrays, *numbers, table, crew_address(threads), threads)
        elif table:
            self._entry(*arrays, *numbers, table)
        for piece in pieces:
            self._run(arrays, numbers, piece, images)
        for k, zone, kept in zones:
            # All phases of a result keep the same.
            field = arrays[k % (len(self._plan.extents) // self._program.phases)]
            source = self._constants[self._fields + k] if kept is None else field[kept]
            write(arrays[self._fields + k][zone], source)

    def _steps(self, rows: Span, count: int, threads: int) -> Steps:
        """How so many threads do some points along the first axis, of so many images."""
        pieces, zones = self._plan.done(*rows)
        # Machine code that is told by a table fills no blocks of positions, or with ghosts.
        fills = not (self._plan.border.uses("ghost") or self._program.positions)
        told = [
            one
            for one in pieces
            if self._tables
            and (fills or one.block is None)
            and all(some is None for _, some in one.written)
        ]
        table = self._table(told, count, threads) if told else 0
        return table, [one for one in pieces if one not in told], zones

    def _table(self, pieces: Sequence[Piece], count: int, threads: int) -> int:
        """Where a table of pieces is, those of most points cut into parts for many threads."""
        each: list[tuple[Span, Piece]] = []
        for one in pieces:
            region = one.region
            if threads == 1 or region.points * 2 <= self.points:
                each.append(((0, count), one))
                continue
            for images, band in self._parts(count, region.points, threads):
                if (some := region.within(*band)).points:
                    each.append((images, self._plan.piece(some)))
        words = [len(each)]
        for images, piece in each:
            words += self._words(images, piece)
        table = np.array(words, np.int64)
        self._held.append((each, table))
        return table.ctypes.data

    def _words(self, images: Span, piece: Piece) -> list[int]:
        """What a table says of a piece (see `ninepoint.backends.llvm.entries`)."""
        first, stop = images
        stack, gather = stop - first, piece.block
        words = [0]
        for k, dtype in enumerate(self._program.field_dtypes):
            if gather is None:
                words += _view(images, piece.read)
            else:
                lengths = stack, *gather.shape
                words += (gather.told.ctypes.data, self._constants[k].ctypes.data)
                words += (first, *(0,) * len(gather.shape), *lengths)
                words[0] += math.prod(lengths) * dtype.itemsize + _LINE
        for place, _ in piece.written:
            words += _view(images, place)
        return words

    def _run(
        self, arrays: PlainArrays, numbers: Sequence[Any], piece: Piece, images: slice
    ) -> None:
        """Compute points of some images from the fields themselves, or from blocks."""
        # To ask for a list[Array]() takes a microsecond.
        views: list[Array] = []
        moves: list[tuple[Array, Array]] = []
        for k, field in enumerate(arrays[: self._fields]):
            if piece.block is not None:
                field = self._block(k, field, piece.block, images)
            view = field[piece.read]
            if piece.block is None and self._scattered[k]:
                view = copied(view, self._program.field_dtypes[k])
            views.append(view)
        for out, (place, some) in zip(arrays[self._fields :], piece.written, strict=True):
            target = out[place]
            if some is not None:
                # An output does not cover the region: it is computed apart.
                block = empty((len(out), *piece.region.shape), out.dtype)
                moves.append((target, block[some]))
                target = block
            views.append(target)
        self._entry(*views, *numbers)
        for to, at in moves:
            to[...] = at

    def _block(self, k: int, field: Array, gather: Gather, images: slice) -> Array:
        """A block of a field with all that stands outside: elements of it, constants, ghosts."""
        dtype = self._program.field_dtypes[k]
        if k >= self._copied:
            # Of positions none beyond the array is asked for, and any will do.
            axis = 1 + self._program.positions[k - self._copied].axis
            line = field[tuple(slice(None if n == axis else 1) for n in range(field.ndim))]
            places = gather.sources[axis - 1].clip(0)
            return np.broadcast_to(line.take(places, axis), (len(field), *gather.shape))
        block, constant = empty((len(field), *gather.shape), dtype), self._constants[k]
        pad = native.padding()
        if pad is not None and field.dtype == dtype:
            pad(block, field, constant, gather.told)
        else:
            for axis, sources in enumerate(gather.sources, 1):
                field = field.take(sources, axis)
                field[(slice(None),) * axis + (sources < 0,)] = constant
            block[...] = field
        if gather.ghosts:
            with np.errstate(all="ignore"):
                for one in gather.ghosts:
                    self.ghosts[one.axis][one.side].fill(block, one, images)
        return block


def _view(images: Span, place: Index) -> list[int]:
    """What a table says of an array where it lies: some of its images, at a place."""
    spans = [images, *((one.start, one.stop) for one in place[1:])]
    return [0, 0, *(a for a, _ in spans), *(b - a for a, b in spans)]
