r"""Edges: each block is made of its own chunk and of faces of its neighbours.

    chunk ----------------> block        at most two tasks a chunk: one copies the faces that
      \--> faces --> blocks around       somebody needs, one computes

What moves between workers are faces, thin as the program looks far.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dask._task_spec import DataNode, GraphNode, Task, TaskRef

from ..layout import Region, Shape
from ..regions import Span, fields_span, look, reach, wraps
from .faces import Faces, compute, cut
from .grid import Chunks, cuts_of
from .job import Job, Work, bare
from .layer import Key, Place

# Where a chunk stands beside another one: -1, 0 or 1 for each axis.
Offset: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """How many elements each block of an axis takes of the chunk before and of that after."""

    cuts: Sequence[Span]
    before: Sequence[int]
    after: Sequence[int]
    ring: bool

    @property
    def fits(self) -> bool:
        """Whether no block takes more than the next chunks have."""
        sizes = [b - a for a, b in self.cuts]
        last = len(sizes) - 1
        return all(
            self.before[k] <= sizes[k - 1] and self.after[k] <= sizes[0 if k == last else k + 1]
            for k in range(len(sizes))
        )

    def near(self, k: int) -> list[tuple[int, int]]:
        """Where a block takes from, itself first: offsets and numbers of chunks."""
        found = [(0, k)]
        if self.before[k]:
            found.append((-1, (k - 1) % len(self.cuts)))
        if self.after[k]:
            found.append((1, (k + 1) % len(self.cuts)))
        return found

    def depths(self, k: int) -> tuple[int, int]:
        """How thick the faces are that a chunk gives, at its begin and at its end."""
        count = len(self.cuts)
        first = self.after[k - 1] if k or self.ring else 0
        last = self.before[(k + 1) % count] if k + 1 < count or self.ring else 0
        return first, last


def axis_of(work: Work, sizes: Sequence[int], axis: int) -> Axis:
    """What the blocks of an axis, counted from the end, take of each other."""
    cuts = cuts_of(sizes)
    spans = taken(work, cuts, sum(sizes), axis)
    return Axis(
        cuts,
        [a - first for (a, _), (first, _) in zip(cuts, spans, strict=True)],
        [last - b for (_, b), (_, last) in zip(cuts, spans, strict=True)],
        wraps(work.nodes, axis),
    )


def taken(work: Work, cuts: Sequence[Span], n: int, axis: int) -> list[Span]:
    """What blocks take of the fields along an axis; nothing for a block of length 0."""
    nodes, wanted = work.nodes, work.wanted
    if not any(any(look(node, axis)) for node in nodes):
        return list(cuts)
    count = len(work.field_dtypes)
    low, high = reach(nodes, wanted, range(count), axis)
    ring = wraps(nodes, axis)
    spans = []
    for a, b in cuts:
        if a == b:
            spans.append((a, b))
        elif (b - a + high - low < n) if ring else (a + low > 0 and b + high < n):
            # Far from the ends nothing is said anew for each block.
            spans.append((a + low, b + high))
        else:
            spans.append(fields_span(nodes, wanted, count, (a, b), n, axis))
    return spans


@dataclass(frozen=True, slots=True)
class Source:
    """A field: the names of its array and of its faces, and which axes of the whole it has.

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


