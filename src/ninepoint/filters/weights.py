"""Weighted sums of windows, and slopes and second differences, which are such sums."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from ..language.dtypes import kind_of
from ..language.warned import RoundingWarning, warn
from ..shapes import whole
from .filtering import Array, Filtering, Options, correlation, over_datasets


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


@over_datasets
def correlate(x: Any, weights: Any, **options: Unpack[Options]) -> Any:
    """Sum a window around every point, each neighbour times its weight.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    weights : array_like
        One for each neighbour, with as many axes as are filtered: the last ones of `x`, unless
        `axes` or `dims` name others. Where a length is even, there is one neighbour more before
        the point than after it.
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape of `x`. Integers times whole numbers, be these of an integer type or of
        floats, are exact, in the smallest dtype that holds every possible result. Integers times
        fractions are float64 if a weight is negative, as in ``[-0.5, 0, 0.5]``, and otherwise
        rounded to the dtype of `x`; bools times fractions are float64. Floats keep their dtype.
        Complex weights, which are conjugated, give complex numbers.

    Warns
    -----
    RoundingWarning
        If fractions are rounded, and `dtype` does not say so.

    Raises
    ------
    ValueError
        If there are no weights, or they have more axes than `x`, or not as many as `axes`.
    TypeError
        If the weights are no numbers, or an option is unknown.

    Notes
    -----
    The same as ``scipy.ndimage.correlate``. As there, a neighbour whose weight is zero is not
    read, so that not even its NaN counts.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> x = np.array([0, 0, 200, 100], dtype="uint8")
    >>> npt.filters.correlate(x, [-1, 0, 1])
    array([   0,  200,  100, -100], dtype=int16)
    >>> npt.filters.correlate(x, [0.25, 0.5, 0.25], dtype="uint8")
    array([  0,  50, 125, 125], dtype=uint8)
    >>> npt.filters.correlate(x, [-0.5, 0, 0.5])
    array([  0., 100.,  50., -50.])
    """
    call = Filtering(x, options)
    checked = _checked_weights(weights)
    call.count_axes("weights", checked.ndim)
    if call.image.dtype.kind in "biu":
        checked = _whole_if_whole(checked)
    filtered = correlation(checked, call)
    if checked.dtype.kind != "f" or checked.min() < 0:
        return call.natural(filtered)
    if call.image.dtype.kind in "iu" and "dtype" not in options:
        part = checked[checked % 1 != 0][0]
        warn(
            f"npt.filters.correlate: a weight is {part:g}, and the results are rounded to "
            f"{call.dtype}, the image's type; dtype='float64' keeps their fractions, and "
            f"dtype='{call.dtype}' says that rounding is meant.",
            RoundingWarning,
        )
    return call.smooth(filtered)


def _whole_if_whole(weights: Array) -> Array:
    """Whole numbers as such, whatever type holds them."""
    if weights.dtype.kind != "f" or not np.all((weights % 1 == 0) & (np.abs(weights) < 2**63)):
        return weights
    return weights.astype(np.int64)


def _checked_weights(weights: Any) -> Array:
    """Weights as int64, float64 or complex128, C-contiguous."""
    array = np.asarray(weights)
    if kind_of(array.dtype) not in "biufc":
        raise TypeError(f"weights of dtype {array.dtype} are no numbers.")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(
            f"weights of shape {array.shape} weigh nothing; give one for each neighbour."
        )
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise ValueError("weights beyond 2**63 - 1 cannot be multiplied; make them floats.")
    kinds = {"b": np.int64, "i": np.int64, "u": np.int64, "f": np.float64, "c": np.complex128}
    return np.ascontiguousarray(array, kinds[kind_of(array.dtype)])
