"""The spacing of evenly spaced coordinates, as a number.

0.0, 0.25, 0.5     ->     0.25
12:00, 13:00       ->     3600.0    seconds
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..language.spacings import Spacing

if TYPE_CHECKING:
    from .xarray import Named

# How far spacings may be apart, as a part of them; a choice, as there is no measure of it.
_EVEN = 1e-6


def unknown(name: str, kernel: str) -> TypeError:
    """What is wrong where arrays have no coordinates."""
    return TypeError(
        f"{kernel}() needs a value for '{name}': npt.spacing takes it from the coordinates of "
        f"xarray objects, in calls and in iterate; give {name}=... here."
    )


def found(spacings: Mapping[str, Spacing], named: Named, kernel: str) -> dict[str, float]:
    """Give the spacings along axes of a call, by the names of their parameters.

    Raises
    ------
    ValueError
        If there is no such axis, or its dimension has no evenly spaced coordinate.
    """
    return {name: _found(name, one.axis, named, kernel) for name, one in spacings.items()}


def _found(name: str, axis: int, named: Named, kernel: str) -> float:
    core = named.core
    if not -len(core) <= axis < len(core):
        raise ValueError(
            f"'{name}' of '{kernel}' is npt.spacing({axis}), and the kernel has {len(core)} "
            f"{'axis' if len(core) == 1 else 'axes'}, counted from 0."
        )
    dim = core[axis]
    values = named.coordinate(dim)
    if values is None:
        raise ValueError(
            f"{kernel}() needs a value for '{name}': dimension {dim!r} has no coordinate to take "
            f"the spacing from; give {name}=..., or the array a coordinate."
        )
    if values.dtype.kind not in "iufmM":
        raise ValueError(
            f"{kernel}() needs a value for '{name}': coordinate {dim!r} holds neither numbers nor "
            f"datetime64 (its dtype is {values.dtype}); give {name}=..."
        )
    if values.size < 2:
        raise ValueError(
            f"{kernel}() needs a value for '{name}': coordinate {dim!r} has "
            f"{'one point' if values.size else 'no points'}, so no spacing; give {name}=..."
        )
    step = _step(values)
    if step is None:
        raise ValueError(
            f"{kernel}() needs a value for '{name}': coordinate {dim!r} is not evenly spaced; "
            f"give {name}=...{_cure(values, dim, axis % len(core), len(core))}"
        )
    return step


def _cure(values: np.ndarray[Any, Any], dim: Hashable, axis: int, axes: int) -> str:
    """What to write where a coordinate rises or falls all along, but unevenly; else nothing.

    , or let the kernel take the coordinate itself as one more field, here x, and divide by
    x[1, 0] - x[-1, 0]; the call gives data['lat'] for it.
    """
    after, before = values[1:], values[:-1]
    if not (np.all(after > before) or np.all(after < before)):
        return ""
    up, down = (", ".join(str(step if k == axis else 0) for k in range(axes)) for step in (1, -1))
    given = f"data[{dim!r}]"
    if values.dtype.kind == "M":
        given = f"({given} - {given}[0]) / np.timedelta64(1, 's')"
    elif values.dtype.kind == "m":
        given = f"{given} / np.timedelta64(1, 's')"
    elif values.dtype.kind == "u":
        # Differences of these wrap.
        given = f"{given}.astype('float64')"
    return (
        ", or let the kernel take the coordinate itself as one more field, here x, and divide by "
        f"x[{up}] - x[{down}]; the call gives {given} for it."
    )


def _step(values: np.ndarray[Any, Any]) -> float | None:
    """The difference of neighbours, where it is the same everywhere and not 0."""
    rounding = 0.0
    if values.dtype.kind in "mM":
        if np.isnat(values).any():
            return None
        # From the first on, so that floats hold the differences of dates.
        numbers = (values - values[0]) / np.timedelta64(1, "s")
    else:
        numbers = values.astype(np.float64)
        if values.dtype.kind == "f":
            # Even coordinates are so only as far as their type tells them apart.
            rounding = 2 * float(np.finfo(values.dtype).eps) * float(np.abs(numbers).max())
    step = float(numbers[-1] - numbers[0]) / (len(numbers) - 1)
    apart = np.abs(np.diff(numbers) - step)
    # What is rounded by as much as it is spaced is not told apart at all.
    even = bool(np.all(apart <= _EVEN * abs(step) + rounding)) and abs(step) > 4 * rounding
    return step if even and np.isfinite(step) else None
