"""Filters that smooth: by Gaussians and their derivatives, by values alike, and what is around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.polynomial.hermite_e import hermeval

from ..shapes import finite, whole
from .filtering import (
    ANY,
    BETWEEN,
    MOST_POINTS,
    Array,
    Filtering,
    Options,
    PerAxis,
    Size,
    check_points,
    correlation,
    over_datasets,
    weighted,
)


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
    sigma : float or sequence of float
        Standard deviation of the bell along every axis, or along each [points].
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
    sigma : float or sequence of float
        Standard deviation of the bell along every axis, or along each [points].
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
    bells = [_bell(call, sigma, 4.0, tuple(order)).astype(call.precision) for order in orders]
    return call.apply(ANY, weighted("gaussian_laplace", _laplacian, *bells))


def _laplacian(window: Any, *bells: Array) -> Any:
    def summed(x: Any) -> Any:
        return sum((x[window] * bell).sum() for bell in bells)

    return summed


@over_datasets
def unsharp(x: Any, sigma: PerAxis = 1.0, amount: float = 1.0, **options: Unpack[Options]) -> Any:
    """Sharpen by adding what a Gaussian takes away: ``x + amount * (x - gaussian(x, sigma))``.

    Parameters
    ----------
    {x}
    sigma : float or sequence of float
        Standard deviation of the bell along every axis, or along each [points].
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
    bell = _bell(call, sigma, 4.0).astype(call.precision)
    return call.apply(BETWEEN, weighted("unsharp", _unsharp, bell), finite("amount", amount))


def _unsharp(window: Any, weights: Array) -> Any:
    here = (0,) * weights.ndim

    def sharpened(x: Any, amount: Any) -> Any:
        return x[here] + amount * (x[here] - (x[window] * weights).sum())

    return sharpened


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
    return bell


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
    bell = _bell(call, sigma_spatial, finite("truncate", truncate, 0), name="sigma_spatial")
    filtered = weighted("bilateral", _bilateral, bell.astype(call.precision))
    return call.apply(BETWEEN, filtered, -0.5 / far**2)


def _bilateral(window: Any, weights: Array) -> Any:
    here = (0,) * weights.ndim

    def smoothed(x: Any, falloff: Any) -> Any:
        alike = weights * np.exp(falloff * (x[window] - x[here]) ** 2)
        return (alike * x[window]).sum() / alike.sum()

    return smoothed


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
    shape = call.near(size, None, None)[0].size
    if not all(length % 2 for length in shape):
        raise ValueError(f"size={size!r} must be odd, so that a window has a centre.")
    if method not in _AVERAGES:
        raise ValueError(f"method={method!r} is unknown; use {', '.join(map(repr, _AVERAGES))}.")
    # Of one point the bell is as narrow as any.
    sigmas = [(length - 1) / 6 or 1e-9 for length in shape]
    bell = _bell(call, sigmas, 4.0) if method == "gaussian" else np.ones(shape)
    filtered = weighted("threshold_local", _AVERAGES[method], bell.astype(call.precision))
    return call.apply(ANY, filtered, finite("offset", offset))


def _threshold_gaussian(window: Any, weights: Array) -> Any:
    def threshold(x: Any, offset: Any) -> Any:
        return (x[window] * weights).sum() - offset

    return threshold


def _threshold_mean(window: Any, _: Array) -> Any:
    def threshold(x: Any, offset: Any) -> Any:
        return x[window].mean() - offset

    return threshold


def _threshold_median(window: Any, _: Array) -> Any:
    def threshold(x: Any, offset: Any) -> Any:
        return np.median(x[window]) - offset

    return threshold


_AVERAGES = {
    "gaussian": _threshold_gaussian,
    "mean": _threshold_mean,
    "median": _threshold_median,
}
