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
from typing import Any, NamedTuple

import numpy as np
from dask._task_spec import DataNode, Task, TaskRef
from dask.base import tokenize

from ..blocks import parts, put_together
from ..borders import Array
from .bound import Offset
from .faces import block_of, cut
from .grid import Chunks, cut_as, cuts_of
from .halos import axes_of, grouped
from .job import Job
from .layer import Place
from .outputs import Output
from .places import in_memory, nothing


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

    def has(self, offset: Offset) -> bool:
        """Whether it has a chunk of its own where another one stands."""
        return not any(at and not cut for at, cut in zip(offset, self.cut, strict=True))


@dataclass(frozen=True, slots=True)
class Blocks:
    """The rule of blocks that are made of chunks and faces."""

    name: str
    job: Job
    chunks: Chunks
    fields: tuple[Field, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many blocks there are along each axis."""
        return tuple(map(len, self.chunks))

    def tasks(self, places: Iterable[Place]) -> dict[Any, Any]:
        """The blocks at these places, and the faces that they need."""
        axes = axes_of(self.job.work, self.chunks)
        near = [[axis.near(k) for k in range(len(axis.cuts))] for axis in axes]
        made: dict[Any, Any] = {}
        job: Any = self.job
        if self.job.apart:
            made[self.job.apart] = DataNode(self.job.apart, self.job)
            job = TaskRef(self.job.apart)
        refs: list[dict[Place, TaskRef]] = [{} for _ in self.fields]
        for place in places:
            around = itertools.product(*[table[k] for table, k in zip(near, place, strict=True)])
            beside = [tuple(zip(*found, strict=True)) for found in around][1:]
            needed: list[TaskRef] = []
            offsets: list[tuple[Offset, ...]] = []
            for field, known in zip(self.fields, refs, strict=True):
                there = [pair for pair in beside if field.has(pair[0])]
                for _, at in there:
                    if at not in known:
                        known[at] = TaskRef((field.faces, *field.at(at)))
                offsets.append(tuple([offset for offset, _ in there]))
                needed.append(TaskRef((field.name, *field.at(place))))
                needed += [known[at] for _, at in there]
            spans = [axis.cuts[k] for axis, k in zip(axes, place, strict=True)]
            start, stop = tuple([a for a, _ in spans]), tuple([b for _, b in spans])
            key = (self.name, *place)
            made[key] = Task(key, block_of, job, start, stop, tuple(offsets), *needed)
        for field, known in zip(self.fields, refs, strict=True):
            for at, ref in known.items():
                depths = [
                    axis.depths(k) if cut else (0, 0)
                    for axis, k, cut in zip(axes, at, field.cut, strict=True)
                ]
                own = tuple(depths[len(depths) - field.ndim :])
                chunk = TaskRef((field.name, *field.at(at)))
                made[ref.key] = Task(ref.key, cut, chunk, own)
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
    def counts(self) -> tuple[int, ...]:
        """How many blocks there are along each axis."""
        return tuple(map(len, self.chunks))

    def tasks(self, places: Iterable[Place]) -> dict[Any, Any]:
        """The blocks at these places."""
        axes = [
            parts(before, cuts_of(sizes), sum(before))
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


class Rules(NamedTuple):
    """Of fields that are put together before, of blocks, and of results that are taken of these.

    There are no results where the blocks are the only one.
    """

    recut: list[Recut]
    blocks: Blocks
    results: list[Recut]


def rules_of(
    job: Job,
    outputs: Sequence[Output],
    chunks: Chunks,
    inputs: Sequence[tuple[str, Chunks]],
    whole: str,
    names: Sequence[str],
) -> Rules:
    """The rules of outputs in these chunks, of inputs of which the names and chunks are given.

    The blocks are called `whole` where they are not the only result.
    """
    groups = grouped(job.work, chunks)
    direct = len(outputs) == 1 and groups == chunks
    direct = direct and outputs[0].blocks(groups) == outputs[0].chunks(groups)
    axes = axes_of(job.work, groups)
    # A text: Dask takes long to go through many numbers.
    thick = repr([[axis.depths(k) for k in range(len(axis.cuts))] for axis in axes])
    recut: list[Recut] = []
    fields = []
    for (source, own), dtype in zip(inputs, job.work.field_dtypes, strict=True):
        shape = tuple(map(sum, own))
        wanted, missing = cut_as(shape, groups), len(groups) - len(own)
        sizes = zip(shape, groups[missing:], strict=True)
        cut = (False,) * missing + tuple(n == sum(axis) for n, axis in sizes)
        if wanted != own:
            joined = f"joined-{tokenize(source, wanted)}"
            recut.append(Recut(joined, source, dtype, own, wanted))
            source = joined
        faces = f"faces-{tokenize(source, cut, thick)}"
        fields.append(Field(source, faces, len(own), cut))
    blocks = Blocks(names[0] if direct else whole, job, groups, tuple(fields))
    results = [] if direct else [
        Recut(
            name, whole, output.dtype, output.blocks(groups), output.chunks(chunks),
            k if len(outputs) > 1 else None,
        )
        for k, (name, output) in enumerate(zip(names, outputs, strict=True))
    ]  # fmt: skip
    return Rules(recut, blocks, results)
