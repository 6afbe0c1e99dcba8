"""The spacing of evenly spaced coordinates, as a number.

0.0, 0.25, 0.5        ->     0.25
0.0, 0.33, 0.67, 1.0  ->     0.3333    thirds, rounded to two decimals
12:00, 13:00          ->     3600.0    seconds
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .xarray import Named

# How far spacings may be apart, as a part of them; a choice, as there is no measure of it.
_EVEN = 1e-6

# Numbers are taken for rounded where their last decimal is at most this part of a spacing, so that
# thirds of two decimals are, and 0, 1, 2.1 are not; a choice too.
_ROUNDED = 0.04

# As many decimals as a double has.
_DECIMALS = 15


def found(call: Any, named: Named) -> dict[str, float]:
    """Give the spacings along axes that a call asks for, by the names of their parameters.

    Raises
    ------
    ValueError
        If there is no such axis, or its dimension has no evenly spaced coordinate.
    """
    kernel = call.definition.name
    return {name: _found(name, one.axis, named, kernel) for name, one in call.spacings.items()}


def _found(name: str, axis: int, named: Named, kernel: str) -> float:
    core = named.core
    if not -len(core) <= axis < len(core):
        raise ValueError(
            f"'{name}' of '{kernel}' is npt.spacing({axis}), and the kernel has {len(core)} "
            f"{'axis' if len(core) == 1 else 'axes'}, counted from 0."
        )
    dim = core[axis]
    lacking = f"{kernel}() needs a value for '{name}'"
    values = named.coordinate(dim)
    if values is None:
        raise ValueError(
            f"{lacking}: dimension {dim!r} has no coordinate to take the spacing from; give "
            f"{name}=..., or the array a coordinate."
        )
    numbers = _numbers(values)
    if numbers is None:
        raise ValueError(
            f"{lacking}: coordinate {dim!r} holds neither numbers nor dates (its dtype is "
            f"{values.dtype}); give {name}=..."
        )
    if values.size < 2:
        raise ValueError(
            f"{lacking}: coordinate {dim!r} has {'one point' if values.size else 'no points'}, "
            f"so no spacing; give {name}=..."
        )
    # Even coordinates are so only as far as their type tells them apart.
    rounding = 0.0
    if values.dtype.kind == "f":
        rounding = 2 * float(np.finfo(values.dtype).eps) * float(np.abs(values).max())
    step = _step(numbers, rounding)
    if step is None:
        raise ValueError(
            f"{lacking}: coordinate {dim!r} is not evenly spaced; give {name}=..., or let the "
            "kernel take the distances of neighbours as one more field."
        )
    return step


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
    if values.dtype.kind in "mM":
        seconds = (values - values[:1]) / np.timedelta64(1, "s")
        return np.where(np.isnat(values), np.nan, seconds)
    if values.dtype.kind == "O":
        # Dates of other calendars, as cftime has them.
        try:
            apart = [one - values[0] for one in values]
        except TypeError:
            return None
        if all(isinstance(one, datetime.timedelta) for one in apart):
            return np.array([one / datetime.timedelta(seconds=1) for one in apart])
    return None


def _step(numbers: np.ndarray, rounding: float) -> float | None:
    """The difference of neighbours, where it is the same everywhere and not 0."""
    step = float(numbers[-1] - numbers[0]) / (len(numbers) - 1)
    # What is rounded by as much as it is spaced is not told apart at all.
    if not np.isfinite(step) or not abs(step) > 4 * rounding:
        return None
    apart = np.abs(np.diff(numbers) - step)
    if np.all(apart <= _EVEN * abs(step) + rounding):
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
