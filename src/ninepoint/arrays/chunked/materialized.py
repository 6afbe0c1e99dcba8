"""One task a block, which puts the chunks that it needs together itself (`blocks`).

There are no tasks for cutting, sending or joining halos, and no rechunking.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
from dask._task_spec import Task, TaskRef
from dask.highlevelgraph import HighLevelGraph

from ..blocks import Part, parts
from ..regions import Span, needed
from .grid import Chunks, aligned, cuts_of, kept_of, places_of
from .job import Job
from .outputs import Output
from .places import meta_of

# Most of Dask's functions carry no annotations.
untyped: Any = da


def materialized(
    job: Job,
    outputs: Sequence[Output],
    arrays: Sequence[Any],
    chunks: Chunks,
    names: Sequence[str],
    whole: str,
) -> list[Any]:
    """One task per block, and one more for each output if there are several."""
    cuts = [cuts_of(sizes) for sizes in chunks]
    spans = [
        [_taken(job, cut, n, axis) for cut in axis_cuts]
        for axis, (axis_cuts, n) in enumerate(zip(cuts, job.shape, strict=True), -len(cuts))
    ]
    tables = [
        [
            parts(sizes, taken, n)
            for sizes, taken, n in zip(
                aligned(array.chunks, len(cuts), (1,)), spans, job.shape, strict=True
            )
        ]
        for array in arrays
    ]
    plan = _Tasks(job, cuts, spans, tables, [_references(array, len(cuts)) for array in arrays])
    kept = [kept_of(output.extent, chunks) for output in outputs]
    ndim = len(chunks)

    def lazy(graph: HighLevelGraph, k: int) -> Any:
        sizes = tuple(tuple(size for _, size in axis) for axis in kept[k])
        meta = meta_of(arrays[0], ndim, outputs[k].dtype)
        return untyped.Array(graph, names[k], sizes, meta=meta)

    if len(names) == 1:
        tasks: dict[Any, Task] = {}
        for place, block in places_of(kept[0]):
            key = (names[0], *place)
            tasks[key] = plan.task(key, block)
        return [lazy(HighLevelGraph.from_collections(names[0], tasks, arrays), 0)]
    together: dict[Any, Task] = {}
    picks: list[dict[Any, Task]] = [{} for _ in names]
    for k, pick in enumerate(picks):
        for place, block in places_of(kept[k]):
            source: Any = (whole, *block)
            if source not in together:
                together[source] = plan.task(source, block)
            key = (names[k], *place)
            pick[key] = Task(key, operator.getitem, TaskRef(source), k)
    under = HighLevelGraph.from_collections(whole, together, arrays)
    return [
        lazy(
            HighLevelGraph({**under.layers, name: pick}, {**under.dependencies, name: {whole}}),
            k,
        )
        for k, (name, pick) in enumerate(zip(names, picks, strict=True))
    ]


def _taken(job: Job, cut: Span, n: int, axis: int) -> Span:
    """What a block takes of the fields along an axis; nothing for a block of length 0."""
    if cut[0] == cut[1]:
        return cut
    values, _ = needed(job.work.nodes, job.work.wanted, cut, n, axis)
    found = [values[value] for value in range(len(job.field_dtypes)) if value in values]
    return min(a for a, _ in found), max(b for _, b in found)


@dataclass(frozen=True, slots=True)
class _Tasks:
    """For each axis the cuts, what blocks take, and of each field the parts of every block."""

    job: Job
    cuts: Sequence[Sequence[Span]]
    spans: Sequence[Sequence[Span]]
    tables: Sequence[Sequence[Sequence[Part]]]
    refs: Sequence[dict[tuple[int, ...], TaskRef]]

    def task(self, key: tuple[Any, ...], block: tuple[int, ...]) -> Task:
        recipes = []
        needed: list[TaskRef] = []
        for table, known in zip(self.tables, self.refs, strict=True):
            own = tuple([axis[i] for axis, i in zip(table, block, strict=True)])
            recipes.append(own)
            needed += [known[at] for at in itertools.product(*[part.chunks for part in own])]
        region = tuple([axis[i] for axis, i in zip(self.cuts, block, strict=True)])
        start = tuple([axis[i][0] for axis, i in zip(self.spans, block, strict=True)])
        return Task(key, self.job.on_block, region, start, tuple(recipes), *needed)


def _references(array: Any, ndim: int) -> dict[tuple[int, ...], TaskRef]:
    places = itertools.product(*map(range, array.numblocks))
    return {aligned(place, ndim, 0): TaskRef((array.name, *place)) for place in places}
