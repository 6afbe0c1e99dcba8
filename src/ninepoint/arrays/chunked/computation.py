"""Computations: a program on fields that are cut, and the three ways to make its blocks.

whole cores   no axis that the program works along is cut: one symbolic layer, each block of which
              is computed by itself; a million chunks cost nothing
reading       the fields are views of something that can be sliced: each task reads what it needs
faces         each block is made of its chunk and of its neighbours' faces
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import DataNode, TaskRef
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.layers import ArraySliceDep

from ... import limits
from ..layout import Shape
from ..regions import mixed
from .grid import Chunks, cut_to
from .job import Job, Work, whole_of
from .layer import Lazy, Origin, Symbolic, blockwise, origin_of
from .outputs import Output, outputs_of
from .places import meta_of
from .reading import Field, Reading
from .rules import Rules, rules_of
from .sources import Source, costs, readable, source_of, sources_of

# Most of Dask's functions carry no annotations.
untyped: Any = da


@dataclass(frozen=True, eq=False)
class Computation:
    """A program on fields that are cut so, in Dask also as its `arrays`."""

    job: Job
    outputs: Sequence[Output]
    chunks: Chunks
    fields: Sequence[Any] = ()
    arrays: Sequence[Any] = ()

    @staticmethod
    def of(
        work: Work,
        shape: Shape,
        chunks: Chunks,
        fields: Sequence[Any] = (),
        arrays: Sequence[Any] = (),
    ) -> Computation:
        """The computation on fields of this shape together; raises where it cannot be done."""
        return Computation(Job(work, shape), outputs_of(work, shape), chunks, fields, arrays)

    @cached_property
    def identity(self) -> str:
        """Names the results: equal identities, equal elements."""
        work, arrays = self.job.work, [(array.name, array.dtype.str) for array in self.arrays]
        found = tokenize(work.token, list(work.wanted), self.job.shape, self.chunks, arrays)
        return str(found)

    def __dask_tokenize__(self) -> str:
        return self.identity

    @property
    def names(self) -> list[str]:
        """The names of the results."""
        name, count = self.job.work.name, len(self.outputs)
        if count == 1:
            return [f"{name}-{self.identity}"]
        return [f"{name}-{k}-{self.identity}" for k in range(count)]

    @property
    def whole(self) -> str:
        """What blocks are called that are not results yet."""
        # Dask joins the names of tasks that it makes one: "all-x-0" may be one of its own.
        return f"{self.job.work.name}-all-{self.identity}"

    @property
    def alone(self) -> str:
        """What blocks are called, which are the only result."""
        return self.names[0] if len(self.outputs) == 1 else self.whole

    def rules(self) -> Rules:
        """The rules of blocks that are made of chunks and of faces of their neighbours."""
        inputs = [(array.name, array.chunks) for array in self.arrays]
        return rules_of(self.job, self.outputs, self.chunks, inputs, self.whole, self.names)

    def task(self, function: Any) -> tuple[Any, list[Any], dict[str, Any]]:
        """A function of the job as one of what a task is given, and the node that has the job."""
        apart = self.job.apart
        if not apart:
            return partial(function, self.job), [], {}
        return function, [TaskRef(apart), None], {apart: self.job}


def on_whole_cores(one: Computation) -> list[Any]:
    """Give the results, where each task has all that it looks at: one call per chunk."""
    ndim = len(one.chunks)
    function, pairs, nodes = one.task(whole_of)
    for array in one.arrays:
        pairs += [array.name, range(ndim - array.ndim, ndim)]
    counts = {array.name: array.numblocks for array in one.arrays}
    layer = Symbolic.of(one.alone, ndim, function, pairs, counts)
    return _symbolic(one, layer, one.arrays, nodes)


def by_reading(one: Computation) -> list[Any] | None:
    """Give the results, each block of which reads what it needs; None where that cannot be."""
    sources = sources_of(one.fields)
    layer = None if sources is None else _reading(one, sources)
    return None if layer is None else _symbolic(one, layer[0], [], layer[1])


def _reading(
    one: Computation, sources: Sequence[Source], name: str = ""
) -> tuple[Symbolic, dict[str, Any]] | None:
    """The layer of blocks that read from sources, and the nodes of these.

    There is none where several results have different points, or an axis is cut that some nodes
    take as a ring and others do not: no block of neighbours serves both.
    """
    work, first, ndim = one.job.work, one.outputs[0], len(one.chunks)
    if any(len(c) > 1 and mixed(work.nodes, k) for k, c in enumerate(one.chunks, -ndim)):
        return None
    if any((o.extent, o.factors) != (first.extent, first.factors) for o in one.outputs):
        return None
    fields = zip(sources, work.field_dtypes, strict=True)
    reading = Reading(first.extent.start, tuple(Field.of(*pair) for pair in fields))
    function, pairs, nodes = one.task(reading)
    pairs += [ArraySliceDep(cut_to(first.extent, one.chunks)), range(ndim)]
    for source in sources:
        pairs += [source.ref, None]
        nodes |= source.node
    return Symbolic.of(name or one.alone, ndim, function, pairs, {}), nodes


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
    return _arrays(one, _with_nodes(graph, name, nodes), layer, tops, name)


def _above(graph: HighLevelGraph, name: str, layer: Any, below: Iterable[str]) -> HighLevelGraph:
    """A graph with one more layer, which takes blocks of others."""
    layers: dict[str, Any] = {**graph.layers, name: layer}
    return HighLevelGraph(layers, {**graph.dependencies, name: set(below)})


def _with_nodes(graph: HighLevelGraph, name: str, nodes: Mapping[str, Any]) -> HighLevelGraph:
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
    origin = Origin(one.job.work, tuple(one.fields), tuple(one.arrays), names, layer)
    results = []
    for k, output in enumerate(one.outputs):
        top = tops.get(one.names[k], layer)
        top.origin, top.position = origin, k
        full = graph if top is layer else _above(graph, one.names[k], top, [name])
        meta = meta_of(one.arrays[0], len(one.chunks), output.dtype)
        results.append(untyped.Array(full, one.names[k], output.chunks(one.chunks), meta=meta))
    return results


def made_further(
    made: Sequence[Any], work: Work, inputs: Sequence[tuple[Any, Any]], passed: frozenset[str]
) -> bool:
    """Let arrays be made from what is further up, where nobody asks for those `passed` by.

    Parameters
    ----------
    made : sequence of dask.array.Array
        Results of one call, made of blocks with faces.
    work : Work
        A program that gives the same of other fields.
    inputs : sequence of pairs
        These fields, each also as an array of Dask.
    passed : frozenset
        Names of arrays.

    Returns
    -------
    bool
        Whether there is a way: their blocks can be read, or are made of faces of chunks that the
        graph has.
    """
    found = origin_of(made[0])
    assert found is not None, made
    origin, rule = found[0], found[0].layer.rule
    fields, arrays = [field for field, _ in inputs], [array for _, array in inputs]
    one = Computation.of(work, rule.job.shape, rule.chunks, fields, arrays)
    sources = readable(work, fields, rule.chunks)
    layer: Any = None
    if sources is not None:
        reading = _reading(one, sources, rule.name)
        if reading is not None:
            layer, nodes = reading
            for array in made:
                array.dask = _with_nodes(array.dask, rule.name, nodes)
    reads = layer is not None
    if layer is None:
        blocks = one.rules().blocks
        known = all(field.name in made[0].dask.layers for field in blocks.fields)
        if known and blocks.chunks == rule.chunks:
            layer = Lazy(replace(blocks, name=rule.name))
    if layer is None:
        return False
    origin.layer.further = layer, passed, reads
    origin.further = Origin(work, tuple(fields), tuple(arrays), origin.names | passed, layer)
    return True


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
        return None if _is_dear(None, [source], chunks) else _sliced(source, chunks, array._meta)
    origin, position = origin_of(array) or (None, 0)
    for way in (origin and origin.further, origin):
        sources = way and sources_of(way.fields)
        if way and sources:
            break
    else:
        return None
    shape = np.broadcast_shapes(*(field.shape for field in way.fields))
    output = outputs_of(way.work, shape)[position]
    extent = output.extent
    fields = tuple(
        _around(sizes, a, n - b)
        for sizes, a, b, n in zip(chunks, extent.start, extent.stop, shape, strict=True)
    )
    # What stands in a chunk of a finer result need be no whole number of elements.
    if output.factors or _is_dear(way.work, sources, fields):
        return None
    made = by_reading(Computation.of(way.work, shape, fields, way.fields, way.arrays))
    return None if made is None else made[position]


def _is_dear(work: Work | None, sources: Sequence[Source], chunks: Chunks) -> bool:
    """Whether much more is decoded than there is."""
    bytes_ = sum(s.dtype.itemsize * math.prod(s.shape) for s in sources)
    return costs(work, sources, chunks)[1] > limits.current.recut_ratio * bytes_


def _around(sizes: tuple[int, ...], before: int, after: int) -> tuple[int, ...]:
    """The chunks of fields of which a result has so much less at its ends."""
    return (*([before] if before else []), *sizes, *([after] if after else []))


def _sliced(source: Source, chunks: Chunks, meta: Any) -> Any:
    """The array that Dask itself would make of a source, with other chunks."""
    name = f"{source.name}-{tokenize(chunks)}"
    indices = tuple(range(len(chunks)))
    layer = blockwise(
        source.getter, name, indices, source.ref, None, ArraySliceDep(chunks), indices,
        numblocks={}, _data_producer=True, **dict(source.options),
    )  # fmt: skip
    graph = _with_nodes(HighLevelGraph({name: layer}, {name: set()}), name, source.node)
    return untyped.Array(graph, name, chunks, meta=meta)
