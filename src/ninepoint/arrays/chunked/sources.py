"""Sources: what a Dask array is a plain view of, if it is one, and what reading it costs.

    da.from_zarr, da.from_array(h5py or netCDF variable, memory map), xarray's open_*, open
        ->   the object that is sliced, how Dask slices it, and its chunks

Tasks that read from sources take of each what their block looks at, and depend on nothing: nothing
is moved.  What lies around a block is decoded again for each block that looks at it: that is the
price, and `costs` tells it.

Recognised from the graph: the layer in which Dask slices the object, with nothing between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from dask._task_spec import DataNode, GraphNode, TaskRef
from dask.array.core import getter, getter_inline, getter_nofancy
from dask.base import tokenize
from dask.blockwise import Blockwise
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.layers import ArraySliceDep

from ... import limits
from ...backends.memory import empty
from ..blocks import parts, put_together
from ..borders import Array
from ..layout import Region, Shape
from ..regions import Span
from .bound import computed
from .grid import Chunks, cuts_of
from .halos import axis_of, looks
from .job import Job, Work

GETTERS = (getter, getter_nofancy, getter_inline)

# An array of NumPy beside sources is one node of the graph up to this size [bytes], which a worker
# fetches once and keeps; a larger one is cut, as Dask does it.
WHOLE = 2**26


@dataclass(frozen=True, slots=True)
class Source:
    """Something with slices, a Dask array of which is a plain view.

    `key` is its node in the graph, if it has one, `getter` what Dask slices it with, and `name`
    names its elements.
    """

    held: Any
    key: str | None
    getter: Any
    options: tuple[tuple[str, Any], ...]
    chunks: Chunks
    dtype: np.dtype[Any]
    name: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of its axes."""
        return tuple(map(sum, self.chunks))

    def read(self, held: Any, spans: Sequence[Span], whole: Shape, dtype: np.dtype[Any]) -> Array:
        """What stands at some points of the whole, beyond whose ends it begins again."""
        axes = zip(self.shape, spans, whole[len(whole) - len(spans) :], strict=True)
        own = [parts((n,), [span], length)[0] for n, span, length in axes]
        return put_together(own, [_Sliced(self, held, dtype)], partial(empty, dtype=dtype))

    @property
    def pieces(self) -> tuple[int, ...] | None:
        """How long along each axis that is which is decoded at once; None if nobody knows."""
        found = _pieces(self.held, len(self.chunks))
        return found if found is not None and len(found) == len(self.chunks) else None


@dataclass(frozen=True, slots=True)
class _Sliced:
    """What is sliced as Dask does it, with its locks."""

    source: Source
    held: Any
    dtype: np.dtype[Any]

    def __getitem__(self, index: tuple[slice, ...]) -> Array:
        found = self.source.getter(self.held, index, **dict(self.source.options))
        return np.asarray(found, self.dtype)


def read_block(job: Job, region: Region, sources: Sequence[Source], *held: Any) -> Any:
    """Read what a block needs of sources, each of which is `held` so, and compute it."""

    def read(k: int, spans: Sequence[Span]) -> Array:
        return sources[k].read(held[k], spans, job.shape, job.work.field_dtypes[k])

    return computed(job, region, [one.shape for one in sources], read)


def source_of(array: Any) -> Source | None:
    """What a Dask array is a plain view of; None where its chunks are computed.

    An array of NumPy is a source, too, unless it is large.
    """
    if type(array) is np.ndarray:
        return _in_memory(array) if array.nbytes <= WHOLE else None
    layers = getattr(getattr(array, "dask", None), "layers", {})
    if type(getattr(array, "_meta", None)) is not np.ndarray:
        return None
    found = source_in(array.dask, array.name, array.dtype) if array.name in layers else None
    return found if found is not None and found.chunks == array.chunks else None


def sources_of(fields: Sequence[Any]) -> list[Source] | None:
    """What fields are plain views of; None if one is computed."""
    sources = []
    for field in fields:
        source = source_of(field)
        if source is None:
            return None
        sources.append(source)
    return sources


def readable(work: Work, fields: Sequence[Any], chunks: Chunks) -> list[Source] | None:
    """What blocks may read of fields, where little is decoded twice; None where they may not."""
    sources = sources_of(fields)
    if sources is None or costs(work, sources, chunks)[0] > limits.current.decoded_ratio:
        return None
    return sources


