"""Keys: what a call depends on, save for the elements of arrays and the values of numbers.

    heat(x, 0.25)     heat(x, r=0.25)     heat(r=0.25, x=x)
         -> bound arguments (x, 0.25)
         -> key ((100, 100), (800, 8), float64, aligned, float)     and the options

Two calls with equal keys are done in the same way.  Everything here runs in each call of a
small array, which takes a few microseconds as a whole; so it does what is needed and no more.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..language.dtypes import kind_of
from .accepted import is_cupy
from .conditions import Condition

Key: TypeAlias = tuple[Hashable, ...]

# Numbers whose type says all that a call depends on.
_NUMBERS = frozenset((float, bool, complex, *np.sctypeDict.values()))


def call_key(
    values: Sequence[Any],
    is_field: Sequence[bool],
    boundary: Any,
    cval: Any,
    axes: Any,
    out: Any,
    dtype: Any,
    overflow: Any,
    threads: Any,
    every: Any,
) -> Key | None:
    """Give what a call depends on of its bound arguments and of its options.

    None if some are none that are known here; the ordinary way takes or refuses them.  As
    dictionaries compare, 1 is True: only where equal values mean the same, they are a key.
    """
    parts: list[Any] = []
    for value, field in zip(values, is_field, strict=True):
        kind = type(value)
        if kind is np.ndarray:
            parts += (value.shape, value.strides, value.dtype, value.flags.aligned)
        elif field:
            if not is_cupy(value):
                return None
            parts += device_key(value)
        elif kind in _NUMBERS or (kind is int and -(2**63) <= value < 2**63):
            parts.append(kind)
        else:
            return None
    if out is not None:
        out = out_key(out)
        if out is None:
            return None
    if boundary is not None and type(boundary) is not str:
        boundary = _border(boundary)
        if boundary is None:
            return None
    if cval is not None and type(cval) is not int:
        cval = number_key(cval)
        if cval is None:
            return None
    if axes is not None:
        axes = axes_key(axes)
        if axes is None:
            return None
    if dtype is not None and type(dtype) is not str:
        dtype = _names(dtype)
        if dtype is None:
            return None
    if overflow is not None and type(overflow) is not str:
        return None
    if threads is not None and type(threads) is not int:
        return None
    if every is not None:
        every = axes_key(every)
        if every is None:
            return None
    return (*parts, out, boundary, cval, axes, dtype, overflow, threads, every)


def kinds(values: Sequence[Any]) -> Key | None:
    """Give what calls depend on of numbers and coefficient arrays; None if some are neither."""
    parts: list[Any] = []
    for value in values:
        kind = type(value)
        if kind in _NUMBERS or (kind is int and -(2**63) <= value < 2**63):
            parts.append(kind)
            continue
        one = array_key(value)
        if one is None:
            return None
        parts += one
    return tuple(parts)


def _border(given: Any) -> Hashable | None:
    """Give a border as something to look up; None if it is none, or has values of other kinds."""
    conditions: list[Condition] = []
    key = _rules(given, conditions)
    if key is None or not conditions or not all(one.has_name for one in conditions):
        return key
    values = {one.key for one in conditions if one.kind == "dirichlet"}
    # With one value or none, conditions mean rules with names: that depends on the value.
    return key if len(values) > 1 else (key, tuple([one.key for one in conditions]))


def _rules(given: Any, conditions: list[Condition]) -> Hashable | None:
    """Give rules as something to look up, and collect those that are conditions."""
    if type(given) is str:
        return given
    if type(given) is Condition:
        conditions.append(given)
        form: Hashable = given.form
        return form
    if type(given) is not tuple and type(given) is not list:
        return None
    parts = tuple([one if type(one) is str else _rules(one, conditions) for one in given])
    return None if None in parts else parts


def _names(value: Any) -> Hashable | None:
    """Give names, or tuples and lists of them, as something to look up; None if it is neither."""
    if isinstance(value, str | type | np.dtype):
        return value
    if type(value) is not tuple and type(value) is not list:
        return None
    parts = tuple([one if type(one) is str else _names(one) for one in value])
    for part in parts:
        if part is None:
            return None
    return parts


def array_key(array: Any) -> Key | None:
    """Give what a call depends on of an array; None if it is none of NumPy's own, or CuPy's."""
    if type(array) is not np.ndarray:
        return device_key(array) if is_cupy(array) else None
    return array.shape, array.strides, array.dtype, array.flags.aligned


def device_key(array: Any) -> Key:
    """Give what a call depends on of an array of CuPy; no array of NumPy has such a key.

    A GPU reads elements only where they are aligned; others are copied before.
    """
    aligned = array.data.ptr % array.dtype.itemsize == 0
    return array.shape, array.strides, array.dtype, aligned, array.data.device_id, "cuda"


def out_key(out: Any) -> Key | None:
    """Give what a call depends on of its `out`; None if that is no array, nor several."""
    if type(out) is not tuple and type(out) is not list:
        return array_key(out)
    parts = tuple(map(array_key, out))
    return None if any(part is None for part in parts) else parts


def number_key(value: Any) -> Hashable | None:
    """Tell a number from all others, those that are equal to it among them; None if it is none."""
    kind = type(value)
    if kind is float:
        # 0.0 equals -0.0, and NaN does not equal itself.
        return value if value and value == value else (kind, struct.pack("d", value))
    if kind is bool:
        return kind, value
    without_axes = kind is np.ndarray and not value.ndim
    if kind in _NUMBERS or (without_axes and kind_of(value.dtype) in "biufc"):
        return kind, np.asarray(value).dtype, np.asarray(value).tobytes()
    return None


def axes_key(axes: Any) -> Hashable | None:
    """Give axes as something to look up; None if they are no whole numbers."""
    if type(axes) is int:
        return axes
    if type(axes) is not tuple and type(axes) is not list:
        return None
    for axis in axes:
        if type(axis) is not int:
            return None
    return tuple(axes)
