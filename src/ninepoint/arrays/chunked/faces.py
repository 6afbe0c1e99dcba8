"""Faces: what the neighbours of a chunk need of it, and a block computed with those of others.

    chunk      +----------+      low and high face of each axis that is cut, corners included,
               |##########|      copied: who holds them does not hold the chunk
               |##      ##|
               |##########|
               +----------+

A block is its chunk with the faces around it.  It is computed in pieces (see `pieces`), most of it
straight from the chunk into the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ...backends.memory import empty
from ...backends.scratch import Scratch, lent
from ...backends.threads import serial
from ..borders import Array
from ..layout import Region, Shape
from ..parts import write
from ..recognise import is_cupy
from ..work import Block, Domain
from .job import Job, Work, bare
from .pieces import Offset, Piece, Slices, Source, lacking_of, pieces, ranked
from .places import in_memory, nothing

# For each axis of a chunk how thick its faces are at its begin and at its end; 0 for none.
Depths: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Faces:
    """Copies of faces of a chunk of this shape: of each the axis, where it begins, and elements.

    Each is whole along the other axes, so that a corner lies in several.
    """

    shape: Shape
    faces: tuple[tuple[int, int, Array], ...]

    def __reduce__(self) -> Any:
        return Faces, (self.shape, self.faces)

    def __sizeof__(self) -> int:
        # What a scheduler takes for the size of it.
        return sum(int(face.nbytes) for _, _, face in self.faces) + 128

    def part(self, offset: Offset, index: Slices) -> Array:
        """The elements at these positions, of which a face has all.

        Along an axis on which the chunk stands before others (`offset` is -1) positions are
        counted from its end, and are negative.  Of more axes than the chunk has these are the
        last ones.
        """
        lacks = len(index) - len(self.shape)
        own = [
            (s.start + n, s.stop + n) if before < 0 else (s.start, s.stop)
            for before, n, s in zip(offset[lacks:], self.shape, index[lacks:], strict=True)
        ]
        for axis, first, face in self.faces:
            a, b = own[axis]
            if first <= a and b <= first + face.shape[axis]:
                own[axis] = a - first, b - first
                found: Array = face[tuple([slice(a, b) for a, b in own])]
                return found
        raise AssertionError((offset, index, self.shape))


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
    faces = []
    for axis, ((low, high), n) in enumerate(zip(depths, chunk.shape, strict=True)):
        for first, last in ((0, min(low, n)), (n - min(high, n), n)):
            if first < last:
                index = (slice(None),) * axis + (slice(first, last),)
                faces.append((axis, first, chunk[index]))
    if sum(face.size for _, _, face in faces) > chunk.size:
        faces = [(0, 0, chunk)]
    return Faces(chunk.shape, tuple([(axis, first, face.copy()) for axis, first, face in faces]))


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
        chunks.append(ranked(in_memory(next(taken)), ndim))
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
            whole: Array = chunk[source.strips[0].source]
            return whole
        dtype = self.work.field_dtypes[number]
        field: Array
        if self.there:
            field = nothing(chunk, source.shape, dtype)
        else:
            field = self.scratch.array(number, source.shape, dtype)
        for strip in source.strips:
            if strip.own:
                found = chunk[strip.source]
            else:
                found = around[strip.offset].part(strip.offset, strip.source)
            field[strip.target] = found
        return field
