"""Sources: what an array is a plain view of, if it is one, and what reading it costs.

    ninepoint.open, arrays of NumPy     ->    what is sliced, and how much is decoded at once

Tasks that read from sources take of each what their block looks at, and depend on nothing: nothing
is moved.  What lies around a block is decoded again for each block that looks at it: that is the
price, and `costs` tells it.

The layers of such views are of our kind, and know their source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import DataNode, TaskRef
from dask.array.core import getter_nofancy
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.layers import ArraySliceDep

from ... import limits
from ..blocks import parts, spans_of
from ..layout import Region, Shape
from ..regions import mixed
from .bound import computed
from .grid import Chunks, axis_of, cut_as
from .job import Job, Work
from .layer import Symbolic, known

# Most of Dask's functions carry no annotations.
untyped: Any = da

# An array of NumPy beside sources is one node of the graph up to this size [bytes], which a worker
# fetches once and keeps; a larger one is cut, as Dask does it.
WHOLE = 2**26


@dataclass(frozen=True, slots=True)
class Source:
    """Something with slices, of which `pieces` so long are decoded at once; `name` is its own."""

    held: Any
    shape: Shape
    dtype: np.dtype[Any]
    pieces: Shape
    name: str

    @property
    def key(self) -> str:
        """What its node in a graph is called."""
        return f"original-{self.name}"

    def view(self, chunks: Chunks, name: str) -> Any:
        """An array of Dask, each chunk of which is a slice."""
        axes, node = range(len(chunks)), DataNode(self.key, self.held)
        pairs = [TaskRef(self.key), None, ArraySliceDep(chunks), axes]
        layer = Symbolic.of(name, len(axes), getter_nofancy, pairs, {}, _data_producer=True)
        layer.source = self
        layers = {self.key: MaterializedLayer({self.key: node}), name: layer}
        graph = HighLevelGraph(layers, {self.key: set(), name: {self.key}})
        return untyped.Array(graph, name, chunks, meta=np.empty((0,) * len(axes), self.dtype))


def read_block(job: Job, region: Region, *held: Any) -> Any:
    """Read what a block needs of what can be sliced, and compute it."""
    cuts = [tuple((n,) for n in one.shape) for one in held]
    return computed(job, region, cuts, [[one] for one in held])


def source_of(array: Any) -> Source | None:
    """What an array is a plain view of; None where its chunks are computed.

    An array of NumPy is a source, too, unless it is large.
    """
    if type(array) is np.ndarray:
        name = f"array-{tokenize(array)}" if array.nbytes <= WHOLE else ""
        whole = Source(array, array.shape, array.dtype, (1,) * array.ndim, name)
        return whole if name else None
    return known(array).source


def sources_of(fields: Sequence[Any]) -> list[Source] | None:
    """What fields are plain views of; None if one is computed."""
    sources = list(map(source_of, fields))
    found = [source for source in sources if source is not None]
    return found if len(found) == len(sources) else None


def readable(work: Work, fields: Sequence[Any], chunks: Chunks) -> list[Source] | None:
    """What blocks may read of fields, where little is decoded twice; None where they may not."""
    axes = enumerate(chunks, -len(chunks))
    if any(len(sizes) > 1 and mixed(work.nodes, axis) for axis, sizes in axes):
        # No block of neighbours serves calls that take an axis as a ring and others.
        return None
    sources = sources_of(fields)
    if sources is None or costs(work, sources, chunks)[0] > limits.current.decoded_ratio:
        return None
    return sources


def costs(work: Work | None, sources: Sequence[Source], chunks: Chunks) -> tuple[float, float]:
    """How many times as much is decoded as reading the blocks alone would decode, and in bytes.

    Without a program the blocks alone are read.
    """
    least = most = 0.0
    for source in sources:
        own = all_read = float(source.dtype.itemsize)
        axes = zip(source.pieces, cut_as(source.shape, chunks), strict=True)
        for axis, (piece, sizes) in enumerate(axes, -len(source.shape)):
            n = sum(sizes)
            if len(sizes) == 1:
                own, all_read = own * n, all_read * n
                continue
            spans = spans_of(sizes) if work is None else axis_of(work, sizes, axis).spans
            read = [one.source for part in parts((n,), spans, n) for one in part.strips]
            own *= decoded(piece, spans_of(sizes))
            all_read *= decoded(piece, [(one.start, one.stop) for one in read])
        least, most = least + own, most + all_read
    return most / least if least else 1.0, most


def decoded(piece: int, spans: Sequence[tuple[int, int]]) -> int:
    """How much is decoded for some spans of an axis, each on its own.

    >>> decoded(10, [(0, 10), (9, 21)])
    40
    """
    return sum((-(-b // piece) - a // piece) * piece for a, b in spans if b > a)
