"""Apply a stencil to Dask arrays, lazily, with a graph layer of our own.

No core axis is cut:  one symbolic `blockwise` layer; a million chunks cost nothing.
Else:                 one task a block, which takes the chunks it needs straight from the
                      fields and puts them together itself (`blocks`), so there are no
                      tasks for cutting, sending or joining halos, and no rechunking.

A task holds the recipe, never compiled code: the worker compiles or loads it, once.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import dask.array as da
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.blocks import Part, assemble, halo_parts, stack_parts
from ninepoint.arrays.borders import Array, Border
from ninepoint.arrays.layout import Layout, Region, Shape, absent, layout
from ninepoint.arrays.numpy import Program
from ninepoint.backends.threads import serial
from ninepoint.language.box import Box, joined

# Most of Dask's functions carry no annotations.
untyped: Any = da

Compile: TypeAlias = Callable[[tuple[np.dtype[Any], ...]], Program]
Chunks: TypeAlias = tuple[tuple[int, ...], ...]


def apply(
    compile_: Compile,
    fields: Sequence[Any],
    *,
    border: Border,
    cval: Any = 0,
    axes: Sequence[int] | None = None,
    reaches: tuple[Box, ...],
    out_dtypes: Sequence[np.dtype[Any]],
    token: str,
    name: str = "stencil",
) -> Any:
    """Give the result as a lazy Dask array, or a tuple of them.

    Parameters
    ----------
    compile_ : callable
        Gives the program for the fields' dtypes; must pickle.
    fields : sequence
        Dask arrays, at least one, and arrays of NumPy.
    border, cval, axes
        As for NumPy arrays.
    reaches : tuple of Box
        Where each output looks.
    out_dtypes : sequence of dtype
        One for each output.
    token : str
        Names the meaning of the program, its scalars included: equal tokens, equal results.
    name : str
        Begins the name of the layers.

    Raises
    ------
    ValueError
        As for NumPy arrays, and if a field has chunks of unknown size.
    TypeError
        As for NumPy arrays.
    """
    shape = common_shape(fields, border.ndim)
    core = tuple(range(len(shape) - border.ndim, len(shape)))
    if axes is not None:
        core = on_numpy.core_axes(axes, len(shape), border.ndim)
    dtypes = tuple(on_numpy.native(field.dtype) for field in map(_typed, fields))
    outs = tuple(map(np.dtype, out_dtypes))
    plan = layout(tuple(shape[axis] for axis in core), reaches, border)
    on_numpy.check_values(plan, cval, dtypes, outs)
    results = lazily(
        Job(compile_, border, cval, core, reaches, dtypes, outs, shape), plan, fields, token, name
    )
    return results[0] if len(results) == 1 else tuple(results)


def common_shape(fields: Sequence[Any], ndim: int) -> Shape:
    """Check the fields of a stencil of so many axes, and give the shape they broadcast to."""
    for field in fields:
        _check(field)
    shape = on_numpy.broadcast_shape([np.shape(field) for field in fields])
    if len(shape) < ndim:
        raise on_numpy.too_few_axes(ndim, shape)
    return shape


def lazily(job: Job, plan: Layout, fields: Sequence[Any], token: str, name: str) -> list[Any]:
    """The results of a job, as lazy arrays in the chunks of the fields."""
    chunks = _result_chunks(fields, job.shape)
    arrays = [_as_dask(field, job.shape, chunks) for field in fields]
    outs = job.out_dtypes
    identity = tokenize(
        token,
        job.border.rules,
        repr(job.cval),
        job.cval,
        job.core,
        job.shape,
        chunks,
        [(box.lo, box.hi) for box in job.reaches],
        [d.str for d in outs],
        [a.name for a in arrays],
    )
    names = [f"{name}-{identity}"]
    if len(outs) > 1:
        names = [f"{name}-{k}-{identity}" for k in range(len(outs))]
    if _whole_cores(arrays, chunks, job.core):
        return _symbolic(job, plan, arrays, chunks, names)
    return _materialized(job, plan, arrays, chunks, names)


def _check(field: Any) -> None:
    if not isinstance(field, da.Array):
        on_numpy.as_field(field)
        return
    on_numpy.refuse_mask(field._meta)
    on_numpy.check_dtype(field.dtype)
    if any(math.isnan(size) for sizes in field.chunks for size in sizes):
        raise ValueError(
            "a Dask array has chunks of unknown size, so its borders cannot be found; "
            "call .compute_chunk_sizes() on it first."
        )


def _typed(field: Any) -> Any:
    return field if isinstance(field, da.Array) else on_numpy.as_field(field)


def _result_chunks(fields: Sequence[Any], shape: Shape) -> Chunks:
    """Cut each axis as the first Dask field does that is as long as the result."""
    chunks: list[tuple[int, ...]] = []
    for back in range(-len(shape), 0):
        n = shape[back]
        cuts = [
            field.chunks[back]
            for field in fields
            if isinstance(field, da.Array) and field.ndim >= -back and field.shape[back] == n
        ]
        chunks.append(tuple(map(int, cuts[0])) if cuts else (n,))
    return tuple(chunks)


def _as_dask(field: Any, shape: Shape, chunks: Chunks) -> Any:
    if isinstance(field, da.Array):
        return field
    array = on_numpy.as_field(field)
    cut = chunks[len(shape) - array.ndim :]
    return untyped.from_array(
        array,
        chunks=tuple(c if n == sum(c) else (n,) for n, c in zip(array.shape, cut, strict=True)),
    )


def _whole_cores(arrays: Sequence[Any], chunks: Chunks, core: tuple[int, ...]) -> bool:
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
    job: Job, plan: Layout, arrays: Sequence[Any], chunks: Chunks, names: Sequence[str]
) -> list[Any]:
    """One call per chunk of the stack; the graph is a rule, not a list."""
    ndim = len(chunks)
    indices = tuple(range(ndim))
    pairs: list[Any] = []
    for array in arrays:
        pairs += [array, indices[ndim - array.ndim :]]
    sizes = [dict(zip(job.core, shape, strict=True)) for shape in plan.out_shapes]
    if len(names) == 1:
        meta = np.empty((0,) * ndim, job.out_dtypes[0])
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
        name=f"all-{names[0]}",
        dtype=object,
        meta=np.empty((0,) * ndim, object),
        align_arrays=False,
    )
    results = []
    for k, (name, dtype, size) in enumerate(zip(names, job.out_dtypes, sizes, strict=True)):
        results.append(
            untyped.blockwise(
                operator.itemgetter(k),
                indices,
                together,
                indices,
                name=name,
                dtype=dtype,
                meta=np.empty((0,) * ndim, dtype),
                adjust_chunks=size,
                align_arrays=False,
            )
        )
    return results


def _materialized(
    job: Job, plan: Layout, arrays: Sequence[Any], chunks: Chunks, names: Sequence[str]
) -> list[Any]:
    """One task per block, and one more for each output if there are several."""
    cuts = [_cuts(sizes) for sizes in chunks]
    tables = [_parts(job, array, cuts) for array in arrays]
    refs = [_references(array, len(chunks)) for array in arrays]
    kept = [_kept(job, output.extent, chunks, cuts) for output in plan.outputs]
    ndim = len(chunks)

    def lazy(graph: HighLevelGraph, k: int) -> Any:
        sizes = tuple(tuple(size for _, size in axis) for axis in kept[k])
        return untyped.Array(graph, names[k], sizes, meta=np.empty((0,) * ndim, job.out_dtypes[k]))

    if len(names) == 1:
        tasks: dict[Any, Task] = {}
        for place, block in _blocks(kept[0]):
            key = (names[0], *place)
            tasks[key] = _task(key, job, block, cuts, tables, refs)
        return [lazy(HighLevelGraph.from_collections(names[0], tasks, arrays), 0)]
    base = f"all-{names[0]}"
    together: dict[Any, Task] = {}
    picks: list[dict[Any, Task]] = [{} for _ in names]
    for k, pick in enumerate(picks):
        for place, block in _blocks(kept[k]):
            whole: Any = (base, *block)
            if whole not in together:
                together[whole] = _task(whole, job, block, cuts, tables, refs)
            key = (names[k], *place)
            pick[key] = Task(key, operator.getitem, TaskRef(whole), k)
    under = HighLevelGraph.from_collections(base, together, arrays)
    return [
        lazy(
            HighLevelGraph({**under.layers, name: pick}, {**under.dependencies, name: {base}}),
            k,
        )
        for k, (name, pick) in enumerate(zip(names, picks, strict=True))
    ]


def _task(
    key: tuple[Any, ...],
    job: Job,
    block: tuple[int, ...],
    cuts: list[list[tuple[int, int]]],
    tables: list[list[list[Part]]],
    refs: list[dict[tuple[int, ...], TaskRef]],
) -> Task:
    recipes = []
    needed: list[TaskRef] = []
    for table, known in zip(tables, refs, strict=True):
        parts = tuple([axis[i] for axis, i in zip(table, block, strict=True)])
        recipes.append(parts)
        needed += [known[at] for at in itertools.product(*[part.chunks for part in parts])]
    region = tuple([axis[i] for axis, i in zip(cuts, block, strict=True)])
    return Task(key, job.on_block, region, tuple(recipes), *needed)


def _cuts(sizes: Sequence[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))


def _parts(job: Job, array: Any, cuts: list[list[tuple[int, int]]]) -> list[list[Part]]:
    """For each axis of a field, the part of every block."""
    table = []
    for axis, sizes in enumerate(_aligned(array.chunks, len(job.shape), (1,))):
        n = job.shape[axis]
        if axis in job.core:
            k = job.core.index(axis)
            low, high = job.reach.lo[k], job.reach.hi[k]
            table.append(halo_parts(sizes, cuts[axis], n, low, high, job.border.rules[k]))
        else:
            table.append(stack_parts(sizes, cuts[axis], n))
    return table


def _references(array: Any, ndim: int) -> dict[tuple[int, ...], TaskRef]:
    places = itertools.product(*map(range, array.numblocks))
    return {_aligned(place, ndim, 0): TaskRef((array.name, *place)) for place in places}


def _aligned(entries: Sequence[Any], ndim: int, missing: Any) -> tuple[Any, ...]:
    """Give one entry per axis of the result: NumPy aligns shapes at the last axis."""
    return (missing,) * (ndim - len(entries)) + tuple(entries)


def _kept(
    job: Job, extent: Region, chunks: Chunks, cuts: list[list[tuple[int, int]]]
) -> list[list[tuple[int, int]]]:
    """For each axis, the blocks that an output has something of, each with its size there."""
    axes: list[list[tuple[int, int]]] = []
    for axis, sizes in enumerate(chunks):
        if axis not in job.core:
            axes.append(list(enumerate(sizes)))
            continue
        k = job.core.index(axis)
        first, last = extent.start[k], extent.stop[k]
        if (first, last) == (0, job.shape[axis]):
            axes.append(list(enumerate(sizes)))
            continue
        inside = [max(0, min(b, last) - max(a, first)) for a, b in cuts[axis]]
        axes.append([(i, size) for i, size in enumerate(inside) if size] or [(0, 0)])
    return axes


def _blocks(
    places: list[list[tuple[int, int]]],
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Pair the place of every block in the output with its place among the fields' blocks."""
    keys = itertools.product(*(range(len(axis)) for axis in places))
    blocks = itertools.product(*([block for block, _ in axis] for axis in places))
    return list(zip(keys, blocks, strict=True))


