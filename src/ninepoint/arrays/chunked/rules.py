r"""Rules: what the tasks of an array are made of, written for those blocks that somebody asks for.

    chunk ----------------> block        at most two tasks a chunk: one copies the faces that
      \--> faces --> blocks around       somebody needs, one computes

What moves between workers are faces, thin as the program looks far.

    chunks  |.|.|.|.|.|.|      chunks thinner than a program looks far are computed in groups;
    groups  |  .  |  .  |      what is computed is cut as the chunks were
    result  |.|.|.|.|.|.|

Nothing is rechunked for good: a group lives for as long as it is computed with.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from dask._task_spec import DataNode, Task, TaskRef

from ..blocks import parts, put_together, spans_of
from ..borders import Array
from ..layout import Region
from .bound import Offset
from .faces import Depths, block_of, cut
from .grid import Axis, Chunks, axes_of
from .job import Job, in_memory, nothing, whole_of
from .layer import Place, Symbolic
from .sources import Source, read_block


@dataclass(frozen=True, slots=True)
class Field:
    """A field of blocks: the names of its array and of its faces, and which axes it has.

    It is cut as the whole is along the axes that it has; along others it lacks the axis, or has
    one element.
    """

    name: str
    faces: str
    ndim: int
    cut: tuple[bool, ...]

    def at(self, place: Place) -> Place:
        """The place of its chunk for a block."""
        own = [k if cut else 0 for k, cut in zip(place, self.cut, strict=True)]
        return tuple(own[len(own) - self.ndim :])

    def depths(self, axes: Sequence[Axis], place: Place) -> Depths:
        """How thick the faces are that its chunk for a block gives."""
        own = zip(axes, place, self.cut, strict=True)
        found = [axis.depths(k) if cut else (0, 0) for axis, k, cut in own]
        return tuple(found[len(found) - self.ndim :])

    def beside(self, around: list[tuple[Offset, Place]]) -> list[tuple[Offset, Place]]:
        """Where it has a chunk of its own, of the chunks around one."""
        if all(self.cut):
            return around
        return [
            (offset, at)
            for offset, at in around
            if not any(far and not cut for far, cut in zip(offset, self.cut, strict=True))
        ]


@dataclass(frozen=True, slots=True)
class Blocks:
    """The rule of blocks that are made of chunks, and of faces of those around.

    Each may be computed `alone`, as an array of its own: that is a layer of Dask's kind.
    """

    name: str
    job: Job
    chunks: Chunks
    fields: tuple[Field, ...]
    alone: bool = False

    @property
    def below(self) -> Iterable[str]:
        """The names of the fields."""
        return [field.name for field in self.fields]

    def whole(self) -> tuple[Symbolic, dict[Any, Any]]:
        """The layer of blocks that are made alone, and the node of the job, if it has one."""
        nodes, job = self.job.node
        ndim, pairs, counts = len(self.chunks), [job, None], {}
        for field in self.fields:
            cuts = zip(self.chunks, field.cut, strict=True)
            own = [len(sizes) if cut else 1 for sizes, cut in cuts]
            pairs += [field.name, range(ndim - field.ndim, ndim)]
            counts[field.name] = tuple(own[ndim - field.ndim :])
        return Symbolic.of(self.name, ndim, whole_of, pairs, counts), nodes

    def tasks(self, places: Iterable[Place]) -> dict[Any, Any]:
        """The blocks at these places, and the faces that they need."""
        made, job = self.job.node
        axes = axes_of(self.job.work, self.chunks)
        near = [[axis.near(k) for k in range(len(axis.cuts))] for axis in axes]
        refs: list[dict[Place, TaskRef]] = [{} for _ in self.fields]
        for place in places:
            tables = [table[k] for table, k in zip(near, place, strict=True)]
            stand = itertools.product(*[offsets for offsets, _ in tables])
            numbers = itertools.product(*[numbers for _, numbers in tables])
            around = list(zip(stand, numbers, strict=True))[1:]
            needed: list[TaskRef] = []
            offsets: list[tuple[Offset, ...]] = []
            for field, known in zip(self.fields, refs, strict=True):
                there = field.beside(around)
                for _, at in there:
                    if at not in known:
                        known[at] = ref = TaskRef((field.faces, *field.at(at)))
                        chunk = TaskRef((field.name, *field.at(at)))
                        made[ref.key] = Task(ref.key, cut, chunk, field.depths(axes, at))
                offsets.append(tuple([offset for offset, _ in there]))
                needed.append(TaskRef((field.name, *field.at(place))))
                needed += [known[at] for _, at in there]
            spans = [axis.cuts[k] for axis, k in zip(axes, place, strict=True)]
            start, stop = tuple([a for a, _ in spans]), tuple([b for _, b in spans])
            key = (self.name, *place)
            made[key] = Task(key, block_of, job, start, stop, tuple(offsets), *needed)
        return made


@dataclass(frozen=True, slots=True)
class Reads:
    """The rule of blocks that read what they need from sources, and depend on nothing."""

    name: str
    job: Job
    chunks: Chunks
    sources: tuple[Source, ...]

    @property
    def below(self) -> Iterable[str]:
        """None: sources are nodes of the blocks' own."""
        return ()

    def tasks(self, places: Iterable[Place]) -> dict[Any, Any]:
        """The blocks at these places."""
        made, job = self.job.node
        made |= {one.key: DataNode(one.key, one.held) for one in self.sources}
        refs = [TaskRef(one.key) for one in self.sources]
        axes = [spans_of(sizes) for sizes in self.chunks]
        for place in places:
            spans = [axis[k] for axis, k in zip(axes, place, strict=True)]
            region = Region(tuple([a for a, _ in spans]), tuple([b for _, b in spans]))
            key = (self.name, *place)
            made[key] = Task(key, read_block, job, region, *refs)
        return made


