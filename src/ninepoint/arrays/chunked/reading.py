"""Reading: tasks that read from sources what a block needs, and compute it.

    source of each field     |           any array that can be sliced           |
    one task                            [--[  block  ]--]      read, run, give the block

Far from the ends of the whole all blocks of one shape are alike, so the calls on one are prepared
once, as for blocks that are made of chunks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask._task_spec import DataNode, GraphNode, Task, TaskRef

from ...backends.memory import empty
from ...backends.threads import serial
from ..blocks import Part, parts
from ..borders import Array
from ..layout import Region, Shape
from ..regions import Span
from ..work import Block
from .grid import Chunks, cuts_of
from .job import Job, bare
from .layer import Key, Place
from .pieces import pieces
from .sources import Source


@dataclass(frozen=True, slots=True)
class Field:
    """How a field is read."""

    name: str
    shape: Shape
    dtype: np.dtype[Any]
    getter: Any
    options: tuple[tuple[str, Any], ...]

    @staticmethod
    def of(source: Source) -> Field:
        """How this source is read."""
        return Field(source.name, source.shape, source.dtype, source.getter, source.options)

    def __call__(self, held: Any, index: tuple[slice, ...]) -> Array:
        """Slice what is held, as Dask does it, with its locks."""
        found = self.getter(held, index, **dict(self.options))
        return np.asarray(found, self.dtype)

    def source(self, held: Any, key: str | None) -> Source:
        """What is read, in one chunk."""
        chunks = tuple((n,) for n in self.shape)
        return Source(held, key, self.getter, self.options, chunks, self.dtype, self.name)


@dataclass(frozen=True, slots=True)
class Reading:
    """What every task of a program on sources runs, where each chunk is a task."""

    job: Job
    # Where the results begin, which have fewer points than the fields under "valid".
    first: Shape
    fields: tuple[Field, ...]

    def __call__(self, slices: tuple[slice, ...], *held: Any) -> Any:
        """Read what the block needs, and compute it."""
        start = tuple(s.start + a for s, a in zip(slices, self.first, strict=True))
        stop = tuple(s.stop + a for s, a in zip(slices, self.first, strict=True))
        return block_of(self.job, self.fields, start, stop, *held)


@dataclass(frozen=True, slots=True)
class Regions:
    """The rule of blocks that are read from sources, and computed.

    `held` are what is sliced, or the names of the nodes that have it; `kept` has for each axis the
    blocks that there are, where these are not all.
    """

    name: str
    job: Job
    chunks: Chunks
    fields: tuple[Field, ...]
    held: tuple[Any, ...]
    kept: tuple[tuple[int, ...] | None, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many blocks there are along each axis."""
        return tuple(
            len(sizes if kept is None else kept)
            for sizes, kept in zip(self.chunks, self.kept, strict=True)
        )

    def _spans(self, places: Iterable[Place]) -> Iterator[tuple[Key, list[Span]]]:
        cuts = [
            cuts_of(sizes) if kept is None else [cuts_of(sizes)[k] for k in kept]
            for sizes, kept in zip(self.chunks, self.kept, strict=True)
        ]
        for place in places:
            yield (self.name, *place), [cut[k] for cut, k in zip(cuts, place, strict=True)]

    def tasks(self, places: Iterable[Place]) -> dict[Key, GraphNode]:
        """The blocks at these places."""
        made: dict[Any, GraphNode] = {}
        job: Any = self.job
        if self.job.apart:
            made[self.job.apart] = DataNode(self.job.apart, self.job)
            job = TaskRef(self.job.apart)
        for key, spans in self._spans(places):
            start, stop = (tuple(side) for side in zip(*spans, strict=True))
            made[key] = Task(key, block_of, job, self.fields, start, stop, *self.held)
        return made

    def sources(self, places: Iterable[Place]) -> dict[Key, set[Any]]:
        """The nodes that have what is sliced."""
        keys = {held.key for held in self.held if isinstance(held, TaskRef)}
        return {(self.name, *place): set(keys) for place in places}


def block_of(job: Job, fields: Sequence[Field], start: Shape, stop: Shape, *held: Any) -> Any:
    """Read what a block needs of each field, and compute it."""
    work, shape, region = job.work, job.shape, Region(start, stop)
    lengths = [(1,) * (len(shape) - len(field.shape)) + field.shape for field in fields]
    lacking = tuple(tuple(m == 1 != n for m, n in zip(own, shape, strict=True)) for own in lengths)
    # In one piece: all that a block needs is read together.
    found = pieces(work, shape, region, lacking, 0)
    if not region.points:
        return bare([np.empty(*result) for result in found.results])
    (piece,) = found.pieces
    # It is made in an array in which the block stands elsewhere.
    begin = [
        a + b - c for a, b, c in zip(piece.start, region.start, piece.region.start, strict=True)
    ]
    arrays = []
    for field, source, what in zip(fields, piece.fields, held, strict=True):
        taken = [(a, a + length) for a, length in zip(begin, source.shape, strict=True)]
        arrays.append(_read(field, what, taken, shape))
    with serial():
        block = Block(tuple(arrays), piece.start, found.domain)
        return bare(work.run(block, piece.region))


def _read(field: Field, held: Any, taken: Sequence[Span], shape: Shape) -> Array:
    """Read what is taken of a field; beyond the ends of an axis it begins again.

    It has all axes of the whole; one element for those that the field lacks.
    """
    lacks = len(shape) - len(field.shape)
    axes: list[Part] = [
        parts((n,), [span], whole)[0]
        for n, span, whole in zip(field.shape, taken[lacks:], shape[lacks:], strict=True)
    ]
    if all(len(axis.strips) == 1 for axis in axes):
        found = field(held, tuple(a.strips[0].source for a in axes))
        if found.shape == tuple(axis.length for axis in axes):
            return found[(None,) * lacks]
    result: Array = empty(tuple(axis.length for axis in axes), field.dtype)
    for strips in itertools.product(*(axis.strips for axis in axes)):
        index = tuple(strip.source for strip in strips)
        result[tuple(s.target for s in strips)] = field(held, index)
    return result[(None,) * lacks]
