"""Whether the values of conditions can be stored as the elements of fields are."""

from __future__ import annotations

import numpy as np

from ninepoint.arrays.borders import fitting_cval
from ninepoint.arrays.conditions import Condition

# Any type of floats holds numbers up to here.
_SMALL = 6e4


def check_range(one: Condition, name: str, dtype: np.dtype) -> None:
    """Raise where elements outside cannot be stored as those of a field are."""
    given = one.c
    if dtype.kind in "fc" and isinstance(given, float) and -_SMALL < given < _SMALL:
        return
    if not np.ndim(given):
        try:
            fitting_cval(given, dtype, name)
        except ValueError:
            raise unfit(one, name, dtype, _range(dtype)) from None
    elif given.dtype != dtype and given.size:
        if dtype.kind in "biu":
            low, high = _limits(dtype)
            least, most = given.min().item(), given.max().item()
            whole = given.dtype.kind != "f" or not np.any(given != np.trunc(given))
            # NaN is neither.
            if not (low <= least and most <= high and whole):
                raise unfit(one, name, dtype, _range(dtype))
        elif dtype.kind == "f":
            with np.errstate(all="ignore"):
                if np.abs(given).max() < _SMALL:
                    return
                if np.any(np.isfinite(given) & ~np.isfinite(given.astype(dtype))):
                    raise unfit(one, name, dtype, _range(dtype))


def _range(dtype: np.dtype) -> str:
    if dtype.kind in "biu":
        low, high = _limits(dtype)
        return f"whole numbers from {low} to {high}"
    return f"numbers up to {float(np.finfo(dtype).max):.4g}"


def _limits(dtype: np.dtype) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def unfit(one: Condition, name: str, dtype: np.dtype, cure: str) -> ValueError:
    """The error for values that the type of a field does not hold."""
    return ValueError(
        f"the values of npt.{one.kind} do not fit field '{name}', which is {dtype}; use {cure}, "
        "or convert the field."
    )
