"""Merging: to what looks at no neighbour all axes are alike, so that many of them are one.

    shape (4, 5, 6), strides (240, 48, 8)     ->     shape (120,), strides (8,)
    shape (4, 5, 6), strides (8, 32, 160)     ->     the same, its axes taken in another order
    shape (4, 5, 6) beside (5, 6)             ->     shapes (4, 30) and (4, 30), strides (0, 8)

Axes are put in the order of memory, and those that lie in memory as one would are made one, in
all arrays alike.  Nothing is copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ninepoint.arrays.borders import Array
from ninepoint.arrays.layout import Shape
from ninepoint.backends.compiled import Bound
from ninepoint.language.positions import Length


@dataclass(frozen=True, slots=True)
class Merging:
    """How arrays of one shape become arrays of fewer axes: put in an order, then made one."""

    shape: Shape
    order: tuple[int, ...]
    merged: Shape

    @property
    def is_trivial(self) -> bool:
        """Whether the arrays stay as they are."""
        return self.merged == self.shape and self.order == tuple(range(len(self.shape)))

    def of(self, array: Array) -> Array:
        """Give an array so; a view of it, for it was among those that this was made for."""
        return array.transpose(self.order).reshape(self.merged)

    def back(self, result: Array) -> Array:
        """Give a result the axes of the arrays, in their order; its memory is as theirs."""
        turned = result.reshape(tuple([self.shape[axis] for axis in self.order]))
        return turned.transpose(np.argsort(self.order))


def looks_at_points(code: Bound) -> bool:
    """Whether each result depends on the elements at its own point alone, along one axis."""
    return (
        code.ndim == 1
        and not code.every
        and not any(box.lo[0] or box.hi[0] for box in code.reaches)
        and not any(isinstance(one, Length) for one in code.scalars)
    )


def merging(arrays: Sequence[Array]) -> Merging:
    """Find how arrays of one shape, of one axis at least, become arrays of as few as can be."""
    shape = arrays[0].shape
    size = math.prod(shape)
    if len(shape) == 1 or not size:
        return Merging(shape, tuple(range(len(shape))), shape)
    if all(array.flags.c_contiguous for array in arrays):
        return Merging(shape, tuple(range(len(shape))), (size,))
    steps = [sum(abs(array.strides[axis]) for array in arrays) for axis in range(len(shape))]
    # An axis of length 1 has any stride, and stands where it does no harm: first.
    order = sorted(range(len(shape)), key=lambda axis: (shape[axis] != 1, -steps[axis]))
    merged: list[int] = []
    last = -1
    for axis in order:
        if shape[axis] == 1:
            continue
        if last >= 0 and all(
            array.strides[last] == array.strides[axis] * shape[axis] for array in arrays
        ):
            merged[-1] *= shape[axis]
        else:
            merged.append(shape[axis])
        last = axis
    return Merging(shape, tuple(order), tuple(merged) or (1,))
