"""Blocks bound: in what array a block is computed, and what it takes from where.

    . 0 0 0 .     #      the chunk, of which nothing is copied where machine code reads strips
    1 # # # 1     0, 1   strips beside it, put together from what its neighbours give
    . 0 0 0 .

No point is computed but as it is in the whole array.  Far from the ends of that all blocks of one
shape are alike, so they are bound once and remembered: positions are those in an array whose ends
are as near, or far away.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ...backends.memory import empty
from ...backends.threads import serial
from ...remembered import Remembered
from ..arranging import Arrangement
from ..blocks import Part, parts, put_together
from ..borders import Array, Border, Rule
from ..executable import Executable
from ..layout import Region, Shape, layout
from ..parts import itemsize_of, moved_arrays
from ..recognise import listed
from ..regions import Node, Span, closed
from ..shells import GIVEN, Laid, Shell
from ..work import Block, Domain
from .grid import Chunks, aligned, looks, needed, outputs_of
from .job import Job, Work, bare

# Where a chunk stands as seen from the block's own: -1, 0 or 1 for each axis.
Offset: TypeAlias = tuple[int, ...]

Slices: TypeAlias = tuple[slice, ...]

# Gives elements of a field, by its number, of the chunk that stands so; see `Strip`.
Parts: TypeAlias = Callable[[int, Offset, Slices], Array]

# Where arrays begin, and how long they are, whose ends are far away.
_FAR = 1 << 40


@dataclass(frozen=True, slots=True)
class Strip:
    """Elements of one chunk, and where they go.

    They are counted from the begin of the chunk; from its end, where it stands before the
    block's own.
    """

    offset: Offset
    source: Slices
    target: Slices


# A call on chunks as they lie: what is beside them is put together in strips.
Surrounded: TypeAlias = Callable[[Sequence[Array], Parts], list[Array]]


def _surrounded(
    node: Node, wanted: Sequence[int], chunks: Sequence[Array], domain: Domain, region: Region
) -> Surrounded | None:
    """The call of a node on chunks like these; None where machine code does not do it so."""
    fields, ends = [chunks[value] for value in node.fields], range(-len(node.along), 0)
    alike = all(one.shape == region.shape for one in fields) and region.points
    if not alike or node.along != tuple(ends) or node.boundary.conditions or node.resizes:
        return None
    lead, core = region.shape[: ends.start], region.shape[ends.start :]
    sides = [closed(node, k, (region.start[k], region.stop[k]), domain.shape[k]) for k in ends]
    program = node.program.within(tuple((domain.lengths or domain.shape)[k] for k in ends))
    contiguous = len(lead) < 2 or all(one.flags.c_contiguous for one in fields)
    plain = contiguous and Arrangement(program, fields, None, None).plain
    if program.along or not plain or moved_arrays(program, fields, ()) is None:
        return None
    rules: list[tuple[Rule, Rule]] = [
        (before if own[0] else "constant", after if own[1] else "constant")
        for (before, after), own in zip(node.border.rules, sides, strict=True)
    ]
    border = Border(tuple(rules), ghosts=tuple((not low, not high) for low, high in sides))
    plan = layout(core, program.reaches, border, itemsize_of(program))
    if any(n <= max(-a, b) for n, a, b in zip(core, plan.reach.lo, plan.reach.hi, strict=True)):
        return None
    shell = Shell.of(plan)
    strips: list[tuple[int, Array, list[Strip]]] = []
    laid: list[tuple[Laid, ...]] = []
    for value, dtype in zip(node.fields, program.field_dtypes, strict=True):
        own = [_beside(lead, core, one.region, dtype) for one in shell.strips]
        laid.append(tuple(one for _, _, one in own))
        strips += [(value, memory, taken) for memory, taken, _ in own]
    run = Executable(program, fields, border, node.cval, shell=replace(shell, laid=tuple(laid)))
    numbers = (*program.coefficients, *program.scalars)

    def call(chunks: Sequence[Array], parts: Parts) -> list[Array]:
        for value, memory, taken in strips:
            fill(memory, taken, value, parts)
        made = listed(run([chunks[value] for value in node.fields], numbers))
        return [made[node.outputs.index(value)] for value in wanted]

    return call


def _beside(
    lead: Shape, core: Shape, region: Region, dtype: np.dtype[Any]
) -> tuple[Array, list[Strip], Laid]:
    """Memory for what is beside chunks, what goes there, and how machine code finds it."""
    whole = (*lead, *core)
    spans = [(0, n) for n in lead] + list(zip(region.start, region.stop, strict=True))
    memory = np.empty([b - a for a, b in spans], dtype)
    strides = math.prod(region.shape) * dtype.itemsize, *memory.strides[len(lead) :]
    laid = Laid(GIVEN, (0, (0,) * len(strides)), (memory.ctypes.data, strides))
    return memory, _strips(Region((0,) * len(whole), whole), spans), laid


def fill(array: Array, strips: Sequence[Strip], number: int, parts: Parts) -> None:
    """Put elements of a field where they go."""
    for one in strips:
        array[one.target] = parts(number, one.offset, one.source)


@dataclass(frozen=True, slots=True)
class BoundBlock:
    """A block in the array in which it is computed, what it takes of fields, and its results.

    It `needs` these points of all fields; each may be one element along some axes (`lacking`).
    """

    work: Work
    domain: Domain
    region: Region
    needs: tuple[Span, ...]
    lacking: tuple[tuple[bool, ...], ...]
    results: tuple[tuple[Shape, np.dtype[Any]], ...]
    # Calls on chunks of some strides that nobody does just now; None where there is no such call.
    _free: dict[Any, list[Surrounded] | None] = field(default_factory=dict)

    def shape(self, number: int) -> Shape:
        """What it takes of a field."""
        axes = zip(self.needs, self.lacking[number], strict=True)
        return tuple(1 if lacks else b - a for (a, b), lacks in axes)

    def strips(self, number: int) -> list[Strip]:
        """How this is put together of the chunk and what is around."""
        return _strips(self.region, self.needs, self.lacking[number])

    def reads(self, region: Region, cuts: Sequence[Chunks]) -> list[list[Part]]:
        """How it is put together for this block, of fields in such chunks."""
        shape, ndim = self.domain.lengths, len(region.start)
        assert shape is not None
        starts = zip(self.needs, region.start, self.region.start, strict=True)
        begin = [a + b - c for (a, _), b, c in starts]
        found = []
        for number, chunks in enumerate(cuts):
            # Beyond the ends of a ring positions are counted on.
            spans = [(a, a + n) for a, n in zip(begin, self.shape(number), strict=True)]
            axes = list(zip(spans, shape, strict=True))[ndim - len(chunks) :]
            pairs = zip(chunks, axes, strict=True)
            found.append([parts(sizes, [span], n)[0] for sizes, (span, n) in pairs])
        return found

    def of(self, fields: Sequence[Array]) -> Any:
        """Its results, of arrays that have what it takes."""
        ndim, start = len(self.region.start), tuple(a for a, _ in self.needs)
        block = Block(tuple([ranked(one, ndim) for one in fields]), start, self.domain)
        with serial():
            return bare(self.work.run(block, self.region))

    def in_place(self, chunks: Sequence[Array], parts: Parts) -> Any:
        """Its results, of chunks as they lie; None where there is no such call."""
        kinds = tuple([(one.dtype, one.strides, one.flags.aligned) for one in chunks])
        free = self._free.setdefault(kinds, [])
        if free is None or not self.work.is_local:
            return None
        try:
            one: Surrounded | None = free.pop()
        except IndexError:
            one = None
            if len(self.work.nodes) == 1:
                (node,) = self.work.nodes
                one = _surrounded(node, self.work.wanted, chunks, self.domain, self.region)
        if one is None:
            self._free[kinds] = None
            return None
        with serial():
            made = one(chunks, parts)
        free.append(one)
        return bare(made)


# The blocks that were asked for last.
_known: Remembered[Any, BoundBlock] = Remembered(512)


def bound(job: Job, region: Region, shapes: Sequence[Shape]) -> BoundBlock:
    """Bind a block of an array, whose fields have such shapes."""
    work, shape = job.work, job.shape
    lacking = tuple(
        tuple([m == 1 != n for m, n in zip(aligned(own, len(shape), 1), shape, strict=True)])
        for own in shapes
    )
    place = _place(work, shape, region)
    key = (work.token, work.choices, tuple(work.wanted), shape, place, lacking)
    found = _known.get(key)
    if found is None:
        found = _known[key] = _made(work, shape, *place, lacking)
    return found


def computed(
    job: Job, region: Region, cuts: Sequence[Chunks], chunks: Sequence[Iterable[Any]]
) -> Any:
    """Compute a block of fields in such chunks, of each of which those come that it takes."""
    block = bound(job, region, [tuple(map(sum, own)) for own in cuts])
    if not region.points:
        return bare([np.empty(*result) for result in block.results])
    fields = []
    for own, some, dtype in zip(
        block.reads(region, cuts), chunks, job.work.field_dtypes, strict=True
    ):
        fields.append(np.asarray(put_together(own, some, partial(empty, dtype=dtype)), dtype))
    return block.of(fields)


def ranked(array: Array, ndim: int) -> Array:
    """The array with axes of one element for those that it lacks."""
    return array[(None,) * (ndim - array.ndim)] if array.ndim < ndim else array


def _place(work: Work, shape: Shape, region: Region) -> tuple[Shape, Region]:
    """An array in which the block is as in its own, and where it is there."""
    lengths, start, stop = [], [], []
    axes = zip(shape, region.start, region.stop, looks(work, len(shape)), strict=True)
    for n, a, b, (low, high, ring) in axes:
        near = 2 * (high - low + 1)
        length = first = b - a
        before = a < near and not (ring and length < n)
        after = n - b < near and not (ring and length < n)
        if low == high == 0:
            # Nothing looks along it, so each block is as the whole.
            first = 0
        elif (ring and length + near >= n) or (before and after):
            length, first = n, a
        else:
            length = 2 * _FAR
            first = a if before else length - (n - a) if after else _FAR
        lengths.append(length)
        start.append(first)
        stop.append(first + b - a)
    return tuple(lengths), Region(tuple(start), tuple(stop))


def _made(
    work: Work, shape: Shape, lengths: Shape, region: Region, lacking: tuple[tuple[bool, ...], ...]
) -> BoundBlock:
    axes = enumerate(zip(region.start, region.stop, lengths, strict=True), -len(lengths))
    needs = tuple(needed(work, (a, b), n, axis) for axis, (a, b, n) in axes)
    results = tuple(
        (output.finer(region.clip(output.extent)).shape, output.dtype)
        for output in outputs_of(work, lengths)
    )
    return BoundBlock(work, Domain(lengths, shape), region, needs, lacking, results)


def _strips(block: Region, spans: Sequence[Span], lacking: Sequence[bool] = ()) -> list[Strip]:
    """What chunks give of some positions, which are in a block and around it."""
    axes: list[list[tuple[int, slice, slice]]] = []
    lacks = lacking or (False,) * len(spans)
    for first, last, (a, b), none in zip(block.start, block.stop, spans, lacks, strict=True):
        if none:
            axes.append([(0, slice(0, 1), slice(0, 1))])
            continue
        pieces = [
            (-1, a, min(b, first), first),
            (0, max(a, first), min(b, last), first),
            (1, max(a, last), b, last),
        ]
        axes.append(
            [(o, slice(p - at, q - at), slice(p - a, q - a)) for o, p, q, at in pieces if p < q]
        )
    found = []
    for along in itertools.product(*axes):
        offset, source, target = zip(*along, strict=True) if along else ((), (), ())
        found.append(Strip(offset, source, target))
    return found
