"""Copying: what lies in another order in memory is copied square by square.

    rows of the target      0 1 | 4 5        columns of the source      0 4
                            2 3 | 6 7                                   1 5 ...

A row of the one is a column of the other, each element of which lies in another line of the cache:
NumPy goes along one of the two, and needs every line as often as it has elements.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ninepoint.backends.memory import empty

Array: TypeAlias = np.ndarray[Any, Any]

# The side of a square.  (1024x1024 float32: as a whole 4.8 ms, squares of 16 4.2, of 32 1.8, of 64
# 2.0, of 128 2.7, Zen 4.)
SIDE = 32

# Shorter arrays stay in the first cache while they are copied.
_SMALL = 64


def copied(array: Array, dtype: np.dtype[Any] | None = None) -> Array:
    """A copy in C order, of that dtype."""
    made: Array = empty(array.shape, array.dtype if dtype is None else dtype)
    copy_to(made, array)
    return made


def copy_to(target: Array, source: Array) -> None:
    """Write an array of this shape to another, converted as assignment does it."""
    axis = _across(target, source)
    if axis < 0:
        target[...] = source
        return
    last = target.ndim - 1
    before = (slice(None),) * axis
    between = (slice(None),) * (last - axis - 1)
    for row in range(0, target.shape[axis], SIDE):
        for column in range(0, target.shape[last], SIDE):
            part = slice(row, row + SIDE), *between, slice(column, column + SIDE)
            target[(*before, *part)] = source[(*before, *part)]


def _across(target: Array, source: Array) -> int:
    """The axis along which the source lies together and the target does not; -1 if there is none.

    Targets lie together along their last axis.
    """
    if source.ndim < 2 or source.shape != target.shape:
        return -1
    axis = min(range(source.ndim), key=lambda k: (source.shape[k] < 2, abs(source.strides[k])))
    long = min(source.shape[axis], source.shape[-1]) > _SMALL
    still = not source.strides[axis]
    nearer = abs(source.strides[-1]) >= SIDE * abs(source.strides[axis])
    return axis if long and nearer and not still and axis != source.ndim - 1 else -1
