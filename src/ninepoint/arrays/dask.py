"""Programs on Dask arrays, lazily, with a graph layer of our own.

No core axis is cut:  one symbolic `blockwise` layer; a million chunks cost nothing.
Else:                 one task a block, which takes the chunks it needs straight from the
                      fields and puts them together itself (`blocks`), so there are no
                      tasks for cutting, sending or joining halos, and no rechunking.

A program of many nodes has one halo for all of them.  A task holds the recipe, never compiled
code: the worker compiles or loads it, once.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import dask.array as da
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from ninepoint.arrays import accepted
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.blocks import Part, assemble, parts
from ninepoint.arrays.borders import Array
from ninepoint.arrays.layout import Region, Shape, layout
from ninepoint.arrays.recognise import is_cupy
from ninepoint.arrays.regions import Node, Span, needed
from ninepoint.arrays.run import Block, Domain
from ninepoint.backends.threads import serial

# Most of Dask's functions carry no annotations.
untyped: Any = da

Chunks: TypeAlias = tuple[tuple[int, ...], ...]


class Work(Protocol):
    """A program, as far as a graph of tasks knows it; pickles as its meaning.

    Its nodes work on fields of one shape, and none that gives "valid" results is read by
    another.  Along an axis that is cut they all take it as a ring or none does.
    """

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def wanted(self) -> Sequence[int]: ...

    @property
    def field_dtypes(self) -> Sequence[np.dtype[Any]]: ...

    @property
    def token(self) -> str:
        """Names the meaning: equal tokens, equal results."""

    @property
    def name(self) -> str:
        """Begins the name of the layers."""

    def run(self, block: Block, region: Region | None) -> list[Array]:
        """Compute the wanted values from a block."""


def lazily(work: Work, fields: Sequence[Any]) -> list[Any]:
    """Give the wanted values as lazy arrays, in the chunks of the fields.

    Parameters
    ----------
    work : Work
    fields : sequence
        Dask arrays, at least one, and arrays of NumPy, each with all axes that the nodes work
        along.

    Raises
    ------
    ValueError
        As for NumPy arrays, and if a field has chunks of unknown size.
    TypeError
        As for NumPy arrays.
    """
    check(fields)
    shape = on_numpy.broadcast_shape([np.shape(field) for field in fields])
    outputs = _outputs(work, shape)
    chunks = grid([getattr(field, "chunks", None) for field in fields], shape)
    arrays = [_as_dask(field, shape, chunks) for field in fields]
    core = frozenset(len(shape) + axis for node in work.nodes for axis in node.along)
    job = Job(work, shape, tuple(work.field_dtypes))
    identity = tokenize(
        work.token, list(work.wanted), shape, chunks, [a.name for a in arrays],
        [a.dtype.str for a in arrays],
    )  # fmt: skip
    names = [f"{work.name}-{identity}"]
    if len(outputs) > 1:
        names = [f"{work.name}-{k}-{identity}" for k in range(len(outputs))]
    # Dask joins the names of tasks that it makes one: "all-x-0" may be one of its own.
    whole = f"{work.name}-all-{identity}"
    if _whole_cores(arrays, chunks, core):
        return _symbolic(job, outputs, arrays, chunks, names, whole)
    return _materialized(job, outputs, arrays, chunks, names, whole)


@dataclass(frozen=True, slots=True)
class Output:
    """A wanted value: its type, and the points of the fields' shape that it has."""

    dtype: np.dtype[Any]
    extent: Region


def _outputs(work: Work, shape: Shape) -> list[Output]:
    """What the wanted values are; raises where a node cannot be done on such fields."""
    made: dict[int, Output] = {}
    for node in work.nodes:
        if len(shape) < -min(node.along):
            raise on_numpy.too_few_axes(len(node.along), shape)
        plan = layout(tuple(shape[axis] for axis in node.along), tuple(node.reaches), node.border)
        program = node.program
        on_numpy.check_values(plan, node.cval, program.field_dtypes, program.out_dtypes)
        pairs = zip(node.out_dtypes, _extents(node, shape), strict=True)
        made |= zip(node.outputs, (Output(*pair) for pair in pairs), strict=True)
    return [made[value] for value in work.wanted]


def _extents(node: Node, shape: Shape) -> list[Region]:
    """The points of its fields' shape that each result of a node has."""
    core = tuple(shape[axis] for axis in node.along)
    extents = []
    for output in layout(core, tuple(node.reaches), node.border).outputs:
        start, stop = [0] * len(shape), list(shape)
        for k, axis in enumerate(node.along):
            start[axis], stop[axis] = output.extent.start[k], output.extent.stop[k]
        extents.append(Region(tuple(start), tuple(stop)))
    return extents


