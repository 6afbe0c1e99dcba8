"""Where the elements of an array lie: what is known by its lengths and strides.

`standing` makes an array that has these, and no memory: views of it say where all that NumPy makes
views of lies.  Nothing is computed or copied here; what a GPU is given is made of this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

# Where arrays stand of which it only matters how they lie.
SOMEWHERE = 1 << 40


def standing(
    address: int, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None = None
) -> np.ndarray:
    """An array that stands at an address, which is not 0; in C order, if no strides are given."""
    lies = {
        "version": 3, "data": (address, False), "shape": shape, "strides": strides,
        "typestr": f"|V{dtype.itemsize}",
    }  # fmt: skip
    found: np.ndarray = np.asarray(SimpleNamespace(__array_interface__=lies))
    return found.view(dtype)


def overlaps_itself(lengths: Sequence[int], steps: Sequence[int], size: int) -> bool:
    """Whether two elements may be one: an axis does not step over all that shorter steps reach.

    Steps are counted as the `size` of an element is, in elements or in bytes.
    """
    if 0 in lengths:
        return False
    reached = size
    for step, length in sorted(
        (abs(step), n) for step, n in zip(steps, lengths, strict=True) if n > 1
    ):
        if step < reached:
            return True
        reached += step * (length - 1)
    return False


def stacked(array: np.ndarray, ndim: int) -> np.ndarray:
    """An array of so many core axes whose leading axes are one; of no points -1 says nothing."""
    lead = array.ndim - ndim
    if lead < 2:
        return array if lead else array[None]
    return array.reshape(math.prod(array.shape[:lead]), *array.shape[lead:])


def plain(array: np.ndarray, dtype: np.dtype, ndim: int) -> bool:
    """Whether a program of so many axes can work on an array itself, its leading axes as one."""
    lead = [k for k in range(array.ndim - ndim) if array.shape[k] != 1]
    merge = (array.strides[a] == array.strides[b] * array.shape[b] for a, b in pairwise(lead))
    readable = array.dtype == dtype and array.strides[-1] == dtype.itemsize and array.flags.aligned
    return readable and all(merge)


def scattered(compiled: Any, fields: Sequence[np.ndarray]) -> list[bool]:
    """Which fields a program cannot read where they lie, so that they are copied before."""
    ndim, given = compiled.ndim, len(fields) - len(compiled.along)
    found = [
        not plain(field, dtype, ndim)
        for field, dtype in zip(fields, compiled.field_dtypes, strict=True)
    ]
    # Of a position one element of each row is read, wherever the others lie.
    for k, axis in enumerate(compiled.along, given):
        found[k] = found[k] and axis == ndim - 1
    return found


def merged_axes(
    lengths: Sequence[int], steps: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Make axes one that lie in memory as one in all arrays, and leave out those of length 1."""
    found: list[int] = []
    made: list[list[int]] = [[] for _ in steps]
    for axis, n in enumerate(lengths):
        if n == 1:
            continue
        own = [one[axis] for one in steps]
        if found and all(before[-1] == step * n for before, step in zip(made, own, strict=True)):
            found[-1] *= n
            for before, step in zip(made, own, strict=True):
                before[-1] = step
        else:
            found.append(n)
            for before, step in zip(made, own, strict=True):
                before.append(step)
    return found, made


def memory_order(lengths: tuple[int, ...], steps: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Find an order of the axes in which the longest steps come first, and the last are short.

    The steps are those of some arrays of these lengths.
    """
    far = [sum(map(abs, own)) for own in zip(*steps, strict=True)]
    return tuple(sorted(range(len(lengths)), key=lambda axis: (lengths[axis] != 1, -far[axis])))