@dataclass(frozen=True)
class Job:
    """What every task of one call has in common; pickles as the meaning of the stencil."""

    compile_: Compile
    border: Border
    cval: Any
    core: tuple[int, ...]
    reaches: tuple[Box, ...]
    field_dtypes: tuple[np.dtype[Any], ...]
    out_dtypes: tuple[np.dtype[Any], ...]
    shape: Shape

    @property
    def whole(self) -> Shape:
        """The whole array's shape along the core axes."""
        return tuple(self.shape[axis] for axis in self.core)

    @property
    def reach(self) -> Box:
        """What a block is padded by; with the point itself where its value may be kept."""
        reach = joined(self.reaches)
        if self.border.uses("keep"):
            zero = (0,) * reach.ndim
            reach = reach | Box(zero, zero)
        return reach

    def on_whole(self, *blocks: Any) -> Any:
        """Compute blocks whose core axes are whole: as if they were arrays of their own."""
        arrays = [np.asarray(block) for block in blocks]
        ndim = len(self.shape)
        # blockwise hands fewer-dimensional fields over as they are; NumPy aligns them.
        with serial():
            return on_numpy.apply(
                self.compile_(self.field_dtypes),
                arrays,
                border=self.border,
                cval=self.cval,
                axes=None if self.core == tuple(range(ndim - len(self.core), ndim)) else self.core,
            )

    def on_block(
        self,
        region: tuple[tuple[int, int], ...],
        recipes: tuple[tuple[Part, ...], ...],
        *chunks: Any,
    ) -> Any:
        """Compute the block `region` from the chunks that `recipes` ask for."""
        plan = layout(self.whole, self.reaches, self.border)
        start = tuple(region[axis][0] for axis in self.core)
        block = Region(start, tuple(region[axis][1] for axis in self.core))
        lead = tuple(b - a for k, (a, b) in enumerate(region) if k not in self.core)
        if 0 in lead or not block.points:
            outs = [np.empty((*lead, *block.shape), dtype) for dtype in self.out_dtypes]
            padded = []
        else:
            padded = self.padded(plan, recipes, chunks)
            outs = self._computed(padded)
        results = []
        for k, out in enumerate(outs):
            if padded:
                self._write_zones(plan, k, out, block, padded)
            part = block.clip(plan.outputs[k].extent)
            cut = tuple(
                slice(a - s, max(a, b) - s)
                for a, b, s in zip(part.start, part.stop, start, strict=True)
            )
            inside: tuple[Any, ...] = (..., *cut)
            ends = range(-len(self.core), 0)
            results.append(np.moveaxis(out[inside], ends, self.core))
        return results[0] if len(results) == 1 else tuple(results)

    def padded(
        self, plan: Layout, recipes: tuple[tuple[Part, ...], ...], chunks: tuple[Any, ...]
    ) -> list[Array]:
        """Give every field's block with its neighbours, core axes last."""
        values = on_numpy.check_values(plan, self.cval, self.field_dtypes, self.out_dtypes)
        padded: list[Array] = []
        taken = 0
        ends = range(-len(self.core), 0)
        for parts, cval, dtype in zip(recipes, values.fields, self.field_dtypes, strict=True):
            count = math.prod(len(part.chunks) for part in parts)
            blocks = [np.asarray(chunk) for chunk in chunks[taken : taken + count]]
            taken += count
            # An axis that a field lacks has length 1.
            blocks = [block[(None,) * (len(parts) - block.ndim)] for block in blocks]
            padded.append(np.moveaxis(assemble(parts, blocks, cval, dtype), self.core, ends))
        return padded

    def _computed(self, padded: list[Array]) -> list[Array]:
        program = self.compile_(self.field_dtypes).within(self.whole)
        box, joined = self.reach, self.reaches[0]
        for other in self.reaches[1:]:
            joined = joined | other
        # Without what was only taken along for "keep".
        cut: tuple[Any, ...] = (
            ...,
            *(
                slice(a - low, b - high if b != high else None)
                for low, a, b, high in zip(box.lo, joined.lo, joined.hi, box.hi, strict=True)
            ),
        )
        with serial():
            return on_numpy.run_padded(program, [array[cut] for array in padded])

    def _write_zones(
        self, plan: Layout, k: int, out: Array, block: Region, padded: list[Array]
    ) -> None:
        """Write what is not computed."""
        for axis, side, (first, last) in absent(self.border, plan.outputs[k].window, block):
            origin = block.start[axis]
            zone: tuple[Any, ...] = (
                ...,
                slice(first - origin, last - origin),
                *(slice(None),) * (self.border.ndim - axis - 1),
            )
            keep = self.border.rules[axis][side] == "keep"
            out[zone] = self._own(padded[k], block)[zone] if keep else self.cval

    def _own(self, padded: Array, block: Region) -> Array:
        """Give a field's values at the points of the block themselves."""
        low = self.reach.lo
        inside: tuple[Any, ...] = (
            ...,
            *(slice(-a, n - a) for a, n in zip(low, block.shape, strict=True)),
        )
        view: Array = padded[inside]
        return view