@dataclass(frozen=True, slots=True)
class Edges:
    """The rule of blocks that are made of chunks and faces.

    `kept` has for each axis the blocks that there are, where these are not all.
    """

    name: str
    job: Job
    chunks: Chunks
    fields: tuple[Source, ...]
    kept: tuple[tuple[int, ...] | None, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many blocks there are along each axis."""
        return tuple(
            len(sizes if kept is None else kept)
            for sizes, kept in zip(self.chunks, self.kept, strict=True)
        )

    def _axes(self) -> list[Axis]:
        count = len(self.chunks)
        return [axis_of(self.job.work, c, k - count) for k, c in enumerate(self.chunks)]

    def _blocks(self, places: Iterable[Place]) -> Iterator[tuple[Place, Place]]:
        """Each place among the blocks that there are, and the same among all chunks."""
        for place in places:
            yield (
                place,
                tuple(
                    [
                        at if kept is None else kept[at]
                        for at, kept in zip(place, self.kept, strict=True)
                    ]
                ),
            )

    def tasks(self, places: Iterable[Place]) -> dict[Key, GraphNode]:
        """The blocks at these places, and the faces that they need."""
        axes = self._axes()
        near = [[axis.near(k) for k in range(len(axis.cuts))] for axis in axes]
        made: dict[Any, GraphNode] = {}
        job: Any = self.job
        if self.job.apart:
            made[self.job.apart] = DataNode(self.job.apart, self.job)
            job = TaskRef(self.job.apart)
        refs: list[dict[Place, TaskRef]] = [{} for _ in self.fields]
        for place, block in self._blocks(places):
            beside = list(
                itertools.product(*[table[k] for table, k in zip(near, block, strict=True)])
            )
            needed: list[TaskRef] = []
            offsets: list[tuple[Offset, ...]] = []
            for field, known in zip(self.fields, refs, strict=True):
                needed.append(TaskRef((field.name, *field.at(block))))
                there: list[Offset] = []
                for found in beside[1:]:
                    offset = tuple([at for at, _ in found])
                    if any(at and not cut for at, cut in zip(offset, field.cut, strict=True)):
                        continue
                    at = tuple([k for _, k in found])
                    if at not in known:
                        known[at] = TaskRef((field.faces, *field.at(at)))
                    there.append(offset)
                    needed.append(known[at])
                offsets.append(tuple(there))
            start = tuple([axis.cuts[k][0] for axis, k in zip(axes, block, strict=True)])
            stop = tuple([axis.cuts[k][1] for axis, k in zip(axes, block, strict=True)])
            key = (self.name, *place)
            made[key] = Task(key, block_of, job, start, stop, tuple(offsets), *needed)
        for field, known in zip(self.fields, refs, strict=True):
            for at in known:
                depths = [
                    axis.depths(k) if cut else (0, 0)
                    for axis, k, cut in zip(axes, at, field.cut, strict=True)
                ]
                own = tuple(depths[len(depths) - field.ndim :])
                key = (field.faces, *field.at(at))
                made[key] = Task(key, cut, TaskRef((field.name, *field.at(at))), own)
        return made

    def sources(self, places: Iterable[Place]) -> dict[Key, set[Key]]:
        """The chunks that the blocks are made of, and of which there are faces."""
        near = [[axis.near(k) for k in range(len(axis.cuts))] for axis in self._axes()]
        asked = list(self._blocks(places))
        found: dict[Key, set[Key]] = {
            (self.name, *place): {(field.name, *field.at(block)) for field in self.fields}
            for place, block in asked
        }
        # Along one axis after the other: a block far away is reached through those between.
        around = {block for _, block in asked}
        for k, table in enumerate(near):
            around |= {
                (*block[:k], at, *block[k + 1 :]) for block in around for _, at in table[block[k]]
            }
        for field in self.fields:
            found |= {(field.faces, *field.at(at)): {(field.name, *field.at(at))} for at in around}
        return found


def block_of(
    job: Job, start: Shape, stop: Shape, offsets: Sequence[Sequence[Offset]], *given: Any
) -> Any:
    """Compute a block from the chunk of each field, each followed by the faces around it."""
    own: list[Any] = []
    around: list[dict[Offset, Faces]] = []
    taken = 0
    for beside in offsets:
        own.append(given[taken])
        faces = given[taken + 1 : taken + 1 + len(beside)]
        around.append(dict(zip(beside, faces, strict=True)))
        taken += 1 + len(beside)
    return bare(compute(job.work, job.shape, Region(start, stop), own, around))
