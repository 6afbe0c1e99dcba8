"""Filters of weighted windows: slopes, Gaussians, weights of one's own, and weights by value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, Unpack

import numpy as np
from numpy.polynomial.hermite_e import hermeval

from ..base.remembered import Remembered
from ..language.dtypes import kind_of
from ..language.errors import RoundingWarning, warn
from ..shapes import finite, whole
from .filtering import (
    ANY,
    BETWEEN,
    KEPT,
    MOST_POINTS,
    Array,
    Filtering,
    Kernel,
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
    {x}
    {axis}
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
    {axis}
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
    {axis}
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
    window = offsets(weights.shape)

    def sloped(x: Any, distance: Any) -> Any:
        return (x[window] * weights).sum() / distance

    return call.apply(ANY, weighted("gradient", sloped, weights), distance)


# The weights of the point and of its neighbours before and after it.
_SIDES: dict[str, Line] = {"central": SLOPE, "forward": (0, -1, 1), "backward": (-1, 1, 0)}


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
        part, dtype = checked[checked % 1 != 0][0], call.dtype
        warn(
            f"npt.filters.correlate: a weight is {part:g}, and the results are rounded to "
            f"{dtype}, the image's type; dtype='float64' keeps their fractions, and "
            f"dtype='{dtype}' says that rounding is meant.",
            RoundingWarning,
        )
    return call.apply(BETWEEN, filtered)


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


# Gaussians, and weights by value.


@over_datasets
def gaussian(
    x: Any,
    sigma: PerAxis = 1.0,
    truncate: float = 4.0,
    *,
    order: int | Sequence[int] = 0,
    **options: Unpack[Options],
) -> Any:
    """Smooth with a Gaussian bell, or with a derivative of it.

    Parameters
    ----------
    {x}
    {sigma}
    truncate : float
        Where the bell is cut off, in standard deviations.
    order : int or sequence of int
        Which derivative of the bell is taken along every axis, or along each; 0 smooths, and 1
        gives the slope of what is smoothed.
    {options}

    Returns
    -------
    array
        Of the shape of `x`, and of its dtype; float64 if that is bool, or of integers if a
        derivative is taken.

    Raises
    ------
    ValueError
        If `sigma` is not positive, or has more entries than `x` has axes; if `truncate` or
        `order` is negative.
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
    bell = _bell(call, sigma, finite("truncate", truncate, 0), order)
    if np.any(order):
        return call.apply(ANY, correlation("gaussian", bell, call.precision))
    precision, dtype = call.precision, call.image.dtype
    if dtype.kind in "iu" and dtype.itemsize == 1 and call.dtype == dtype:
        # Weights that sum to 1 leave an error below 0.0001 of a step, on twice the lanes.
        precision = np.dtype(np.float32)
    return call.apply(BETWEEN, correlation("gaussian", bell, precision))


@over_datasets
def gaussian_laplace(x: Any, sigma: PerAxis = 1.0, **options: Unpack[Options]) -> Any:
    """Give the Laplacian of what a Gaussian smooths: blobs and edges of one size.

    Parameters
    ----------
    {x}
    {sigma}
    {options}

    Returns
    -------
    array
        Of the shape of `x`; float64 for integers and bools, of the dtype of `x` for floats.

    Raises
    ------
    ValueError
        If `sigma` is not positive, or has more entries than `x` has axes.
    TypeError
        If it is no number, or an option is unknown.

    Notes
    -----
    The same as ``scipy.ndimage.gaussian_laplace``: the sum of the second derivatives of the bell
    along each axis. At a "constant" border see `sobel`.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.gaussian_laplace(np.array([0.0, 0, 1, 0, 0]), sigma=0.5).round(2)
    array([ 0.02,  1.28, -3.15,  1.28,  0.02])
    """
    call = Filtering(x, options)
    call.each("sigma", sigma)
    # Along one axis after the other the second derivative.
    orders = 2 * np.eye(call.ndim, dtype=int)
    bells = [_bell(call, sigma, 4.0, tuple(order)) for order in orders]
    window = offsets(bells[0].shape)

    def summed(x: Any) -> Any:
        return sum((x[window] * bell).sum() for bell in bells)

    others = (bell.tobytes() for bell in bells[1:])
    return call.apply(ANY, weighted("gaussian_laplace", summed, bells[0], *others))


