"""The three ways to make the blocks of a computation as a graph of Dask.

whole cores   no axis that the program works along is cut: one symbolic layer, each block of which
              is computed by itself; a million chunks cost nothing
reading       the fields are views of something that can be sliced: each task reads what it needs
faces         each block is made of its chunk and of its neighbours' faces
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dask.array as da
from dask._task_spec import DataNode
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.layers import ArraySliceDep

from ..layout import Shape
from ..regions import mixed
from .computation import Computation
from .grid import Chunks, cut_to
from .job import Work, whole_of
from .layer import Lazy, Origin, Symbolic, origin_of
from .places import meta_of
from .reading import Field, Reading
from .sources import Source, readable

# Most of Dask's functions carry no annotations.
untyped: Any = da


def on_whole_cores(one: Computation) -> list[Any]:
    """Give the results, where each task has all that it looks at: one call per chunk."""
    ndim = len(one.chunks)
    function, pairs, nodes = one.task(whole_of)
    for array in one.arrays:
        pairs += [array.name, range(ndim - array.ndim, ndim)]
    counts = {array.name: array.numblocks for array in one.arrays}
    layer = Symbolic.of(one.alone, ndim, function, pairs, counts)
    return _symbolic(one, layer, one.arrays, nodes)


def by_reading(one: Computation, sources: Sequence[Source]) -> list[Any] | None:
    """Give the results, each block of which reads what it needs.

    There are none where several results have different points, or an axis is cut that some nodes
    take as a ring and others do not: no block of neighbours serves both.
    """
    first = one.outputs[0]
    alike = all((o.extent, o.factors) == (first.extent, first.factors) for o in one.outputs)
    if not alike or _is_mixed(one):
        return None
    cuts = cut_to(first.extent, one.chunks)
    layer, nodes = _reading(one, sources, one.alone, first.extent.start, cuts)
    return _symbolic(one, layer, [], nodes)


def _is_mixed(one: Computation) -> bool:
    """Whether an axis is cut that some nodes take as a ring and others do not."""
    axes = enumerate(one.chunks, -len(one.chunks))
    return any(len(sizes) > 1 and mixed(one.work.nodes, axis) for axis, sizes in axes)


def _reading(
    one: Computation, sources: Sequence[Source], name: str, first: Shape, cuts: Chunks
) -> tuple[Symbolic, dict[str, Any]]:
    """The layer of blocks that read from sources, which begin at `first`, and their nodes."""
    fields = zip(sources, one.work.field_dtypes, strict=True)
    reading = Reading(first, tuple(Field.of(*pair) for pair in fields))
    function, pairs, nodes = one.task(reading)
    pairs += [ArraySliceDep(cuts), range(len(cuts))]
    for source in sources:
        pairs += [source.ref, None]
        nodes |= source.node
    return Symbolic.of(name, len(cuts), function, pairs, {}), nodes


def by_faces(one: Computation) -> list[Any]:
    """Give the results, of blocks that are made of chunks and of faces of their neighbours."""
    recut, blocks, results = one.rules()
    graph = HighLevelGraph.merge(*(array.dask for array in one.arrays))
    for rule in recut:
        graph = _above(graph, rule.name, Lazy(rule), {rule.source})
    layer = Lazy(blocks)
    graph = _above(graph, blocks.name, layer, {field.name for field in blocks.fields})
    return _arrays(one, graph, layer, {rule.name: Lazy(rule) for rule in results}, blocks.name)


def _symbolic(
    one: Computation, layer: Symbolic, arrays: Sequence[Any], nodes: Mapping[str, Any]
) -> list[Any]:
    """The results of a symbolic layer on arrays, or on nodes."""
    name, ndim = one.alone, len(one.chunks)
    graph = _above(
        HighLevelGraph.merge(*(array.dask for array in arrays)), name, layer,
        {array.name for array in arrays},
    )  # fmt: skip
    tops = {}
    if len(one.outputs) > 1:
        axes = range(ndim)
        counts = {name: tuple(map(len, one.outputs[0].chunks(one.chunks)))}
        for k, top in enumerate(one.names):
            tops[top] = Symbolic.of(top, ndim, operator.itemgetter(k), [name, axes], counts)
    return _arrays(one, with_nodes(graph, name, nodes), layer, tops, name)


def _above(graph: HighLevelGraph, name: str, layer: Any, below: Iterable[str]) -> HighLevelGraph:
    """A graph with one more layer, which takes blocks of others."""
    layers: dict[str, Any] = {**graph.layers, name: layer}
    return HighLevelGraph(layers, {**graph.dependencies, name: set(below)})


def with_nodes(graph: HighLevelGraph, name: str, nodes: Mapping[str, Any]) -> HighLevelGraph:
    """A graph in which a layer has some nodes below it."""
    for key, value in nodes.items():
        if key not in graph.layers:
            graph = _above(graph, key, MaterializedLayer({key: DataNode(key, value)}), ())
    return _above(graph, name, graph.layers[name], {*graph.dependencies[name], *nodes})


def _arrays(
    one: Computation, graph: HighLevelGraph, layer: Any, tops: Mapping[str, Any], name: str
) -> list[Any]:
    """The results: what the layer of this name gives, or what is taken of it."""
    names = frozenset((name, *one.names))
    origin = Origin(one, names, layer)
    results = []
    for k, output in enumerate(one.outputs):
        top = tops.get(one.names[k], layer)
        top.origin, top.position = origin, k
        full = graph if top is layer else _above(graph, one.names[k], top, [name])
        meta = meta_of(one.arrays[0], len(one.chunks), output.dtype)
        results.append(untyped.Array(full, one.names[k], output.chunks(one.chunks), meta=meta))
    return results


def made_further(
    made: Sequence[Any],
    work: Work,
    inputs: Sequence[tuple[Any, ...]],
    passed: frozenset[str],
    *,
    reads: bool,
) -> bool:
    """Let arrays be made from what is further up, where nobody asks for those `passed` by.

    Parameters
    ----------
    made : sequence of dask.array.Array
        Results of one call, made of blocks with faces.
    work : Work
        A program that gives the same of other fields.
    inputs : sequence
        These fields, each also as an array of Dask; see `Computation.inputs`.
    passed : frozenset
        Names of arrays.
    reads : bool
        Whether blocks are to read the fields, or be made of faces of chunks that the graph has.

    Returns
    -------
    bool
        Whether that can be, and little is read twice.
    """
    found = origin_of(made[0])
    assert found is not None, made
    origin, rule = found[0], found[0].layer.rule
    fields, arrays, _ = map(list, zip(*inputs, strict=True))
    one = Computation(work, rule.job.shape, rule.chunks, fields, arrays)
    layer: Any
    if reads:
        sources = readable(work, fields, rule.chunks)
        if sources is None or _is_mixed(one):
            return False
        layer, nodes = _reading(one, sources, rule.name, (0,) * len(rule.chunks), rule.chunks)
        for array in made:
            array.dask = with_nodes(array.dask, rule.name, nodes)
    else:
        blocks = one.rules().blocks
        known = all(field.name in made[0].dask.layers for field in blocks.fields)
        if not known or blocks.chunks != rule.chunks:
            return False
        layer = Lazy(replace(blocks, name=rule.name))
    origin.layer.further = layer, passed, reads
    origin.further = Origin(one, origin.names | passed, layer)
    return True
