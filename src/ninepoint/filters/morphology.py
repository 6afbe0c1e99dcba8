"""Morphology: what is bright shrinks and grows, in images of numbers and of truths.

opening = dilate(erode(x))           white_tophat = x - opening
closing = erode(dilate(x))           black_tophat = closing - x

They are done one after the other: as one kernel (of a lazy value) an opening takes as long on
large images, and two to four times as long on small ones (512x512 uint8, windows of 3 to 15).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias, Unpack

from .filtering import CHOSEN, KEPT, Filtering, Kernel, Options, Size, made, over_datasets, reduced

_Filter: TypeAlias = Callable[..., Any]


@over_datasets
def erode(
    x: Any,
    size: Size = None,
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
    The same as ``scipy.ndimage.grey_erosion``, and as `minimum`.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.erode(np.array([False, True, True, True, False]))
    array([False, False,  True, False, False])
    """
    return reduced("erode", x, size, footprint, min_count, options)


@over_datasets
def dilate(
    x: Any,
    size: Size = None,
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
    The same as ``scipy.ndimage.grey_dilation``: the window of `erode` mirrored, so that the two,
    one after the other, leave a rectangle in its place.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.dilate(np.array([False, False, True, False, False]))
    array([False,  True,  True,  True, False])
    """
    return reduced("dilate", x, size, footprint, min_count, options)


@over_datasets
def opening(x: Any, size: Size = None, footprint: Any = None, **options: Unpack[Options]) -> Any:
    """Take away what is bright and narrower than the window: `dilate` of `erode`.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    {size}
    {footprint}
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
    The same as ``scipy.ndimage.grey_opening``. An image with holes is opened by
    ``dilate(erode(x, min_count=1), min_count=1)``.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.opening(np.array([1, 9, 1, 1, 7, 7, 7, 1]))
    array([1, 1, 1, 1, 7, 7, 7, 1])
    """
    return _in_turn(x, (size, footprint), options, erode, dilate)


@over_datasets
def closing(x: Any, size: Size = None, footprint: Any = None, **options: Unpack[Options]) -> Any:
    """Fill what is dark and narrower than the window: `erode` of `dilate`.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    {size}
    {footprint}
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
    """
    return _in_turn(x, (size, footprint), options, dilate, erode)


@over_datasets
def white_tophat(
    x: Any, size: Size = None, footprint: Any = None, **options: Unpack[Options]
) -> Any:
    """Keep what is bright and narrower than the window: the image less its `opening`.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    {size}
    {footprint}
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
    """
    return _difference(x, "white_tophat", (size, footprint), options, None, opening)


@over_datasets
def black_tophat(
    x: Any, size: Size = None, footprint: Any = None, **options: Unpack[Options]
) -> Any:
    """Keep what is dark and narrower than the window: the `closing` less the image.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    {size}
    {footprint}
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
    """
    return _difference(x, "black_tophat", (size, footprint), options, closing, None)


@over_datasets
def morphological_gradient(
    x: Any, size: Size = None, footprint: Any = None, **options: Unpack[Options]
) -> Any:
    """Give the range of a window around every point: `dilate` less `erode`.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    {size}
    {footprint}
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
    """
    return _difference(x, "morphological_gradient", (size, footprint), options, dilate, erode)


def _in_turn(
    x: Any, window: tuple[Any, Any], options: Options, first: _Filter, second: _Filter
) -> Any:
    """What one filter gives of what another one gives of an image."""
    return second(first(x, *window, **_before(options)), *window, **options)


def _difference(
    x: Any,
    name: str,
    window: tuple[Any, Any],
    options: Options,
    high: _Filter | None,
    low: _Filter | None,
) -> Any:
    """What one filter gives of an image less what another one gives; without one, the image."""
    before = _before(options)
    upper, lower = (one(x, *window, **before) if one else x for one in (high, low))
    call = Filtering(upper, options)
    near, _ = call.near(*window, None)
    subtracted = _subtraction(name, len(near.size), call.image.dtype == bool)
    return call.apply(CHOSEN, subtracted, lower)


def _before(options: Options) -> Any:
    """The options of a filter whose results another one is given."""
    return {n: one for n, one in options.items() if n not in ("out", "dtype", "every")}


@functools.lru_cache(KEPT)
def _subtraction(name: str, ndim: int, truths: bool) -> Kernel:
    here = (0,) * ndim

    def difference(x: Any, y: Any) -> Any:
        return x[here] - y[here]

    def differs(x: Any, y: Any) -> Any:
        return x[here] != y[here]

    return made(name, differs if truths else difference)
