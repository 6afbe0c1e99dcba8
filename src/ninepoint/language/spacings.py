"""Spacings: numbers that the coordinates of a call's arrays give where the call does not.

def slope(u, dx=npt.spacing(0)): ...

slope(u)     ->     slope(u, dx=0.25), for an array whose points are 0.25 apart along axis 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..tracebacks import door


@dataclass(frozen=True, slots=True)
class Spacing:
    """Stands for the spacing along an axis of the kernel, until a call has arrays."""

    axis: int

    def __repr__(self) -> str:
        return f"npt.spacing({self.axis})"


@door
def spacing(axis: int, /) -> Any:
    """Give what a parameter may have for a default: the spacing of the coordinates along an axis.

    Parameters
    ----------
    axis : int
        The axis of the kernel, as its offsets count them.

    Returns
    -------
    Spacing
        For the signature of a stencil.  Where a call with xarray objects gives no value, it is
        the difference of neighbouring coordinates: a float, negative where they fall, and in
        seconds where they are dates.

    Raises
    ------
    TypeError
        If `axis` is no whole number.

    Notes
    -----
    A call raises an error where there are no such coordinates, or they are not evenly spaced: then
    the coordinate itself is a field for the kernel to take differences of.

    Examples
    --------
    >>> import ninepoint as npt
    >>> import xarray as xr
    >>> @npt.stencil(boundary="valid")
    ... def slope(u, dx=npt.spacing(0)):
    ...     return (u[1] - u[-1]) / (2 * dx)
    >>> height = xr.DataArray([0.0, 1.0, 4.0, 9.0], {"x": [0.0, 0.5, 1.0, 1.5]}, "x")
    >>> slope(height).values
    array([4., 8.])
    >>> slope(height.values, dx=0.5)
    array([4., 8.])
    >>> @npt.stencil(boundary="valid")
    ... def uneven(u, x):
    ...     return (u[1] - u[-1]) / (x[1] - x[-1])
    >>> apart = height.assign_coords(x=[0.0, 0.5, 2.0, 3.0])
    >>> uneven(apart, apart["x"]).values
    array([2. , 3.2])
    """
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise TypeError(f"npt.spacing takes the number of an axis of the kernel, not {axis!r}.")
    return Spacing(axis)
