"""Programs on Dask arrays, lazily.

No core axis is cut:  one symbolic layer, which Dask joins with what is before and after.
The fields are views of something that can be sliced: each task reads what it needs.
Else:                 each block is made of its chunk and of its neighbours' faces, of groups of
                      chunks where these are thin or lie otherwise.

A program of many nodes has one halo for all of them.  Tasks hold the recipe (`job`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da

from ..engines import refuse_unknown
from ..layout import Shape
from ..numpy import broadcast_shape
from ..phases import cut_chunks, cut_shapes, finer_values
from ..recognise import is_cupy
from ..regions import Node
from .computation import Computation, takes_whole
from .grid import Chunks, grid, grid_of, lazy, results_of
from .job import Work, meta_of, uploaded
from .planner import note
from .sources import readable

__all__ = ["Work", "cut_values", "lazily", "taken_to", "takes_whole"]


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
    """
    shape, chunks = grid_of(fields)
    arrays = [lazy(field, chunks, da) for field in fields]
    one = Computation(work, shape, chunks, fields, arrays)
    if not one.alone:
        for field in arrays:
            # A block has a place, which is not known behind such a chunk.
            refuse_unknown(field)
        one.sources = readable(work, fields, chunks)
    rules = one.rules()
    note(one, rules)
    return one.results(rules)


def cut_values(
    nodes: Sequence[Node], shapes: Sequence[Shape], chunks: dict[int, Chunks]
) -> list[Any]:
    """Say how values are cut that nodes make of such, and which nodes these are.

    `shapes` are those of all values, and `chunks` those of what is cut.
    """
    fine = finer_values(nodes)
    found = []
    for node in nodes:
        if chunks.keys() & node.fields:
            own = cut_shapes([shapes[value] for value in node.fields], node.fields, fine)
            cuts = zip(map(chunks.get, node.fields), own, strict=True)
            whole = grid([c and cut_chunks(c, n) for c, n in cuts], broadcast_shape(own))
            outputs = results_of(node, tuple(map(sum, whole)))
            chunks |= {v: one.chunks(whole) for v, one in zip(node.outputs, outputs, strict=True)}
            found.append(node)
    return found


def taken_to(fields: Sequence[da.Array], arrays: Sequence[Any]) -> list[Any]:
    """Give arrays of the CPU's memory as chunks that lie on a GPU, as those of fields do."""
    there = [field for field in fields if isinstance(field, da.Array) and is_cupy(field._meta)]
    if not there:
        return list(arrays)
    _, chunks = grid_of(there)
    like = there[0]
    return [
        lazy(array, chunks, da).map_blocks(
            uploaded, dtype=array.dtype, meta=meta_of(like, array.ndim, array.dtype)
        )
        for array in arrays
    ]
