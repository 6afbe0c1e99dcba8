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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ...backends.memory import empty
from ...backends.threads import serial
from ...remembered import Remembered
from ..blocks import Part, parts, put_together
from ..borders import Array
from ..layout import Region, Shape
from ..regions import Span
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
