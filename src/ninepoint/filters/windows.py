"""Filters of one number of a window: averages, sums, deviations, extremes, ranks; and morphology.

opening = dilate(erode(x))           white_tophat = x - opening
closing = erode(dilate(x))           black_tophat = closing - x

These are done one after the other: as one kernel (of a lazy value) an opening takes as long on
large images, and two to four times as long on small ones (512x512 uint8, windows of 3 to 15).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, Unpack

import numpy as np

from ..language.statistics import ranked
from ..shapes import finite
from .filtering import (
    ANY,
    BETWEEN,
    CHOSEN,
    KEPT,
    ByName,
    Filtering,
    Kernel,
    Options,
    Size,
    Window,
    made,
    over_datasets,
)


class WindowFilter(Protocol):
    """A filter of one number of a window."""

    def __call__(
        self,
        x: Any,
        size: Size = None,
        footprint: Any = None,
        *,
        min_count: int | None = None,
        **options: Unpack[Options],
    ) -> Any: ...


# What a filter gives of an image, for what is said of the window, and the options.
_Computed: TypeAlias = Callable[[Any, ByName, ByName], Any]


def _filter(name: str, computed: _Computed, text: str) -> WindowFilter:
    """The filter of that name, which is told about in a text."""

    def filtered(
        x: Any,
        size: Size = None,
        footprint: Any = None,
        *,
        min_count: int | None = None,
        **options: Unpack[Options],
    ) -> Any:
        window = {"size": size, "footprint": footprint, "min_count": min_count}
        return computed(x, window, options)

    filtered.__name__ = filtered.__qualname__ = name
    filtered.__doc__ = text
    return over_datasets(filtered)


def _reduction(name: str, of_all: Any, of_valid: Any, kept: str, text: str) -> WindowFilter:
    """The filter that makes a number of a window, or of those of its values that are no NaN."""

    @functools.lru_cache(KEPT)
    def kernel(near: Window) -> Kernel:
        (window, taken), least = near.index(mirrored=name == "dilate"), near.least

        def all_values(x: Any) -> Any:
            return of_all(x[window][taken])

        def valid_values(x: Any) -> Any:
            w = x[window][taken]
            return of_valid(w) if (w == w).sum() >= least else np.nan

        return made(name, valid_values if least else all_values)

    def reduced(x: Any, window: ByName, options: ByName) -> Any:
        call = Filtering(x, options)
        if name not in ("mean", "sum"):
            call.check_real()
        return call.apply(kept, kernel(call.near(**window)))

    return _filter(name, reduced, text)


mean = _reduction(
    "mean",
    np.mean,
    np.nanmean,
    BETWEEN,
    """Average a window around every point.

    Parameters
    ----------
    {x}
    {window}
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
    """,
)


sum = _reduction(
    "sum",
    np.sum,
    np.nansum,
    ANY,
    """Add up a window around every point: a box filter that does not divide.

    Parameters
    ----------
    {x}
    {window}
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
    """,
)


local_std = _reduction(
    "local_std",
    np.std,
    np.nanstd,
    ANY,
    """Give the standard deviation in a window around every point.

    Parameters
    ----------
    {x}
    {window}
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
    """,
)


minimum = _reduction(
    "minimum",
    np.min,
    np.nanmin,
    CHOSEN,
    """Give the least value in a window around every point.

    Parameters
    ----------
    {x}
    {window}
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
    """,
)


maximum = _reduction(
    "maximum",
    np.max,
    np.nanmax,
    CHOSEN,
    """Give the greatest value in a window around every point.

    Parameters
    ----------
    {x}
    {window}
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
    """,
)


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
    {window}
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
    return call.apply(CHOSEN, _rank(call.near(size, footprint, min_count), q))


@functools.lru_cache(KEPT)
def _rank(near: Window, q: float) -> Kernel:
    (window, taken), last, least = near.index(), near.count - 1, near.least
    rank = min(int(near.count * q / 100), last)
    from_below = _fraction(rank, last)
    from_above: Any = _fraction(last - rank, last)

    def one_of_all(x: Any) -> Any:
        if from_below is not None:
            return np.quantile(x[window][taken], from_below)
        return -np.quantile(-1.0 * x[window][taken], from_above)

    def one_of_valid(x: Any) -> Any:
        w = x[window][taken]
        return ranked(w, q) if (w == w).sum() >= least else np.nan

    name = "median" if q == 50 else "percentile"
    return made(name, one_of_valid if least else one_of_all)


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


median = _filter(
    "median",
    lambda x, window, options: percentile(x, 50.0, **window, **options),
    """Give the middle one of the values in a window around every point.

    Parameters
    ----------
    {x}
    {window}
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
    """,
)


# Morphology: what is bright shrinks and grows, in images of numbers and of truths.

erode = _reduction(
    "erode",
    np.min,
    np.nanmin,
    CHOSEN,
    """Shrink what is bright: the least value in a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    {window}
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
    The same as ``scipy.ndimage.grey_erosion``, and as `minimum`.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.erode(np.array([False, True, True, True, False]))
    array([False, False,  True, False, False])
    """,
)


dilate = _reduction(
    "dilate",
    np.max,
    np.nanmax,
    CHOSEN,
    """Grow what is bright: the greatest value in a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    {window}
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
    The same as ``scipy.ndimage.grey_dilation``: the window of `erode` mirrored, so that the two,
    one after the other, leave a rectangle in its place.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.dilate(np.array([False, False, True, False, False]))
    array([False,  True,  True,  True, False])
    """,
)


def _before(options: ByName) -> Any:
    """The options of a filter whose results another one is given."""
    return {n: one for n, one in options.items() if n not in ("out", "dtype", "every")}


def _in_turn(first: WindowFilter, second: WindowFilter) -> _Computed:
    """What one filter gives of what another one gives of an image."""
    return lambda x, window, options: second(
        first(x, **window, **_before(options)), **window, **options
    )


opening = _filter(
    "opening",
    _in_turn(erode, dilate),
    """Take away what is bright and narrower than the window: `dilate` of `erode`.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    {window}
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
    The same as ``scipy.ndimage.grey_opening``. An image with holes, which are NaN, is opened
    with ``min_count=1``.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.opening(np.array([1, 9, 1, 1, 7, 7, 7, 1]))
    array([1, 1, 1, 1, 7, 7, 7, 1])
    """,
)


closing = _filter(
    "closing",
    _in_turn(dilate, erode),
    """Fill what is dark and narrower than the window: `erode` of `dilate`.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    {window}
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
    The same as ``scipy.ndimage.grey_closing``.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.closing(np.array([9, 1, 9, 9, 1, 1, 1, 9]))
    array([9, 9, 9, 9, 1, 1, 1, 9])
    """,
)


def _difference(name: str, high: Any, low: Any, text: str) -> WindowFilter:
    """The filter that gives what one filter gives of an image less what another one gives."""

    @functools.lru_cache(KEPT)
    def kernel(ndim: int, truths: bool) -> Kernel:
        here = (0,) * ndim

        def difference(x: Any, y: Any) -> Any:
            return x[here] - y[here]

        def differs(x: Any, y: Any) -> Any:
            return x[here] != y[here]

        return made(name, differs if truths else difference)

    def subtracted(x: Any, window: ByName, options: ByName) -> Any:
        upper, lower = (one(x, **window, **_before(options)) for one in (high, low))
        call = Filtering(upper, options)
        call.near(**window)
        return call.apply(CHOSEN, kernel(call.ndim, call.image.dtype == bool), lower)

    return _filter(name, subtracted, text)


def _image(x: Any, **_: Any) -> Any:
    """The image as it is, as a filter."""
    return x


white_tophat = _difference(
    "white_tophat",
    _image,
    opening,
    """Keep what is bright and narrower than the window: the image less its `opening`.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    {window}
    {options}

    Returns
    -------
    array
        Of the shape and the dtype of `x`; what an integer type does not hold is its nearest value.

    Raises
    ------
    {window_errors}

    Notes
    -----
    The same as ``scipy.ndimage.white_tophat``, for which integers wrap around.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.white_tophat(np.array([1, 9, 1, 1, 7, 7, 7, 1]))
    array([0, 8, 0, 0, 0, 0, 0, 0])
    """,
)


black_tophat = _difference(
    "black_tophat",
    closing,
    _image,
    """Keep what is dark and narrower than the window: the `closing` less the image.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    {window}
    {options}

    Returns
    -------
    array
        Of the shape and the dtype of `x`; what an integer type does not hold is its nearest value.

    Raises
    ------
    {window_errors}

    Notes
    -----
    The same as ``scipy.ndimage.black_tophat``, for which integers wrap around.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.black_tophat(np.array([9, 1, 9, 9, 1, 1, 1, 9]))
    array([0, 8, 0, 0, 0, 0, 0, 0])
    """,
)


morphological_gradient = _difference(
    "morphological_gradient",
    dilate,
    erode,
    """Give the range of a window around every point: `dilate` less `erode`.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    {window}
    {options}

    Returns
    -------
    array
        Of the shape and the dtype of `x`; what an integer type does not hold is its nearest value.

    Raises
    ------
    {window_errors}

    Notes
    -----
    The same as ``scipy.ndimage.morphological_gradient``, for which integers wrap around.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.morphological_gradient(np.array([1, 1, 1, 5, 5, 5]))
    array([0, 0, 4, 4, 0, 0])
    """,
)
