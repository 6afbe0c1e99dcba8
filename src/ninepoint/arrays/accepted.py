"""What is taken as an array of numbers, what is refused with its cure, and dtypes of results."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ninepoint.arrays.recognise import refuse_foreign
from ninepoint.language.dtypes import kind_of

Array: TypeAlias = np.ndarray[Any, Any]


def as_field(value: object, name: str = "") -> Array:
    """Give `value` as a plain array that a stencil can read, without copying an array.

    `name` is the parameter's, for messages.

    Raises
    ------
    TypeError
        If it is masked, or its dtype is not a number or bool.
    """
    array = as_array(value, name)
    check_dtype(array.dtype, name)
    return array


def as_array(value: object, name: str = "") -> Array:
    """The same, but that its elements may be anything.

    Raises
    ------
    TypeError
        If it is masked, or neither an array nor a number.
    """
    if type(value) is np.ndarray:
        return value
    refuse_mask(value)
    what = f"'{name}'" if name else "a field"
    refuse_foreign(value, what)
    array = np.asarray(value)
    if array.ndim == 0 and kind_of(array.dtype) not in "biufc":
        words = repr(value) if value is None or isinstance(value, str) else type(value).__name__
        raise TypeError(f"{what} must be an array of numbers, not {words}.")
    return array


def refuse_mask(value: object) -> None:
    """Raise a TypeError with the cure if `value` is masked."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            "a masked array would lose its mask; fill it first with .filled(value), "
            "or pass .data to ignore the mask."
        )


def check_dtype(dtype: np.dtype[Any], name: str = "") -> None:
    """Raise a TypeError with the cure unless `dtype` is one that stencils compute with."""
    if kind_of(dtype) not in "biufc" or dtype.char in "gG":
        raise TypeError(_refusal(dtype, f"'{name}'" if name else "an array"))


def _refusal(dtype: np.dtype[Any], what: str) -> str:
    match dtype.kind:
        case "O":
            cure = 'convert it first, for example with .astype("float64")'
        case "M" | "m":
            cure = 'use .astype("int64") for the counts of its unit'
        case "V":
            cure = "pass one of its members, array[name]" if dtype.names else "use .view(dtype)"
        case "f" | "c":
            smaller = "float64" if dtype.kind == "f" else "complex128"
            cure = f'use .astype("{smaller}")'
        case _:
            cure = 'convert it to numbers first, for example with .astype("float64")'
    return f"a stencil cannot compute with {what} of dtype {dtype}; {cure}."


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Give `dtype` in this machine's byte order."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def storage_types(dtype: Any) -> tuple[np.dtype, ...] | None:
    """The dtypes of the results, or None where none is asked for."""
    if dtype is None:
        return None
    given = dtype if isinstance(dtype, tuple | list) else (dtype,)
    # As NumPy's functions, which compute and give numbers in the machine's own order of bytes.
    found = tuple(native(np.dtype(one)) for one in given)
    for one in found:
        if kind_of(one) not in "biufc" or one.char in "gG":
            raise TypeError(f"dtype={one} holds no numbers that a stencil can compute.")
    return found
