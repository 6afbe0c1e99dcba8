"""Computations: a program on fields that are cut, and the arrays of Dask that it gives.

whole cores   no axis that the program works along is cut: each block is computed by itself
reading       the fields are views of sources: each block reads what it needs
faces         each block is made of its chunk and of its neighbours' faces
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from ... import limits
from ..blocks import Job, meta_of
from ..grid import Chunks, Output, Work, axes_of, cut_as, grid_of, grouped, outputs_of
from ..layout import Shape
from ..regions import Node
from .layer import Blocks, Field, Lazy, Source, Symbolic, known
from .sources import costs, sources_of

# Most of Dask's functions carry no annotations.
untyped: Any = da


@dataclass(eq=False)
class Computation:
    """A program on fields of a shape together, which are cut so; in Dask also as its `arrays`.

    On the client `layer` has the blocks, and `passed` names all arrays that it gives, and
    those that it passes by.  The same blocks may be made of what is `further` up.  Blocks read
    from `sources`, where there are some.
    """

    work: Work
    shape: Shape
    chunks: Chunks
    arrays: Sequence[Any] = ()
    sources: Sequence[Source] | None = None
    layer: Lazy | Symbolic | None = None
    passed: frozenset[str] = frozenset()
    further: Computation | None = None

    @cached_property
    def outputs(self) -> list[Output]:
        """What the wanted values are; raises where the program cannot be done on such fields."""
        return outputs_of(self.work, self.shape)

    @cached_property
    def identity(self) -> str:
        """Names the results: equal identities, equal elements."""
        arrays = [(array.name, array.dtype.str) for array in self.arrays]
        wanted = list(self.work.wanted)
        return str(tokenize(self.work.token, wanted, self.shape, self.chunks, arrays))

    def __dask_tokenize__(self) -> str:
        return self.identity

    @property
    def inputs(self) -> list[tuple[Any, np.dtype]]:
        """Each field, and the type that the program takes it as."""
        return list(zip(self.arrays, self.work.field_dtypes, strict=True))

    @cached_property
    def alone(self) -> bool:
        """Whether no axis is cut that the program works along."""
        return takes_whole(self.work.nodes, self.arrays, self.chunks)

    @property
    def fits(self) -> bool:
        """Whether all fields are cut so, and each block takes something of the next ones only."""
        alike = all(array.chunks == cut_as(array.shape, self.chunks) for array in self.arrays)
        return alike and grouped(self.work, self.chunks) == self.chunks

    def grouped(self) -> Computation:
        """The same in groups of chunks where these are thin, of which fields are put together."""
        groups = grouped(self.work, self.chunks)
        arrays = [
            array.rechunk(cut_as(array.shape, groups), method="tasks") for array in self.arrays
        ]
        return Computation(self.work, self.shape, groups, arrays)

    @property
    def names(self) -> list[str]:
        """The names of the results, as they are cut in blocks."""
        name, count = self.work.name, len(self.outputs)
        if count == 1:
            return [f"{name}-{self.identity}"]
        return [f"{name}-{k}-{self.identity}" for k in range(count)]

    def blocks(self, name: str = "") -> Blocks:
        """The rule of blocks that read from sources, or are made of chunks of fields cut so."""
        # Dask joins the names of tasks that it makes one: "all-x-0" may be one of its own.
        many = f"{self.work.name}-all-{self.identity}"
        name = name or (self.names[0] if len(self.outputs) == 1 else many)
        job = Job(self.work, self.shape, tuple([array.shape for array in self.arrays]))
        if self.sources:
            return Blocks(name, job, self.chunks, tuple(self.sources))
        axes = [] if self.alone else axes_of(self.work, self.chunks)
        # A text: Dask takes long to go through many numbers.
        thick = repr([[axis.depths(k) for k in range(len(axis.cuts))] for axis in axes])
        fields = []
        for array in self.arrays:
            missing = len(self.chunks) - len(array.chunks)
            pairs = zip(map(sum, array.chunks), map(sum, self.chunks[missing:]), strict=True)
            # A length that nobody knows is that of the whole.
            cut = tuple(own == n or own != own for own, n in pairs)
            fields.append(Field(array.name, f"faces-{tokenize(array.name, cut, thick)}", cut))
        return Blocks(name, job, self.chunks, tuple(fields))

    def results(self) -> list[Any]:
        """The results as arrays of Dask."""
        blocks, ndim = self.blocks(), len(self.chunks)
        graph = HighLevelGraph.merge(
            *(one.dask for one in self.arrays if one.name in blocks.below)
        )
        layers: dict[str, Any] = {blocks.name: Lazy(blocks)}
        needs: dict[str, set[str]] = {blocks.name: set(blocks.below)}
        if self.alone:
            layers[blocks.name], nodes = blocks.whole()
            layers |= {key: MaterializedLayer({key: node}) for key, node in nodes.items()}
            needs[blocks.name] |= nodes.keys()
            needs |= {key: set() for key in nodes}
        self.layer = layers[blocks.name]
        self.passed = frozenset((blocks.name, *self.names))
        if len(self.outputs) > 1:
            counts = {blocks.name: tuple(map(len, self.chunks))}
            for k, name in enumerate(self.names):
                pairs = [blocks.name, range(ndim), k, None]
                layers[name] = Symbolic.of(name, ndim, getitem, pairs, counts)
                needs[name] = {blocks.name}
        graph = HighLevelGraph({**graph.layers, **layers}, {**graph.dependencies, **needs})
        found = []
        for k, (name, output) in enumerate(zip(self.names, self.outputs, strict=True)):
            layers[name].origin = self, k
            meta = meta_of(self.arrays[0], ndim, output.dtype)
            whole = output.chunks(self.chunks)
            own = whole if self.alone else output.blocks(self.chunks)
            array = untyped.Array(graph, name, own, meta=meta)
            found.append(array if self.alone else array.rechunk(whole, method="tasks"))
        return found


def takes_whole(nodes: Sequence[Node], fields: Sequence[Any], whole: Chunks = ()) -> bool:
    """Whether each task has all that nodes look at along the axes that they work along.

    Every field is cut along the stack only, and all in the same way, as the whole is.
    """
    chunks = whole or grid_of(fields)[1]
    core = {len(chunks) + axis for node in nodes for axis in node.along}
    for own in [field.chunks for field in fields if hasattr(field, "chunks")]:
        for axis, sizes in enumerate(own, len(chunks) - len(own)):
            if axis in core:
                fits = len(sizes) == 1
            elif any(map(math.isnan, sizes)):
                fits = len(sizes) == len(chunks[axis])
            else:
                fits = sizes in (chunks[axis], (1,))
            if not fits:
                return False
    return all(len(chunks[axis]) == 1 for axis in core)


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
    source = known(array).source
    if source is not None:
        return (
            None
            if _is_dear(None, [source], chunks)
            else source.view(chunks, f"{source.name}-{tokenize(chunks)}")
        )
    found = known(array).origin
    if found is None:
        return None
    origin, position = found
    for one in (origin.further, origin):
        sources = sources_of(one.arrays) if one else None
        if one and sources:
            return _read_so(one, sources, position, chunks)
    return None


def _read_so(one: Computation, sources: Sequence[Source], position: int, chunks: Chunks) -> Any:
    """A result of a computation on sources in these chunks."""
    output = one.outputs[position]
    ends = zip(chunks, output.extent.spans, one.shape, strict=True)
    fields = tuple(_around(sizes, a, n - b) for sizes, (a, b), n in ends)
    # A chunk of a finer result need be no whole number of elements; one of a result that has not
    # all points begins at some of them only.
    resized = any(n > 1 for n in (*output.factors, *output.every))
    if resized or _is_dear(one.work, sources, fields):
        return None
    other = Computation(one.work, one.shape, fields, one.arrays, sources)
    return other.results()[position]


def _is_dear(work: Work | None, sources: Sequence[Source], chunks: Chunks) -> bool:
    """Whether much more is decoded than there is."""
    bytes_ = sum(s.dtype.itemsize * math.prod(s.shape) for s in sources)
    return costs(work, sources, chunks)[1] > limits.current.recut_ratio * bytes_


def _around(sizes: tuple[int, ...], before: int, after: int) -> tuple[int, ...]:
    """The chunks of fields of which a result has so much less at its ends."""
    return (*([before] if before else []), *sizes, *([after] if after else []))
