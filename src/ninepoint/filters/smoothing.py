"""Filters that smooth, or sharpen: averages, Gaussians, local deviations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from ..api.stencil import Stencil, stencil
from .filtering import (
    KEPT,
    MOST_POINTS,
    Array,
    Filtering,
    Options,
    PerAxis,
    Size,
    check_points,
    correlation,
    finite,
    offsets,
    over_datasets,
    positive,
    reduction,
    weighted_sum,
)


@over_datasets
def mean(
    x: Any,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Average a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    size : int or sequence of int, optional
        Length of the window along every axis, or along each [points]; 3 by default; where it is
        even, the window has one point more before the centre than after it.
    footprint : array_like of bool, optional
        Which neighbours of a box are taken, in the place of `size`; of bool, or of 0 and 1. See
        `shapes` for the usual ones.
    min_count : int, optional
        Leave NaN out, and give NaN where fewer values than this are left in the window; without
        it a NaN makes the result NaN. Integers and bools have no NaN to leave out.
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape of `x`, and of its dtype; float64 if that is bool.

    Raises
    ------
    ValueError
        If `size` is less than 1, `footprint` takes nothing, one of them has more axes than `x`,
        or both are given; if `min_count` is not from 1 to the points of the window.
    TypeError
        If `size` or `min_count` is not whole, `footprint` holds no truths, or an option is
        unknown.

    Notes
    -----
    The same as ``scipy.ndimage.uniform_filter``, for which a NaN also spoils what follows it.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.mean(np.array([0, 0, 9, 1], dtype="uint8"))
    array([0, 3, 3, 4], dtype=uint8)
    """
    call = Filtering(x, options)
    window = call.window(size, footprint)
    return call.smooth(reduction("mean", window, call.least(min_count, window)))


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
    bell = _bell(call.sigmas(sigma), positive("truncate", truncate, zero=True))
    short = call.image.dtype.kind in "iu" and call.image.dtype.itemsize == 1
    if short and call.dtype == call.image.dtype:
        # Weights that sum to 1 leave an error below 0.0001 of a step, on twice the lanes.
        bell = bell.astype(np.float32)
        return call.smooth(weighted_sum(bell.shape, bell.dtype.char, bell.tobytes()))
    return call.smooth(correlation(bell, call))


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
    bell = _bell(call.sigmas(sigma), 4.0).astype(call.precision)
    sharpen = _unsharp(bell.shape, bell.dtype.char, bell.tobytes())
    return call.smooth(sharpen, finite("amount", amount))


@functools.lru_cache(KEPT)
def _unsharp(shape: Size, dtype: str, data: bytes) -> Stencil:
    weights, window = np.frombuffer(data, dtype).reshape(shape), offsets(shape)
    here = (0,) * len(shape)

    @stencil(boundary="reflect")
    def unsharp(x: Any, amount: Any) -> Any:
        return x[here] + amount * (x[here] - (x[window] * weights).sum())

    return unsharp


@over_datasets
def local_std(
    x: Any,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Give the standard deviation in a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    size : int or sequence of int, optional
        Length of the window along every axis, or along each [points]; 3 by default.
    footprint : array_like of bool, optional
        Which neighbours of a box are taken, in the place of `size`; of bool, or of 0 and 1. See
        `shapes` for the usual ones.
    min_count : int, optional
        Leave NaN out, and give NaN where fewer values than this are left in the window; without
        it a NaN makes the result NaN. Integers and bools have no NaN to leave out.
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape of `x`: float64 for integers and bools, of the dtype of `x` for floats.

    Raises
    ------
    ValueError
        If `size` is less than 1, `footprint` takes nothing, one of them has more axes than `x`,
        or both are given; if `min_count` is not from 1 to the points of the window.
    TypeError
        If `size` or `min_count` is not whole, `footprint` holds no truths, or an option is
        unknown.

    Notes
    -----
    The same as ``scipy.ndimage.generic_filter(x, numpy.std, size)``: the mean square distance
    from the mean, in two passes, so that nothing cancels.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.local_std(np.array([5, 5, 5, 8, 8], dtype="uint8"))
    array([0.        , 0.        , 1.41421356, 1.41421356, 0.        ])
    """
    call = Filtering(x, options)
    call.check_real()
    window = call.window(size, footprint)
    return call.natural(reduction("local_std", window, call.least(min_count, window)))


def _bell(sigmas: tuple[float, ...], truncate: float) -> Array:
    """Normalised weights of a Gaussian, as scipy.ndimage makes them."""
    bell = np.ones(())
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
