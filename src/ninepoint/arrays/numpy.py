"""What is asked of the arrays of a call: that shapes, `axes`, `out` and border values fit.

Axes are counted from the end, so that they are the same in fields of fewer axes.

    axes=(0, 1) beside a field of three axes     ->     (-3, -2)

A stage is given a field as it is, as a call by itself would be.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..language.dtypes import castable, is_masked, kind_of, most, widened
from .accepted import DTypes, check_writable, is_device, is_whole, listed, native
from .layout import Array, Axes, Border, Shape

T = TypeVar("T")

# Names of axes.
Dims: TypeAlias = tuple[Hashable, ...]


def fitting_cval(cval: Any, dtype: np.dtype, what: str) -> Any:
    """Give `cval` as a value of `dtype`, the dtype of `what` ("the result", "field 'x'").

    Raises
    ------
    ValueError
        If `dtype` cannot hold it: a fraction, NaN or a number out of range for integers, a
        complex number for reals, a number too big for the float type.
    TypeError
        If it is no number.
    """
    if type(cval) is int and cval == 0:
        return cval
    cval = widened(cval)
    if not isinstance(cval, numbers.Number | np.bool_):
        raise TypeError(f"cval must be a number, not {cval!r} of type {type(cval).__name__}.")
    cure = ""
    # Those of NumPy warn where they are compared with what their types do not hold.
    real: Any = cval.item() if isinstance(cval, np.generic) else cval
    if isinstance(cval, numbers.Complex) and not isinstance(cval, numbers.Real):
        if dtype.kind != "c":
            cure = "a real number"
    elif dtype.kind in "biu":
        low, high = limits_of(dtype)
        # NaN is neither, and any int is among them.
        if not -math.inf < real < math.inf or int(real) != real:
            cure = "a whole number"
        elif not low <= int(real) <= high:
            cure = f"a number from {low} to {high}"
        else:
            real = int(real)
    elif most(dtype) < abs(real) < math.inf:
        cure = f"a number up to {most(dtype):.4g}"
    if cure:
        raise ValueError(
            f"cval={cval!r} does not fit {what}, which is {dtype}; use {cure}, or another dtype."
        )
    return dtype.type(real)


def limits_of(dtype: np.dtype) -> tuple[int, int]:
    """The least and the greatest number of a type of whole numbers."""
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


# Stands for a length that nobody knows: that of a stack of which Dask took some arrays.
UNKNOWN = 1_000_000_007


def core_axes(axes: Any, ndim: int, core: int) -> Axes:
    """Check an `axes=` option and count its axes from the front."""
    if is_whole(axes):
        axes = (axes,)
    if isinstance(axes, str) or not isinstance(axes, Sequence):
        raise TypeError(f"axes must be a tuple of {core} integers, not {axes!r}.")
    if len(axes) != core:
        raise ValueError(f"axes={tuple(axes)} names {len(axes)} axes; the stencil has {core}.")
    for axis in axes:
        if not is_whole(axis):
            raise TypeError(f"axes must be integers, not {axis!r}.")
        if not -ndim <= axis < ndim:
            raise ValueError(f"axis {axis} does not exist in an array of {ndim} dimensions.")
    order = tuple(int(axis) % ndim for axis in axes)
    if len(set(order)) != core:
        raise ValueError(f"axes={tuple(axes)} names one axis twice.")
    return order


def too_few_axes(ndim: int, shape: Shape, least: int = 0) -> ValueError:
    """The error for arrays of fewer axes than the stencil has, or the `least` that axes= asks."""
    least = least or ndim
    return ValueError(
        f"a stencil of {ndim} {'axis' if ndim == 1 else 'axes'} needs an array of at least "
        f"{least} {'dimension' if least == 1 else 'dimensions'}, not of shape {shape}."
    )


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """Give the common shape, as NumPy's broadcasting makes it; an unknown length is a NaN."""
    # NumPy's own function takes 3 us for shapes that are equal.
    if all(one == shapes[0] for one in shapes):
        return tuple(shapes[0])
    try:
        found = np.broadcast_shapes(*(tuple(UNKNOWN if n != n else n for n in s) for s in shapes))
    except ValueError:
        named = " and ".join(map(str, shapes))
        cure = "; of nan nobody knows, so call .compute_chunk_sizes() first" * ("nan" in named)
        raise ValueError(
            f"the fields' shapes {named} do not broadcast; each pair of lengths, counted from the "
            f"last axis, must be equal or contain a 1{cure}."
        ) from None
    unknown: Any = math.nan
    return tuple(unknown if n == UNKNOWN else n for n in found)


def checked_out(out: object, shapes: Sequence[Shape], dtypes: DTypes) -> list[Array]:
    """Check that `out` holds an array for each result."""
    given = each_out(out, len(shapes))
    for array in given:
        if not isinstance(array, np.ndarray) or is_masked(array):
            kind = type(array).__name__
            if is_device(array):
                kind = f"an array on a GPU ({type(array).__module__.partition('.')[0]})"
            raise TypeError(f"out must be a NumPy array, not {kind}.")
    check_targets(given, shapes, dtypes)
    return given


