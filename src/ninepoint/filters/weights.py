"""Weighted sums of windows: slopes, second differences, and weights of one's own."""

from __future__ import annotations

from typing import Any, TypeAlias, Unpack

import numpy as np

from ..language.dtypes import kind_of
from ..language.errors import RoundingWarning, warn
from ..shapes import finite, whole
from .filtering import (
    ANY,
    BETWEEN,
    Array,
    Filtering,
    Options,
    correlation,
    over_datasets,
    weighted,
)

Line: TypeAlias = tuple[int, int, int]

SLOPE = (-1, 0, 1)


@over_datasets
def sobel(x: Any, axis: int = -1, **options: Unpack[Options]) -> Any:
    """Give Sobel's slope along one axis, smoothed along the others.

    Parameters
    ----------
    {x}
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
    {x}
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
def gradient(
    x: Any,
    axis: int = -1,
    spacing: float = 1.0,
    side: str = "central",
    **options: Unpack[Options],
) -> Any:
    """Give the slope along one axis: central differences, or one-sided ones.

    Parameters
    ----------
    {x}
    axis : int
        Along which of the filtered axes: with the usual two, 0 or -2 is from row to row, 1 or -1
        from column to column.
    spacing : float
        The distance between neighbouring points, positive.
    side : {"central", "forward", "backward"}
        Which neighbours are compared: both, the point and the next one, or the one before and
        the point.
    {options}

    Returns
    -------
    array
        Of the shape of `x`; float64 for integers and bools, of the dtype of `x` for floats.

    Raises
    ------
    ValueError
        If `axis` is not one of the filtered axes, `spacing` is not positive, or `side` is
        unknown.
    TypeError
        If `axis` is not whole, `spacing` is no number, or an option is unknown.

    Notes
    -----
    With ``boundary=npt.extrapolate(1)`` the same as ``numpy.gradient(x, spacing, axis=axis)``,
    whose slopes at the ends are one-sided; "forward" is ``numpy.diff(x) / spacing``, of the
    length of `x`.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.gradient(np.array([0, 1, 4, 9]), side="forward")
    array([1., 3., 5., 0.])
    """
    call = Filtering(x, options)
    if side not in _SIDES:
        raise ValueError(f"side={side!r} is unknown; use {', '.join(map(repr, _SIDES))}.")
    if (step := finite("spacing", spacing)) <= 0:
        raise ValueError(f"spacing={spacing!r} must be positive.")
    weights = _product(axis, call.ndim, _SIDES[side], (0, 1, 0))
    distance = 2 * step if side == "central" else step
    return call.apply(ANY, weighted("gradient", _gradient, weights), distance)


# The weights of the point and of its neighbours before and after it.
_SIDES: dict[str, Line] = {"central": SLOPE, "forward": (0, -1, 1), "backward": (-1, 1, 0)}


def _gradient(window: Any, weights: Array) -> Any:
    def sloped(x: Any, distance: Any) -> Any:
        return (x[window] * weights).sum() / distance

    return sloped


@over_datasets
def laplace(x: Any, **options: Unpack[Options]) -> Any:
    """Give the sum of the second differences along every filtered axis.

    Parameters
    ----------
    {x}
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
    return call.apply(ANY, correlation("laplace", weights, call.precision))


def _slope(name: str, x: Any, axis: int, across: Line, options: Options) -> Any:
    """Filter with a slope along an axis, times such weights across it."""
    call = Filtering(x, options)
    weights = _product(axis, call.ndim, SLOPE, across)
    return call.apply(ANY, correlation(name, weights, call.precision))


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
    {x}
    weights : array_like
        One for each neighbour, with as many axes as are filtered: the last ones of `x`, unless
        `axes` or `dims` name others. Where a length is even, there is one neighbour more before
        the point than after it.
    {options}

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
    checked = _checked_weights(weights, call.image.dtype)
    call.count_axes("weights", checked.ndim)
    filtered = correlation("correlate", checked, call.precision)
    if checked.dtype.kind != "f" or checked.min() < 0:
        return call.apply(ANY, filtered)
    if call.image.dtype.kind in "iu" and "dtype" not in options:
        _warn_of_rounding(checked, call.dtype)
    return call.apply(BETWEEN, filtered)


def _warn_of_rounding(weights: Array, dtype: np.dtype) -> None:
    part = weights[weights % 1 != 0][0]
    warn(
        f"npt.filters.correlate: a weight is {part:g}, and the results are rounded to "
        f"{dtype}, the image's type; dtype='float64' keeps their fractions, and "
        f"dtype='{dtype}' says that rounding is meant.",
        RoundingWarning,
    )


def _checked_weights(weights: Any, image: np.dtype) -> Array:
    """Weights as int64, float64 or complex128, C-contiguous.

    Whole numbers are such beside integers and bools, whatever type holds them.
    """
    array = np.asarray(weights)
    if kind_of(array.dtype) not in "biufc":
        raise TypeError(f"weights of dtype {array.dtype} are no numbers.")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(
            f"weights of shape {array.shape} weigh nothing; give one for each neighbour."
        )
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise ValueError("weights beyond 2**63 - 1 cannot be multiplied; make them floats.")
    kind = kind_of(array.dtype)
    if kind == "f" and image.kind in "biu":
        kind = "i" if np.all((array % 1 == 0) & (np.abs(array) < 2**63)) else "f"
    kinds = {"f": np.float64, "c": np.complex128}
    return np.ascontiguousarray(array, kinds.get(kind, np.int64))
