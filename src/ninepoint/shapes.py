"""Shapes of windows: arrays of bool that say which elements of a window are taken.

    disk(2)     ->      . . 1 . .           x[-2:3, -2:3][npt.shapes.disk(2)].max()
                        . 1 1 1 .           npt.filters.median(x, footprint=npt.shapes.disk(2))
                        1 1 1 1 1
                        . 1 1 1 .
                        . . 1 . .

Any array of bool is a shape; these are the usual ones.  A kernel may use them as constants from
around it, and may call them itself: they are made once, while its text is read.
"""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from .base.tracebacks import door

Shape: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

# The most points of a shape, more than any window may have.
MOST_POINTS = 10**8

__all__ = ["ball", "box", "cross", "diamond", "disk", "ring"]


def __dir__() -> list[str]:
    return sorted(__all__)


@door
def disk(radius: float) -> Shape:
    """Make a disk: all points of a plane that are no farther than `radius` from the centre.

    Parameters
    ----------
    radius : float
        Not negative; it may have a fraction [points].

    Returns
    -------
    array of bool, shape (2 * r + 1, 2 * r + 1)
        Where r is `radius` without its fraction.

    Raises
    ------
    ValueError
        If `radius` is negative or not finite.
    TypeError
        If `radius` is no number.

    Notes
    -----
    The same as ``skimage.morphology.disk``; of the shapes of OpenCV, ``MORPH_ELLIPSE`` is near
    it, but not symmetric.

    Examples
    --------
    >>> import ninepoint as npt
    >>> npt.shapes.disk(1.5).astype(int)
    array([[1, 1, 1],
           [1, 1, 1],
           [1, 1, 1]])
    """
    return _round("radius", radius, 2)


@door
def ball(radius: float) -> Shape:
    """Make a ball: all points of a volume that are no farther than `radius` from the centre.

    Parameters
    ----------
    radius : float
        Not negative; it may have a fraction [points].

    Returns
    -------
    array of bool, shape (2 * r + 1, 2 * r + 1, 2 * r + 1)
        Where r is `radius` without its fraction.

    Raises
    ------
    ValueError
        If `radius` is negative or not finite.
    TypeError
        If `radius` is no number.

    Notes
    -----
    The same as ``skimage.morphology.ball``.

    Examples
    --------
    >>> import ninepoint as npt
    >>> int(npt.shapes.ball(2).sum())
    33
    """
    return _round("radius", radius, 3)


@door
def ring(outer: float, inner: float) -> Shape:
    """Make a ring: the points of a disk that are farther than `inner` from its centre.

    Parameters
    ----------
    outer : float
        Radius of the disk, not negative [points].
    inner : float
        Radius of the hole, less than `outer`, not negative [points].

    Returns
    -------
    array of bool, shape (2 * r + 1, 2 * r + 1)
        Where r is `outer` without its fraction.

    Raises
    ------
    ValueError
        If a radius is negative or not finite, or no point lies between the two.
    TypeError
        If a radius is no number.

    Notes
    -----
    ``disk(outer)`` without the points of ``disk(inner)``.

    Examples
    --------
    >>> import ninepoint as npt
    >>> npt.shapes.ring(1, 0).astype(int)
    array([[0, 1, 0],
           [1, 0, 1],
           [0, 1, 0]])
    """
    far, near = finite("outer", outer, 0), finite("inner", inner, 0)
    squares = _squares(int(far), 2)
    taken: Shape = (squares <= far**2) & (squares > near**2)
    if not taken.any():
        raise ValueError(f"no point lies between inner={inner:g} and outer={outer:g}.")
    return taken


@door
def diamond(radius: int, ndim: int = 2) -> Shape:
    """Make a diamond: all points that are at most `radius` steps along the axes away.

    Parameters
    ----------
    radius : int
        How many steps, not negative.
    ndim : int
        How many axes, at least 1.

    Returns
    -------
    array of bool, of length ``2 * radius + 1`` along each axis
        The diamond.

    Raises
    ------
    ValueError
        If `radius` is negative, or there is no axis.
    TypeError
        If one of them is not whole.

    Notes
    -----
    The same as ``skimage.morphology.diamond``, and with ``ndim=3`` as its ``octahedron``.

    Examples
    --------
    >>> import ninepoint as npt
    >>> npt.shapes.diamond(1).astype(int)
    array([[0, 1, 0],
           [1, 1, 1],
           [0, 1, 0]])
    """
    distances = _distances(whole("radius", radius, 0), whole("ndim", ndim, 1))
    taken: Shape = sum(distances) <= radius
    return taken


