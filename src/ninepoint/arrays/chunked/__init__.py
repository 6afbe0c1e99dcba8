"""Programs on lazy arrays of Dask, and of dask-array, whose graphs are nodes of expressions."""

from __future__ import annotations

from collections.abc import Collection

from ..accepted import (
    Arrays,
    as_field,
    check_dtype,
    is_chunked,
    is_cupy,
    is_dask,
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
    kinds = {type(field): field for field in fields if is_chunked(field)}
    if len(kinds) > 1:
        names = " and ".join(sorted(map(named, kinds)))
        raise TypeError(
            f"{names} are lazy arrays of different libraries, which no one computes together; "
            "make them one kind, for example with x.compute() of the small ones."
        )
    if any(is_dask(one) and hasattr(one, "expr") for one in kinds.values()):
        raise TypeError(
            "Dask was imported with array.query-planning, whose arrays no stencil takes: set "
            '"array.query-planning" to False by dask.config.set before dask.array is imported, or '
            "use the library dask-array."
        )
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
