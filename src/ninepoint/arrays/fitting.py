"""Whether what stands outside can be stored as the elements of fields are."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from ninepoint.arrays.conditions import Condition
from ninepoint.language.dtypes import kind_of, most, widened

# Any type of floats holds numbers up to here.
_SMALL = 6e4


def fitting_cval(cval: Any, dtype: np.dtype[Any], what: str) -> Any:
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
    if isinstance(cval, np.ndarray) and cval.ndim == 0:
        cval = cval[()]
    cval = widened(cval)
    if not isinstance(cval, numbers.Number | np.number | np.bool_):
        raise TypeError(f"cval must be a number, not {cval!r} of type {type(cval).__name__}.")
    if isinstance(cval, numbers.Complex | np.complexfloating) and not isinstance(
        cval, numbers.Real | np.bool_
    ):
        if dtype.kind != "c":
            raise _unfit(cval, dtype, what, "a real number")
        return dtype.type(cval)
    real: Any = cval
    match dtype.kind:
        case "b" | "i" | "u":
            if not math.isfinite(real) or int(real) != real:
                raise _unfit(cval, dtype, what, "a whole number")
            low, high = _limits(dtype)
            if not low <= int(real) <= high:
                raise _unfit(cval, dtype, what, f"a number from {low} to {high}")
            return dtype.type(int(real))
        case _:
            limit = most(dtype)
            try:
                too_big = math.isfinite(real) and abs(float(real)) > limit
            except OverflowError:
                too_big = True
            if too_big:
                raise _unfit(cval, dtype, what, f"a number up to {limit:.4g}")
            return dtype.type(real)


def _unfit(cval: object, dtype: np.dtype[Any], what: str, cure: str) -> ValueError:
    return ValueError(
        f"cval={cval!r} does not fit {what}, which is {dtype}; use {cure}, or another dtype."
    )


def check_range(one: Condition, name: str, dtype: np.dtype) -> None:
    """Raise where elements outside cannot be stored as those of a field are."""
    given = one.c
    if kind_of(dtype) in "fc" and isinstance(given, float) and -_SMALL < given < _SMALL:
        return
    if not np.ndim(given):
        try:
            fitting_cval(given, dtype, name)
        except ValueError:
            raise misfit(one, name, dtype, _range(dtype)) from None
    elif given.dtype != dtype and given.size:
        if dtype.kind in "biu":
            low, high = _limits(dtype)
            least, greatest = given.min().item(), given.max().item()
            whole = given.dtype.kind != "f" or not np.any(given != np.trunc(given))
            # NaN is neither.
            if not (low <= least and greatest <= high and whole):
                raise misfit(one, name, dtype, _range(dtype))
        elif kind_of(dtype) == "f":
            with np.errstate(all="ignore"):
                if np.abs(given).max() < _SMALL:
                    return
                if np.any(np.isfinite(given) & ~np.isfinite(given.astype(dtype))):
                    raise misfit(one, name, dtype, _range(dtype))


def _range(dtype: np.dtype) -> str:
    if dtype.kind in "biu":
        low, high = _limits(dtype)
        return f"whole numbers from {low} to {high}"
    return f"numbers up to {most(dtype):.4g}"


def _limits(dtype: np.dtype) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def misfit(one: Condition, name: str, dtype: np.dtype, cure: str) -> ValueError:
    """The error for values that the type of a field does not hold."""
    return ValueError(
        f"the values of npt.{one.kind} do not fit field '{name}', which is {dtype}; use {cure}, "
        "or convert the field."
    )