def chunks_of(
    node: Node, fields: Sequence[Chunks | None], shapes: Sequence[Shape]
) -> list[Chunks]:
    """How each result of a node is cut, for fields of these shapes that are cut so, or not."""
    shape = on_numpy.broadcast_shape(shapes)
    chunks = grid(fields, shape)
    return [
        tuple(tuple(size for _, size in axis) for axis in _kept(extent, chunks))
        for extent in _extents(node, shape)
    ]


def check(fields: Sequence[Any]) -> None:
    """Raise where a field is no array that one can compute with."""
    _check_places(fields)
    for field in fields:
        if not isinstance(field, da.Array):
            if not is_cupy(field):
                accepted.as_field(field)
            continue
        accepted.refuse_mask(field._meta)
        accepted.check_dtype(field.dtype)
        if any(math.isnan(size) for sizes in field.chunks for size in sizes):
            raise ValueError(
                "a Dask array has chunks of unknown size, so its borders cannot be found; "
                "call .compute_chunk_sizes() on it first."
            )


def _check_places(fields: Sequence[Any]) -> None:
    """Raise where some chunks lie on a GPU and others do not."""
    there = [is_cupy(getattr(field, "_meta", field)) for field in fields]
    if any(there) and not all(there):
        raise TypeError(
            "some of these arrays lie on a GPU and others in the memory of the CPU, and a stencil "
            "takes neither to the other: give x.map_blocks(cupy.asarray) of the latter."
        )


def _meta(like: Any, ndim: int, dtype: np.dtype[Any]) -> Any:
    """Give an array without elements, of the kind that chunks like this one make."""
    return _nothing(like._meta, (0,) * ndim, dtype)


def _nothing(like: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    if not is_cupy(like):
        return np.empty(shape, dtype)
    # Imported here: CuPy is optional, and the caller has it.
    from ninepoint.backends.cuda.driver import empty

    return empty(shape, dtype)


def _in_memory(block: Any) -> Any:
    """Give a chunk as an array that can be computed with where it is."""
    return block if is_cupy(block) else np.asarray(block)


def grid(fields: Sequence[Chunks | None], shape: Shape) -> Chunks:
    """Cut each axis as the first field does that is cut, and as long as the result."""
    chunks: list[tuple[int, ...]] = []
    for back in range(-len(shape), 0):
        n = shape[back]
        cuts = [c[back] for c in fields if c and len(c) >= -back and sum(c[back]) == n]
        chunks.append(tuple(map(int, cuts[0])) if cuts else (n,))
    return tuple(chunks)


def _as_dask(field: Any, shape: Shape, chunks: Chunks) -> Any:
    if isinstance(field, da.Array):
        return field
    there = is_cupy(field)
    array = field if there else accepted.as_field(field)
    cut = chunks[len(shape) - array.ndim :]
    return untyped.from_array(
        array,
        chunks=tuple(c if n == sum(c) else (n,) for n, c in zip(array.shape, cut, strict=True)),
        # To name it by its elements would be to fetch them.
        **({"asarray": False, "name": False} if there else {}),
    )


def _whole_cores(arrays: Sequence[Any], chunks: Chunks, core: frozenset[int]) -> bool:
    """Whether every field is cut along the stack only, and all in the same way."""
    for array in arrays:
        offset = len(chunks) - array.ndim
        for axis, sizes in enumerate(array.chunks):
            wanted = chunks[axis + offset]
            if axis + offset in core:
                if len(sizes) != 1:
                    return False
            elif tuple(sizes) not in (wanted, (1,)):
                return False
    return all(len(chunks[axis]) == 1 for axis in core)


def _symbolic(
    job: Job,
    outputs: Sequence[Output],
    arrays: Sequence[Any],
    chunks: Chunks,
    names: Sequence[str],
    whole: str,
) -> list[Any]:
    """One call per chunk of the stack; the graph is a rule, not a list."""
    ndim = len(chunks)
    indices = tuple(range(ndim))
    pairs: list[Any] = []
    for array in arrays:
        pairs += [array, indices[ndim - array.ndim :]]
    sizes = [
        {
            k: b - a
            for k, (a, b, n) in enumerate(
                zip(o.extent.start, o.extent.stop, job.shape, strict=True)
            )
            if b - a != n
        }
        for o in outputs
    ]
    if len(names) == 1:
        meta = _meta(arrays[0], ndim, outputs[0].dtype)
        result = untyped.blockwise(
            job.on_whole,
            indices,
            *pairs,
            name=names[0],
            dtype=meta.dtype,
            meta=meta,
            adjust_chunks=sizes[0],
            align_arrays=False,
        )
        return [result]
    together = untyped.blockwise(
        job.on_whole,
        indices,
        *pairs,
        name=whole,
        dtype=object,
        meta=np.empty((0,) * ndim, object),
        align_arrays=False,
    )
    results = []
    for k, (name, output, size) in enumerate(zip(names, outputs, sizes, strict=True)):
        results.append(
            untyped.blockwise(
                operator.itemgetter(k),
                indices,
                together,
                indices,
                name=name,
                dtype=output.dtype,
                meta=_meta(arrays[0], ndim, output.dtype),
                adjust_chunks=size,
                align_arrays=False,
            )
        )
    return results


def _materialized(
    job: Job,
    outputs: Sequence[Output],
    arrays: Sequence[Any],
    chunks: Chunks,
    names: Sequence[str],
    whole: str,
) -> list[Any]:
    """One task per block, and one more for each output if there are several."""
    cuts = [_cuts(sizes) for sizes in chunks]
    spans = [
        [_taken(job, cut, n, axis) for cut in axis_cuts]
        for axis, (axis_cuts, n) in enumerate(zip(cuts, job.shape, strict=True), -len(cuts))
    ]
    tables = [
        [
            parts(sizes, taken, n)
            for sizes, taken, n in zip(
                _aligned(array.chunks, len(cuts), (1,)), spans, job.shape, strict=True
            )
        ]
        for array in arrays
    ]
    plan = _Tasks(job, cuts, spans, tables, [_references(array, len(cuts)) for array in arrays])
    kept = [_kept(output.extent, chunks) for output in outputs]
    ndim = len(chunks)

    def lazy(graph: HighLevelGraph, k: int) -> Any:
        sizes = tuple(tuple(size for _, size in axis) for axis in kept[k])
        meta = _meta(arrays[0], ndim, outputs[k].dtype)
        return untyped.Array(graph, names[k], sizes, meta=meta)

    if len(names) == 1:
        tasks: dict[Any, Task] = {}
        for place, block in _blocks(kept[0]):
            key = (names[0], *place)
            tasks[key] = plan.task(key, block)
        return [lazy(HighLevelGraph.from_collections(names[0], tasks, arrays), 0)]
    together: dict[Any, Task] = {}
    picks: list[dict[Any, Task]] = [{} for _ in names]
    for k, pick in enumerate(picks):
        for place, block in _blocks(kept[k]):
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


def _cuts(sizes: Sequence[int]) -> list[Span]:
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))


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
    return {_aligned(place, ndim, 0): TaskRef((array.name, *place)) for place in places}


