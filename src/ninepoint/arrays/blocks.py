"""Blocks: what of a cut array each needs, put together from chunks, or from faces of them.

    chunks of an axis      |  0  |  1  | 2 |    3    |
    output block 1               [-----]
    with neighbours -2..1      [---------]          needs chunks 0, 1, 2

    chunk      +----------+      low and high face of each axis that is cut, corners included,
               |##########|      copied: who holds them does not hold the chunk
               |##      ##|
               |##########|
               +----------+

Axes are independent of each other, so an axis has one `Part` per output block (a thousand for a
million blocks of a square), and a block is the product of its parts. Positions are global:
chunks may be of any size, also smaller than the reach, and a part may need chunks from the
far end, where an axis is a ring.

No point is computed but as it is in the whole array.  Far from the ends of that all blocks of one
shape are alike, so they are bound once and remembered: positions are those in an array whose ends
are as near, or far away.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np

from ..backends.memory import empty
from ..backends.threads import serial
from .accepted import is_cupy, single_or_tuple
from .grid import Chunks, outputs_of
from .layout import Array, Region, Shape
from .regions import Block, Domain, Program, Span, looking

# For each axis of a chunk how thick its faces are at its begin and at its end; 0 for none.
Depths: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Part:
    """One axis of one block: its length, and of each chunk that it needs where pieces go.

    Of a piece there are the positions in the block, and those in the chunk.
    """

    length: int
    pieces: Mapping[int, Sequence[tuple[slice, slice]]]


@lru_cache(maxsize=512)
def part_of(chunks: Shape, span: Span) -> Part:
    """Give the part for a span of an axis, along which a field has `chunks`.

    Beyond the ends of the axis it begins again.
    """
    (first, last), ends = span, list(itertools.accumulate(chunks))
    pieces: dict[int, list[tuple[slice, slice]]] = {}
    at, n = first, ends[-1]
    while at < last:
        # The chunk that has the element, which is not one without elements.
        chunk = bisect_right(ends, at % n)
        start = at % n - (ends[chunk - 1] if chunk else 0)
        stop = min(last, at + ends[chunk] - at % n)
        piece = slice(at - first, stop - first), slice(start, start + stop - at, 1)
        pieces.setdefault(chunk, []).append(piece)
        at = stop
    # A block without elements is a part of some chunk, so that it is of its kind.
    return Part(last - first, dict(sorted(pieces.items())) or {0: [(slice(0, 0), slice(0, 0))]})


def put_together(
    own: Sequence[Part], chunks: Iterable[Any], make: Callable[[Shape], Array]
) -> Array:
    """Give a block: a view where it is a part of one chunk, or filled into what `make` makes.

    The chunks that its parts need come in C order of their places, and each is held only for a
    while.  They are whatever can be sliced.
    """
    axes = [list(part.pieces.values()) for part in own]
    if all(len(pieces) == len(pieces[0]) == 1 for pieces in axes):
        (chunk,) = chunks
        found: Array = chunk[tuple(source for ((_, source),) in itertools.chain(*axes))]
        return found
    result = make(tuple(part.length for part in own))
    for within, chunk in zip(itertools.product(*axes), chunks, strict=True):
        for along in itertools.product(*within):
            target, source = zip(*along, strict=True)
            result[target] = chunk[source]
    return result


@dataclass(frozen=True, slots=True)
class Faces:
    """Copies of faces of a chunk: of each the axis, where it begins, and its elements.

    Each is whole along the other axes, so that a corner lies in several.  They are sliced as the
    chunk is, where a face has all that is asked for.
    """

    faces: tuple[tuple[int, int, Array], ...]

    def __sizeof__(self) -> int:
        # What a scheduler takes for the size of it.
        return sum(int(face.nbytes) for _, _, face in self.faces) + 128

    def __getitem__(self, index: tuple[slice, ...]) -> Array:
        for axis, first, face in self.faces:
            a, b = index[axis].start, index[axis].stop
            if first <= a and b <= first + face.shape[axis]:
                within = slice(a - first, b - first)
                found: Array = face[(*index[:axis], within, *index[axis + 1 :])]
                return found
        raise AssertionError(index)


def faces_of(chunk: Any, depths: Depths) -> Faces:
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
    return Faces(tuple([(axis, first, face.copy()) for axis, first, face in faces]))


@dataclass(frozen=True, slots=True)
class Job:
    """What every task of one program has in common: the program, and the shapes of its fields.

    `shape` is that of all of them together.
    """

    program: Program
    shape: Shape
    fields: tuple[Shape, ...]

    def domain(self, region: Region) -> Domain:
        """An array in which a block is as in its own: what it is there, and what it needs."""
        lengths, spans, needs = [], [], []
        axes = range(-len(self.shape), 0)
        for axis, n, own in zip(axes, self.shape, region.spans, strict=True):
            one = looking(self.program, axis)
            span, length = one.placed(own, n)
            lengths.append(length)
            spans.append(span)
            needs.append(one.needs(span, length))
        return Domain(tuple(lengths), Region(tuple(needs)), Region(tuple(spans)), self.shape)

    def reads(self, domain: Domain, begin: Shape, cuts: Sequence[Chunks]) -> list[list[Part]]:
        """How what a block takes is put together, of fields in such chunks, in which it begins so.

        Of a field that has one element along an axis it takes that.
        """
        ends = zip(domain.has.spans, begin, domain.region.start, strict=True)
        spans = [(a + at - first, b + at - first) for (a, b), at, first in ends]
        found = []
        for own, chunks in zip(self.fields, cuts, strict=True):
            missing = len(spans) - len(own)
            axes = zip(chunks, own, self.shape[missing:], spans[missing:], strict=True)
            found.append(
                [part_of(sizes, (0, 1) if m == 1 != n else span) for sizes, m, n, span in axes]
            )
        return found

    def run(self, domain: Domain, fields: Iterable[Array]) -> list[Array]:
        """The results, of what a block takes of the fields."""
        ndim = len(self.shape)
        arrays = tuple([field[(None,) * (ndim - field.ndim)] for field in fields])
        found: list[Array] = self.program.run(Block(arrays, domain))
        return found

    def nothing(self, domain: Domain, like: Any) -> list[Array]:
        """The results of a block that has no points, where some array lies."""
        found = []
        for output in outputs_of(self.program, domain.shape):
            points = zip(domain.region.clip(output.extent).shape, output.factors, strict=True)
            found.append(nothing(like, tuple([n * k for n, k in points]), output.dtype))
        return found


def computed(
    job: Job,
    region: Region,
    begin: Shape,
    cuts: Sequence[Chunks],
    chunks: Iterable[Any],
    like: Any = None,
) -> Any:
    """Compute a block, as far as the wanted values have its points.

    Parameters
    ----------
    job : Job
    region : Region
        The points of the block.
    begin : tuple of int
        Where in the chunks the block begins.
    cuts : sequence
        How each field is cut: all of it, or what there is near the block.
    chunks : iterable
        Of one field after the other those chunks that the block takes something of, in C order of
        their places: whatever can be sliced.
    like : array, optional
        One that lies where the results are to lie.
    """
    domain, given = job.domain(region), iter(chunks)
    if not region.points:
        return single_or_tuple(job.nothing(domain, like))
    fields = []
    for own, dtype in zip(job.reads(domain, begin, cuts), job.program.field_dtypes, strict=True):
        some = itertools.islice(given, math.prod(len(part.pieces) for part in own))
        field = put_together(own, some, partial(nothing, like, dtype=dtype))
        fields.append(in_memory(field, dtype))
    with serial():
        return single_or_tuple(job.run(domain, fields))


def block_of(job: Job, region: Region, begin: Shape, sizes: Chunks, *given: Any) -> Any:
    """Compute a block of its chunks and of faces of others, or of what can be sliced.

    `sizes` are how long the chunks near it are along each axis of the whole.
    """
    cuts = [sizes[len(sizes) - len(shape) :] for shape in job.fields]
    chunks = [one if hasattr(one, "__getitem__") else np.asarray(one) for one in given]
    return computed(job, region, begin, cuts, chunks, next(filter(is_cupy, chunks), None))


def whole_of(job: Job, *blocks: Any) -> Any:
    """Compute blocks whose core axes are whole: as if they were arrays of their own."""
    with serial():
        return single_or_tuple(job.program.run(Block(tuple(map(in_memory, blocks)))))


# Arrays that lie where chunks lie.


def meta_of(like: Any, ndim: int, dtype: np.dtype) -> Any:
    """Give an array without elements, of the kind that chunks like this one make."""
    return nothing(like._meta, (0,) * ndim, dtype)


def nothing(like: Any, shape: Shape, dtype: np.dtype) -> Any:
    """Give an array of this shape where another one lies."""
    if not is_cupy(like):
        return empty(shape, dtype)
    # Imported here: CuPy is optional, and the caller has it.
    from ninepoint.backends.cuda import driver

    return driver.empty(shape, dtype)


def in_memory(block: Any, dtype: Any = None) -> Any:
    """Give a chunk as an array that can be computed with where it is."""
    return block if is_cupy(block) else np.asarray(block, dtype)
