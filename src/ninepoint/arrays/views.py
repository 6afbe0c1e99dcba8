"""Views that runs of stages and of iterations take alike: whole stacks, parts of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .borders import Array


def plain(array: Array, dtype: np.dtype, ndim: int) -> bool:
    """Whether a kernel can read an array as it is, its leading axes taken as one."""
    if array.dtype != dtype or not array.flags.aligned:
        return False
    if array.ndim <= ndim + 1:
        return array.shape[-1] == 1 or array.strides[-1] == array.itemsize
    return bool(array.flags.c_contiguous)


def spread(arrays: Sequence[Array], positions: int) -> list[Array]:
    """The arrays, of which the last are positions, all of the shape of the first."""
    given = len(arrays) - positions
    return [
        *arrays[:given],
        *(np.broadcast_to(array, arrays[0].shape) for array in arrays[given:]),
    ]


def stacked(array: Array, ndim: int) -> Array:
    """The array with its leading axes as one."""
    if array.ndim == ndim + 1:
        return array
    if array.ndim > ndim:
        return array.reshape(-1, *array.shape[array.ndim - ndim :])
    return array[None]


def cut(span: tuple[int, int], count: int) -> list[slice]:
    """A span in at most `count` parts of nearly one size, none of them empty."""
    first, last = span
    edges = [first + (last - first) * k // count for k in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(edges) if a < b]


def at(axis: int, part: slice) -> tuple[slice, ...]:
    """The index of a part of one axis of a stack, the stack's own axis not counted."""
    return (slice(None),) * (axis + 1) + (part,)
