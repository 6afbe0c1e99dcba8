"""Faces: what the neighbours of a chunk need of it, and a block computed with those of others.

    chunk      +----------+      low and high face of each axis that is cut, corners included,
               |##########|      copied into one small array: who holds them does not hold
               |##      ##|      the chunk
               |##########|
               +----------+

A block is its chunk with the faces around it.  It is computed in pieces (see `pieces`), most of it
straight from the chunk into the result.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ...backends.memory import empty
from ...backends.scratch import Scratch, lent
from ...backends.threads import serial
from ..borders import Array
from ..layout import Region, Shape
from ..parts import write
from ..recognise import is_cupy
from ..regions import Span
from ..work import Block, Domain
from .job import Job, Work, bare
from .pieces import Offset, Piece, Source, lacking_of, pieces
from .places import in_memory, nothing

# For each axis of a chunk how thick its faces are at its begin and at its end; 0 for none.
Depths: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Faces:
    """Copies of faces of a chunk of this shape, one after the other in one array.

    Each is whole along the other axes, so that a corner lies in several.
    """

    shape: Shape
    depths: tuple[tuple[int, int], ...]
    memory: Array

    def __reduce__(self) -> Any:
        return Faces, (self.shape, self.depths, self.memory)

    def __sizeof__(self) -> int:
        # What a scheduler takes for the size of it.
        return int(self.memory.nbytes) + sys.getsizeof(self.shape) + 128

    def part(self, offset: Offset, spans: Sequence[Span]) -> Array:
        """The elements at these positions, of which a face has all.

        Along an axis on which the chunk stands before others (`offset` is -1) positions are
        counted from its end, and are negative.  Of more axes than the chunk has these are the
        last ones.
        """
        lacks = len(spans) - len(self.shape)
        own = [
            (a + n, b + n) if before < 0 else (a, b)
            for before, n, (a, b) in zip(offset[lacks:], self.shape, spans[lacks:], strict=True)
        ]
        for axis, first, face, begin, end in _faces(self.shape, self.depths):
            a, b = own[axis]
            if first <= a and b <= first + face[axis]:
                array = self.memory[begin:end].reshape(face)
                own[axis] = a - first, b - first
                found: Array = array[tuple(slice(a, b) for a, b in own)]
                return found
        raise AssertionError((offset, spans, self.shape, self.depths))


@lru_cache(maxsize=256)
def _faces(
    shape: Shape, depths: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int, Shape, int, int], ...]:
    """Of each face its axis, the position where it begins, its shape, and its place in memory."""
    begin = 0
    found = []
    for axis, (low, high) in enumerate(depths):
        for first, thick in ((0, low), (shape[axis] - high, high)):
            if thick:
                face = (*shape[:axis], thick, *shape[axis + 1 :])
                end = begin + math.prod(face)
                found.append((axis, first, face, begin, end))
                begin = end
    return tuple(found)


def cut(chunk: Any, depths: Depths) -> Faces:
    """Copy the faces of a chunk; all of it, where they are as large as that.

    Parameters
    ----------
    chunk : array
    depths : sequence of pairs
        For each axis how many elements at its begin the chunk before needs, and how many at its
        end the chunk after; as many as there are at most.
    """
    chunk = in_memory(chunk)
    shape = chunk.shape
    thick = tuple((min(a, n), min(b, n)) for (a, b), n in zip(depths, shape, strict=True))
    size = sum(end - begin for *_, begin, end in _faces(shape, thick))
    if shape and size > chunk.size:
        size, thick = chunk.size, ((shape[0], 0), *(((0, 0),) * (len(shape) - 1)))
    memory = nothing(chunk, (size,), chunk.dtype)
    for axis, first, face, begin, end in _faces(shape, thick):
        part = (slice(None),) * axis + (slice(first, first + face[axis]),)
        memory[begin:end].reshape(face)[...] = chunk[part]
    return Faces(shape, thick, memory)


def block_of(
    job: Job, start: Shape, stop: Shape, offsets: Sequence[Sequence[Offset]], *given: Any
) -> Any:
    """Compute a block, as far as the wanted values have its points.

    Parameters
    ----------
    job : Job
    start, stop : tuple of int
        The block: the points of the chunks.
    offsets : sequence
        For each field where the chunks around stand whose faces are given: -1, 0 or 1 for each
        axis of the whole.  There are none beyond the ends of the whole, but for a ring.
    *given : arrays and Faces
        The chunk of each field, followed by those faces; a field may lack axes, or have one
        element along an axis.
    """
    region, ndim = Region(start, stop), len(job.shape)
    chunks: list[Any] = []
    around: list[dict[Offset, Faces]] = []
    taken = iter(given)
    for beside in offsets:
        chunk = in_memory(next(taken))
        chunks.append(chunk[(None,) * (ndim - chunk.ndim)] if chunk.ndim < ndim else chunk)
        around.append({offset: next(taken) for offset in beside})
    there = any(map(is_cupy, chunks))
    size = sum(chunk.nbytes for chunk in chunks) if job.work.parted and not there else 0
    found = pieces(job, region, lacking_of([chunk.shape for chunk in chunks], job.shape), size)
    if not region.points:
        return bare([nothing(chunks[0], *result) for result in found.results])
    with serial(), lent() as scratch:
        block = _Block(job.work, found.domain, chunks, around, scratch, there)
        if len(found.pieces) == 1:
            return bare(block.computed(found.pieces[0]))
        results = [empty(*result) for result in found.results]
        for piece in found.pieces:
            block.write(piece, results)
    return bare(results)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of fields: its own chunks, the faces around it, and memory to put them together."""

    work: Work
    domain: Domain
    chunks: Sequence[Array]
    around: Sequence[Mapping[Offset, Faces]]
    scratch: Scratch
    # Whether they lie on a GPU.
    there: bool

    def computed(self, piece: Piece, outs: Mapping[int, Array] | None = None) -> list[Array]:
        """What is wanted of some points."""
        fields = [self._field(source, number) for number, source in enumerate(piece.fields)]
        return self.work.run(Block(tuple(fields), piece.start, self.domain), piece.region, outs)

    def write(self, piece: Piece, results: Sequence[Array]) -> None:
        """Compute some points, and write what is wanted of them where they stand."""
        targets = [result[where] for result, where in zip(results, piece.targets, strict=True)]
        outs = dict(zip(self.work.wanted, targets, strict=True))
        for target, made in zip(targets, self.computed(piece, outs), strict=True):
            if made is not target and not np.may_share_memory(target, made):
                write(target, made)

    def _field(self, source: Source, number: int) -> Array:
        """What a piece needs of a field."""
        chunk, around = self.chunks[number], self.around[number]
        if len(source.strips) == 1 and source.strips[0].own:
            whole: Array = chunk[tuple([slice(a, b) for a, b in source.strips[0].source])]
            return whole
        dtype = self.work.field_dtypes[number]
        field: Array
        if self.there:
            field = nothing(chunk, source.shape, dtype)
        else:
            field = self.scratch.array(number, source.shape, dtype)
        for strip in source.strips:
            if strip.own:
                found = chunk[tuple([slice(a, b) for a, b in strip.source])]
            else:
                found = around[strip.offset].part(strip.offset, strip.source)
            field[strip.target] = found
        return field