@door
def cross(radius: int, ndim: int = 2) -> Shape:
    """Make a cross: the points of all axes through the centre.

    Parameters
    ----------
    radius : int
        How far its arms reach, not negative [points].
    ndim : int
        How many axes, at least 1.

    Returns
    -------
    array of bool, of length ``2 * radius + 1`` along each axis
        The cross.

    Raises
    ------
    ValueError
        If `radius` is negative, or there is no axis.
    TypeError
        If one of them is not whole.

    Notes
    -----
    Of two axes the same as OpenCV's ``MORPH_CROSS`` of that size; with ``cross(1, ndim)`` as
    ``scipy.ndimage.generate_binary_structure(ndim, 1)``.

    Examples
    --------
    >>> import ninepoint as npt
    >>> int(npt.shapes.cross(2).sum())
    9
    """
    distances = _distances(whole("radius", radius, 0), whole("ndim", ndim, 1))
    taken: Shape = sum(np.minimum(one, 1) for one in distances) <= 1
    return taken


@door
def box(*sizes: int) -> Shape:
    """Make a box: all points of a window of these lengths.

    Parameters
    ----------
    *sizes : int
        The length along each axis, at least 1 [points].

    Returns
    -------
    array of bool, shape `sizes`
        All of them true.

    Raises
    ------
    ValueError
        If there is no length, or one of them is less than 1.
    TypeError
        If one of them is not whole.

    Notes
    -----
    The same as ``skimage.morphology.footprint_rectangle`` and OpenCV's ``MORPH_RECT``. A window
    of this shape is the window itself, and as fast.

    Examples
    --------
    >>> import ninepoint as npt
    >>> npt.shapes.box(1, 3)
    array([[ True,  True,  True]])
    """
    if not sizes:
        raise ValueError("a box needs its length along each axis.")
    lengths = tuple(whole("sizes", size, 1) for size in sizes)
    _check_points(lengths)
    return np.ones(lengths, dtype=bool)


def _round(name: str, radius: float, ndim: int) -> Shape:
    number = finite(name, radius, 0)
    taken: Shape = _squares(int(number), ndim) <= number**2
    return taken


def _squares(radius: int, ndim: int) -> Any:
    """The squared distance of each point from the centre."""
    return sum(one**2 for one in _distances(radius, ndim))


def _distances(radius: int, ndim: int) -> list[Any]:
    """The distance along each axis, to be broadcast."""
    _check_points((2 * radius + 1,) * ndim)
    line = np.abs(np.arange(-radius, radius + 1))
    return [line.reshape(-1, *(1,) * axis) for axis in reversed(range(ndim))]


def _check_points(lengths: Sequence[int]) -> None:
    """Refuse a shape that memory does not hold."""
    if math.prod(lengths) > MOST_POINTS:
        raise ValueError(
            f"a shape of {math.prod(lengths)} points is larger than any window ({MOST_POINTS}); "
            "give a smaller one."
        )


def finite(name: str, value: Any, least: float = -math.inf) -> float:
    """Give the argument as a finite number of at least so much, or raise."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} holds {value!r}, which is no number.")
    number = float(value)
    if not (math.isfinite(number) and number >= least):
        words = "" if least == -math.inf else f" that is not below {least:g}"
        raise ValueError(f"{name} holds {value!r}; give a finite number{words}.")
    return number


def whole(name: str, value: Any, least: int = -sys.maxsize) -> int:
    """Give the argument as a whole number of at least so many, or raise."""
    error = TypeError(f"{name} holds {value!r}, which is no whole number.")
    if isinstance(value, bool | np.bool_):
        raise error
    try:
        number = operator.index(value)
    except TypeError:
        raise error from None
    if number < least:
        raise ValueError(f"{name} holds {number}; give at least {least}.")
    return number
