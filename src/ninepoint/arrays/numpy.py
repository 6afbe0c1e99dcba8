"""What is asked of the arrays of a call: that shapes, `axes`, `out` and border values fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ninepoint.arrays.accepted import native
from ninepoint.arrays.borders import Array
from ninepoint.arrays.fitting import fitting_cval
from ninepoint.arrays.layout import Layout, Shape
from ninepoint.arrays.parts import Values
from ninepoint.arrays.recognise import is_device
from ninepoint.arrays.strided import overlaps_itself
from ninepoint.language.dtypes import castable, kind_of

# Stands for a length that nobody knows: that of a stack of which Dask took some arrays.
UNKNOWN = 1_000_000_007


def core_shape(fields: Sequence[Array], ndim: int, axes: Any) -> Shape:
    """Give the lengths of the fields along the axes that a program of `ndim` axes works on."""
    shape = broadcast_shape([field.shape for field in fields])
    if len(shape) < ndim:
        raise too_few_axes(ndim, shape)
    if axes is None:
        return shape[len(shape) - ndim :]
    return tuple(shape[axis] for axis in core_axes(axes, len(shape), ndim))


def core_axes(axes: Any, ndim: int, core: int) -> tuple[int, ...]:
    """Check an `axes=` option and count its axes from the front."""
    if isinstance(axes, int | np.integer) and not isinstance(axes, bool):
        axes = (axes,)
    if isinstance(axes, str) or not isinstance(axes, Sequence):
        raise TypeError(f"axes must be a tuple of {core} integers, not {axes!r}.")
    if len(axes) != core:
        raise ValueError(f"axes={tuple(axes)} names {len(axes)} axes; the stencil has {core}.")
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
            raise TypeError(f"axes must be integers, not {axis!r}.")
        if not -ndim <= axis < ndim:
            raise ValueError(f"axis {axis} does not exist in an array of {ndim} dimensions.")
    order = tuple(int(axis) % ndim for axis in axes)
    if len(set(order)) != core:
        raise ValueError(f"axes={tuple(axes)} names one axis twice.")
    return order


def too_few_axes(ndim: int, shape: Shape) -> ValueError:
    """The error for arrays of fewer axes than the stencil has."""
    return ValueError(
        f"a stencil of {ndim} {'axis' if ndim == 1 else 'axes'} needs an array of at least "
        f"{ndim} {'dimension' if ndim == 1 else 'dimensions'}, not of shape {shape}."
    )


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """Give the common shape, as NumPy's broadcasting makes it; an unknown length is a NaN."""
    # NumPy's own function takes 3 us for shapes that are equal.
    if all(one == shapes[0] for one in shapes):
        return tuple(shapes[0])
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except TypeError:
        known = broadcast_shape([tuple(UNKNOWN if n != n else n for n in s) for s in shapes])
        unknown: Any = math.nan
        return tuple(unknown if n == UNKNOWN else n for n in known)
    except ValueError as error:
        named = " and ".join(map(str, shapes))
        raise ValueError(
            f"the fields' shapes {named} do not broadcast; "
            "each pair of lengths, counted from the last axis, must be equal or contain a 1."
        ) from error


def checked_out(
    out: object,
    shapes: Sequence[Shape],
    dtypes: Sequence[np.dtype[Any]],
    order: tuple[int, ...] | None,
) -> list[Array]:
    """Check that `out` holds an array for each result; core axes come last in `shapes`."""
    given = each_out(out, len(shapes))
    for array, shape, dtype in zip(given, shapes, dtypes, strict=True):
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"out must be a NumPy array, not {_kind(array)}.")
        check_target(array, dtype, in_place(shape, order))
        if overlaps_itself(array.shape, array.strides, array.itemsize):
            raise shares_elements(array)
    check_writable(given)
    return given


