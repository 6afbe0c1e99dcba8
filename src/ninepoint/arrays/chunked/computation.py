"""Computations: a program on fields that are cut, and the arrays of Dask that it gives.

whole cores   no axis that the program works along is cut: each task takes its chunks
regions       the fields are views of something that can be sliced: each task reads what it
              needs; chosen where that decodes little more than half more than the blocks alone
edges         each block is made of its chunk and of faces of its neighbours
groups        the same on groups of chunks, where these are thin or fields are cut otherwise

What such a plan costs is said before anything is run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from ...base import limits
from .. import accepted
from ..blocks import Job, meta_of, part_of
from ..grid import (
    Chunks,
    Output,
    axes_of,
    axis_of,
    cut_as,
    grid_of,
    grouped,
    lazy,
    outputs_of,
)
from ..layout import Shape
from ..regions import Node, Program, rings, spans_of
from .layer import Blocks, Field, Lazy, Source, Symbolic, known

# Most of Dask's functions carry no annotations.
untyped: Any = da


@dataclass(eq=False)
class Computation:
    """A program on fields of a shape together, which are cut so; in Dask also as its `arrays`.

    On the client `layer` has the blocks, and `passed` names all arrays that it gives, and
    those that it passes by.  The same blocks may be made of what is `further` up.  Blocks read
    from `sources`, where there are some.
    """

    program: Program
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
        return outputs_of(self.program, self.shape)

    @cached_property
    def identity(self) -> str:
        """Names the results: equal identities, equal elements."""
        arrays = [(array.name, array.dtype.str) for array in self.arrays]
        wanted = list(self.program.wanted)
        return str(tokenize(self.program.token, wanted, self.shape, self.chunks, arrays))

    def __dask_tokenize__(self) -> str:
        return self.identity

    @property
    def inputs(self) -> list[tuple[Any, np.dtype]]:
        """Each field, and the type that the program takes it as."""
        return list(zip(self.arrays, self.program.field_dtypes, strict=True))

    @cached_property
    def alone(self) -> bool:
        """Whether no axis is cut that the program works along."""
        return takes_whole(self.program.nodes, self.arrays, self.chunks)

    @property
    def fits(self) -> bool:
        """Whether all fields are cut so, and each block takes something of the next ones only."""
        alike = all(array.chunks == cut_as(array.shape, self.chunks) for array in self.arrays)
        return alike and grouped(self.program, self.chunks) == self.chunks

    def grouped(self) -> Computation:
        """The same in groups of chunks where these are thin, of which fields are put together."""
        groups = grouped(self.program, self.chunks)
        arrays = [
            array.rechunk(cut_as(array.shape, groups), method="tasks") for array in self.arrays
        ]
        return Computation(self.program, self.shape, groups, arrays)

    @property
    def names(self) -> list[str]:
        """The names of the results, as they are cut in blocks."""
        name, count = self.program.name, len(self.outputs)
        if count == 1:
            return [f"{name}-{self.identity}"]
        return [f"{name}-{k}-{self.identity}" for k in range(count)]

    def blocks(self, name: str = "") -> Blocks:
        """The rule of blocks that read from sources, or are made of chunks of fields cut so."""
        # Dask joins the names of tasks that it makes one: "all-x-0" may be one of its own.
        many = f"{self.program.name}-all-{self.identity}"
        name = name or (self.names[0] if len(self.outputs) == 1 else many)
        job = Job(self.program, self.shape, tuple([array.shape for array in self.arrays]))
        if self.sources:
            return Blocks(name, job, self.chunks, tuple(self.sources))
        axes = [] if self.alone else axes_of(self.program, self.chunks)
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


_WHY = {
    "whole cores": "no axis that it works along is cut",
    "regions": "each task reads its block, and what lies around it, from the source",
    "edges": "each block is made of its chunk and of its neighbours' faces",
    "groups": "chunks are thin for how far it looks, so {} groups of them are computed; results "
    "keep the chunks",
    "put together": "fields are cut in different ways, so chunks are put together first",
}


def _described(given: Computation, one: Computation) -> str:
    """What a plan costs that is on fields as they were `given`, or on groups of their chunks.

    The tasks of a chunk of the result, without what makes the fields; the bytes of all faces,
    which have to move where workers are many; the bytes of a task, which a thread holds.
    """
    rule, groups = one.blocks(), one.chunks
    plan = "whole cores" if given.alone else "regions" if one.sources else "edges"
    pairs = zip(given.arrays, one.arrays, strict=True)
    joined = sum(before.chunks != after.chunks for before, after in pairs)
    blocks, moved, why, tasks = math.prod(map(len, groups)), 0, plan, 1.0 + joined
    axes = [] if plan == "whole cores" else axes_of(one.program, groups)
    thick = [sum(sum(axis.depths(k)) for k in range(len(axis.cuts))) for axis in axes]
    for (array, dtype), field in zip(one.inputs, rule.fields, strict=True):
        if isinstance(field, Field):
            each = zip(array.shape, field.cut, thick[-array.ndim :], strict=False)
            points = math.prod(array.shape)
            faces = sum(points // max(1, n) * far for n, cut, far in each if cut)
            moved += faces * dtype.itemsize
            tasks += faces > 0
    if joined or groups != given.chunks:
        plan, why = "groups", "groups" if groups != given.chunks else "put together"
    read = sum(dtype.itemsize for _, dtype in one.inputs)
    held = sum(output.dtype.itemsize for output in one.outputs) * _largest(groups)
    if plan == "regions":
        held += math.prod(max(b - a for a, b in axis.needs) for axis in axes) * read
    else:
        held += read * _largest(groups) + moved // max(1, blocks)
    tasks *= blocks / max(1, math.prod(map(len, given.chunks)))
    first = one.outputs[0]
    if len(one.outputs) > 1 or repr(first.blocks(groups)) != repr(first.chunks(given.chunks)):
        tasks += len(one.outputs)
    return (
        f"{one.program.name}: {plan}, {tasks:.3g} task{'s' * (tasks != 1)} a chunk, "
        f"{_bytes(moved)} of faces, {_bytes(held)} held a thread\n"
        f"                {_WHY[why].format(blocks)}"
    )


def _largest(chunks: Chunks) -> int:
    """The points of the largest block, as far as lengths are known."""
    known = [[size for size in sizes if not math.isnan(size)] for sizes in chunks]
    return math.prod(max(sizes, default=1) for sizes in known)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


_notes: ContextVar[list[str] | None] = ContextVar("plans that somebody asks for", default=None)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Give the plans that are chosen meanwhile, in words."""
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note(given: Computation, one: Computation) -> None:
    """Tell of a plan, if somebody asks."""
    notes = _notes.get()
    if notes is not None:
        notes.append(_described(given, one))


