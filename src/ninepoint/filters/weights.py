"""Weighted sums of windows: slopes and second differences, Gaussians, sharpening."""

from __future__ import annotations

import functools
from typing import Any, TypeAlias, Unpack

import numpy as np

from ..api.stencil import Stencil
from ..language.dtypes import kind_of
from ..language.errors import RoundingWarning, warn
from ..shapes import finite, whole
from .filtering import (
    KEPT,
    MOST_POINTS,
    Array,
    Filtering,
    Options,
    PerAxis,
    Size,
    check_points,
    made,
    offsets,
    over_datasets,
)

Line: TypeAlias = tuple[int, int, int]

SLOPE = (-1, 0, 1)


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
    return _slope("sobel", x, axis, (1, 2, 1), options)


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
    return _slope("prewitt", x, axis, (1, 1, 1), options)


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
    axes = range(call.ndim)
    weights = np.sum([_product(axis, call.ndim, (1, -2, 1), (0, 1, 0)) for axis in axes], axis=0)
    return call.natural(_correlation("laplace", weights, call.precision))


def _slope(name: str, x: Any, axis: int, across: Line, options: Options) -> Any:
    """Filter with a slope along an axis, times such weights across it."""
    call = Filtering(x, options)
    weights = _product(axis, call.ndim, SLOPE, across)
    return call.natural(_correlation(name, weights, call.precision))


def _product(axis: int, ndim: int, along: Line, across: Line) -> Array:
    """Give the weights `along` an axis times those `across`, along the others."""
    place = whole("axis", axis)
    if not -ndim <= place < ndim:
        raise ValueError(
            f"axis={place} is none of the {ndim} filtered axes; "
            f"give a number from {-ndim} to {ndim - 1}."
        )
    weights = np.ones((), int)
    for one in range(ndim):
        weights = np.multiply.outer(weights, along if one == place % ndim else across)
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
    filtered = _correlation("correlate", checked, call.precision)
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
    kinds = {"f": np.float64, "c": np.complex128}
    return np.ascontiguousarray(array, kinds.get(kind_of(array.dtype), np.int64))


@over_datasets
def gaussian(
    x: Any, sigma: PerAxis = 1.0, truncate: float = 4.0, **options: Unpack[Options]
) -> Any:
    """Smooth with a Gaussian bell.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    sigma : float or sequence of float
        Standard deviation of the bell along every axis, or along each [points].
    truncate : float
        Where the bell is cut off, in standard deviations.
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape of `x`, and of its dtype; float64 if that is bool.

    Raises
    ------
    ValueError
        If `sigma` is not positive, or has more entries than `x` has axes; if `truncate` is
        negative.
    TypeError
        If one of them is no number, or an option is unknown.

    Notes
    -----
    The same as ``scipy.ndimage.gaussian_filter``, whose weights these are: the bell at whole
    distances up to ``int(truncate * sigma + 0.5)``, divided by their sum. SciPy rounds integers
    once along each axis, this once in all; images of 8 bits are weighted in float32, so that a
    value within 0.0001 of a half may be rounded to its other side.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.gaussian(np.array([0, 0, 100, 0, 0]), sigma=0.5)
    array([ 0, 11, 79, 11,  0])
    """
    call = Filtering(x, options)
    bell = _bell(call, sigma, finite("truncate", truncate, 0))
    precision, dtype = call.precision, call.image.dtype
    if dtype.kind in "iu" and dtype.itemsize == 1 and call.dtype == dtype:
        # Weights that sum to 1 leave an error below 0.0001 of a step, on twice the lanes.
        precision = np.dtype(np.float32)
    return call.smooth(_correlation("gaussian", bell, precision))


@over_datasets
def unsharp(x: Any, sigma: PerAxis = 1.0, amount: float = 1.0, **options: Unpack[Options]) -> Any:
    """Sharpen by adding what a Gaussian takes away: ``x + amount * (x - gaussian(x, sigma))``.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    sigma : float or sequence of float
        Standard deviation of the bell along every axis, or along each [points].
    amount : float
        How much is added; a negative one blurs.
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape of `x`, and of its dtype; float64 if that is bool.

    Raises
    ------
    ValueError
        If `sigma` is not positive, or has more entries than `x` has axes; if `amount` is not
        finite.
    TypeError
        If one of them is no number, or an option is unknown.

    Notes
    -----
    The same as ``skimage.filters.unsharp_mask`` with ``radius=sigma`` and
    ``preserve_range=True``, on floats.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.unsharp(np.array([10, 10, 10, 20, 20, 20], dtype="uint8"), amount=2)
    array([10,  9,  4, 26, 21, 20], dtype=uint8)
    """
    call = Filtering(x, options)
    bell = _bell(call, sigma, 4.0).astype(call.precision)
    sharpen = _unsharp(bell.shape, bell.dtype.char, bell.tobytes())
    return call.smooth(sharpen, finite("amount", amount))


@functools.lru_cache(KEPT)
def _unsharp(shape: Size, dtype: str, data: bytes) -> Stencil:
    weights, window = np.frombuffer(data, dtype).reshape(shape), offsets(shape)
    here = (0,) * len(shape)

    def sharpened(x: Any, amount: Any) -> Any:
        return x[here] + amount * (x[here] - (x[window] * weights).sum())

    return made("unsharp", sharpened)


def _bell(call: Filtering, sigma: PerAxis, truncate: float) -> Array:
    """Normalised weights of a Gaussian, as scipy.ndimage makes them."""
    bell, sigmas = np.ones(()), [finite("sigma", one, 0) for one in call.each("sigma", sigma)]
    if 0 in sigmas:
        raise ValueError("sigma holds 0, but it must be positive.")
    # A product beyond the floats is infinite, and no whole number.
    radii = [int(min(truncate * sigma + 0.5, MOST_POINTS)) for sigma in sigmas]
    check_points(tuple(2 * radius + 1 for radius in radii))
    for sigma, radius in zip(sigmas, radii, strict=True):
        if not radius:
            # The square of a very small sigma is 0.
            bell = bell[..., None]
            continue
        line = np.exp(-0.5 / (sigma * sigma) * np.arange(-radius, radius + 1) ** 2)
        bell = np.multiply.outer(bell, line / line.sum())
    return bell


def _correlation(name: str, weights: Array, precision: np.dtype) -> Stencil:
    """Make the stencil for weights of int64, float64 or complex128."""
    match weights.dtype.kind:
        case "f":
            weights = weights.astype(precision)
        case "c":
            # As scipy.ndimage and np.correlate have it.
            weights = weights.conj().astype(np.result_type(precision, np.complex64))
    return _weighted_sum(name, weights.shape, weights.dtype.char, weights.tobytes())


@functools.lru_cache(KEPT)
def _weighted_sum(name: str, shape: Size, dtype: str, data: bytes) -> Stencil:
    """Make the stencil for weights given as bytes."""
    weights, window = np.frombuffer(data, dtype).reshape(shape), offsets(shape)

    def weighted_sum(x: Any) -> Any:
        return (x[window] * weights).sum()

    return made(name, weighted_sum)
