"""Filters that choose a value of the window by its rank: medians and percentiles."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from ..api.stencil import Stencil
from ..language.statistics import ranked
from ..shapes import finite
from .filtering import KEPT, Filtering, Options, Window, made, over_datasets


@over_datasets
def median(
    x: Any,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Give the middle one of the values in a window around every point.

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
        Of the shape and the dtype of `x`.

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
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Give the value that a percentage of those in a window around every point lie below.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    q : float
        From 0, the least value, to 100, the greatest one [%].
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
        Of the shape and the dtype of `x`.

    Raises
    ------
    ValueError
        If `q` is outside 0 to 100; if `size` is less than 1, `footprint` takes nothing, one of
        them has more axes than `x`, or both are given; if `min_count` is not from 1 to the
        points of the window.
    TypeError
        If `q` is no number, `size` or `min_count` is not whole, `footprint` holds no truths, or
        an option is unknown.

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
    q = finite("q", q, 0)
    if q > 100:
        raise ValueError(f"q={q:g} is no percentage; give a number from 0 to 100.")
    window, least = call.near(size, footprint, min_count)
    name = "median" if q == 50 else "percentile"
    if least:
        return call.ranked(_valid_rank(name, window, q, least))
    return call.ranked(_rank(name, window, min(int(window.count * q / 100), window.count - 1)))


@functools.lru_cache(KEPT)
def _rank(name: str, near: Window, rank: int) -> Stencil:
    (window, taken), last = near.index(), near.count - 1
    from_below = _fraction(rank, last)
    from_above: Any = _fraction(last - rank, last)

    def one_of_all(x: Any) -> Any:
        if from_below is not None:
            return np.quantile(x[window][taken], from_below)
        return -np.quantile(-1.0 * x[window][taken], from_above)

    return made(name, one_of_all)


@functools.lru_cache(KEPT)
def _valid_rank(name: str, near: Window, q: float, least: int) -> Stencil:
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
