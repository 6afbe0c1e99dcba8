r"""A layer of a graph that is a rule: its tasks are written where they are scheduled.

    client      name, rule                  some kB, however many chunks there are
    scheduler   {key: task, ...}            of the blocks that somebody asks for

A layer that a scheduler culls is the same rule for fewer places, or another layer that gives the
same blocks, made from what is further up.

Each layer of ours knows on the client which program it is of, and what that was given.

    chunk ----------------> block        at most two tasks a chunk: one copies the faces that
      \--> faces --> blocks around       somebody needs, one computes

What moves between workers are faces, thin as the program looks far; blocks run where their chunks
are (`placement`).  Where workers are many, each face is a task and goes to one chunk, so that
nothing is sent twice: along two axes up to four a chunk.

Chunks thinner than a program looks far are put together before, and results cut as these were, by
Dask itself.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from operator import getitem
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from dask import config
from dask._task_spec import DataNode, Task, TaskRef
from dask.array import core
from dask.base import clone_key, tokenize
from dask.graph_manipulation import chunks
from dask.highlevelgraph import Layer, MaterializedLayer

from ...base import limits
from ...base.frozen import frozen
from ...base.remembered import cached_property
from ..blocks import (
    Axis,
    Chunks,
    Depths,
    Job,
    axes_of,
    block_of,
    face_of,
    faces_of,
    read_of,
    side,
    steps_around,
)
from ..layout import Region, Shape

Place: TypeAlias = tuple[int, ...]

# Tasks by their keys, and what a task is given by those of others.
Tasks: TypeAlias = dict[Any, Any]
Refs: TypeAlias = list[TaskRef]

# Bytes of coefficients up to which every task has them: as many as a task has besides.
WITHIN = 1 << 12

# Partly typed: Any, or mypy finds the gaps.
_core: Any = core
_config: Any = config


class Origin(NamedTuple):
    """The `Computation` that made an array, and as which result; it stays on the client."""

    computation: Any
    which: int

    def __reduce__(self) -> Any:
        return type(None), ()


def known(array: Any, what: str) -> Any:
    """What the layer of an array of ours knows of it; None if it is not ours.

    Its `origin` is what made it; a `source` that it is a plain view of is a `Source`.
    """
    layers = getattr(getattr(array, "dask", None), "layers", {})
    return getattr(layers.get(getattr(array, "name", None)), what, None)


class Own(TaskRef):
    """A reference to a chunk where a task is to run, if its scheduler is told (`placement`)."""

    __slots__ = ()


@frozen
class Written:
    """Tasks that are written out, of blocks along these axes.

    Faces of a chunk are given `apart` or together; `placed` tasks run where their chunks are.
    Where only some blocks are `asked` for, those chunks are whose blocks are, by the names of
    their faces.
    """

    axes: Sequence[Axis]
    apart: bool
    placed: bool
    asked: dict[str, Set[Place]] = field(default_factory=dict)
    tasks: Tasks = field(default_factory=dict)
    faces: dict[Any, TaskRef] = field(default_factory=dict)

    def held(self, key: str, value: Any) -> TaskRef:
        """A reference to what is sent to a worker once."""
        self.tasks.setdefault(key, DataNode(key, value))
        return TaskRef(key)


@frozen
class Source:
    """Something with slices, of which `pieces` so long are decoded at once; `name` is its own."""

    held: Any
    shape: Shape
    dtype: np.dtype
    pieces: Shape
    name: str

    @property
    def key(self) -> str:
        """What its node in a graph is called."""
        return f"original-{self.name}"

    def given(self, place: Place, graph: Written) -> Refs:
        """What a block is given of it; see `Field`."""
        return [graph.held(self.key, self.held)]

    def view(self, chunks: Chunks) -> Any:
        """An array of Dask, each chunk of which is a slice."""
        getter = _core.getter_nofancy
        graph = _core.graph_from_arraylike(self.held, chunks, self.shape, self.name, getter)
        graph.layers[self.name].source = self
        meta = np.empty((0,) * len(chunks), self.dtype)
        return _core.Array(graph, self.name, chunks, meta=meta)


@frozen
class Field:
    """A field of blocks: the names of its array and of its faces.

    Along the axes where that is `cut` it is cut as the whole is; along others it has one element.
    Axes that it lacks are the first ones.  Where it is a view of a `source`, who needs a chunk may
    read it: twice at most (`rereads`), for its block and for its faces, so nobody holds it
    meanwhile.  Of chunks of whose blocks nobody asks for any only the parts beside are.
    """

    name: str
    faces: str
    cut: tuple[bool, ...]
    source: Source | None = None
    rereads: bool = False

    def at(self, place: Place) -> Place:
        """Where the chunk of a block is."""
        own = place[len(place) - len(self.cut) :]
        return tuple([k if cut else 0 for k, cut in zip(own, self.cut, strict=True)])

    def given(self, place: Place, graph: Written) -> list[Any]:
        """What a block is given of it, where faces that it needs are tasks that may be new."""
        each = zip(graph.axes[len(place) - len(self.cut) :], self.cut, strict=True)
        axes, at = [axis if cut else _ONE for axis, cut in each], self.at(place)
        return [self._chunk(at, axes, graph), *self._around(at, axes, len(at), graph)[1]]

    def _chunk(
        self, at: Place, axes: Sequence[Axis], graph: Written, parts: Sequence[slice] = ()
    ) -> Any:
        """A chunk, or a part of it: the task that makes it, or one in the task that needs it."""
        if self.source is not None and (self.rereads or parts):
            held = graph.held(self.source.key, self.source.held)
            each = zip(axes, at, parts or [slice(None)] * len(at), strict=True)
            cuts = [range(*axis.cuts[k])[part] for axis, k, part in each]
            return Task(None, getitem, held, tuple([slice(cut.start, cut.stop) for cut in cuts]))
        chunk = (Own if graph.placed else TaskRef)((self.name, *at))
        return Task(None, getitem, chunk, tuple(parts)) if parts else chunk

    def _around(
        self, at: Place, axes: Sequence[Axis], stop: int, graph: Written
    ) -> tuple[Depths, Refs]:
        """How thick the faces around a chunk are, along the axes before `stop`; and these."""
        depths = [axis.beyond[k] for axis, k in zip(axes, at, strict=True)]
        depths[stop:] = [(0, 0)] * (len(at) - stop)
        found = []
        for steps in steps_around(depths, apart=graph.apart):
            each = zip(axes, at, steps, strict=True)
            other = tuple([(k + step) % len(axis.cuts) for axis, k, step in each])
            axis = next(axis for axis, step in enumerate(steps) if step)
            which = (axis, steps[axis]) if graph.apart else ()
            key = (self.faces, *which, *other)
            if key not in graph.faces:
                make = self._face if graph.apart else self._faces
                graph.faces[key] = make(key, other, axes, graph)
            found.append(graph.faces[key])
        return depths, found

    def _face(self, key: Any, at: Place, axes: Sequence[Axis], graph: Written) -> TaskRef:
        """The face of a chunk that is given to the chunk so many steps before it."""
        _, axis, step, *_ = key
        around, beside = self._around(at, axes, axis, graph)
        more = axis, step, axes[axis].faces[at[axis]], around, *beside
        graph.tasks[key] = Task(key, face_of, self._chunk(at, axes, graph), *more)
        return TaskRef(key)

    def _faces(self, key: Any, at: Place, axes: Sequence[Axis], graph: Written) -> TaskRef:
        """All faces of a chunk, or of that part of it which is near all blocks that need some."""
        depths = [axis.faces[k] for axis, k in zip(axes, at, strict=True)]
        near, parts = self._near(at, axes, depths, graph), list[slice]()
        if any(near):
            key = (self.faces, near, *at)
            pairs = list(zip(near, depths, strict=True))
            parts = [side(step, low if step > 0 else high) for step, (low, high) in pairs]
            depths = [
                (low if step >= 0 else 0, high if step <= 0 else 0) for step, (low, high) in pairs
            ]
        graph.tasks[key] = Task(key, faces_of, self._chunk(at, axes, graph, parts), depths)
        return TaskRef(key)

    def _near(self, at: Place, axes: Sequence[Axis], depths: Depths, graph: Written) -> Place:
        """The steps to a chunk from all blocks that are asked for and need it.

        They are 0 where these differ, or where its own block is asked for.
        """
        asked, near = graph.asked.get(self.faces, {at}), None
        if at not in asked:
            for steps in steps_around([(high, low) for low, high in depths], apart=False):
                each = zip(axes, at, steps, strict=True)
                if tuple([(k - step) % len(axis.cuts) for axis, k, step in each]) in asked:
                    pairs = zip(near or steps, steps, strict=True)
                    near = tuple([a if a == b else 0 for a, b in pairs])
        return near or (0,) * len(at)


# Of a field that has one element along an axis.
_ONE = Axis([(0, 1)], [(0, 1)], ring=False)


class Lazy(Layer):
    """Blocks that are made of chunks, and of faces of those around, as a rule.

    Blocks of sources read what they need, and depend on nothing else.  Where it was culled it has
    the `places` of those that are asked for.
    """

    # What Dask would write all tasks out for, to see it.
    has_legacy_tasks = False
    origin: Origin | None = None

    def __init__(
        self,
        name: str,
        job: Job,
        chunks: Chunks,
        fields: tuple[Field, ...] | tuple[Source, ...],
    ) -> None:
        super().__init__()
        self.name, self.job, self.chunks, self.fields = name, job, chunks, fields
        self.places: frozenset[Place] | None = None
        self.placed = bool(_config.get("ninepoint.placement", True))
        # Another layer of the same blocks, for when nobody asks for arrays named so.
        self.further: tuple[Lazy, frozenset[str]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: one for name, one in self.__dict__.items() if name != "_written"}

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.name!r}>"

    @property
    def rereads(self) -> bool:
        """Whether chunks or pieces of sources may be read more than once."""
        return any(not isinstance(one, Field) or one.rereads for one in self.fields)

    def _asked(self) -> Iterable[Place]:
        if self.places is not None:
            return self.places
        return itertools.product(*[range(len(sizes)) for sizes in self.chunks])

    @property
    def given(self) -> str:
        """The name of a node that is the job, if it is one.

        With many coefficients it is sent to a worker once, not with every task.
        """
        job, program = self.job, self.job.program
        if program.held <= WITHIN:
            return ""
        token = tokenize(program.token, program.wanted, job.shape, job.fields)
        return f"job-{program.name}-{token}"

    @cached_property
    def _written(self) -> Tasks:
        """The blocks that are asked for, and the faces that they need."""
        cut = isinstance(self.fields[0], Field)
        apart = cut and self._apart()
        graph = Written(axes_of(self.job.program, self.chunks), apart, self.placed)
        if self.places is not None:
            for one in self.fields:
                if isinstance(one, Field):
                    graph.asked[one.faces] = {one.at(place) for place in self.places}
        job: Any = graph.held(self.given, self.job) if self.given else self.job
        run = (block_of, apart, job) if cut else (read_of, job)
        for place in self._asked():
            each = zip(graph.axes, place, strict=True)
            region = Region(tuple([axis.cuts[k] for axis, k in each]))
            given = [one for field in self.fields for one in field.given(place, graph)]
            key = (self.name, *place)
            graph.tasks[key] = Task(key, *run, region, *given)
        return graph.tasks

    def _apart(self) -> bool:
        """Whether faces of a chunk are given apart; a scheduler in this process hears of them."""
        workers = 0
        if self.placed and "distributed.scheduler" in sys.modules:
            # Imported here: `distributed` is optional.
            from .placement import tell

            workers = tell()
        # A chunk that is read for all its faces would be read for each.
        return workers > limits.current.workers_together and not self.rereads

    def __getitem__(self, key: Any) -> Any:
        return self._written[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)

    def is_materialized(self) -> bool:
        """Whether the tasks are written out."""
        return "_written" in self.__dict__

    def get_output_keys(self) -> Set[Any]:
        """The keys of the blocks."""
        return {(self.name, *place) for place in self._asked()}

    def cull(
        self, keys: Set[Any], all_hlg_keys: Collection[Any]
    ) -> tuple[Layer, Mapping[Any, set[Any]]]:
        """The same rule for the blocks that somebody asks for, and what these need."""
        name = self.name
        asked = frozenset(key[1:] for key in keys if type(key) is tuple and key[0] == name)
        if self.places is not None:
            asked &= self.places
        if self.further is not None:
            layer, passed = self.further
            others = {key[0] for key in keys if type(key) is tuple}
            # In `dask.compute(y, z)` Dask may ask for the chunks of a whole result `y`, of which
            # nobody knows yet what it asks for, after those of `z` are chosen.
            whole = any(isinstance(key, str) and key.startswith("finalize-") for key in keys)
            if others.isdisjoint(passed) and not (layer.rereads and whole):
                return layer.cull({(name, *place) for place in asked}, all_hlg_keys)
        culled = Lazy(name, self.job, self.chunks, self.fields)
        culled.places, culled.placed, culled.annotations = asked, self.placed, self.annotations
        if not asked:
            return culled, {}
        tasks = culled._written
        needs = {k: {d for d in task.dependencies if d not in tasks} for k, task in tasks.items()}
        # Where nobody needs more, Dask keeps all layers that are left: so here is a name of none.
        return culled, needs if any(needs.values()) else {key: {name} for key in needs}

    def clone(self, keys: Set[Any], seed: Any, bind_to: Any = None) -> tuple[Layer, bool]:
        """The same tasks under other keys, which may wait for one more; see `Layer.clone`.

        That of Dask looks for keys in tuples, not in the tasks that it has now.
        """
        made: dict[Any, Any] = {}
        bound = False
        for old, task in self._written.items():
            key = clone_key(old, seed)
            names = {
                d: clone_key(d, seed) for d in task.dependencies if d in keys or d in self._written
            }
            made[key] = task.substitute(names, key=key)
            if bind_to is not None and not names:
                made[key] = Task(key, chunks.bind, made[key], TaskRef(bind_to))
                bound = True
        return MaterializedLayer(made, annotations=self.annotations), bound