@dataclass(frozen=True, slots=True)
class Recut:
    """The rule of an array in other chunks, each put together from those that have its points.

    Where those are tuples of arrays it is of those of this `number`.
    """

    name: str
    source: str
    dtype: np.dtype[Any]
    before: Chunks
    chunks: Chunks
    number: int | None = None

    @property
    def below(self) -> Iterable[str]:
        """The name of the other array."""
        return [self.source]

    def tasks(self, places: Iterable[Place]) -> dict[Any, Any]:
        """The blocks at these places."""
        # Texts: lengths that nobody knows are alike.
        if self.number is not None and repr(self.before) == repr(self.chunks):
            pick = itemgetter(self.number)
            tasks = [Task((self.name, *p), pick, TaskRef((self.source, *p))) for p in places]
            return {task.key: task for task in tasks}
        axes = [
            parts(before, spans_of(sizes), sum(before))
            for before, sizes in zip(self.before, self.chunks, strict=True)
        ]
        made: dict[Any, Any] = {}
        for place in places:
            own = tuple([axis[k] for axis, k in zip(axes, place, strict=True)])
            needed = itertools.product(*[part.chunks for part in own])
            refs = [TaskRef((self.source, *at)) for at in needed]
            key = (self.name, *place)
            made[key] = Task(key, _recut, own, self.dtype, self.number, *refs)
        return made


def _recut(own: Sequence[Any], dtype: np.dtype[Any], number: int | None, *chunks: Any) -> Array:
    there = [in_memory(chunk if number is None else chunk[number]) for chunk in chunks]
    return put_together(own, there, partial(nothing, there[0], dtype=dtype))


# What the blocks of one lazy array are made of.
Rule: TypeAlias = Blocks | Reads | Recut


class Rules(NamedTuple):
    """Of fields that are put together before, of blocks, and of results that are taken of these.

    There are no results where the blocks are the only one.
    """

    recut: list[Recut]
    blocks: Blocks | Reads
    results: list[Recut]