def source_in(graph: HighLevelGraph, name: str, dtype: np.dtype[Any]) -> Source | None:
    """What a layer of a graph is a plain view of."""
    layer: Any = graph.layers.get(name)
    if isinstance(layer, MaterializedLayer) and len(layer) == 1:
        # An array of NumPy in one chunk.
        (only,) = layer.values()
        return _in_memory(only) if type(only) is np.ndarray and only.nbytes <= WHOLE else None
    if type(layer) is not Blockwise or len(layer.indices) != 2 or layer.new_axes:
        return None
    held: Any
    (held, absent), (slices, indices) = layer.indices
    cut = layer.io_deps.get(slices) if isinstance(slices, str) else None
    straight = absent is None and tuple(indices or ()) == tuple(layer.output_indices)
    task = layer.task
    if type(cut) is not ArraySliceDep or not straight or task.func not in GETTERS:
        return None
    if [getattr(a, "key", None) for a in task.args] != [f"__dask_blockwise__{k}" for k in (0, 1)]:
        return None
    key = None
    if isinstance(held, TaskRef):
        key = str(held.key)
        node: Any = graph.layers.get(key, {})
        held = node.get(key)
        if isinstance(held, DataNode):
            held = held.value
    if held is None or isinstance(held, GraphNode) or not hasattr(held, "__getitem__"):
        return None
    options = tuple(sorted(task.kwargs.items()))
    return Source(held, key, task.func, options, cut.chunks, dtype, name)


def _in_memory(array: Array) -> Source:
    name = f"array-{tokenize(array)}"
    chunks = tuple((n,) for n in array.shape)
    return Source(array, f"original-{name}", getter, (), chunks, array.dtype, name)


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
            blocks = cuts_of(sizes)
            far = work is not None and looks(work, -axis)[0][:2] != (0, 0)
            if pieces is None and (far or sizes != source.chunks[axis]):
                return float("inf"), float("inf")
            piece = 1 if pieces is None else pieces[axis]
            alone = decoded(piece, blocks)
            own, all_read = own * alone, all_read * alone
            if work is not None and far:
                inside = parts((n,), axis_of(work, sizes, axis).spans, n)
                read = [strip.source for part in inside for strip in part.strips]
                all_read *= decoded(piece, [(s.start, s.stop) for s in read]) / alone
        least, most = least + own, most + all_read
    return most / least if least else 1.0, most


def decoded(piece: int, spans: Sequence[tuple[int, int]]) -> int:
    """How much is decoded for some spans of an axis, each on its own.

    >>> decoded(10, [(0, 10), (9, 21)])
    40
    """
    return sum((-(-b // piece) - a // piece) * piece for a, b in spans if b > a)


def _pieces(held: Any, ndim: int) -> tuple[int, ...] | None:
    """Ask what is sliced, or what it wraps, how it is stored."""
    if isinstance(held, np.ndarray):
        return (1,) * ndim
    key = getattr(getattr(held, "key", None), "tuple", None)
    if hasattr(held, "array") and not hasattr(held, "chunks"):
        inner = _pieces(held.array, len(key) if key else ndim)
        if inner is None or key is None or len(inner) != len(key):
            return inner
        # Of xarray: a view, whose axes are those that it does not take one element of.
        return tuple(p for p, k in zip(inner, key, strict=True) if isinstance(k, slice))
    if hasattr(held, "get_array"):
        return _pieces(held.get_array(), ndim)
    if callable(getattr(held, "chunking", None)):
        told = held.chunking()
        return tuple(told) if isinstance(told, list | tuple) else (1,) * ndim
    if hasattr(held, "vrt_params"):
        # Of rioxarray: bands of blocks; what is warped is computed from many.
        blocks = held.manager.acquire().block_shapes
        return None if held.vrt_params else (1, *map(int, blocks[0]))
    if hasattr(held, "chunks"):
        told = held.chunks
        if told is None:
            # Of HDF5: not cut, so that any part can be read alone.
            return (1,) * ndim
        whole = isinstance(told, tuple) and all(isinstance(n, int) and n > 0 for n in told)
        return tuple(told) if whole else None
    return None
