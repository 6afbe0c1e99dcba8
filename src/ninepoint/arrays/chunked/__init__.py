"""Programs on Dask arrays, lazily.

No core axis is cut:  one symbolic `blockwise` layer (`whole`).
The fields are views of something that can be sliced: each task reads what it needs (`regions`).
Else:                 each block is made of its chunk and of its neighbours' faces (`edges`), of
                      groups of chunks where these are thin or lie otherwise (`groups`).

A program of many nodes has one halo for all of them.  Tasks hold the recipe (`job`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
from dask.base import tokenize

from ... import limits
from .. import accepted
from .. import numpy as on_numpy
from ..layout import Shape
from ..recognise import is_cupy
from ..regions import Node
from .built import built
from .grid import Chunks, grid
from .job import Job, Work
from .outputs import outputs_of, results_of
from .places import check_places, meta_of, refuse_unknown, uploaded
from .planner import chosen, note
from .regions import by_regions, costs
from .sources import source_of
from .whole import symbolic, whole_cores

__all__ = ["Work", "check", "check_known", "chunks_of", "lazily", "takes_whole"]

# Most of Dask's functions carry no annotations.
untyped: Any = da


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
    check_known(fields, work.nodes)
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    outputs = outputs_of(work, shape)
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
    if whole_cores(arrays, chunks, core):
        note(lambda: chosen("whole cores", job, arrays, outputs, chunks))
        return symbolic(job, outputs, arrays, chunks, names, whole)
    for field in arrays:
        # A block has a place, which is not known behind such a chunk.
        refuse_unknown(field)
    sources = [source_of(field) for field in fields]
    known = [source for source in sources if source is not None]
    if (
        len(known) == len(sources)
        and costs(work, known, chunks)[0] <= limits.current.decoded_ratio
    ):
        made = by_regions(work, known, chunks, outputs)
        if made is not None:
            note(lambda: chosen("regions", job, arrays, outputs, chunks))
            return made
    note(lambda: chosen("edges", job, arrays, outputs, chunks))
    return built(job, outputs, arrays, chunks, names, whole)


def takes_whole(nodes: Sequence[Node], fields: Sequence[Any]) -> bool:
    """Whether each task has all that nodes look at along the axes that they work along."""
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    arrays = [field for field in fields if isinstance(field, da.Array)]
    chunks = grid([field.chunks for field in arrays], shape)
    core = frozenset(len(shape) + axis for node in nodes for axis in node.along)
    return whole_cores(arrays, chunks, core)


def chunks_of(
    node: Node, fields: Sequence[Chunks | None], shapes: Sequence[Shape]
) -> list[Chunks]:
    """How each result of a node is cut, for fields of these shapes that are cut so, or not."""
    shape = on_numpy.broadcast_shape(shapes)
    chunks = grid(fields, shape)
    return [output.chunks(chunks) for output in results_of(node, shape)]


def check(fields: Sequence[Any]) -> None:
    """Raise where a field is no array that one can compute with."""
    check_places(fields)
    for field in fields:
        if not isinstance(field, da.Array):
            if not is_cupy(field):
                accepted.as_field(field)
            continue
        accepted.refuse_mask(field._meta)
        accepted.check_dtype(field.dtype)


def check_known(fields: Sequence[Any], nodes: Sequence[Node]) -> None:
    """Raise where nobody knows how long chunks are along an axis that a node works along."""
    along = {axis for node in nodes for axis in node.along}
    for field in fields:
        if isinstance(field, da.Array):
            refuse_unknown(field, along)


def taken_to(fields: Sequence[da.Array], arrays: Sequence[Any]) -> list[Any]:
    """Give arrays of the CPU's memory as chunks that lie on a GPU, as those of fields do."""
    there = [field for field in fields if isinstance(field, da.Array) and is_cupy(field._meta)]
    if not there:
        return list(arrays)
    shape = on_numpy.broadcast_shape([field.shape for field in there])
    chunks = grid([field.chunks for field in there], shape)
    like = there[0]
    return [
        _as_dask(array, shape, chunks).map_blocks(
            uploaded, dtype=array.dtype, meta=meta_of(like, array.ndim, array.dtype)
        )
        for array in arrays
    ]


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
