"""Programs on Dask arrays, lazily.

No core axis is cut:  one symbolic layer, which Dask joins with what is before and after.
The fields are views of something that can be sliced: each task reads what it needs.
Else:                 each block is made of its chunk and of its neighbours' faces, of groups of
                      chunks where these are thin or lie otherwise.

A program of many nodes has one halo for all of them.  Tasks hold the recipe (`blocks.Job`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np

from ..accepted import is_cupy
from ..blocks import meta_of
from ..grid import grid_of, lazy, refuse_unknown
from ..regions import Program
from .computation import Computation, as_array, note, readable, takes_whole

__all__ = ["lazily", "taken_to", "takes_whole"]


def lazily(program: Program, fields: Sequence[Any]) -> list[Any]:
    """Give the wanted values as lazy arrays, in the chunks of the fields.

    Parameters
    ----------
    program : Program
    fields : sequence
        Dask arrays, at least one, and arrays of NumPy, each with all axes that the nodes work
        along.

    Raises
    ------
    ValueError
        As for NumPy arrays, and if a field has chunks of unknown size.
    """
    shape, chunks = grid_of(fields)
    arrays = [as_array(field, chunks) for field in fields]
    given = one = Computation(program, shape, chunks, arrays)
    if not one.alone:
        for field in arrays:
            # A block has a place, which is not known behind such a chunk.
            refuse_unknown(field)
        one.sources = readable(program, arrays, chunks)
        if not one.sources:
            one = given.grouped()
    note(given, one)
    made = one.results()
    if one.chunks == chunks:
        return made
    cuts = [output.chunks(chunks) for output in one.outputs]
    return [array.rechunk(cut, method="tasks") for array, cut in zip(made, cuts, strict=True)]


def taken_to(fields: Sequence[da.Array], arrays: Sequence[Any]) -> list[Any]:
    """Give arrays of the CPU's memory as chunks that lie on a GPU, as those of fields do."""
    there = [field for field in fields if isinstance(field, da.Array) and is_cupy(field._meta)]
    if not there:
        return list(arrays)
    _, chunks = grid_of(there)
    like = there[0]
    return [
        lazy(array, chunks, da).map_blocks(
            _uploaded, dtype=array.dtype, meta=meta_of(like, array.ndim, array.dtype)
        )
        for array in arrays
    ]


def _uploaded(block: Any) -> Any:
    """Give a chunk on the GPU."""
    # Imported here: CuPy is optional, and the caller has it.
    from ninepoint.backends.cuda import driver

    return driver.uploaded(np.asarray(block))
