"""Slopes and second differences, as weighted sums of integers."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from .filtering import Array, Filtering, Options, over_datasets, whole
from .weights import correlation


@over_datasets
def sobel(x: Any, axis: int = -1, **options: Unpack[Options]) -> Any:
    """Give Sobel's slope along one axis, smoothed along the others.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    axis : int
        Along which of the filtered axes: with the usual two, 0 or -2 is from row to row, 1 or -1
        from column to column.
    **options
        See `Options`; ``axes=(0, 1, 2)`` makes it the filter of a volume.

    Returns
    -------
    array
        Of the shape of `x`; exact integers for integers, which may be negative.

    Raises
    ------
    ValueError
        If `axis` is not one of the filtered axes.
    TypeError
        If `axis` is not whole, or an option is unknown.

    Notes
    -----
    The same as ``scipy.ndimage.sobel``, the weights -1, 0, 1 along `axis` and 1, 2, 1 along each
    other one; that is 8 times the slope on a plane. Outside a "constant" border the image is
    `cval` and so its slope is 0; SciPy takes `cval` for the slope as well.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.sobel(np.array([[0, 0, 255], [0, 0, 255]], dtype="uint8"))
    array([[   0, 1020, 1020],
           [   0, 1020, 1020]], dtype=int16)
    """
    call = Filtering(x, options)
    return call.natural(correlation(_slope(axis, call.ndim, (1, 2, 1)), call))


@over_datasets
def prewitt(x: Any, axis: int = -1, **options: Unpack[Options]) -> Any:
    """Give Prewitt's slope along one axis, summed along the others.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    axis : int
        Along which of the filtered axes: with the usual two, 0 or -2 is from row to row, 1 or -1
        from column to column.
    **options
        See `Options`; ``axes=(0, 1, 2)`` makes it the filter of a volume.

    Returns
    -------
    array
        Of the shape of `x`; exact integers for integers, which may be negative.

    Raises
    ------
    ValueError
        If `axis` is not one of the filtered axes.
    TypeError
        If `axis` is not whole, or an option is unknown.

    Notes
    -----
    The same as ``scipy.ndimage.prewitt``, the weights -1, 0, 1 along `axis` and 1, 1, 1 along
    each other one; that is 6 times the slope on a plane. At a "constant" border see `sobel`.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.prewitt(np.array([[1, 1, 1], [2, 2, 2], [4, 4, 4]]), axis=0)
    array([[3, 3, 3],
           [9, 9, 9],
           [6, 6, 6]])
    """
    call = Filtering(x, options)
    return call.natural(correlation(_slope(axis, call.ndim, (1, 1, 1)), call))


@over_datasets
def laplace(x: Any, **options: Unpack[Options]) -> Any:
    """Give the sum of the second differences along every filtered axis.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    **options
        See `Options`; ``axes=(0, 1, 2)`` makes it the filter of a volume.

    Returns
    -------
    array
        Of the shape of `x`; exact integers for integers, which may be negative.

    Raises
    ------
    TypeError
        If an option is unknown.

    Notes
    -----
    The same as ``scipy.ndimage.laplace``: the weights 1, -2, 1 along each axis.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.laplace(np.array([0, 0, 255, 255], dtype="uint8"))
    array([   0,  255, -255,    0], dtype=int16)
    """
    call = Filtering(x, options)
    ndim = call.ndim
    weights = np.zeros((3,) * ndim, int)
    for axis in range(ndim):
        line = [1] * ndim
        line[axis] = 3
        weights[tuple(slice(1 - n // 2, 2 + n // 2) for n in line)] += np.reshape([1, -2, 1], line)
    return call.natural(correlation(weights, call))


def _slope(axis: int, ndim: int, across: tuple[int, int, int]) -> Array:
    """Give the weights -1, 0, 1 along `axis` times those of `across` along the others."""
    place = whole("axis", axis)
    if not -ndim <= place < ndim:
        raise ValueError(
            f"axis={place} is none of the {ndim} filtered axes; "
            f"give a number from {-ndim} to {ndim - 1}."
        )
    weights = np.ones((), int)
    for one in range(ndim):
        weights = np.multiply.outer(weights, (-1, 0, 1) if one == place % ndim else across)
    return weights
