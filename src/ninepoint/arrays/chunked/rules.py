r"""Rules: what the tasks of an array are made of, written for those blocks that somebody asks for.

    chunk ----------------> block        at most two tasks a chunk: one copies the faces that
      \--> faces --> blocks around       somebody needs, one computes

What moves between workers are faces, thin as the program looks far.

Chunks thinner than a program looks far are put together before, and results cut as these were, by
Dask itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dask._task_spec import Task, TaskRef

from ..layout import Region
from .bound import Depths, block_of, faces_of, read_block
from .grid import Axis, Chunks, Near, axes_of
from .job import Job, whole_of
from .layer import Place, Symbolic
from .sources import Source

# Tasks by their keys, and what a task is given by those of others.
Tasks: TypeAlias = dict[Any, Any]
Refs: TypeAlias = list[TaskRef]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of blocks: the names of its array and of its faces.

    Along the axes where that is `cut` it is cut as the whole is; along others it has one element.
    Axes that it lacks are the first ones.
    """

    name: str
    faces: str
    cut: tuple[bool, ...]

    def given(self, place: Place, near: Sequence[Near], axes: Sequence[Axis], made: Tasks) -> Refs:
        """What a block is given of it, where faces that it needs are tasks that may be new."""
        missing = len(place) - len(self.cut)
        own = tuple([k if cut else 0 for k, cut in zip(place[missing:], self.cut, strict=True)])
        numbers = zip(near[missing:], self.cut, strict=True)
        found = []
        for at in itertools.product(*[one.numbers if cut else (0,) for one, cut in numbers]):
            ref = chunk = TaskRef((self.name, *at))
            if at != own:
                ref = TaskRef((self.faces, *at))
                if ref.key not in made:
                    depths = self._depths(axes[missing:], at)
                    made[ref.key] = Task(ref.key, faces_of, chunk, depths)
            found.append(ref)
        return found

    def _depths(self, axes: Sequence[Axis], place: Place) -> Depths:
        """How thick the faces are that a chunk gives."""
        own = zip(axes, place, self.cut, strict=True)
        return tuple([axis.depths(k) if cut else (0, 0) for axis, k, cut in own])


@dataclass(frozen=True, slots=True)
class Blocks:
    """The rule of blocks that are made of chunks, and of faces of those around.

    Each may be computed `alone`, as an array of its own: that is a layer of Dask's kind.  Blocks
    of sources read what they need, and depend on nothing else.
    """

    name: str
    job: Job
    chunks: Chunks
    fields: tuple[Field, ...] | tuple[Source, ...]
    alone: bool = False

    @property
    def below(self) -> Iterable[str]:
        """The names of the fields that others make."""
        return [field.name for field in self.fields if isinstance(field, Field)]

    def whole(self) -> tuple[Symbolic, Tasks]:
        """The layer of blocks that are made alone, and the node of the job, if it has one."""
        nodes, job = self.job.node
        ndim, pairs, counts = len(self.chunks), [job, None], {}
        for field in self.fields:
            assert isinstance(field, Field), field
            missing = ndim - len(field.cut)
            cuts = zip(self.chunks[missing:], field.cut, strict=True)
            pairs += [field.name, range(missing, ndim)]
            counts[field.name] = tuple([len(sizes) if cut else 1 for sizes, cut in cuts])
        return Symbolic.of(self.name, ndim, whole_of, pairs, counts), nodes

    def tasks(self, places: Iterable[Place]) -> Tasks:
        """The blocks at these places, and the faces that they need."""
        made, job = self.job.node
        axes = axes_of(self.job.work, self.chunks)
        compute, tables = block_of, [axis.beside for axis in axes]
        if any(isinstance(field, Source) for field in self.fields):
            compute, tables = read_block, [axis.inside for axis in axes]
        for place in places:
            near = [table[k] for table, k in zip(tables, place, strict=True)]
            spans = [axis.cuts[k] for axis, k in zip(axes, place, strict=True)]
            region = Region(tuple([a for a, _ in spans]), tuple([b for _, b in spans]))
            given = [one for field in self.fields for one in field.given(place, near, axes, made)]
            begin, sizes = tuple([one.begin for one in near]), tuple([one.sizes for one in near])
            key = (self.name, *place)
            made[key] = Task(key, compute, job, region, begin, sizes, *given)
        return made