# Sources: what an array is a plain view of, and what reading it costs.  Tasks that read from them
# take of each what their block looks at, and depend on nothing: nothing is moved.  What lies
# around a block is decoded again for each block that looks at it: `costs` tells that price.

# An array of NumPy is one node of the graph up to this size [bytes], which a worker fetches once
# and keeps; a larger one is cut, as Dask does it.
WHOLE = 2**26


def as_array(field: Any, chunks: Chunks) -> Any:
    """A field as an array of Dask, cut as the whole is; one of NumPy is a source, if not large."""
    if type(field) is not np.ndarray or field.nbytes > WHOLE:
        return lazy(field, chunks, da)
    # As it is now: elements may change before a task reads them.
    field = accepted.as_field(field).copy()
    name, own = f"array-{tokenize(field)}", cut_as(field.shape, chunks)
    source = Source(field, field.shape, field.dtype, (1,) * field.ndim, name)
    return source.view(own, f"{name}-{tokenize(own)}")


def sources_of(arrays: Sequence[Any]) -> list[Source] | None:
    """What arrays are plain views of; None if one is computed."""
    sources = [known(array).source for array in arrays]
    found = [source for source in sources if source is not None]
    return found if len(found) == len(sources) else None


def readable(program: Program, arrays: Sequence[Any], chunks: Chunks) -> list[Source] | None:
    """What blocks may read, where little is decoded twice; None where they may not."""
    axes = enumerate(chunks, -len(chunks))
    if any(len(sizes) > 1 and len(rings(program.nodes, axis)) > 1 for axis, sizes in axes):
        # No block of neighbours serves calls that take an axis as a ring and others.
        return None
    sources = sources_of(arrays)
    if sources is None or costs(program, sources, chunks)[0] > limits.current.decoded_ratio:
        return None
    return sources


def costs(
    program: Program | None, sources: Sequence[Source], chunks: Chunks
) -> tuple[float, float]:
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
            spans = spans_of(sizes) if program is None else axis_of(program, sizes, axis).needs
            pieces = [one for span in spans for one in part_of((n,), span).pieces[0]]
            own *= decoded(piece, spans_of(sizes))
            all_read *= decoded(piece, [(read.start, read.stop) for _, read in pieces])
        least, most = least + own, most + all_read
    return most / least if least else 1.0, most


def decoded(piece: int, spans: Sequence[tuple[int, int]]) -> int:
    """How much is decoded for some spans of an axis, each on its own.

    >>> decoded(10, [(0, 10), (9, 21)])
    40
    """
    return sum((-(-b // piece) - a // piece) * piece for a, b in spans if b > a)


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
    if resized or _is_dear(one.program, sources, fields):
        return None
    other = Computation(one.program, one.shape, fields, one.arrays, sources)
    return other.results()[position]


def _is_dear(program: Program | None, sources: Sequence[Source], chunks: Chunks) -> bool:
    """Whether much more is decoded than there is."""
    bytes_ = sum(s.dtype.itemsize * math.prod(s.shape) for s in sources)
    return costs(program, sources, chunks)[1] > limits.current.recut_ratio * bytes_


def _around(sizes: tuple[int, ...], before: int, after: int) -> tuple[int, ...]:
    """The chunks of fields of which a result has so much less at its ends."""
    return (*([before] if before else []), *sizes, *([after] if after else []))
