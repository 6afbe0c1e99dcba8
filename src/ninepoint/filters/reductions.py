"""Filters that make one number of a window: averages, deviations, extremes, erosion."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from ..api.stencil import Stencil
from .filtering import KEPT, Filtering, Options, Window, made, over_datasets


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
    return call.smooth(_made("mean", *call.near(size, footprint, min_count)))


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
    return call.natural(_made("local_std", *call.near(size, footprint, min_count)))


@over_datasets
def minimum(
    x: Any,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Give the least value in a window around every point.

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
    The same as ``scipy.ndimage.minimum_filter``; a NaN in the window makes the result NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.minimum(np.array([3, 2, 5, 7, 6]))
    array([2, 2, 2, 5, 6])
    """
    call = Filtering(x, options)
    return call.ranked(_made("minimum", *call.near(size, footprint, min_count)))


@over_datasets
def maximum(
    x: Any,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Give the greatest value in a window around every point.

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
    The same as ``scipy.ndimage.maximum_filter``; a NaN in the window makes the result NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.maximum(np.array([3, 2, 5, 7, 6]))
    array([3, 5, 7, 7, 7])
    """
    call = Filtering(x, options)
    return call.ranked(_made("maximum", *call.near(size, footprint, min_count)))


@over_datasets
def erode(
    x: Any,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Shrink what is bright: the least value in a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
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
    The same as ``scipy.ndimage.grey_erosion``, and as `minimum`.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.erode(np.array([False, True, True, True, False]))
    array([False, False,  True, False, False])
    """
    call = Filtering(x, options)
    return call.ranked(_made("erode", *call.near(size, footprint, min_count)))


@over_datasets
def dilate(
    x: Any,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    min_count: int | None = None,
    **options: Unpack[Options],
) -> Any:
    """Grow what is bright: the greatest value in a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    size : int or sequence of int, optional
        Length of the window along every axis, or along each [points]; 3 by default; where it is
        even, the window has one point more after the centre than before it.
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
    The same as ``scipy.ndimage.grey_dilation``: the window of `erode` mirrored, so that the two,
    one after the other, leave a rectangle in its place.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.dilate(np.array([False, False, True, False, False]))
    array([False,  True,  True,  True, False])
    """
    call = Filtering(x, options)
    return call.ranked(_made("dilate", *call.near(size, footprint, min_count), mirrored=True))


# What is made of a window, and of those of its values that are no NaN.
_REDUCTIONS: dict[str, tuple[Any, Any]] = {
    "minimum": (np.min, np.nanmin),
    "maximum": (np.max, np.nanmax),
    "erode": (np.min, np.nanmin),
    "dilate": (np.max, np.nanmax),
    "mean": (np.mean, np.nanmean),
    "local_std": (np.std, np.nanstd),
}


@functools.lru_cache(KEPT)
def _made(name: str, near: Window, least: int, mirrored: bool = False) -> Stencil:
    """Make the stencil for one number of each window; NaN where `least` values are not left."""
    window, taken = near.index(mirrored)
    of_all, of_valid = _REDUCTIONS[name]

    def all_values(x: Any) -> Any:
        return of_all(x[window][taken])

    def valid_values(x: Any) -> Any:
        w = x[window][taken]
        return of_valid(w) if (w == w).sum() >= least else np.nan

    return made(name, valid_values if least else all_values)
