"""Names of xarray objects: dimensions become axes of plain arrays, and are put back on results.

(time, lat, lon), (lon, lat)     ->     axes of both in the order time, lat, lon
along lat, lon                          along the axes -2, -1
coordinates, attributes, name    <-     of results, cut where "valid" makes them shorter

Datasets are taken variable by variable: those of numbers that have the dimensions.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ninepoint.arrays.accepted import (
    Arrays,
    Dims,
    bare,
    core_dims,
    is_dataset,
    is_xarray,
    listed,
    quoted,
)
from ninepoint.arrays.blocks import results_of
from ninepoint.arrays.regions import Node

# Kinds of variables that are labels, not numbers: they stay as they are.
_WORDS = "OSU"


def over_variables(
    call: Callable[[dict[str, Any]], Any],
    fields: Mapping[str, Any],
    dims: Any,
    ndim: Callable[[Any], int],
) -> Any:
    """Call with each variable in the place of the datasets among `fields`.

    Parameters
    ----------
    call : callable
        Gives a DataArray, or a tuple of them, for the fields by name.
    fields : mapping
        Datasets, at least one; what is none is the same for all variables.
    dims : sequence of dimension names, or None
        Those of the call; None for the last dimensions, which must be the same in all variables.
    ndim : callable
        How many dimensions the call works on, for a variable.

    Returns
    -------
    Dataset or tuple of Dataset
        With the coordinates and attributes of the first one.

    Raises
    ------
    ValueError
        If no variable has the dimensions, a variable lacks its partner in another dataset, or
        the results are smaller than the variables that stay.
    """
    datasets = {name: field for name, field in fields.items() if is_dataset(field)}
    first = next(iter(datasets.values()))
    core = _core(first, dims, ndim)
    chosen = [
        name
        for name, one in first.data_vars.items()
        if set(core) <= set(one.dims) and one.dtype.kind not in _WORDS
    ]
    if not chosen:
        raise ValueError(f"no variable of the dataset has the dimensions {quoted(core)}.")
    made: list[list[Any]] = []
    for variable in chosen:
        for name, dataset in datasets.items():
            if variable not in dataset.data_vars:
                raise ValueError(f"the dataset given for '{name}' has no variable {variable!r}.")
        made.append(listed(call({name: one[variable] for name, one in datasets.items()})))
    results = (dict(zip(chosen, one, strict=True)) for one in zip(*made, strict=True))
    return bare([_whole(first, one) for one in results])


def _core(dataset: Any, dims: Any, ndim: Callable[[Any], int]) -> Dims:
    if dims is not None:
        return (dims,) if isinstance(dims, str) else tuple(dims)
    variables = [one for one in dataset.data_vars.values() if one.dtype.kind not in _WORDS]
    if not variables:
        raise ValueError("the dataset has no variables of numbers.")
    count = ndim(max(variables, key=lambda one: one.ndim))
    ends = {one.dims[-count:] for one in variables if one.ndim >= count}
    if len(ends) > 1:
        named = " and ".join(f"({quoted(one)})" for one in sorted(ends, key=str))
        raise ValueError(
            f"the variables of the dataset end in different dimensions, {named}; "
            "say with dims= which ones are meant."
        )
    return ends.pop() if ends else tuple(dataset.sizes)[-count:]


def _whole(dataset: Any, made: Mapping[Hashable, Any]) -> Any:
    """The dataset with these variables in the place of its own."""
    sizes = {dim: n for one in made.values() for dim, n in one.sizes.items()}
    cut = [dim for dim, n in sizes.items() if dim in dataset.sizes and dataset.sizes[dim] != n]
    if not cut:
        return dataset.assign(made)
    stay = [
        n for n, one in dataset.data_vars.items() if n not in made and set(cut) & set(one.dims)
    ]
    if stay:
        raise ValueError(
            f'{quoted(cut)} would have other lengths (by boundary="valid" or upsample=), but '
            f"{quoted(stay)} of the dataset would stay as long as they are; take them out, with "
            "dataset.drop_vars, or use other options."
        )
    return dataset.drop_dims(cut).assign(made)[list(dataset.data_vars)]


# What says how a variable is stored, whatever its numbers are; the numbers of a result need not
# fit into what those of its source were packed into (dtype, scale_factor, _FillValue).
_STORED = frozenset(
    "compressor compressors zlib complevel shuffle fletcher32 compression compression_opts szip "
    "zstd bzip2 blosc blosc_shuffle endian coordinates grid_mapping".split()
)
# The same for results with the shape of their source.
_CUT = frozenset("chunks shards chunksizes contiguous preferred_chunks original_shape".split())

# Numbers are evenly spaced if no distance differs by a greater part of it; a choice, as there is
# no measure of it.
EVEN = 1e-6


class Named:
    """The fields of one call as DataArrays that have all dimensions along which it works.

    Attributes
    ----------
    fields : list of DataArray
        Bare arrays are taken to have the last dimensions of the first DataArray; a field without
        a dimension of the call is the same all along it.
    core : tuple of dimension names
        Those along which the call works, in the order of the stencil's indices.
    dims : tuple of dimension names
        Those of the results.
    named : list of DataArray
        The fields with the dimensions that they were given with.

    Raises
    ------
    ValueError
        If a dimension does not exist, is named twice, or the coordinates of the fields differ.
    """

    def __init__(self, fields: Arrays, ndim: int, dims: Sequence[Hashable] | None = None) -> None:
        first = next(field for field in fields if is_xarray(field))
        self.core = core_dims(first, ndim, dims, None)
        named = [field if is_xarray(field) else _named(field, first) for field in fields]
        words = "the fields' coordinates differ"
        if any(field is not one for field, one in zip(fields, named, strict=True)):
            words += (
                ", or the lengths of an array without names, whose axes are taken for the last "
                "dimensions (xr.DataArray(array, dims=(...)) names them)"
            )
        check_alike(words, named)
        self.dims: Dims = tuple(dict.fromkeys(dim for field in named for dim in field.dims))
        for dim in self.core:
            if dim not in self.dims:
                raise ValueError(
                    f"dimension {dim!r} does not exist; the fields have {quoted(self.dims)}."
                )
        self._sizes = {dim: n for field in named for dim, n in field.sizes.items()}
        self._first, self.named, self.fields = first, named, list[Any]()
        for field in named:
            missing = {dim: self._sizes[dim] for dim in self.core if dim not in field.dims}
            if missing:
                field = xr.DataArray(field.variable.set_dims(missing | dict(field.sizes)))
            self.fields.append(field)

    def edge(self, value: Any, dim: Hashable, dims: Dims) -> Any:
        """The data of values along the edges that end `dim`, in the order of the other `dims`.

        Raises
        ------
        ValueError
            If they have another dimension, or their coordinates differ from the fields'.
        """
        left = [one for one in self.dims if one != dim]
        for one in value.dims:
            if one not in left:
                raise ValueError(
                    f"values at the border along {dim!r} have the dimension {one!r}; the edge has "
                    f"{quoted(left)}."
                )
        # Of another length they are one for all, or do not fit, which is told where they are laid.
        others = {one: 0 for one, n in value.sizes.items() if n != self._sizes[one]}
        words = (
            f"the coordinates of the values at the border along {dim!r} differ from the fields'"
        )
        check_alike(words, [*self.named, value.isel(others, drop=True)])
        return arranged(value, tuple(one for one in dims if one != dim))

    def results(self, nodes: Sequence[Node]) -> list[Any]:
        """Give DataArrays that are named as the results of the last node are: one number each.

        Along axes where there are more points than those of the fields, labels are those of these
        points.
        """
        *stages, node = nodes
        if any(one.resizes for one in stages):
            raise ValueError(
                'boundary="valid", every= or upsample= inside a kernel moves the coordinates of '
                "xarray objects; use it for the last stencil only, or call them one by one."
            )
        # Where two carry the same name, the first one's stays.  A number that is named as a
        # dimension is that of a field which was taken out along it.
        each = [
            one.coords.to_dataset().drop_vars(
                [name for name, own in one.coords.items() if name in self.dims and not own.ndim]
            )
            for one in self.named
        ]
        coords, first = xr.merge(each, join="exact", compat="override"), self._first
        made = []
        for output in results_of(node, tuple(self._sizes[dim] for dim in self.core)):
            axes = zip(self.core, output.extent, output.every, output.factors, strict=True)
            kept = coords
            for dim, (a, b), step, factor in axes:
                if (a, b, step) != (0, self._sizes[dim], 1):
                    kept = kept.isel({dim: slice(a, b, step)}, missing_dims="ignore")
                kept = _finer(kept, dim, factor)
            sizes = self._sizes | dict(zip(self.core, output.shape, strict=True))
            data = np.broadcast_to(output.dtype.type(0), tuple(sizes[dim] for dim in self.dims))
            named = xr.DataArray(data, kept.coords, self.dims, first.name, first.attrs)
            alike = named.dims == first.dims and named.shape == first.shape
            keys = _STORED | _CUT if alike else _STORED
            named.encoding = {key: own for key, own in first.encoding.items() if key in keys}
            made.append(named)
        return made


def check_alike(words: str, arrays: Arrays) -> None:
    """Raise, with these words, where coordinates of one name differ."""
    try:
        xr.align(*arrays, join="exact", copy=False)
    except ValueError as error:
        raise ValueError(
            f'{words}; align them first, for example with xarray.align(..., join="inner"). '
            f"({error})"
        ) from error


def arranged(field: Any, dims: Dims) -> Any:
    """Give the data with its axes in this order, of length 1 where it lacks a dimension.

    Axes before the first that it has are left out.
    """
    has = [dim in field.dims for dim in dims]
    dims = dims[has.index(True) :] if any(has) else ()
    missing = {dim: 1 for dim in dims if dim not in field.dims}
    return field.variable.set_dims(missing | dict(field.sizes)).transpose(*dims).data


def restored(data: Any, dims: Dims, like: Any) -> Any:
    """Give data, whose axes are the last of these dimensions, the names of a DataArray."""
    own = xr.Variable(dims[len(dims) - data.ndim :], data)
    own = own.isel({dim: 0 for dim in own.dims if dim not in like.dims})
    return like.copy(data=own.transpose(*like.dims).data)


def _named(field: Any, first: Any) -> Any:
    """Give a bare array the last dimensions of the first DataArray."""
    ndim = getattr(field, "ndim", 0)
    if ndim > first.ndim:
        raise ValueError(
            f"an array of {ndim} dimensions stands beside a DataArray of {first.ndim}; "
            "make it a DataArray that names its dimensions."
        )
    return xr.DataArray(field, dims=first.dims[first.ndim - ndim :])


def _finer(coords: Any, dim: Hashable, factor: int) -> Any:
    """Coordinates of so many times as many points: those that are evenly spaced, at their places.

    The points around an element share its cell.  Those of one axis that are no evenly spaced
    numbers are left out.
    """
    if factor == 1:
        return coords
    along = {name: one for name, one in coords.coords.items() if dim in one.dims}
    made = {}
    for name, one in along.items():
        if one.ndim == 1 and one.dtype.kind in "iufmM":
            found = _between(one.values, factor)
            if found is not None:
                made[name] = one.dims, found, one.attrs
    return coords.drop_vars(along).assign_coords(made)


def _between(values: np.ndarray, factor: int) -> np.ndarray | None:
    """So many places in each cell of evenly spaced values; None where they are not.

    Times are in nanoseconds; None too where these are too coarse, or too few.
    """
    step = step_of(values)
    if step is None:
        return None
    places = (np.arange(len(values) * factor) - (factor - 1) / 2) / factor
    if values.dtype.kind not in "mM":
        return float(values[0]) + step * places
    times = values.astype(f"{values.dtype.kind}8[ns]")
    if np.any(times.astype(values.dtype) != values):
        return None
    found = (times[:, None] + np.rint(1e9 * step * places[:factor]).astype("m8[ns]")).ravel()
    # Numbers that grow beyond the last one begin again at the other end.
    grows = (found[1:] > found[:-1]) == (step > 0)
    return found if np.all(grows) and step_of(found) is not None else None


# The spacing of evenly spaced coordinates, as a number.
#
# 0.0, 0.25, 0.5        ->     0.25
# 0.0, 0.33, 0.67, 1.0  ->     0.3333    thirds, rounded to two decimals
# 12:00, 13:00          ->     3600.0    seconds

# Numbers are taken for rounded where their last decimal is at most this part of a spacing, so that
# thirds of two decimals are, and 0, 1, 2.1 are not; a choice too.
_ROUNDED = 0.04

# As many decimals as a double has.
_DECIMALS = 15


def spacings(call: Any, named: Named) -> dict[str, float]:
    """Give the spacings along axes that a call asks for, by the names of their parameters.

    Raises
    ------
    ValueError
        If there is no such axis, or its dimension has no evenly spaced coordinate.
    """
    kernel = call.definition.name
    return {name: _spacing(name, one.axis, named, kernel) for name, one in call.spacings.items()}


def _spacing(name: str, axis: int, named: Named, kernel: str) -> float:
    core = named.core
    if not -len(core) <= axis < len(core):
        raise ValueError(
            f"'{name}' of '{kernel}' is npt.spacing({axis}), and the kernel has {len(core)} "
            f"{'axis' if len(core) == 1 else 'axes'}, counted from 0."
        )
    dim = core[axis]
    lacking = f"{kernel}() needs a value for '{name}'"
    has = (one.coords[dim] for one in named.named if dim in one.coords)
    values: Any = next((one.values for one in has if one.dims == (dim,)), None)
    if values is None:
        raise ValueError(
            f"{lacking}: dimension {dim!r} has no coordinate to take the spacing from; give "
            f"{name}=..., or the array a coordinate."
        )
    step = step_of(values)
    if step is not None:
        return step
    why, more = "is not evenly spaced", ""
    if _numbers(values) is None:
        why = f"holds neither numbers nor dates (its dtype is {values.dtype})"
    elif values.size < 2:
        why = f"has {'one point' if values.size else 'no points'}, so no spacing"
    else:
        more = ", or let the kernel take the distances of neighbours as one more field."
    raise ValueError(f"{lacking}: coordinate {dim!r} {why}; give {name}=...{more}")


def _numbers(values: np.ndarray) -> np.ndarray | None:
    """The coordinate as doubles, dates in seconds; None where it is neither.

    Integers and dates count from the first, so that doubles hold their differences.
    """
    if values.dtype.kind == "f":
        return values.astype(np.float64)
    if values.dtype.kind in "iu":
        # Modulo 2**64, which differences of 63 bits survive.
        words = values.astype(np.int64)
        return (words - words[:1]).astype(np.float64)
    # Dates of other calendars, as cftime has them, are objects.
    second: Any = datetime.timedelta(seconds=1)
    if values.dtype.kind in "mM":
        second = np.timedelta64(second)
    try:
        return np.asarray((values - values[:1]) / second, np.float64)
    except TypeError:
        return None


def step_of(values: np.ndarray) -> float | None:
    """The difference of neighbours, where it is one and not 0; that of dates in seconds."""
    numbers = _numbers(values)
    if numbers is None or len(numbers) < 2:
        return None
    # Even coordinates are so only as far as their type tells them apart.
    rounding = 0.0
    if values.dtype.kind == "f":
        rounding = 2 * float(np.finfo(values.dtype).eps) * float(np.abs(values).max())
    step = float(numbers[-1] - numbers[0]) / (len(numbers) - 1)
    # What is rounded by as much as it is spaced is not told apart at all.
    if not np.isfinite(step) or not abs(step) > 4 * rounding:
        return None
    apart = np.abs(np.diff(numbers) - step)
    if np.all(apart <= EVEN * abs(step) + rounding):
        return step
    line = numbers[0] + step * np.arange(len(numbers))
    explained = _unit(numbers, rounding)
    even = explained <= _ROUNDED * abs(step) and np.all(
        np.abs(numbers - line) <= explained + rounding
    )
    return step if even else None


def _unit(numbers: np.ndarray, rounding: float) -> float:
    """What the last decimal of rounded numbers stands for; 0 where they are whole or not rounded.

    Whole numbers are taken as they are: months and years are whole days.
    """
    least = max(rounding, 4 * float(np.finfo(float).eps) * float(np.abs(numbers).max()))
    for decimals in range(_DECIMALS):
        unit = 10.0**-decimals
        if unit < 2 * least:
            break
        if np.all(np.abs(numbers - np.round(numbers, decimals)) <= least):
            return unit if decimals else 0.0
    return 0.0
