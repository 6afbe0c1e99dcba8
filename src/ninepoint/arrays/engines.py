"""Engines: what computes lazy arrays in chunks, block by block with what is near each of them.

dask.array    `chunked`       a graph of tasks
dask-array    `expressions`   a node of an expression, which makes the tasks
Cubed         `on_cubed`      an operation that reads the chunks of stores

An engine is a module with a function: `lazily(work, fields)` gives the wanted values as arrays of
the same kind, of fields that were checked.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .accepted import (
    Arrays,
    as_field,
    check_dtype,
    is_chunked,
    is_cubed,
    is_cupy,
    is_dask,
    is_expression,
    is_there,
    named,
    refuse_mask,
)
from .grid import refuse_unknown


def check(fields: Arrays, along: Collection[int] | None = None) -> None:
    """Raise where lazy arrays, and those beside them, cannot be computed together.

    Nor can those be computed of which nobody knows how long chunks are along these axes, counted
    from the end.
    """
    engine_of(fields)
    there = [is_there(field) for field in fields]
    if any(there) and not all(there):
        raise TypeError(
            "some of these arrays lie on a GPU and others in the memory of the CPU, and a stencil "
            "takes neither to the other: give x.map_blocks(cupy.asarray) of the latter."
        )
    for field in fields:
        if is_chunked(field):
            refuse_mask(getattr(field, "_meta", None))
            check_dtype(field.dtype)
        elif not is_cupy(field):
            as_field(field)
    for field in filter(is_dask, fields):
        refuse_unknown(field, along)


def engine_of(fields: Arrays) -> Any:
    """What computes these arrays, at least one of which is cut in chunks.

    Raises
    ------
    TypeError
        If they are of several libraries.
    """
    lazy = [field for field in fields if is_chunked(field)]
    kinds = {type(field): field for field in lazy}
    if len(kinds) > 1:
        names = " and ".join(sorted(named(kind) for kind in kinds))
        raise TypeError(
            f"{names} are lazy arrays of different libraries, which no one computes together; "
            "make them one kind, for example with x.compute() of the small ones."
        )
    # Imported here: each library is optional, and the caller has the one of the arrays.
    if is_cubed(lazy[0]):
        from . import on_cubed

        return on_cubed
    if is_expression(lazy[0]):
        from . import expressions

        return expressions
    if hasattr(lazy[0], "expr"):
        raise TypeError(
            "Dask was imported with array.query-planning, whose arrays no stencil takes: set "
            '"array.query-planning" to False by dask.config.set before dask.array is imported, or '
            "use the library dask-array."
        )
    from . import chunked

    return chunked


def as_dask(array: Any) -> Any:
    """An array of dask-array as one of Dask, with the tasks that it has when it is computed.

    Raises
    ------
    TypeError
        If it is one of Cubed, which Dask cannot compute.
    """
    if is_cubed(array):
        raise TypeError(
            "an array of Cubed is written by Cubed: cubed.to_zarr(x, path), which "
            "ninepoint.open(path) opens."
        )
    if is_dask(array) or not is_expression(array):
        return array
    # Imported here: dask-array has it.
    import dask.array

    untyped: Any = dask.array
    return untyped.Array(dict(array.__dask_graph__()), array.name, array.chunks, meta=array._meta)
