"""Weighted sums of windows."""

from __future__ import annotations

import functools
from typing import Any, Unpack

import numpy as np

from ..api import Stencil
from ..decorate import stencil
from .filtering import KEPT, Array, Filtering, Options, over_datasets
from .windows import Size, offsets


@over_datasets
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
    call = Filtering(x, options)
    checked = _checked_weights(weights)
    call.count_axes("weights", checked.ndim)
    filtered = correlation(checked, call)
    return call.smooth(filtered) if checked.dtype.kind == "f" else call.natural(filtered)


def correlation(weights: Array, call: Filtering) -> Stencil:
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
    return weighted_sum(weights.shape, weights.dtype.char, weights.tobytes(), whole)


@functools.lru_cache(KEPT)
def weighted_sum(shape: Size, dtype: str, data: bytes, whole: bool) -> Stencil:
    """Make the stencil for weights given as bytes; `whole` rounds its results."""
    weights, window = np.frombuffer(data, dtype).reshape(shape), offsets(shape)

    @stencil(boundary="reflect")
    def correlate(x: Any) -> Any:
        value = (x[window] * weights).sum()
        return np.rint(value) if whole else value

    return correlate


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
