"""What the rewritten text of a gufunc finds outside itself (see `in_place`)."""

from __future__ import annotations

from numba import njit, types
from numba.extending import overload

# A note is the number of a result, counted from 1, and the shape that it has; as many axes as an
# array has at most.
ROOM = 65

# Leaves a function when something was told; nobody reads it.
WRONG = ValueError


def _shape(shape):
    """A shape as a tuple."""


@overload(_shape)
def _shape_types(shape):
    if isinstance(shape, types.Integer):
        return lambda shape: (shape,)
    return lambda shape: shape


@njit
def shape_of(shape):
    """The shape that `np.empty(shape)` has, as a tuple."""
    return _shape(shape)
