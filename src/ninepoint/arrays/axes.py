"""The axes of a call: counted from the end, so that they are the same in fields of fewer axes.

    axes=(0, 1) beside a field of three axes     ->     (-3, -2)

A stage is given a field as it is, as a call by itself would be; only a field that has not all
axes of the call is stretched to the shape that all of them broadcast to.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .numpy import broadcast_shape, core_axes
from .recognise import is_chunked, is_cubed, library_of

# Axes of an array, counted from the last, which is -1.
Behind: TypeAlias = tuple[int, ...]


def behind(axes: Any, rank: int, ndim: int) -> Behind:
    """The axes of a stencil of `ndim` indices in arrays of `rank` axes; None means the last."""
    if axes is None:
        return tuple(range(-ndim, 0))
    return tuple(axis - rank for axis in core_axes(axes, rank, ndim))


def stretched(field: Any, least: int, shape: tuple[int, ...]) -> Any:
    """The field, of the whole shape if it has fewer than `least` axes."""
    if field.ndim >= least or len(shape) < least:
        return field
    if is_chunked(field):
        if not is_cubed(field) and any(0 in sizes and sum(sizes) for sizes in field.chunks):
            # Dask repeats no chunk of length 0.
            field = field.rechunk(
                tuple(tuple(n for n in sizes if n) or (0,) for sizes in field.chunks)
            )
        return library_of(field).broadcast_to(field, shape)
    return np.broadcast_to(field, shape)


def whole_shape(fields: Sequence[Any]) -> tuple[int, ...]:
    """The shape that all fields broadcast to."""
    return broadcast_shape([field.shape for field in fields])


def last_of(axes: Behind, ndim: int, name: str) -> Behind:
    """The axes of a stage of `ndim` indices in a call that works along `axes`."""
    if ndim > len(axes):
        raise ValueError(
            f"the call names {len(axes)} axes, but the stage '{name}' of it works on {ndim}."
        )
    return axes[-ndim:]


def core_dims(
    first: Any, ndim: int, dims: Sequence[Hashable] | None, axes: Sequence[int] | None
) -> tuple[Hashable, ...]:
    """The names of the axes of a call on xarray objects, of which this is the first."""
    if dims is not None and axes is not None:
        raise TypeError("give dims or axes, not both.")
    if isinstance(dims, str):
        dims = (dims,)
    if axes is not None:
        dims = [first.dims[axis] for axis in core_axes(axes, first.ndim, ndim)]
    if dims is None:
        if first.ndim < ndim:
            raise ValueError(
                f"a stencil of {ndim} axes needs at least {ndim} dimensions; "
                f"the array has {listed(first.dims)}."
            )
        return tuple(first.dims[-ndim:])
    if not isinstance(dims, Sequence):
        raise TypeError(f"dims must be a tuple of {ndim} names, not {dims!r}.")
    if len(dims) != ndim or len(set(dims)) != ndim:
        raise ValueError(
            f"dims={tuple(dims)} must name {ndim} different "
            f"dimension{'s' if ndim > 1 else ''}, one for each axis of the stencil."
        )
    return tuple(dims)


def listed(dims: Sequence[Hashable]) -> str:
    """The names in a message."""
    return ", ".join(map(repr, dims)) or "none"
