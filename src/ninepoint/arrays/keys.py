"""Keys: what a call depends on, save for the elements of arrays and the values of numbers.

    heat(x, 0.25)     heat(x, r=0.25)     heat(r=0.25, x=x)
         -> bound arguments (x, 0.25)
         -> key ((100, 100), (800, 8), float64, aligned, float)     and the options

Two calls with equal keys are done in the same way.  Everything here runs in each call of a
small array, which takes a few microseconds as a whole; so it does what is needed and no more.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .accepted import is_cupy
from .borders import Condition

Key: TypeAlias = tuple[Hashable, ...]

# Numbers whose type says all that a call depends on.
_NUMBERS = frozenset((float, bool, complex, *np.sctypeDict.values()))


def call_key(values: Sequence[Any], options: Sequence[Any]) -> Key | None:
    """Give what a call depends on of its bound arguments and of its options.

    None if some are none that are known here; the ordinary way takes or refuses them.
    """
    parts = kinds(values)
    if parts is None:
        return None
    told: list[Any] = []
    for one in options:
        if one is not None:
            one = option_key(one)
            if one is None:
                return None
        told.append(one)
    return (*parts, *told)


def kinds(values: Sequence[Any]) -> Key | None:
    """Give what calls depend on of numbers and arrays; None if some are neither."""
    parts: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            parts += (value.shape, value.strides, value.dtype, value.flags.aligned)
        elif kind in _NUMBERS or (kind is int and -(2**63) <= value < 2**63):
            parts.append(kind)
        elif is_cupy(value):
            parts += array_kind(value)
        else:
            return None
    return tuple(parts)


def option_key(given: Any) -> Hashable | None:
    """Give an option as something to look up, which equals no other that means something else.

    As dictionaries compare, 1 is True, 0.0 is -0.0, and NaN is not itself.  None if it is made
    of anything but names, numbers, arrays and conditions.
    """
    kind = type(given)
    if kind is str or kind is int:
        return given  # type: ignore[no-any-return]
    if kind is tuple or kind is list:
        parts = tuple([one if type(one) is str else option_key(one) for one in given])
        # A type of NumPy's may equal None.
        return None if any(part is None for part in parts) else parts
    if kind is Condition:
        # What are done alike, whatever their values are.
        each = [("function",) if callable(one) else kinds([one]) for one in given.values]
        form = given.kind, given.dx, given.at, given.step, given.order, *each
        # Where it means a rule with a name, that depends on its value.
        return None if None in each else (form, repr(given.values)) if given.name else form
    if kind in _NUMBERS or (kind is np.ndarray and not given.ndim):
        one = np.asarray(given)
        return None if one.dtype.hasobject else (kind, one.dtype, one.tobytes())
    if isinstance(given, type | np.dtype):
        return given
    return array_key(given)


def array_key(array: Any) -> Key | None:
    """Give what a call depends on of an array; None if it is none of NumPy's own, or CuPy's."""
    return array_kind(array) if type(array) is np.ndarray or is_cupy(array) else None


def array_kind(array: Any) -> Key:
    """Give what a call depends on of an array; no array of NumPy has the key of one of CuPy.

    A GPU reads elements only where they are aligned; others are copied before.
    """
    key = array.shape, array.strides, array.dtype
    if is_cupy(array):
        aligned = array.data.ptr % array.dtype.itemsize == 0
        return *key, aligned, array.data.device_id, "cuda"
    return *key, array.flags.aligned
