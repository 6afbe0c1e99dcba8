"""Positions: where in the whole array a kernel is.

    i, j = npt.index(x)      ->     i = read index0, j = read index1: fields that hold 0, 1, 2, ...

A kernel is called with a field more for each position that it asks for, which nobody gives by
name: a number for each place along one axis, the same along all others.

A result of k times as many points is read at p = k * I + r, where I counts the elements.  So for
the phase r

    (p + 3) % 2     ->     (r + 3) % 2          a number
    (p + 3) // 2    ->     I + (r + 3) // 2     the element (r + 3) // 2 away: an offset
"""

from __future__ import annotations

from typing import Any

from ..base.frozen import frozen
from ..base.tracebacks import door
from .functions import PYTHON


@door
def index(field: Any = None, /) -> Any:
    """Give the position of the point, in a kernel: whole numbers, one for each axis.

    Parameters
    ----------
    field : field of the kernel, optional
        The position in this field of its element ``field[0, ..., 0]``, in the whole array, however
        that is cut into chunks.  Without it, the position among the results, which is another
        one only where these are not as many as the elements (``boundary="valid"``, ``every=``).

    Returns
    -------
    int or tuple of int
        A number for a kernel of one axis, else one for each axis of the kernel.

    Raises
    ------
    TypeError
        If it is called outside of a kernel.

    Notes
    -----
    Of a local that is read elsewhere, as ``d[1]``, it is the position there: one more, also where
    the border's rule takes the elements of a field from somewhere else.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil
    ... def checkerboard(x):
    ...     i, j = npt.index(x)
    ...     return x[0, 0] if (i + j) % 2 == 0 else 0
    >>> checkerboard(np.ones((2, 4), int))
    array([[1, 0, 1, 0],
           [0, 1, 0, 1]])
    """
    raise TypeError(
        "npt.index gives the position of the point inside a kernel; call it in a function that is "
        "decorated with @npt.stencil, with a field of that: i, j = npt.index(x)."
    )


@frozen
class Line:
    """`scale * I + shift`, for a point I of the array that is read."""

    scale: int
    shift: int

    def combined(self, symbol: str, other: int, reflected: bool = False) -> Line | int | None:
        """It with a known number; a known number where I drops out, None where it is no line."""
        match symbol, reflected:
            case ("+", _) | ("-", False):
                steps = 1
            case "*", _ if other > 0:
                steps = 1
            case ("//" | "%", False) if other > 0:
                steps = other
            case "&", _ if other == 1:
                steps = 2
            case ">>", False if other >= 0:
                steps = 2**other
            case _:
                return None
        if self.scale % steps:
            return None
        first, second = (PYTHON[symbol](self.shift + one, other) for one in (0, self.scale))
        return first if first == second else Line(second - first, first)


# The element around which a point is.
ELEMENT = Line(1, 0)


@frozen
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