@over_datasets
def unsharp(x: Any, sigma: PerAxis = 1.0, amount: float = 1.0, **options: Unpack[Options]) -> Any:
    """Sharpen by adding what a Gaussian takes away: ``x + amount * (x - gaussian(x, sigma))``.

    Parameters
    ----------
    {x}
    {sigma}
    amount : float
        How much is added; a negative one blurs.
    {options}

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
    bell = _bell(call, sigma, 4.0)
    window, here = offsets(bell.shape), (0,) * bell.ndim

    def sharpened(x: Any, amount: Any) -> Any:
        return x[here] + amount * (x[here] - (x[window] * bell).sum())

    return call.apply(BETWEEN, weighted("unsharp", sharpened, bell), finite("amount", amount))


def _bell(
    call: Filtering, sigma: Any, truncate: float, order: Any = 0, name: str = "sigma"
) -> Array:
    """Normalised weights of a Gaussian, or of its derivatives, as scipy.ndimage makes them."""
    bell, sigmas = np.ones(()), [finite(name, one, 0) for one in call.each(name, sigma)]
    if 0 in sigmas:
        raise ValueError(f"{name} holds 0, but it must be positive.")
    orders = [whole("order", one, 0) for one in call.each("order", order)]
    # A product beyond the floats is infinite, and no whole number.
    radii = [int(min(truncate * sigma + 0.5, MOST_POINTS)) for sigma in sigmas]
    check_points(tuple(2 * radius + 1 for radius in radii))
    for sigma, radius, n in zip(sigmas, radii, orders, strict=True):
        if not radius:
            # The square of a very small sigma is 0.
            bell = bell[..., None] * (n == 0)
            continue
        places = np.arange(-radius, radius + 1)
        line = np.exp(-0.5 / (sigma * sigma) * places**2)
        line /= line.sum()
        if n:
            # The bell times a polynomial of Hermite.
            line *= hermeval(places / sigma, [0] * n + [1]) / sigma**n
        bell = np.multiply.outer(bell, line)
    return bell.astype(call.precision)


@over_datasets
def bilateral(
    x: Any,
    sigma_color: float,
    sigma_spatial: PerAxis = 1.0,
    truncate: float = 3.0,
    **options: Unpack[Options],
) -> Any:
    """Smooth without blurring edges: neighbours count the less, the more their values differ.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of several channels each is an image.
    sigma_color : float
        Standard deviation of the values of neighbours that count [values of `x`].
    sigma_spatial : float or sequence of float
        Standard deviation of their distance along every axis, or along each [points].
    truncate : float
        Where the window ends, in standard deviations of the distance.
    {options}

    Returns
    -------
    array
        Of the shape of `x`, and of its dtype; float64 if that is bool.

    Raises
    ------
    ValueError
        If a standard deviation is not positive, or `truncate` is negative.
    TypeError
        If one of them is no number, or an option is unknown.

    Notes
    -----
    The weights are those of ``skimage.restoration.denoise_bilateral`` with a ``win_size`` of
    ``2 * int(truncate * sigma_spatial + 0.5) + 1``. There those of values are taken from a table
    of ``bins`` steps, integers are scaled to 0 to 1, channels are compared together, and the
    border is "constant" by default. Windows of more than 130 points are gone through point by
    point, which takes some 30 times as long for each.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.bilateral(np.array([1.0, 2, 1, 2, 80, 81, 80]), 10).round(1)
    array([ 1.3,  1.5,  1.5,  1.6, 80.3, 80.4, 80.3])
    """
    call = Filtering(x, options)
    call.check_real()
    if not (far := finite("sigma_color", sigma_color, 0)):
        raise ValueError("sigma_color is 0, but it must be positive.")
    weights = _bell(call, sigma_spatial, finite("truncate", truncate, 0), name="sigma_spatial")
    window, here = offsets(weights.shape), (0,) * weights.ndim

    def smoothed(x: Any, falloff: Any) -> Any:
        alike = weights * np.exp(falloff * (x[window] - x[here]) ** 2)
        return (alike * x[window]).sum() / alike.sum()

    return call.apply(BETWEEN, weighted("bilateral", smoothed, weights), -0.5 / far**2)


@over_datasets
def threshold_local(
    x: Any,
    size: Size = None,
    method: str = "gaussian",
    offset: float = 0.0,
    **options: Unpack[Options],
) -> Any:
    """Give a threshold for every point: what is around it, averaged, less an offset.

    Parameters
    ----------
    {x}
    size : int or sequence of int, optional
        Length of the window along every axis, or along each [points]; odd, 3 by default.
    method : {"gaussian", "mean", "median"}
        How a window is averaged: by a Gaussian of a sixth of its reach, alike, or by its middle
        value.
    offset : float
        Taken from the average.
    {options}

    Returns
    -------
    array
        Of the shape of `x`; float64 for integers and bools, of the dtype of `x` for floats.
        Compare the image with it: ``x > threshold_local(x, 35)``.

    Raises
    ------
    ValueError
        If `size` is even or less than 1, or `method` is unknown.
    TypeError
        If `size` or `offset` is no number, or an option is unknown.

    Notes
    -----
    The same as ``skimage.filters.threshold_local``, whose ``block_size`` is `size`; a function is
    no `method` here. OpenCV's ``adaptiveThreshold`` compares with it.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> x = np.array([1, 9, 1, 1, 51, 59, 51], "uint8")
    >>> x > npt.filters.threshold_local(x, 3, "mean")
    array([False,  True, False, False,  True,  True, False])
    """
    call = Filtering(x, options)
    call.check_real()
    shape = call.near(size, None).size
    if not all(length % 2 for length in shape):
        raise ValueError(f"size={size!r} must be odd, so that a window has a centre.")
    if method not in _AVERAGES:
        raise ValueError(f"method={method!r} is unknown; use {', '.join(map(repr, _AVERAGES))}.")
    weights, average = np.ones(shape), _AVERAGES[method]
    if not average:
        # Of one point the bell is as narrow as any.
        weights = _bell(call, [(length - 1) / 6 or 1e-9 for length in shape], 4.0)
    window = offsets(weights.shape)

    def by_bell(x: Any, offset: Any) -> Any:
        return (x[window] * weights).sum() - offset

    def by_average(x: Any, offset: Any) -> Any:
        return average(x[window]) - offset

    chosen = by_average if average else by_bell
    kernel = weighted("threshold_local", chosen, weights, method)
    return call.apply(ANY, kernel, finite("offset", offset))


# What averages a window, where its bell does not.
_AVERAGES: dict[str, Any] = {"gaussian": None, "mean": np.mean, "median": np.median}


# Kernels.


# The kernels of weights that were made.
_kernels: Remembered[Kernel] = Remembered(KEPT)


def weighted(name: str, kernel: Any, weights: Array, *more: Any) -> Kernel:
    """The kernel, made once for each of these weights and of what more it depends on."""
    key = name, weights.shape, weights.dtype.char, weights.tobytes(), *more
    return _kernels.made(key, lambda: made(name, kernel))


def correlation(name: str, weights: Array, precision: np.dtype) -> Kernel:
    """Make the stencil for weights of int64, float64 or complex128."""
    match weights.dtype.kind:
        case "f":
            weights = weights.astype(precision)
        case "c":
            # As scipy.ndimage and np.correlate have it.
            weights = weights.conj().astype(np.result_type(precision, np.complex64))
    window = offsets(weights.shape)

    def weighted_sum(x: Any) -> Any:
        return (x[window] * weights).sum()

    return weighted(name, weighted_sum, weights)
