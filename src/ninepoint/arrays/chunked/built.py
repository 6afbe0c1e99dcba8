"""The graph of blocks that take faces of each other: which layers there are, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from .edges import Edges, Source, axis_of
from .grid import Chunks, aligned, kept_of
from .groups import Joined, Picked, grouped
from .job import Job
from .layer import Lazy, Rule
from .outputs import Output
from .places import meta_of

# Most of Dask's functions carry no annotations.
untyped: Any = da


def built(
    job: Job,
    outputs: Sequence[Output],
    arrays: Sequence[Any],
    chunks: Chunks,
    names: Sequence[str],
    whole: str,
) -> list[Any]:
    """Give each output as an array in these chunks, of blocks as long as the program needs."""
    groups = grouped(job.work, chunks)
    cuts = [cut_of(array, groups) for array in arrays]
    arrays = [
        _joined(array, cut, groups, dtype)
        for array, cut, dtype in zip(arrays, cuts, job.field_dtypes, strict=True)
    ]
    depths = depths_of(job, groups)
    fields = tuple(
        source_of(array.name, array.ndim, cut, depths)
        for array, cut in zip(arrays, cuts, strict=True)
    )
    kept = [kept_of(output.extent, chunks) for output in outputs]
    direct = len(outputs) == 1 and groups == chunks
    places = [tuple(tuple(place for place, _ in axis) for axis in own_kept) for own_kept in kept]
    rule = Edges(
        names[0] if direct else whole,
        job,
        groups,
        fields,
        tuple(
            None if not direct or len(own) == len(sizes) else own
            for own, sizes in zip(places[0], chunks, strict=True)
        ),
    )
    layer = Lazy(rule)
    layer.fields = arrays
    graph = HighLevelGraph.from_collections(rule.name, layer, arrays)
    results = []
    for k, (name, output) in enumerate(zip(names, outputs, strict=True)):
        if not direct:
            number = k if len(outputs) > 1 else None
            extent = output.extent
            picked = Picked(
                name, whole, number, chunks, groups, places[k], extent.start, extent.stop,
                output.factors,
            )  # fmt: skip
            results.append(_on(graph, picked, whole))
        else:
            results.append(graph)
    sizes = [output.chunks(chunks) for output in outputs]
    metas = [meta_of(arrays[0], len(chunks), output.dtype) for output in outputs]
    return [
        untyped.Array(*one[:3], meta=one[3])
        for one in zip(results, names, sizes, metas, strict=True)
    ]


def _on(graph: HighLevelGraph, rule: Rule, below: str) -> HighLevelGraph:
    """A graph with one more layer, of what the one named so gives."""
    return HighLevelGraph(
        {**graph.layers, rule.name: Lazy(rule)}, {**graph.dependencies, rule.name: {below}}
    )


def cut_of(array: Any, groups: Chunks) -> tuple[bool, ...]:
    """Whether each axis of the whole is one of the array's, and no single element beside many."""
    found = []
    for axis, own in zip(groups, aligned(array.chunks, len(groups), (1,)), strict=True):
        found.append(sum(own) == sum(axis))
    missing = len(groups) - array.ndim
    return tuple(cut and k >= missing for k, cut in enumerate(found))


def depths_of(job: Job, groups: Chunks) -> list[list[tuple[int, int]]]:
    """For each axis, how thick the faces are that each block gives."""
    axes = (axis_of(job.work, c, k - len(groups)) for k, c in enumerate(groups))
    return [[axis.depths(k) for k in range(len(axis.cuts))] for axis in axes]


def source_of(name: str, ndim: int, cut: tuple[bool, ...], depths: Any) -> Source:
    """A field as blocks take it."""
    return Source(name, f"faces-{tokenize(name, cut, depths)}", ndim, cut)


def joined(array: Any, cut: Sequence[bool], groups: Chunks, dtype: Any) -> Joined | None:
    """The rule of the array in chunks that are blocks, where it is cut otherwise."""
    missing = len(groups) - array.ndim
    wanted = tuple(
        axis if there else (1,)
        for axis, there in zip(groups[missing:], cut[missing:], strict=True)
    )
    if wanted == array.chunks:
        return None
    name = f"joined-{tokenize(array.name, wanted)}"
    return Joined(name, array.name, dtype, array.chunks, wanted)


def _joined(array: Any, cut: Sequence[bool], groups: Chunks, dtype: Any) -> Any:
    """The array in chunks that are blocks."""
    rule = joined(array, cut, groups, dtype)
    if rule is None:
        return array
    graph = HighLevelGraph.from_collections(rule.name, Lazy(rule), [array])
    return untyped.Array(graph, rule.name, rule.groups, meta=array._meta)
