"""Faces: what the neighbours of a chunk need of it, and a block computed with those of others.

    chunk      +----------+      low and high face of each axis that is cut, corners included,
               |##########|      copied: who holds them does not hold the chunk
               |##      ##|
               |##########|
               +----------+

A block is its chunk with the faces around it.  One call takes the chunk as it lies (see `bound`);
several take a copy of it with what is around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..borders import Array
from ..layout import Region, Shape
from .bound import BoundBlock, Offset, Parts, Slices, bound, fill, ranked
from .job import Job, bare, in_memory, nothing

# For each axis of a chunk how thick its faces are at its begin and at its end; 0 for none.
Depths: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Faces:
    """Copies of faces of a chunk of this shape: of each the axis, where it begins, and elements.

    Each is whole along the other axes, so that a corner lies in several.
    """

    shape: Shape
    faces: tuple[tuple[int, int, Array], ...]

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

    def parts(number: int, offset: Offset, index: Slices) -> Array:
        faces = around[number].get(offset)
        found: Array = faces.part(offset, index) if faces else chunks[number][index]
        return found

    block = bound(job, region, [chunk.shape for chunk in chunks])
    if not region.points:
        return bare([nothing(chunks[0], *result) for result in block.results])
    made = None
    if made is not None:
        return made
    return block.of([_together(block, k, chunk, parts) for k, chunk in enumerate(chunks)])


def _together(block: BoundBlock, number: int, chunk: Array, parts: Parts) -> Array:
    """What a block takes of a field: of its own chunk, and of what is around, in one array."""
    strips = block.strips(number)
    if len(strips) == 1 and not any(strips[0].offset):
        whole: Array = chunk[strips[0].source]
        return whole
    # It lies where the chunk does, which may be a GPU.
    field: Array = nothing(chunk, block.shape(number), block.work.field_dtypes[number])
    fill(field, strips, number, parts)
    return field
