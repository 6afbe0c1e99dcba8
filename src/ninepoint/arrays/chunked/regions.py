"""Regions: a task reads its block, and what is looked at around it, from the source itself.

    source of each field     |           any array that can be sliced           |
    one task                            [--[  block  ]--]      read, run, give the block

No task depends on another one, so nothing is moved, the graph is a rule whatever the number of
chunks, and a thread holds the block that it reads and the one that it makes.  What lies around a
block is decoded again for each block that looks at it: that is the price, and `costs` tells it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import DataNode, TaskRef
from dask.base import tokenize
from dask.blockwise import Blockwise
from dask.blockwise import blockwise as core_blockwise
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.layers import ArraySliceDep

from ... import limits
from ..blocks import parts
from ..regions import Span, look, mixed
from .edges import Edges, taken
from .grid import Chunks, cut_to, cuts_of
from .groups import Joined, Picked
from .job import Job, Work
from .outputs import Output, outputs_of
from .reading import Field, Reading, Regions
from .sources import Source, decoded, source_in, source_of

# Most of Dask's functions carry no annotations.
untyped: Any = da
blockwise: Any = core_blockwise


@dataclass(frozen=True, slots=True)
class Origin:
    """What made an array of sources: a program, of whose results this is number `position`.

    `between` are the names of this array, of those made with it, and of those that it was made
    from, before one comes to the sources.  `layer` computes it.
    """

    job: Job
    sources: tuple[Source, ...]
    position: int
    between: frozenset[str]
    layer: Any


def costs(work: Work | None, sources: Sequence[Source], chunks: Chunks) -> tuple[float, float]:
    """How many times as much is decoded as reading the blocks alone would decode, and in bytes.

    Without a program the blocks alone are read.  Infinite where a source does not say how it is
    stored, and blocks look at others, or are not those that it has.
    """
    least = most = 0.0
    for source in sources:
        own = all_read = float(source.dtype.itemsize)
        cut = chunks[len(chunks) - len(source.chunks) :]
        pieces = source.pieces
        for axis, (n, sizes) in enumerate(zip(source.shape, cut, strict=True), -len(cut)):
            if n != sum(sizes) or len(sizes) == 1:
                own, all_read = own * n, all_read * n
                continue
            looks = work is not None and any(_looks(work, axis))
            if pieces is None and (looks or sizes != source.chunks[axis]):
                return float("inf"), float("inf")
            piece = 1 if pieces is None else pieces[axis]
            spans = [span for span in cuts_of(sizes) if span[1] > span[0]]
            alone = decoded(piece, spans)
            own *= alone
            if work is None or not looks:
                all_read *= alone
                continue
            inside = [run for a in taken(work, spans, n, axis) for run in _inside(a, n)]
            all_read *= decoded(piece, inside)
        least, most = least + own, most + all_read
    return most / least if least else 1.0, most


def _is_dear(work: Work | None, sources: Sequence[Source], chunks: Chunks) -> bool:
    """Whether much more is decoded than there is."""
    bytes_ = sum(s.dtype.itemsize * math.prod(s.shape) for s in sources)
    return costs(work, sources, chunks)[1] > limits.current.recut_ratio * bytes_


def _looks(work: Work, axis: int) -> Span:
    spans = [look(node, axis) for node in work.nodes]
    return min(a for a, _ in spans), max(b for _, b in spans)


def _inside(span: Span, n: int) -> list[Span]:
    """The spans of an axis that are read for one, which may stick out of it."""
    (part,) = parts((n,), [span], n)
    return [(strip.source.start, strip.source.stop) for strip in part.strips]


def by_regions(
    work: Work, sources: Sequence[Source], chunks: Chunks, outputs: Sequence[Output]
) -> list[Any] | None:
    """Give the wanted values in these chunks of the fields; None where no one rule does.

    That is where several results have different points, or an axis is cut that some nodes take as
    a ring and others do not: no block of neighbours serves both.
    """
    shape = tuple(map(sum, chunks))
    extent = outputs[0].extent
    if any(len(c) > 1 and mixed(work.nodes, k - len(chunks)) for k, c in enumerate(chunks)):
        return None
    if any((one.extent, one.factors) != (extent, outputs[0].factors) for one in outputs):
        return None
    cut = cut_to(extent, chunks)
    identity = tokenize(
        work.token, list(work.wanted), shape, cut, "regions", [s.name for s in sources],
        [s.dtype.str for s in sources],
    )  # fmt: skip
    job = Job(work, shape, tuple(work.field_dtypes))
    reading = Reading(job, extent.start, tuple(map(Field.of, sources)))
    alone = len(outputs) == 1
    sizes = outputs[0].chunks(chunks)
    # Dask joins the names of tasks that it makes one: "all-x-0" may be one of its own.
    name = f"{work.name}-{identity}" if alone else f"{work.name}-all-{identity}"
    graph = HighLevelGraph(*_layers(reading, name, sources, cut))
    if alone:
        return [_array(graph, name, sizes, outputs[0].dtype)]
    together = _array(graph, name, sizes, np.dtype(object))
    indices = tuple(range(len(cut)))
    return [
        untyped.blockwise(
            operator.itemgetter(k),
            indices,
            together,
            indices,
            name=f"{work.name}-{k}-{identity}",
            dtype=output.dtype,
            meta=np.empty((0,) * len(cut), output.dtype),
            align_arrays=False,
        )
        for k, output in enumerate(outputs)
    ]


def _layers(
    function: Any, name: str, sources: Sequence[Source], cut: Chunks
) -> tuple[dict[str, Any], dict[str, set[str]]]:
    """One task a chunk, which depends on what is read alone."""
    indices = tuple(range(len(cut)))
    pairs: list[Any] = [ArraySliceDep(cut), indices]
    layers: dict[str, Any] = {}
    for source in sources:
        pairs += [source.held if source.key is None else TaskRef(source.key), None]
        if source.key is not None:
            layers[source.key] = MaterializedLayer({source.key: source.held})
    below: dict[str, set[str]] = {key: set() for key in layers}
    layers[name] = blockwise(function, name, indices, *pairs, numblocks={})
    return layers, {**below, name: set(below)}


def _array(graph: HighLevelGraph, name: str, chunks: Chunks, dtype: np.dtype[Any]) -> Any:
    return untyped.Array(graph, name, chunks, meta=np.empty((0,) * len(chunks), dtype))


def recut(array: Any, chunks: Chunks) -> Any:
    """Give the same values in other chunks, without moving any; None where that cannot be.

    It can be for what is a plain view of a source, and for what a program made of such views: its
    tasks then read other regions.  It is not where these would decode twice what there is.

    Parameters
    ----------
    array : dask.array.Array
    chunks : tuple of tuple of int
        Sizes along each axis, which add up to those of the array.
    """
    chunks = tuple(tuple(map(int, sizes)) for sizes in chunks)
    assert tuple(map(sum, chunks)) == array.shape, (chunks, array.shape)
    if array.chunks == chunks:
        return array
    source = source_of(array)
    if source is not None:
        if _is_dear(None, [source], chunks):
            return None
        name = f"{source.name}-{tokenize(chunks)}"
        graph = HighLevelGraph(*_sliced(source, name, chunks))
        return untyped.Array(graph, name, chunks, meta=array._meta)
    found = origin_of(array)
    if found is None:
        return None
    work, sources, shape = found.job.work, found.sources, found.job.shape
    outputs = outputs_of(work, shape)
    if outputs[found.position].factors:
        # What stands in a chunk need be no whole number of elements.
        return None
    extent = outputs[found.position].extent
    fields = tuple(
        _around(sizes, a, n - b)
        for sizes, a, b, n in zip(chunks, extent.start, extent.stop, shape, strict=True)
    )
    if _is_dear(work, sources, fields):
        return None
    made = by_regions(work, sources, fields, outputs)
    return None if made is None else made[found.position]


def _around(sizes: tuple[int, ...], before: int, after: int) -> tuple[int, ...]:
    """The chunks of fields of which a result has so much less at its ends."""
    return (*([before] if before else []), *sizes, *([after] if after else []))


def _sliced(
    source: Source, name: str, chunks: Chunks
) -> tuple[dict[str, Any], dict[str, set[str]]]:
    """The layer that Dask itself would make of a source, with other chunks."""
    indices = tuple(range(len(chunks)))
    held = source.held if source.key is None else TaskRef(source.key)
    slices = ArraySliceDep(chunks)
    layer = blockwise(
        source.getter, name, indices, held, None, slices, indices,
        numblocks={}, _data_producer=True, **dict(source.options),
    )  # fmt: skip
    if source.key is None:
        return {name: layer}, {name: set()}
    node = MaterializedLayer({source.key: source.held})
    return {source.key: node, name: layer}, {source.key: set(), name: {source.key}}


def origin_of(array: Any) -> Origin | None:
    """The program that made an array of sources; None where there is no one such."""
    graph, position = array.dask, 0
    layer: Any = graph.layers.get(array.name)
    if isinstance(getattr(layer, "rule", None), Picked):
        position = layer.rule.number or 0
        layer = graph.layers.get(layer.rule.source)
    if isinstance(getattr(layer, "rule", None), Edges):
        own, passed = layer.rule, _beside(layer.rule.job, layer.rule.name) | {array.name}
        if layer.further is not None:
            rule, others = layer.further
            found = _sources_of(graph, rule)
            if found is not None:
                return Origin(rule.job, found, position, passed | others, layer)
        found = _sources_of(graph, own)
        return None if found is None else Origin(own.job, found, position, passed, layer)
    if type(layer) is not Blockwise:
        return None
    function: Any = layer.task.func
    if isinstance(function, operator.itemgetter):
        position = int(function.__reduce__()[1][0])
        layer = graph.layers.get(layer.indices[0][0])
        function = getattr(getattr(layer, "task", None), "func", None)
    if isinstance(function, Reading):
        job = function.job
        given = [held for held, _ in layer.indices[1:]]
        found = _held(graph, function.fields, given)
    else:
        owner = getattr(function, "__self__", None)
        if not isinstance(owner, Job) or function.__name__ != "on_whole":
            return None
        job = owner
        found = _sources(graph, job, [name for name, _ in layer.indices])
    if found is None:
        return None
    return Origin(job, found, position, _beside(job, layer.output) | {array.name}, layer)


def _beside(job: Job, name: str) -> frozenset[str]:
    """The names of all results of a program, the blocks of which are called so."""
    begin = f"{job.work.name}-all-"
    if not name.startswith(begin):
        return frozenset((name,))
    identity = name[len(begin) :]
    several = (f"{job.work.name}-{k}-{identity}" for k in range(len(job.work.wanted)))
    return frozenset((name, *several))


def _sources_of(graph: HighLevelGraph, rule: Any) -> tuple[Source, ...] | None:
    """The sources of blocks that are read from them, or made of chunks of them."""
    if isinstance(rule, Regions):
        return _held(graph, rule.fields, rule.held)
    names = [_before_joining(graph, field.name) for field in rule.fields]
    return _sources(graph, rule.job, names)


def _before_joining(graph: HighLevelGraph, name: str) -> str:
    rule = getattr(graph.layers.get(name), "rule", None)
    return rule.source if isinstance(rule, Joined) else name


def _sources(graph: HighLevelGraph, job: Job, names: Sequence[str]) -> tuple[Source, ...] | None:
    sources: list[Source] = []
    for name, dtype in zip(names, job.field_dtypes, strict=True):
        source = source_in(graph, name, dtype)
        if source is None:
            return None
        sources.append(source)
    return tuple(sources)


def _held(
    graph: HighLevelGraph, fields: Sequence[Field], given: Sequence[Any]
) -> tuple[Source, ...]:
    """The sources of fields that are given so: themselves, or the names of their nodes."""
    sources = []
    for field, held in zip(fields, given, strict=True):
        key = str(held.key) if isinstance(held, TaskRef) else None
        layer: Mapping[Any, Any] = {key: held} if key is None else graph.layers[key]
        what = layer[key]
        sources.append(field.source(what.value if isinstance(what, DataNode) else what, key))
    return tuple(sources)


def rule_of(job: Job, sources: Sequence[Source], rule: Edges) -> Regions:
    """The rule of the same blocks, computed by a program that reads these sources."""
    held = tuple(source.held if source.key is None else TaskRef(source.key) for source in sources)
    fields = tuple(map(Field.of, sources))
    return Regions(rule.name, job, rule.chunks, fields, held, rule.kept)


def with_nodes(array: Any, name: str, sources: Sequence[Source]) -> HighLevelGraph:
    """The graph of an array, in which a layer has the nodes of these sources below it."""
    graph: HighLevelGraph = array.dask
    nodes = {s.key: MaterializedLayer({s.key: s.held}) for s in sources if s.key is not None}
    layers: dict[str, Any] = {**nodes, **graph.layers}
    below = {**{key: set() for key in nodes}, **graph.dependencies}
    return HighLevelGraph(layers, {**below, name: {*below[name], *nodes}})
