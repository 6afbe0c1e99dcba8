"""Programs on lazy arrays: which engine does them, block by block with what is near each.

dask.array    `computation`   a graph of tasks
dask-array    `expressions`   the same graph, as a node of an expression
Cubed         `on_cubed`      an operation that reads the chunks of stores

An engine is a module with a function: `lazily(program, fields)` gives the wanted values as arrays
of the same kind, of fields that were checked.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..accepted import (
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
from ..blocks import refuse_unknown


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
        from .. import on_cubed

        return on_cubed
    if is_expression(lazy[0]):
        from .. import expressions

        return expressions
    if hasattr(lazy[0], "expr"):
        raise TypeError(
            "Dask was imported with array.query-planning, whose arrays no stencil takes: set "
            '"array.query-planning" to False by dask.config.set before dask.array is imported, or '
            "use the library dask-array."
        )
    from . import computation

    return computation
