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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ... import limits
from ...remembered import Remembered
from ..layout import Region, Shape, around
from ..regions import Span, fields_span, reach, wraps
from ..work import Domain
from .outputs import outputs_of

if TYPE_CHECKING:
    from .job import Work

# Where a chunk stands as seen from the block's own: -1, 0 or 1 for each axis.
Offset: TypeAlias = tuple[int, ...]

Slices: TypeAlias = tuple[slice, ...]

# Where arrays begin, and how long they are, whose ends are far away.
_FAR = 1 << 40


@dataclass(frozen=True, slots=True)
class Strip:
    """Elements of one chunk, and where they go.

    They are counted from the begin of the chunk; from its end, where it stands before the
    block's own.
    """

    offset: Offset
    source: tuple[Span, ...]
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


def pieces(
    work: Work, shape: Shape, region: Region, lacking: tuple[tuple[bool, ...], ...], size: int
) -> Pieces:
    """Give the pieces of a block of an array of this shape, whose fields have so many bytes.

    `lacking` says for each field along which axes it has one element for all points.
    """
    low, high, _ = looks(work, len(shape))[-1]
    rows = len(shape) > 2 and low < high and region.shape[-1] < shape[-1]
    parted = size >= (limits.current.pieces_of_rows_bytes if rows else limits.current.pieces_bytes)
    place = _place(work, shape, region)
    if not work.token:
        return _made(work, shape, *place, lacking, parted)
    key = (work.token, work.choices, tuple(work.wanted), shape, place, lacking, parted)
    found = _known.get(key)
    if found is None:
        found = _known[key] = _made(work, shape, *place, lacking, parted)
    return found


# The pieces that were asked for last.
_known: Remembered[Any, Pieces] = Remembered(512)

# How far programs look along the axes, and along which they take the fields as a ring.
_looks: Remembered[Any, tuple[tuple[int, int, bool], ...]] = Remembered(64)


def looks(work: Work, ndim: int) -> tuple[tuple[int, int, bool], ...]:
    """From where to where a program looks along each axis, and whether as along a ring."""
    key = work.token, tuple(work.wanted), ndim
    found = _looks.get(key) if work.token else None
    if found is None:
        sources = range(len(work.field_dtypes))
        nodes, wanted = work.nodes, work.wanted
        found = tuple(
            (*reach(nodes, wanted, sources, axis), wraps(nodes, axis)) for axis in range(-ndim, 0)
        )
        _looks[key] = found
    return found


def _place(work: Work, shape: Shape, region: Region) -> tuple[Shape, Region]:
    """An array in which the block is as in its own, and where it is there."""
    lengths, start, stop = [], [], []
    axes = zip(shape, region.start, region.stop, looks(work, len(shape)), strict=True)
    for n, a, b, (low, high, ring) in axes:
        near = 2 * (high - low + 1)
        length = b - a
        if low == high == 0:
            # Nothing looks along it, so each block is as the whole.
            lengths.append(length)
            start.append(0)
            stop.append(length)
            continue
        before = a < near and not (ring and length < n)
        after = n - b < near and not (ring and length < n)
        if (ring and length + near >= n) or (before and after):
            length, first = n, a
        elif before:
            length, first = 2 * _FAR, a
        elif after:
            length, first = 2 * _FAR, 2 * _FAR - (n - a)
        else:
            length, first = 2 * _FAR, _FAR
        lengths.append(length)
        start.append(first)
        stop.append(first + b - a)
    return tuple(lengths), Region(tuple(start), tuple(stop))


def _made(
    work: Work,
    shape: Shape,
    lengths: Shape,
    region: Region,
    lacking: tuple[tuple[bool, ...], ...],
    parted: bool,
) -> Pieces:
    maker = _Maker(work, lengths, region, lacking)
    outputs = outputs_of(work, lengths)
    extents = [region.clip(output.extent) for output in outputs]
    inner = maker.inner() if parted else None
    parts = [region] if inner is None else [inner, *around(inner, region)]
    found = []
    for part in parts:
        targets = tuple(
            _index(one.finer(part.clip(extent)), one.finer(extent).start)
            for one, extent in zip(outputs, extents, strict=True)
        )
        # Under "valid" there may be nothing of it in any result.
        if len(parts) == 1 or any(part.clip(extent).points for extent in extents):
            start, fields = maker.taken(part)
            found.append(Piece(part, start, fields, targets))
    results = tuple(
        (output.finer(extent).shape, output.dtype)
        for extent, output in zip(extents, outputs, strict=True)
    )
    return Pieces(Domain(lengths, shape), results, tuple(found))


def _index(region: Region, origin: Shape) -> Slices:
    return region.index(origin)[1:]


@dataclass(frozen=True, slots=True)
class _Maker:
    """A block of an array, in which a program is done."""

    work: Work
    shape: Shape
    block: Region
    lacking: tuple[tuple[bool, ...], ...]

    def inner(self) -> Region | None:
        """The points that need only the block's own ones; None if they are better not apart."""
        start, stop = list(self.block.start), list(self.block.stop)
        for axis, (low, high, ring) in enumerate(looks(self.work, len(self.shape))):
            a, b = start[axis], stop[axis]
            n = self.shape[axis]
            if (a, b) == (0, n) or low == high == 0:
                continue
            if b - a < limits.current.pieces_reaches * (high - low):
                return None
            start[axis] = a if a == 0 and not ring else a - low
            stop[axis] = b if b == n and not ring else b - high
        inner = Region(tuple(start), tuple(stop))
        if inner == self.block or not inner.points:
            return None
        for axis, (first, last) in enumerate(zip(self.block.start, self.block.stop, strict=True)):
            a, b = self.span((inner.start[axis], inner.stop[axis]), axis)
            if a < first or b > last:
                return None
        return inner

    def span(self, span: Span, axis: int) -> Span:
        """What of the fields is needed for some points along an axis."""
        nodes, wanted = self.work.nodes, self.work.wanted
        n = self.shape[axis]
        return fields_span(nodes, wanted, len(self.lacking), span, n, axis - len(self.shape))

    def taken(self, part: Region) -> tuple[Shape, tuple[Source, ...]]:
        """Where what some points need of the fields begins, and from which chunks it is taken."""
        spans = [
            self.span((a, b), axis)
            for axis, (a, b) in enumerate(zip(part.start, part.stop, strict=True))
        ]
        return tuple(a for a, _ in spans), tuple(
            self._source(spans, lacks) for lacks in self.lacking
        )

    def _source(self, spans: Sequence[Span], lacks: Sequence[bool]) -> Source:
        """What one field gives of these positions."""
        axes: list[list[tuple[int, Span, slice]]] = []
        shape = []
        for axis, ((a, b), lacking) in enumerate(zip(spans, lacks, strict=True)):
            if lacking:
                axes.append([(0, (0, 1), slice(0, 1))])
                shape.append(1)
                continue
            first, last = self.block.start[axis], self.block.stop[axis]
            parts = [
                (-1, a, min(b, first), first),
                (0, max(a, first), min(b, last), first),
                (1, max(a, last), b, last),
            ]
            axes.append(
                [(o, (p - at, q - at), slice(p - a, q - a)) for o, p, q, at in parts if p < q]
            )
            shape.append(b - a)
        strips = [
            Strip(
                tuple(one[0] for one in place),
                tuple(one[1] for one in place),
                tuple(one[2] for one in place),
            )
            for place in itertools.product(*axes)
        ]
        return Source(tuple(shape), tuple(strips))