def check_targets(arrays: Sequence[Array], shapes: Sequence[Shape], dtypes: DTypes) -> None:
    """Raise unless results can be written to arrays, whose elements are all their own."""
    for array, shape, dtype in zip(arrays, shapes, dtypes, strict=True):
        check_target(array, dtype, shape)
        if overlaps_itself(array.shape, array.strides, array.itemsize):
            raise shares_elements(array)
    check_writable(arrays)


def overlaps_itself(lengths: Sequence[int], steps: Sequence[int], size: int) -> bool:
    """Whether two elements may be one: an axis does not step over all that shorter steps reach.

    Steps are counted as the `size` of an element is, in elements or in bytes.
    """
    if 0 in lengths:
        return False
    reached = size
    for step, length in sorted(
        (abs(step), n) for step, n in zip(steps, lengths, strict=True) if n > 1
    ):
        if step < reached:
            return True
        reached += step * (length - 1)
    return False


def each_out(out: object, count: int) -> list[Any]:
    """Give what was passed as `out` as a list, one for each of so many results."""
    given = listed(out)
    if len(given) != count:
        raise ValueError(f"out has {len(given)} arrays, but the stencil has {count} outputs.")
    return given


def check_target(array: Any, result: np.dtype, wanted: Shape) -> None:
    """Raise unless an array has the shape of a result, and can hold its values."""
    if array.shape != wanted:
        raise ValueError(f"out has shape {array.shape}, but the result has {wanted}.")
    if not storable(result, array.dtype):
        out, cure = native(array.dtype), f"give an array of {result}"
        if out.kind in "iu" and result.kind != "c":
            cure += f', or ask for {out} with dtype="{out}" and overflow='
        raise TypeError(f"out has dtype {out}, but the result has {result}; {cure}.")


def shares_elements(array: Any) -> ValueError:
    """The error for an `out` of which two elements are one."""
    return ValueError(
        f"elements of out share memory: it has shape {array.shape} and strides "
        f"{array.strides}; give an array whose elements are all its own."
    )


def storable(values: np.dtype, target: np.dtype) -> bool:
    """Whether values of one dtype are stored as another without being asked for it.

    A float is rounded to a shorter float; an integer is never wrapped, nor a float cut to one.
    """
    kind = kind_of(target)
    if kind not in "biufc":
        return False
    return castable(values, target) if kind in "fc" else np.can_cast(values, target, "safe")


def check_values(border: Border, cval: Any, compiled: Any) -> list[Array]:
    """The constants beside fields and in results, 0 where nobody asks, as arrays without axes.

    It is checked before anything runs that `cval` fits, and what "keep" keeps.
    """
    fields, outs = compiled.field_dtypes, compiled.out_dtypes
    # Each output has a field: what a kernel is compiled for says so.  All phases keep the same.
    kept = zip(fields, outs[: len(outs) // compiled.phases], strict=False)
    for field, dtype in kept if border.uses("keep") else ():
        if not storable(field, dtype):
            raise ValueError(
                f'boundary "keep" cannot hold {field} values in a {dtype} result; choose '
                "another boundary or dtype."
            )
    # Beside positions, which are the last fields, nothing stands.
    given = len(fields) - len(compiled.positions)
    asked = [
        (k < given and border.uses("constant"), "the array", dtype)
        for k, dtype in enumerate(fields)
    ]
    asked += [(border.uses("fill"), "the result", dtype) for dtype in outs]
    return [
        np.array(fitting_cval(cval, dtype, what) if used else 0).astype(dtype)
        for used, what, dtype in asked
    ]


# Axes of an array, counted from the last, which is -1.
Behind: TypeAlias = Axes


def behind(axes: Any, rank: int, ndim: int) -> Behind:
    """The axes of a stencil of `ndim` indices in arrays of `rank` axes; None means the last."""
    if axes is None:
        return tuple(range(-ndim, 0))
    return tuple(axis - rank for axis in core_axes(axes, rank, ndim))


def placed(items: Sequence[T], along: Sequence[int], others: Sequence[T]) -> tuple[T, ...]:
    """What there is for each axis, with others for those along which a call works."""
    found = list(items)
    for axis, one in zip(along, others, strict=True):
        found[axis] = one
    return tuple(found)


def whole_shape(fields: Sequence[Any]) -> Shape:
    """The shape that all fields broadcast to."""
    return broadcast_shape([field.shape for field in fields])


def core_dims(
    first: Any, ndim: int, dims: Sequence[Hashable] | None, axes: Sequence[int] | None
) -> Dims:
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
                f"the array has {quoted(first.dims)}."
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


def quoted(dims: Sequence[Hashable]) -> str:
    """The names in a message."""
    return ", ".join(map(repr, dims)) or "none"