def _aligned(entries: Sequence[Any], ndim: int, missing: Any) -> tuple[Any, ...]:
    """Give one entry per axis of the result: NumPy aligns shapes at the last axis."""
    return (missing,) * (ndim - len(entries)) + tuple(entries)


def _kept(extent: Region, chunks: Chunks) -> list[list[tuple[int, int]]]:
    """For each axis, the blocks that an output has something of, each with its size there."""
    axes: list[list[tuple[int, int]]] = []
    for axis, sizes in enumerate(chunks):
        first, last = extent.start[axis], extent.stop[axis]
        if (first, last) == (0, sum(sizes)):
            axes.append(list(enumerate(sizes)))
            continue
        inside = [max(0, min(b, last) - max(a, first)) for a, b in _cuts(sizes)]
        axes.append([(i, size) for i, size in enumerate(inside) if size] or [(0, 0)])
    return axes


def _blocks(
    places: list[list[tuple[int, int]]],
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pair the place of every block in the output with its place among the fields' blocks."""
    keys = itertools.product(*(range(len(axis)) for axis in places))
    blocks = itertools.product(*([block for block, _ in axis] for axis in places))
    return list(zip(keys, blocks, strict=True))


@dataclass(frozen=True, slots=True)
class Job:
    """What every task of one program has in common."""

    work: Work
    shape: Shape
    field_dtypes: tuple[np.dtype[Any], ...]

    def on_whole(self, *blocks: Any) -> Any:
        """Compute blocks whose core axes are whole: as if they were arrays of their own."""
        with serial():
            return _bare(self.work.run(Block(tuple(map(_in_memory, blocks))), None))

    def on_block(
        self,
        region: tuple[Span, ...],
        start: tuple[int, ...],
        recipes: tuple[tuple[Part, ...], ...],
        *chunks: Any,
    ) -> Any:
        """Compute the block `region` from the chunks that `recipes` ask for."""
        wanted = Region(tuple(a for a, _ in region), tuple(b for _, b in region))
        if not wanted.points:
            return _bare(
                [
                    _nothing(
                        next(iter(chunks), None), wanted.clip(output.extent).shape, output.dtype
                    )
                    for output in _outputs(self.work, self.shape)
                ]
            )
        arrays: list[Array] = []
        taken = 0
        for own, dtype in zip(recipes, self.field_dtypes, strict=True):
            count = math.prod(len(part.chunks) for part in own)
            blocks = [_in_memory(chunk) for chunk in chunks[taken : taken + count]]
            taken += count
            # An axis that a field lacks has length 1.
            blocks = [block[(None,) * (len(own) - block.ndim)] for block in blocks]
            arrays.append(assemble(own, blocks, dtype))
        block = Block(tuple(arrays), start, Domain(self.shape))
        with serial():
            return _bare(self.work.run(block, wanted))


def _bare(results: list[Array]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)
