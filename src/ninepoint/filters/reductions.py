"""Filters that make one number of a window: averages, sums, deviations, extremes, ranks."""

from __future__ import annotations

import functools
import math
from typing import Any, Unpack

import numpy as np

from ..language.statistics import ranked
from ..shapes import finite
from .filtering import (
    CHOSEN,
    KEPT,
    Filtering,
    Kernel,
    Options,
    Size,
    Window,
    made,
    over_datasets,
    reduced,
)


@over_datasets
def mean(
    x: Any,
    size: Size = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Average a window around every point.

    Parameters
    ----------
    {x}
    {size}
    {footprint}
    {min_count}
    {options}

    Returns
    -------
    array
        Of the shape of `x`, and of its dtype; float64 if that is bool.

    Raises
    ------
    {window_errors}

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
    return reduced("mean", x, size, footprint, min_count, options)


@over_datasets
def sum(
    x: Any,
    size: Size = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Add up a window around every point: a box filter that does not divide.

    Parameters
    ----------
    {x}
    {size}
    {footprint}
    {min_count}
    {options}

    Returns
    -------
    array
        Of the shape of `x`; exact for integers, in the smallest dtype that holds every possible
        result.

    Raises
    ------
    {window_errors}

    Notes
    -----
    The same as OpenCV's ``boxFilter`` with ``normalize=False``; divided by the points of the
    window it is `mean`.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.sum(np.array([0, 0, 200, 100], dtype="uint8"))
    array([  0, 200, 300, 400], dtype=uint16)
    """
    return reduced("sum", x, size, footprint, min_count, options)


@over_datasets
def local_std(
    x: Any,
    size: Size = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Give the standard deviation in a window around every point.

    Parameters
    ----------
    {x}
    {size}
    {footprint}
    {min_count}
    {options}

    Returns
    -------
    array
        Of the shape of `x`: float64 for integers and bools, of the dtype of `x` for floats.

    Raises
    ------
    {window_errors}

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
    return reduced("local_std", x, size, footprint, min_count, options)


@over_datasets
def minimum(
    x: Any,
    size: Size = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Give the least value in a window around every point.

    Parameters
    ----------
    {x}
    {size}
    {footprint}
    {min_count}
    {options}

    Returns
    -------
    array
        Of the shape and the dtype of `x`.

    Raises
    ------
    {window_errors}

    Notes
    -----
    The same as ``scipy.ndimage.minimum_filter``; a NaN in the window makes the result NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.minimum(np.array([3, 2, 5, 7, 6]))
    array([2, 2, 2, 5, 6])
    """
    return reduced("minimum", x, size, footprint, min_count, options)


@over_datasets
def maximum(
    x: Any,
    size: Size = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Give the greatest value in a window around every point.

    Parameters
    ----------
    {x}
    {size}
    {footprint}
    {min_count}
    {options}

    Returns
    -------
    array
        Of the shape and the dtype of `x`.

    Raises
    ------
    {window_errors}

    Notes
    -----
    The same as ``scipy.ndimage.maximum_filter``; a NaN in the window makes the result NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.maximum(np.array([3, 2, 5, 7, 6]))
    array([3, 5, 7, 7, 7])
    """
    return reduced("maximum", x, size, footprint, min_count, options)


@over_datasets
def median(
    x: Any,
    size: Size = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Give the middle one of the values in a window around every point.

    Parameters
    ----------
    {x}
    {size}
    {footprint}
    {min_count}
    {options}

    Returns
    -------
    array
        Of the shape and the dtype of `x`.

    Raises
    ------
    {window_errors}

    Notes
    -----
    The same as ``scipy.ndimage.median_filter``: of an even number of values the upper one of the
    middle two, so that the result is always a value of the image.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.median(np.array([1, 1, 90, 2, 2], dtype="uint8"))
    array([1, 1, 2, 2, 2], dtype=uint8)
    """
    return percentile(x, 50.0, size, footprint, min_count=min_count, **options)


@over_datasets
def percentile(
    x: Any,
    q: float,
    size: Size = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Give the value that a percentage of those in a window around every point lie below.

    Parameters
    ----------
    {x}
    q : float
        From 0, the least value, to 100, the greatest one [%].
    {size}
    {footprint}
    {min_count}
    {options}

    Returns
    -------
    array
        Of the shape and the dtype of `x`.

    Raises
    ------
    ValueError
        If `q` is outside 0 to 100.
    TypeError
        If `q` is no number.
    {window_errors}

    Notes
    -----
    The same as ``scipy.ndimage.percentile_filter``: of the *n* values in order the one at
    ``int(n * q / 100)``, counted from 0, and the last one at 100. Nothing is interpolated, so
    that the result is always a value of the image; ``np.percentile(x[window], q)`` in a stencil
    of your own does interpolate.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.percentile(np.array([1, 1, 90, 2, 2], dtype="uint8"), 30, size=5)
    array([1, 1, 1, 2, 2], dtype=uint8)
    """
    call = Filtering(x, options)
    call.check_real()
    q = finite("q", q, 0)
    if q > 100:
        raise ValueError(f"q={q:g} is no percentage; give a number from 0 to 100.")
    window, least = call.near(size, footprint, min_count)
    name = "median" if q == 50 else "percentile"
    if least:
        return call.apply(CHOSEN, _valid_rank(name, window, q, least))
    return call.apply(
        CHOSEN, _rank(name, window, min(int(window.count * q / 100), window.count - 1))
    )


@functools.lru_cache(KEPT)
def _rank(name: str, near: Window, rank: int) -> Kernel:
    (window, taken), last = near.index(), near.count - 1
    from_below = _fraction(rank, last)
    from_above: Any = _fraction(last - rank, last)

    def one_of_all(x: Any) -> Any:
        if from_below is not None:
            return np.quantile(x[window][taken], from_below)
        return -np.quantile(-1.0 * x[window][taken], from_above)

    return made(name, one_of_all)


@functools.lru_cache(KEPT)
def _valid_rank(name: str, near: Window, q: float, least: int) -> Kernel:
    window, taken = near.index()

    def one_of_valid(x: Any) -> Any:
        w = x[window][taken]
        return ranked(w, q) if (w == w).sum() >= least else np.nan

    return made(name, one_of_valid)


def _fraction(rank: int, last: int) -> float | None:
    """Find the quantile at which exactly the element `rank` of 0 to `last` lies.

    A quantile lies at ``fraction * last``; a product that misses the rank by its last bit would
    interpolate, between 1 and infinity for example.  For one element in twelve there is no such
    fraction; then there was one for ``last - rank``, in each window of up to 4000 points and
    each square and cube of up to 100,000.
    """
    near = rank / max(last, 1)
    for fraction in (near, math.nextafter(near, 0.0), math.nextafter(near, 1.0)):
        if fraction * last == rank:
            return fraction
    return None
