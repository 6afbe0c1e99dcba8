"""Pieces: in which parts a block is computed, and what each of them takes from where.

    +--------------+      inner: straight from the block's own chunk, into the result
    | slab         |      slabs: as thick as the program looks, from copies of the chunk's own
    |--+--------+--|             points and of the faces around
    |  | inner  |  |
    |--+--------+--|      A block that is small, or hardly thicker than the program looks, is one
    | slab         |      piece: its chunk with all that is around, copied into one array.
    +--------------+

No point is computed but as it is in the whole array.  Far from the ends of that all blocks of one
shape are alike, so pieces are made once and remembered: positions are those in an array whose
ends are as near, or far away.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ... import limits
from ...backends.threads import serial
from ...remembered import Remembered
from ..borders import Array
from ..layout import Region, Shape, around
from ..regions import Span
from ..work import Block, Domain
from .grid import aligned
from .halos import looks, needed
from .job import Job, Work, bare
from .outputs import outputs_of

# Where a chunk stands as seen from the block's own: -1, 0 or 1 for each axis.
Offset: TypeAlias = tuple[int, ...]

Slices: TypeAlias = tuple[slice, ...]

# For each field along which axes it has one element for all points.
Lacking: TypeAlias = tuple[tuple[bool, ...], ...]

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

    @property
    def own(self) -> bool:
        """Whether they are of the block's own chunk."""
        return not any(self.offset)


