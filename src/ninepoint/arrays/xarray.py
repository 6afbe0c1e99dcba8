"""Apply a stencil to xarray objects: dimensions by name, coordinates and attributes kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import xarray as xr

from ninepoint.arrays.axes import core_dims, listed
from ninepoint.arrays.borders import Border
from ninepoint.arrays.layout import layout
from ninepoint.arrays.recognise import is_dataset, is_xarray
from ninepoint.language.box import Box

# (arrays, core axes) -> result or results, on NumPy or Dask arrays.
OnArrays: TypeAlias = Callable[[list[Any], tuple[int, ...]], Any]


def apply(
    on_arrays: OnArrays,
    fields: Sequence[Any],
    *,
    border: Border,
    reaches: tuple[Box, ...],
    dims: Sequence[Hashable] | None = None,
    axes: Sequence[int] | None = None,
) -> Any:
    """Give a DataArray, or a tuple of them, for DataArrays with or without Dask inside.

    Parameters
    ----------
    on_arrays : callable
        Does the work: takes arrays of one number of dimensions, and the core axes.
    fields : sequence
        DataArrays, at least one; bare arrays are taken to have its last dimensions.
    border, reaches
        What is lost at the ends, so that coordinates can be cut under "valid".
    dims : sequence of dimension names, optional
        The core dimensions, in the order of the stencil's indices; by default the last
        dimensions of the first DataArray.
    axes : sequence of int, optional
        The same by number, in the first DataArray.

    Raises
    ------
    ValueError
        If a dimension does not exist, is named twice, or the coordinates of the fields differ.
    TypeError
        If a field is a Dataset, or both `dims` and `axes` are given.
    """
    for field in fields:
        if is_dataset(field):
            raise TypeError(
                "a stencil takes DataArrays, not a Dataset; "
                "pass one variable, dataset[name], or use dataset.map(stencil)."
            )
    first = next(field for field in fields if is_xarray(field))
    core = core_dims(first, border.ndim, dims, axes)
    named = [field if is_xarray(field) else _named(field, first) for field in fields]
    try:
        named = list(xr.align(*named, join="exact", copy=False))
    except ValueError as error:
        raise ValueError(
            f"the fields' coordinates differ; align them first, for example with "
            f'xarray.align(..., join="inner"). ({error})'
        ) from error
    order = list(dict.fromkeys(dim for field in named for dim in field.dims))
    for dim in core:
        if dim not in order:
            raise ValueError(f"dimension {dim!r} does not exist; the fields have {listed(order)}.")
    sizes = {dim: n for field in named for dim, n in field.sizes.items()}
    # What lacks a dimension of the stencil is the same all along it.
    lengths = {dim: sizes[dim] if dim in core else 1 for dim in order}
    arrays = [_arranged(field, lengths) for field in named]
    result = on_arrays(arrays, tuple(order.index(dim) for dim in core))
    plan = layout(tuple(sizes[dim] for dim in core), reaches, border)
    coords = _coords(named)
    results = []
    for data, output in zip(_tuple(result), plan.outputs, strict=True):
        cut = dict(zip(core, map(slice, output.extent.start, output.extent.stop), strict=True))
        kept = coords.isel({dim: part for dim, part in cut.items() if dim in coords.dims})
        made = xr.DataArray(data, dims=order, coords=kept.coords, attrs=first.attrs)
        # Said by itself: where there is none, xarray takes that of a Dask array.
        made.name = first.name
        results.append(made)
    return results[0] if len(results) == 1 else tuple(results)


def _named(field: Any, first: Any) -> Any:
    """Give a bare array the last dimensions of the first DataArray."""
    ndim = getattr(field, "ndim", 0)
    if ndim > first.ndim:
        raise ValueError(
            f"an array of {ndim} dimensions stands beside a DataArray of {first.ndim}; "
            "make it a DataArray that names its dimensions."
        )
    return xr.DataArray(field, dims=first.dims[first.ndim - ndim :])


def _arranged(field: Any, lengths: Mapping[Hashable, int]) -> Any:
    """Give the data with its axes in this order, as long as this where it lacks a dimension."""
    missing = {dim: n for dim, n in lengths.items() if dim not in field.dims}
    return field.variable.set_dims(missing | dict(field.sizes)).transpose(*lengths).data


def _coords(fields: Sequence[Any]) -> Any:
    """Join the fields' coordinates; where two carry the same name, the first one's stays."""
    merged = fields[0].coords.to_dataset()
    for field in fields[1:]:
        merged = merged.merge(
            field.coords.to_dataset().drop_vars(set(field.coords) & set(merged.coords)),
            join="exact",
        )
    return merged


def _tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)
