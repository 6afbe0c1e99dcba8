"""Regions: a task reads its block, and what is looked at around it, from the source itself.

    source of each field     |           any array that can be sliced           |
    one task                            [--[  block  ]--]      read, run, give the block

No task depends on another one, so nothing is moved, the graph is a rule whatever the number of
chunks, and a thread holds the block that it reads and the one that it makes.  What lies around a
block is decoded again for each block that looks at it: that is the price, and `costs` tells it.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import TaskRef
from dask.base import tokenize
from dask.blockwise import Blockwise
from dask.blockwise import blockwise as core_blockwise
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.layers import ArraySliceDep

from ...backends.memory import empty
from ...backends.threads import serial
from ..blocks import Part, parts
from ..borders import Array
from ..layout import Region, Shape
from ..regions import Span, look, mixed, needed
from ..run import Block, Domain
from .edges import Edges
from .grid import Chunks, cuts_of
from .groups import Joined, Picked
from .job import Job, Work
from .outputs import Output, outputs_of
from .sources import Source, decoded, source_in, source_of
from .views import View, within

# Most of Dask's functions carry no annotations.
untyped: Any = da
blockwise: Any = core_blockwise

# How many times as much may be decoded as the blocks alone need: half more, and a little, so that
# shards of eight by eight chunks are among it, which decode 1.56 times as much far from the ends.
# (Four blurs from shards to shards, 36 of 16 MB on two threads, took 0.6 times as long so as by
# chunks and their edges, and 1.0 times with 9 shards, under load: `benchmarks/scale/regions.py`.)
DECODING = 1.6

# And how many times as much as there is for blocks that somebody else asks for, where to put them
# together of others would move them.
RECUT = 2.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What every task of one program on sources has in common."""

    work: Work
    shape: Shape
    # Where the results begin, which have fewer points than the fields under "valid".
    first: Shape
    sources: tuple[_Field, ...]

    def __call__(self, slices: tuple[slice, ...], *held: Any) -> Any:
        """Read what the block needs, and compute it."""
        spans = [(s.start + a, s.stop + a) for s, a in zip(slices, self.first, strict=True)]
        wanted = Region(tuple(a for a, _ in spans), tuple(b for _, b in spans))
        if not wanted.points:
            made = [np.empty(wanted.shape, o.dtype) for o in outputs_of(self.work, self.shape)]
            return _bare(made)
        taken = [
            taken_of(self.work, span, n, axis)
            for axis, (span, n) in enumerate(zip(spans, self.shape, strict=True), -len(spans))
        ]
        arrays = [
            _read(one, what, taken, self.shape)
            for one, what in zip(self.sources, held, strict=True)
        ]
        block = Block(tuple(arrays), tuple(a for a, _ in taken), Domain(self.shape))
        with serial():
            return _bare(self.work.run(block, wanted))


@dataclass(frozen=True, slots=True)
class _Field:
    """How a field is read."""

    name: str
    shape: Shape
    dtype: np.dtype[Any]
    getter: Any
    options: tuple[tuple[str, Any], ...]
    view: View

    def read(self, held: Any, index: tuple[slice, ...]) -> Array:
        """Slice what is held, as Dask does it, with its locks."""
        found = self.getter(held, within(self.view, index), **dict(self.options))
        return np.asarray(found, self.dtype)

    def __call__(self, held: Any, index: tuple[slice, ...]) -> Array:
        """Do so as a task."""
        return self.read(held, index)


def _field_of(source: Source) -> _Field:
    return _Field(
        source.name, source.shape, source.dtype, source.getter, source.options, source.view
    )


def _read(field: _Field, held: Any, taken: Sequence[Span], shape: Shape) -> Array:
    """Read what is taken of a field; beyond the ends of an axis it begins again."""
    ndim = len(field.shape)
    axes: list[Part] = [
        parts((n,), [span], whole)[0]
        for n, span, whole in zip(
            field.shape, taken[len(taken) - ndim :], shape[len(shape) - ndim :], strict=True
        )
    ]
    if all(len(axis.strips) == 1 for axis in axes):
        found = field.read(held, tuple(a.strips[0].source for a in axes))
        if found.shape == tuple(axis.length for axis in axes):
            return found
    result: Array = empty(tuple(axis.length for axis in axes), field.dtype)
    for strips in itertools.product(*(axis.strips for axis in axes)):
        index = tuple(strip.source for strip in strips)
        result[tuple(s.target for s in strips)] = field.read(held, index)
    return result


def taken_of(work: Work, span: Span, n: int, axis: int) -> Span:
    """What of the fields a block takes along an axis, all of them alike."""
    if span[0] == span[1]:
        return span
    values, _ = needed(work.nodes, work.wanted, span, n, axis)
    found = [values[value] for value in range(len(work.field_dtypes)) if value in values]
    return min(a for a, _ in found), max(b for _, b in found)


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
            first = source.first[axis]
            if n != sum(sizes) or len(sizes) == 1:
                own, all_read = own * n, all_read * n
                continue
            looks = work is not None and any(_looks(work, axis))
            if pieces is None and (looks or sizes != source.chunks[axis]):
                return float("inf"), float("inf")
            piece = 1 if pieces is None else pieces[axis]
            spans = [span for span in cuts_of(sizes) if span[1] > span[0]]
            alone = decoded(first, piece, spans)
            own *= alone
            if work is None or not looks:
                all_read *= alone
                continue
            inside = [run for a in spans for run in _inside(taken_of(work, a, n, axis), n)]
            all_read *= decoded(first, piece, inside)
        least, most = least + own, most + all_read
    return most / least if least else 1.0, most