@dataclass(frozen=True, slots=True)
class Source:
    """What a piece takes of one field, and the strips that fill it."""

    shape: Shape
    strips: tuple[Strip, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some points of a block: where what they need begins, and where they stand in each result."""

    region: Region
    start: Shape
    fields: tuple[Source, ...]
    targets: tuple[Slices, ...]


@dataclass(frozen=True, slots=True)
class Pieces:
    """A block in the array in which it is computed: its results, and the pieces that make them."""

    domain: Domain
    results: tuple[tuple[Shape, np.dtype[Any]], ...]
    pieces: tuple[Piece, ...]


# The pieces that were asked for last.
_known: Remembered[Any, Pieces] = Remembered(512)


def pieces(job: Job, region: Region, lacking: Lacking, size: int) -> Pieces:
    """Give the pieces of a block of an array, whose fields have so many bytes."""
    work, shape = job.work, job.shape
    low, high, _ = looks(work, len(shape))[-1]
    rows = len(shape) > 2 and low < high and region.shape[-1] < shape[-1]
    parted = size >= (limits.current.pieces_of_rows_bytes if rows else limits.current.pieces_bytes)
    place = _place(work, shape, region)
    key = (work.token, work.choices, tuple(work.wanted), shape, place, lacking, parted)
    found = _known.get(key)
    if found is None:
        found = _known[key] = _made(work, shape, *place, lacking, parted)
    return found


def lacking_of(shapes: Sequence[Shape], whole: Shape) -> Lacking:
    """Along which axes of the whole fields of these shapes have one element for all points."""
    return tuple(
        tuple([m == 1 != n for m, n in zip(aligned(shape, len(whole), 1), whole, strict=True)])
        for shape in shapes
    )


def spans_read(job: Job, region: Region, shapes: Sequence[Shape]) -> list[list[Span]]:
    """What a block that is one piece needs of fields of these shapes, along the axes they have.

    Positions are those in the whole; beyond the ends of a ring these are counted on.
    """
    return _spans(pieces(job, region, lacking_of(shapes, job.shape), 0).pieces[0], region, shapes)


def _spans(piece: Piece, region: Region, shapes: Sequence[Shape]) -> list[list[Span]]:
    # It is made in an array in which the block stands elsewhere.
    starts = zip(piece.start, region.start, piece.region.start, strict=True)
    begin = [a + b - c for a, b, c in starts]
    return [
        [(a, a + n) for a, n in zip(begin, source.shape, strict=True)][len(begin) - len(shape) :]
        for source, shape in zip(piece.fields, shapes, strict=True)
    ]


def computed(
    job: Job,
    region: Region,
    shapes: Sequence[Shape],
    read: Callable[[int, Sequence[Span]], Array],
) -> Any:
    """Compute a block of which `read(field, spans)` gives what it needs of fields of these shapes.

    All is there together, so it is one piece.
    """
    found = pieces(job, region, lacking_of(shapes, job.shape), 0)
    if not region.points:
        return bare([np.empty(*result) for result in found.results])
    piece, ndim = found.pieces[0], len(job.shape)
    arrays = [read(k, spans) for k, spans in enumerate(_spans(piece, region, shapes))]
    block = Block(tuple([ranked(array, ndim) for array in arrays]), piece.start, found.domain)
    with serial():
        return bare(job.work.run(block, piece.region))


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
    work: Work, shape: Shape, lengths: Shape, region: Region, lacking: Lacking, parted: bool
) -> Pieces:
    outputs = outputs_of(work, lengths)
    extents = [region.clip(output.extent) for output in outputs]
    inner = _inner(work, lengths, region) if parted else None
    parts = [region] if inner is None else [inner, *around(inner, region)]
    found = []
    for part in parts:
        targets = tuple(
            one.finer(part.clip(extent)).index(one.finer(extent).start)[1:]
            for one, extent in zip(outputs, extents, strict=True)
        )
        # Under "valid" there may be nothing of it in any result.
        if len(parts) == 1 or any(part.clip(extent).points for extent in extents):
            spans = _needed(work, lengths, part)
            fields = tuple(_source(region, spans, lacks) for lacks in lacking)
            found.append(Piece(part, tuple(a for a, _ in spans), fields, targets))
    results = tuple(
        (output.finer(extent).shape, output.dtype)
        for extent, output in zip(extents, outputs, strict=True)
    )
    return Pieces(Domain(lengths, shape), results, tuple(found))


def _needed(work: Work, shape: Shape, part: Region) -> list[Span]:
    """What of the fields is needed for some points of an array of this shape."""
    axes = enumerate(zip(part.start, part.stop, shape, strict=True), -len(shape))
    return [needed(work, (a, b), n, axis) for axis, (a, b, n) in axes]


def _inner(work: Work, shape: Shape, block: Region) -> Region | None:
    """The points that need only the block's own ones; None if they are better not apart."""
    start, stop = list(block.start), list(block.stop)
    for axis, (low, high, ring) in enumerate(looks(work, len(shape))):
        a, b, n = start[axis], stop[axis], shape[axis]
        if (a, b) == (0, n) or low == high == 0:
            continue
        if b - a < limits.current.pieces_reaches * (high - low):
            return None
        start[axis] = a if a == 0 and not ring else a - low
        stop[axis] = b if b == n and not ring else b - high
    inner = Region(tuple(start), tuple(stop))
    if inner == block or not inner.points:
        return None
    for axis, (a, b) in enumerate(_needed(work, shape, inner)):
        if a < block.start[axis] or b > block.stop[axis]:
            return None
    return inner


def _source(block: Region, spans: Sequence[Span], lacks: Sequence[bool]) -> Source:
    """What one field gives of some positions, which are in a block and around it."""
    axes: list[list[tuple[int, slice, slice]]] = []
    shape = []
    for axis, ((a, b), lacking) in enumerate(zip(spans, lacks, strict=True)):
        if lacking:
            axes.append([(0, slice(0, 1), slice(0, 1))])
            shape.append(1)
            continue
        first, last = block.start[axis], block.stop[axis]
        parts = [
            (-1, a, min(b, first), first),
            (0, max(a, first), min(b, last), first),
            (1, max(a, last), b, last),
        ]
        axes.append(
            [(o, slice(p - at, q - at), slice(p - a, q - a)) for o, p, q, at in parts if p < q]
        )
        shape.append(b - a)
    strips = []
    for along in itertools.product(*axes):
        offset, source, target = zip(*along, strict=True) if along else ((), (), ())
        strips.append(Strip(offset, source, target))
    return Source(tuple(shape), tuple(strips))
