"""Ready-made filters: each is a few lines of stencil, to be used, read and copied.

    y = npt.filters.median(x, size=5)
    y = npt.filters.gaussian(x, sigma=1.5, boundary="wrap")

A filter works on the last two axes (the only one of an array that has one); axes before them
are a stack. A tuple, one entry for each axis, makes it work on as many last axes: `size=(3, 3, 3)`
filters volumes. `axes=` or `dims=` name others. `Options` lists what every filter takes.

On floats the results are those of scipy.ndimage, for every border it has. An image of integers
gives an image of the same integers, rounded to nearest and held between their least and greatest
value; SciPy cuts the fraction off. What may be negative where the image is not (`sobel`,
`prewitt`, `laplace`, and `correlate` with weights that are integers) is exact instead, in the
smallest dtype that holds every possible result.

A stencil is made once for each size or set of weights, and compiled once for each dtype.
"""

from __future__ import annotations

import functools
import math
import numbers
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias, TypedDict, Unpack

import numpy as np

from .api import Stencil, stencil
from .arrays.numpy import as_field
from .arrays.recognise import is_dask, is_xarray

__all__ = [
    "correlate",
    "dilate",
    "erode",
    "gaussian",
    "laplace",
    "local_std",
    "maximum",
    "mean",
    "median",
    "minimum",
    "percentile",
    "prewitt",
    "sobel",
    "unsharp",
]

Array: TypeAlias = np.ndarray[Any, Any]
Size: TypeAlias = tuple[int, ...]
PerAxis: TypeAlias = float | Sequence[float]

# Stencils of one kind that are kept: more than any program has in use, few enough to forget
# those of a search over many sigmas.
KEPT = 128


class Options(TypedDict, total=False):
    """What every filter takes besides its own parameters, by keyword.

    Attributes
    ----------
    boundary : str or sequence
        What a neighbour outside the array is; as for a stencil, but "reflect" by default.
    cval : number
        The value of "constant" and "fill"; 0 by default.
    axes : int or sequence of int
        The axes to filter.
    dims : str or sequence of str
        The dimensions to filter, of an xarray object.
    out : array
        Where to write the result of NumPy arrays; it may be the image itself.
    dtype : dtype
        Of the result. Integers are rounded to nearest and held within their limits, so
        ``dtype="float64"`` is how an image of integers keeps its fractions.
    threads : int
        The greatest number of threads.
    """

    boundary: Any
    cval: Any
    axes: Any
    dims: Any
    out: Any
    dtype: Any
    threads: int | None


# Smoothing.