def _is_dear(work: Work | None, sources: Sequence[Source], chunks: Chunks) -> bool:
    """Whether much more is decoded than there is."""
    bytes_ = sum(s.dtype.itemsize * math.prod(s.shape) for s in sources)
    return costs(work, sources, chunks)[1] > RECUT * bytes_


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
    if any(output.extent != extent for output in outputs):
        return None
    cut = tuple(
        _kept(sizes, a, b) for sizes, a, b in zip(chunks, extent.start, extent.stop, strict=True)
    )
    identity = tokenize(
        work.token, list(work.wanted), shape, cut, "regions", [s.name for s in sources],
        [s.dtype.str for s in sources],
    )  # fmt: skip
    reading = Reading(work, shape, extent.start, tuple(map(_field_of, sources)))
    alone = len(outputs) == 1
    # Dask joins the names of tasks that it makes one: "all-x-0" may be one of its own.
    name = f"{work.name}-{identity}" if alone else f"{work.name}-all-{identity}"
    graph = HighLevelGraph(*_layers(reading, name, sources, cut))
    if alone:
        return [_array(graph, name, cut, outputs[0].dtype)]
    together = _array(graph, name, cut, np.dtype(object))
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


def _kept(sizes: Sequence[int], first: int, last: int) -> tuple[int, ...]:
    """The chunks of an axis, of which a result has these points."""
    if (first, last) == (0, sum(sizes)):
        return tuple(sizes)
    inside = [max(0, min(b, last) - max(a, first)) for a, b in cuts_of(sizes)]
    return tuple(size for size in inside if size) or (0,)


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


def _bare(results: list[Array]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


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
    found = _program_of(array)
    if found is None:
        return None
    work, sources, shape, position = found
    outputs = outputs_of(work, shape)
    extent = outputs[position].extent
    fields = tuple(
        _around(sizes, a, n - b)
        for sizes, a, b, n in zip(chunks, extent.start, extent.stop, shape, strict=True)
    )
    if _is_dear(work, sources, fields):
        return None
    made = by_regions(work, sources, fields, outputs)
    return None if made is None else made[position]


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
    if all(part == (0, False) for part in source.view):
        layer = blockwise(
            source.getter, name, indices, held, None, slices, indices,
            numblocks={}, _data_producer=True, **dict(source.options),
        )  # fmt: skip
    else:
        layer = blockwise(
            _field_of(source), name, indices, held, None, slices, indices,
            numblocks={}, _data_producer=True,
        )  # fmt: skip
    if source.key is None:
        return {name: layer}, {name: set()}
    node = MaterializedLayer({source.key: source.held})
    return {source.key: node, name: layer}, {source.key: set(), name: {source.key}}


def _program_of(array: Any) -> tuple[Work, list[Source], Shape, int] | None:
    """The program that made an array of sources, these, their shape, and which result it is."""
    graph, position = array.dask, 0
    layer = graph.layers.get(array.name)
    rule = getattr(layer, "rule", None)
    if isinstance(rule, Picked):
        position = rule.number or 0
        rule = getattr(graph.layers.get(rule.source), "rule", None)
    if isinstance(rule, Edges):
        names = [_before_joining(graph, field.name) for field in rule.fields]
        return _from(graph, rule.job, names, position)
    if type(layer) is not Blockwise:
        return None
    function: Any = layer.task.func
    if isinstance(function, operator.itemgetter):
        position = int(function.__reduce__()[1][0])
        layer = graph.layers.get(layer.indices[0][0])
        function = getattr(getattr(layer, "task", None), "func", None)
    if isinstance(function, Reading):
        return function.work, _again(function, layer, graph), function.shape, position
    job = getattr(function, "__self__", None)
    if not isinstance(job, Job) or function.__name__ != "on_whole":
        return None
    return _from(graph, job, [name for name, _ in layer.indices], position)


def _before_joining(graph: HighLevelGraph, name: str) -> str:
    rule = getattr(graph.layers.get(name), "rule", None)
    return rule.source if isinstance(rule, Joined) else name


def _from(
    graph: HighLevelGraph, job: Job, names: Sequence[str], position: int
) -> tuple[Work, list[Source], Shape, int] | None:
    sources: list[Source] = []
    for name, dtype in zip(names, job.field_dtypes, strict=True):
        source = source_in(graph, name, dtype)
        if source is None:
            return None
        sources.append(source)
    return job.work, sources, job.shape, position


def _again(reading: Reading, layer: Any, graph: HighLevelGraph) -> list[Source]:
    """The sources of a layer of regions."""
    sources = []
    for field, (held, _) in zip(reading.sources, layer.indices[1:], strict=True):
        key = str(held.key) if isinstance(held, TaskRef) else None
        what: Mapping[Any, Any] = graph.layers[key] if key is not None else {key: held}
        one = what[key]
        chunks = tuple((n,) for n in field.shape)
        sources.append(
            Source(
                one, key, field.getter, field.options, field.view, chunks, field.dtype, field.name
            )
        )
    return sources