def check_writable(outs: Sequence[Array]) -> None:
    """Raise where arrays cannot be written, each of them apart from the others."""
    for k, out in enumerate(outs):
        if not out.flags.writeable:
            raise ValueError("out is read-only.")
        if any(np.may_share_memory(out, other) for other in outs[:k]):
            raise ValueError("two of the arrays in out share memory; give each its own.")


def each_out(out: object, count: int) -> list[Any]:
    """Give what was passed as `out` as a list, one for each of so many results."""
    given: list[Any] = list(out) if isinstance(out, tuple | list) else [out]
    if len(given) != count:
        raise ValueError(f"out has {len(given)} arrays, but the stencil has {count} outputs.")
    return given


def in_place(shape: Shape, order: tuple[int, ...] | None) -> Shape:
    """Give the shape of a result, of which core axes came last, with these where `order` says."""
    if order is None:
        return shape
    rest = iter(shape[: -len(order)])
    places = [axis % len(shape) for axis in order]
    ends = dict(zip(places, shape[-len(order) :], strict=True))
    return tuple(ends[k] if k in ends else next(rest) for k in range(len(shape)))


def check_target(array: Any, result: np.dtype[Any], wanted: Shape) -> None:
    """Raise unless an array has the shape of a result, and can hold its values."""
    if array.shape != wanted:
        raise ValueError(f"out has shape {array.shape}, but the result has {wanted}.")
    if not storable(result, array.dtype):
        raise _unstorable(result, native(array.dtype))


def shares_elements(array: Any) -> ValueError:
    """The error for an `out` of which two elements are one."""
    return ValueError(
        f"elements of out share memory: it has shape {array.shape} and strides "
        f"{array.strides}; give an array whose elements are all its own."
    )


def _kind(value: object) -> str:
    if is_device(value):
        return f"an array on a GPU ({type(value).__module__.partition('.')[0]})"
    return type(value).__name__


def _unstorable(result: np.dtype[Any], out: np.dtype[Any]) -> TypeError:
    """The error for an `out` that cannot take the result as it is."""
    cure = f"give an array of {result}"
    if out.kind in "iu" and result.kind != "c":
        cure += f', or ask for {out} with dtype="{out}" and overflow='
    return TypeError(f"out has dtype {out}, but the result has {result}; {cure}.")


def storable(values: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether values of one dtype are stored as another without being asked for it.

    A float is rounded to a shorter float; an integer is never wrapped, nor a float cut to one.
    """
    kind = kind_of(target)
    if kind not in "biufc":
        return False
    return castable(values, target) if kind in "fc" else np.can_cast(values, target, "safe")


def check_kept(fields: Sequence[np.dtype[Any]], outs: Sequence[np.dtype[Any]]) -> None:
    """Raise unless results hold what the rule "keep" keeps of the fields."""
    for k, dtype in enumerate(outs):
        if k >= len(fields):
            raise ValueError(
                f'boundary "keep" needs a field for each output, but output {k + 1} has none; '
                "choose another boundary."
            )
        if not storable(fields[k], dtype):
            raise ValueError(
                f'boundary "keep" cannot hold {fields[k]} values in a {dtype} result; choose '
                "another boundary or dtype."
            )


def check_values(
    plan: Layout,
    cval: Any,
    fields: Sequence[np.dtype[Any]],
    outs: Sequence[np.dtype[Any]],
    positions: int = 0,
) -> Values:
    """Check that `cval` fits, and what "keep" keeps, before anything runs.

    The last fields may be `positions`, beside which nothing stands.
    """
    values = Values([cval] * len(fields), [cval] * len(outs))
    if plan.has_keep:
        check_kept(fields, outs)
    if type(cval) is int and cval == 0:
        return values
    if plan.has_constant:
        given = fields[: len(fields) - positions]
        values.fields = [fitting_cval(cval, dtype, "the array") for dtype in given]
        values.fields += [0] * positions
    if plan.has_fill:
        values.outs = [fitting_cval(cval, dtype, "the result") for dtype in outs]
    return values