def mean(x: Any, size: int | Sequence[int] = 3, **options: Unpack[Options]) -> Any:
    """Average a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    size : int or sequence of int
        Length of the window along every axis, or along each [points]; where it is even, the
        window has one point more before the centre than after it.
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape of `x`, and of its dtype; float64 if that is bool.

    Raises
    ------
    ValueError
        If `size` is less than 1, or has more entries than `x` has axes.
    TypeError
        If `size` is not whole, or an option is unknown.

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
    call = _Call(x, options)
    return call.smooth(_mean(call.sizes(size), call.whole))


@functools.lru_cache(KEPT)
def _mean(size: Size, whole: bool) -> Stencil:
    window = _window(size)

    @stencil(boundary="reflect")
    def mean(x: Any) -> Any:
        value = x[window].mean()
        return np.rint(value) if whole else value

    return mean


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
    call = _Call(x, options)
    bell = _bell(call.sigmas(sigma), _positive("truncate", truncate, zero=True))
    short = call.image.dtype.kind in "iu" and call.image.dtype.itemsize == 1
    if short and call.dtype == call.image.dtype:
        # Weights that sum to 1 leave an error below 0.0001 of a step, on twice the lanes.
        bell = bell.astype(np.float32)
        return call.smooth(_correlate(bell.shape, bell.dtype.char, bell.tobytes(), True))
    return call.smooth(_correlation(bell, call))


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
    call = _Call(x, options)
    bell = _bell(call.sigmas(sigma), 4.0).astype(call.precision)
    sharpen = _unsharp(bell.shape, bell.dtype.char, bell.tobytes(), call.whole)
    return call.smooth(sharpen, _finite("amount", amount))


@functools.lru_cache(KEPT)
def _unsharp(shape: Size, dtype: str, data: bytes, whole: bool) -> Stencil:
    weights, window = np.frombuffer(data, dtype).reshape(shape), _window(shape)
    here = (0,) * len(shape)

    @stencil(boundary="reflect")
    def unsharp(x: Any, amount: Any) -> Any:
        value = x[here] + amount * (x[here] - (x[window] * weights).sum())
        return np.rint(value) if whole else value

    return unsharp


def local_std(x: Any, size: int | Sequence[int] = 3, **options: Unpack[Options]) -> Any:
    """Give the standard deviation in a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    size : int or sequence of int
        Length of the window along every axis, or along each [points].
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape of `x`, and of its dtype; float64 if that is bool.

    Raises
    ------
    ValueError
        If `size` is less than 1, or has more entries than `x` has axes.
    TypeError
        If `size` is not whole, or an option is unknown.

    Notes
    -----
    The same as ``scipy.ndimage.generic_filter(x, numpy.std, size)``: the mean square distance
    from the mean, in two passes, so that nothing cancels.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> npt.filters.local_std(np.array([5, 5, 5, 20, 20], dtype="uint8"))
    array([0, 0, 7, 7, 0], dtype=uint8)
    """
    call = _Call(x, options)
    return call.smooth(_local_std(call.sizes(size), call.whole))


@functools.lru_cache(KEPT)
def _local_std(size: Size, whole: bool) -> Stencil:
    window = _window(size)

    @stencil(boundary="reflect")
    def local_std(x: Any) -> Any:
        value = x[window].std()
        return np.rint(value) if whole else value

    return local_std


# Weighted sums.


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
        Of the shape of `x`. Integers times integers are exact, in the smallest dtype that holds
        every possible result; otherwise the dtype of `x`, or float64 if that is bool. Complex
        weights, which are conjugated, give complex numbers.

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
    >>> npt.filters.correlate(x, [0.25, 0.5, 0.25])
    array([  0,  50, 125, 125], dtype=uint8)
    """
    call = _Call(x, options)
    checked = _checked_weights(weights)
    call.count_axes("weights", checked.ndim)
    filtered = _correlation(checked, call)
    return call.smooth(filtered) if checked.dtype.kind == "f" else call.natural(filtered)


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
    call = _Call(x, options)
    return call.natural(_correlation(_slope(axis, call.ndim, (1, 2, 1)), call))


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
    call = _Call(x, options)
    return call.natural(_correlation(_slope(axis, call.ndim, (1, 1, 1)), call))


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
    call = _Call(x, options)
    ndim = call.ndim
    weights = np.zeros((3,) * ndim, int)
    for axis in range(ndim):
        line = [1] * ndim
        line[axis] = 3
        weights[tuple(slice(1 - n // 2, 2 + n // 2) for n in line)] += np.reshape([1, -2, 1], line)
    return call.natural(_correlation(weights, call))


def _correlation(weights: Array, call: _Call) -> Stencil:
    """Make the stencil for weights of int64, float64 or complex128."""
    whole = call.whole
    match weights.dtype.kind:
        case "i":
            whole = whole and call.image.dtype.kind not in "biu"
        case "f":
            weights = weights.astype(call.precision)
        case "c":
            whole = False
            # As scipy.ndimage and np.correlate have it.
            weights = weights.conj().astype(np.result_type(call.precision, np.complex64))
    return _correlate(weights.shape, weights.dtype.char, weights.tobytes(), whole)


@functools.lru_cache(KEPT)
def _correlate(shape: Size, dtype: str, data: bytes, whole: bool) -> Stencil:
    weights, window = np.frombuffer(data, dtype).reshape(shape), _window(shape)

    @stencil(boundary="reflect")
    def correlate(x: Any) -> Any:
        value = (x[window] * weights).sum()
        return np.rint(value) if whole else value

    return correlate


# Ranks.


def median(x: Any, size: int | Sequence[int] = 3, **options: Unpack[Options]) -> Any:
    """Give the middle one of the values in a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    size : int or sequence of int
        Length of the window along every axis, or along each [points].
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape and the dtype of `x`.

    Raises
    ------
    ValueError
        If `size` is less than 1, or has more entries than `x` has axes.
    TypeError
        If `size` is not whole, or an option is unknown.

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
    call = _Call(x, options)
    shape = call.sizes(size)
    return call.ranked(_rank(shape, math.prod(shape) // 2))


def percentile(x: Any, q: float, size: int | Sequence[int] = 3, **options: Unpack[Options]) -> Any:
    """Give the value that a percentage of those in a window around every point lie below.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    q : float
        From 0, the least value, to 100, the greatest one [%].
    size : int or sequence of int
        Length of the window along every axis, or along each [points].
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape and the dtype of `x`.

    Raises
    ------
    ValueError
        If `q` is outside 0 to 100; if `size` is less than 1, or has more entries than `x` has
        axes.
    TypeError
        If `q` is no number, `size` is not whole, or an option is unknown.

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
    call = _Call(x, options)
    q = _finite("q", q)
    if not 0 <= q <= 100:
        raise ValueError(f"q={q:g} is no percentage; give a number from 0 to 100.")
    shape = call.sizes(size)
    count = math.prod(shape)
    return call.ranked(_rank(shape, min(int(count * q / 100), count - 1)))


@functools.lru_cache(KEPT)
def _rank(size: Size, rank: int) -> Stencil:
    window, last = _window(size), math.prod(size) - 1
    from_below = _fraction(rank, last)
    from_above: Any = _fraction(last - rank, last)

    @stencil(boundary="reflect")
    def rank_filter(x: Any) -> Any:
        if from_below is not None:
            return np.quantile(x[window], from_below)
        return -np.quantile(-1.0 * x[window], from_above)

    return rank_filter


def minimum(x: Any, size: int | Sequence[int] = 3, **options: Unpack[Options]) -> Any:
    """Give the least value in a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    size : int or sequence of int
        Length of the window along every axis, or along each [points].
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape and the dtype of `x`.

    Raises
    ------
    ValueError
        If `size` is less than 1, or has more entries than `x` has axes.
    TypeError
        If `size` is not whole, or an option is unknown.

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
    call = _Call(x, options)
    return call.ranked(_minimum(call.sizes(size)))


@functools.lru_cache(KEPT)
def _minimum(size: Size) -> Stencil:
    window = _window(size)

    @stencil(boundary="reflect")
    def minimum(x: Any) -> Any:
        return x[window].min()

    return minimum


def maximum(x: Any, size: int | Sequence[int] = 3, **options: Unpack[Options]) -> Any:
    """Give the greatest value in a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them.
    size : int or sequence of int
        Length of the window along every axis, or along each [points].
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape and the dtype of `x`.

    Raises
    ------
    ValueError
        If `size` is less than 1, or has more entries than `x` has axes.
    TypeError
        If `size` is not whole, or an option is unknown.

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
    call = _Call(x, options)
    return call.ranked(_maximum(call.sizes(size), False))


@functools.lru_cache(KEPT)
def _maximum(size: Size, mirrored: bool) -> Stencil:
    window = _window(size, mirrored)

    @stencil(boundary="reflect")
    def maximum(x: Any) -> Any:
        return x[window].max()

    return maximum


def erode(x: Any, size: int | Sequence[int] = 3, **options: Unpack[Options]) -> Any:
    """Shrink what is bright: the least value in a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    size : int or sequence of int
        Length of the window along every axis, or along each [points].
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape and the dtype of `x`.

    Raises
    ------
    ValueError
        If `size` is less than 1, or has more entries than `x` has axes.
    TypeError
        If `size` is not whole, or an option is unknown.

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
    return minimum(x, size, **options)


def dilate(x: Any, size: int | Sequence[int] = 3, **options: Unpack[Options]) -> Any:
    """Grow what is bright: the greatest value in a window around every point.

    Parameters
    ----------
    x : array
        The image, or a stack of them; of bool for shapes.
    size : int or sequence of int
        Length of the window along every axis, or along each [points]; where it is even, the
        window has one point more after the centre than before it.
    **options
        See `Options`.

    Returns
    -------
    array
        Of the shape and the dtype of `x`.

    Raises
    ------
    ValueError
        If `size` is less than 1, or has more entries than `x` has axes.
    TypeError
        If `size` is not whole, or an option is unknown.

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
    call = _Call(x, options)
    return call.ranked(_maximum(call.sizes(size), True))


# Windows and weights.


def _window(size: Size, mirrored: bool = False) -> tuple[slice, ...]:
    """Give the offsets around 0; where a size is even, one more before it than after."""
    before = [(n - 1) // 2 if mirrored else n // 2 for n in size]
    return tuple(slice(-b, n - b) for b, n in zip(before, size, strict=True))


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


def _bell(sigmas: tuple[float, ...], truncate: float) -> Array:
    """Normalised weights of a Gaussian, as scipy.ndimage makes them."""
    bell = np.ones(())
    for sigma in sigmas:
        radius = int(truncate * sigma + 0.5)
        line = np.exp(-0.5 / (sigma * sigma) * np.arange(-radius, radius + 1) ** 2)
        bell = np.multiply.outer(bell, line / line.sum())
    return bell


def _slope(axis: int, ndim: int, across: tuple[int, int, int]) -> Array:
    """Give the weights -1, 0, 1 along `axis` times those of `across` along the others."""
    place = _whole("axis", axis)
    if not -ndim <= place < ndim:
        raise ValueError(
            f"axis={place} is none of the {ndim} filtered axes; "
            f"give a number from {-ndim} to {ndim - 1}."
        )
    weights = np.ones((), int)
    for one in range(ndim):
        weights = np.multiply.outer(weights, (-1, 0, 1) if one == place % ndim else across)
    return weights


def _checked_weights(weights: Any) -> Array:
    """Weights as int64, float64 or complex128, C-contiguous."""
    array = np.asarray(weights)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"weights of dtype {array.dtype} are no numbers.")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(
            f"weights of shape {array.shape} weigh nothing; give one for each neighbour."
        )
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise ValueError("weights beyond 2**63 - 1 cannot be multiplied; make them floats.")
    kinds = {"b": np.int64, "i": np.int64, "u": np.int64, "f": np.float64, "c": np.complex128}
    return np.ascontiguousarray(array, kinds[array.dtype.kind])


# A call of a filter.


class _Call:
    """An image and the options it is filtered with; how many axes, and which result."""

    def __init__(self, x: Any, options: Options) -> None:
        unknown = [name for name in options if name not in Options.__annotations__]
        if unknown:
            raise TypeError(
                f"'{unknown[0]}' is no option of a filter; there are "
                f"{', '.join(Options.__annotations__)}."
            )
        self.image = x if is_dask(x) or is_xarray(x) else as_field(x)
        self.options = options
        self.named = _named_axes(options)
        self.ndim = self.named or min(2, self.image.ndim)
        if self.ndim == 0:
            raise ValueError("a filter needs an array of at least one axis, not a single number.")
        dtype = options.get("dtype")
        self.dtype = self.image.dtype if dtype is None else np.dtype(dtype)
        self.whole = self.dtype.kind in "iu"

    @property
    def precision(self) -> np.dtype[Any]:
        """The type of real weights: that of a float image, else float64."""
        dtype = self.image.dtype
        if dtype.kind not in "fc" or self.options.get("dtype") is not None:
            return np.dtype(np.float64)
        return np.finfo(np.result_type(dtype, np.float32)).dtype

    def count_axes(self, name: str, count: int) -> None:
        """Learn from an argument how many axes are filtered, and check that they exist."""
        if self.named and count != self.named:
            raise ValueError(f"{name} has {count} axes, but axes= or dims= name {self.named}.")
        if not 1 <= count <= self.image.ndim:
            raise ValueError(f"{name} has {count} axes, but the array {self.image.ndim}.")
        self.ndim = count

    def sizes(self, size: Any) -> Size:
        """Give the length of a window along each axis."""
        lengths = tuple(_whole("size", one) for one in self._each("size", size))
        if min(lengths) < 1:
            raise ValueError(f"size={size!r}: a window needs at least one point along each axis.")
        return lengths

    def sigmas(self, sigma: Any) -> tuple[float, ...]:
        """Give the width of a bell along each axis."""
        return tuple(_positive("sigma", one) for one in self._each("sigma", sigma))

    def _each(self, name: str, value: Any) -> tuple[Any, ...]:
        """One value for each axis."""
        if isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim):
            self.count_axes(name, len(value))
            return tuple(value)
        return (value,) * self.ndim

    # The three kinds of results.

    def smooth(self, filtered: Stencil, *scalars: Any) -> Any:
        """Numbers between those of the image: as exact as its dtype can hold them."""
        return self._apply(filtered, scalars, self.dtype.kind in "iu")

    def natural(self, filtered: Stencil) -> Any:
        """Numbers of any size: the dtype that holds them all."""
        return self._apply(filtered, (), False)

    def ranked(self, filtered: Stencil) -> Any:
        """Numbers of the image."""
        return self._apply(filtered, (), self.dtype.kind in "biu")

    def _apply(self, filtered: Stencil, scalars: tuple[Any, ...], kept: bool) -> Any:
        options: dict[str, Any] = dict(self.options)
        if isinstance(axes := options.get("axes"), numbers.Integral):
            options["axes"] = (axes,)
        if kept or options.get("dtype") is not None:
            options |= {"dtype": self.dtype, "overflow": "saturate"}
        return filtered(self.image, *scalars, **options)


def _named_axes(options: Options) -> int:
    """How many axes the options name; 0 if they leave it open."""
    for given in (options.get("axes"), options.get("dims")):
        if given is not None:
            return 1 if isinstance(given, numbers.Integral | str) else len(given)
    return 0


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} holds {value!r}, which is no whole number.")
    try:
        return operator.index(value)
    except TypeError as error:
        raise TypeError(f"{name} holds {value!r}, which is no whole number.") from error


def _finite(name: str, value: Any) -> float:
    if not isinstance(value, numbers.Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} holds {value!r}, which is no number.")
    if not math.isfinite(value):
        raise ValueError(f"{name} holds {value!r}, which is not finite.")
    return float(value)


def _positive(name: str, value: Any, zero: bool = False) -> float:
    number = _finite(name, value)
    if number < 0 or (number == 0 and not zero):
        needed = "must not be negative" if zero else "must be positive"
        raise ValueError(f"{name} holds {value!r}, but it {needed}.")
    return number
