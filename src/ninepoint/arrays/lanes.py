"""Lanes: stacks that lie innermost in memory, done without moving them to the front.

    (rows, columns, 3), along (0, 1)      rows of 3 * columns elements, a column on is 3 elements on
    (rows, columns, 137), along (0, 1)    a third axis, along which nothing looks

A row of few lanes is too short for a loop of its own, so each such number of lanes is compiled
for; rows of many lanes are long enough by themselves, and one form of the kernel does all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ninepoint.arrays.borders import Array, Border
from ninepoint.arrays.layout import Shape
from ninepoint.backends.backend import Code
from ninepoint.backends.memory import empty

# From so many lanes on each column is a row of its own.
LEVELS = 32


@dataclass(frozen=True, slots=True)
class Lanes:
    """How arrays whose core axes come last are given to a program that takes the stack last.

    Attributes
    ----------
    order : tuple of int
        The axes: those of the stack that lie outside, the core axes, those that lie inside.
    inner : tuple of int
        How long the last of them are.
    core : int
        How many core axes there are.
    levels : bool
        Whether the lanes are an axis of their own.
    """

    order: tuple[int, ...]
    inner: Shape
    core: int
    levels: bool

    @property
    def count(self) -> int:
        """How many lanes there are."""
        return math.prod(self.inner)

    def border(self, border: Border) -> Border:
        """The border of the program that takes such arrays."""
        if self.levels:
            return Border((*border.rules, ("nearest", "nearest")))
        return Border(border.rules, self.count)

    def of(self, array: Array) -> Array:
        """Give an array so: a view, of arrays that lie as they must."""
        turned = array.transpose(self.order)
        shape = turned.shape[: turned.ndim - len(self.inner)]
        if self.levels:
            return turned.reshape((*shape, self.count))
        return turned.reshape((*shape[:-1], shape[-1] * self.count))

    def back(self, result: Array) -> Array:
        """Give a result of the program the axes of the arrays, in their order."""
        shape = result.shape[:-1]
        if not self.levels:
            shape = (*shape, result.shape[-1] // self.count)
        return result.reshape((*shape, *self.inner)).transpose(np.argsort(self.order))

    def lies(self, array: Array) -> bool:
        """Whether `of` gives a view of an array, whose rows have no gaps."""
        step = array.itemsize
        flat = len(self.inner) + (not self.levels)
        for axis in reversed(self.order[len(self.order) - flat :]):
            if array.shape[axis] != 1:
                if array.strides[axis] != step:
                    return False
                step *= array.shape[axis]
        return True


def lanes(fields: Sequence[Array], outs: Sequence[Array], core: int) -> Lanes | None:
    """Find how fields of one shape, and arrays to write to, lie if their stack lies innermost.

    Their core axes come last.  None if there is no stack inside, or the arrays differ in it.
    """
    first = fields[0]
    column = first.strides[-1]
    if column <= first.itemsize or first.ndim == core or not first.size or first.shape[-1] == 1:
        return None
    lead = range(first.ndim - core)
    inner = [axis for axis in lead if first.shape[axis] != 1 and 0 < first.strides[axis] < column]
    if not inner:
        return None
    inner.sort(key=lambda axis: -first.strides[axis])
    order = (
        *(axis for axis in lead if axis not in inner),
        *range(first.ndim - core, first.ndim),
        *inner,
    )
    lengths = tuple(first.shape[axis] for axis in inner)
    found = Lanes(order, lengths, core, math.prod(lengths) >= LEVELS)
    return found if all(map(found.lies, (*fields, *outs))) else None


def with_lanes(
    program: Code, fields: Sequence[Array], outs: Sequence[Array] = ()
) -> tuple[Lanes, Code] | None:
    """Find what does a program on arrays whose stack lies innermost; None if it is done before.

    The fields have one shape and core axes last; the program knows the lengths that it asks for.
    """
    found = lanes(fields, outs, program.ndim)
    if found is None:
        return None
    other = program.levelled() if found.levels else program.interleaved(found.count)
    return None if other is None else (found, other)


def made_like(program: Code, fields: Sequence[Array], shape: Shape, dtype: np.dtype) -> Array:
    """An array that lies in memory as a result of a program on such fields, core axes last."""
    found = with_lanes(program, fields)
    if found is None:
        return empty(shape, dtype)
    order = found[0].order
    made: Array = empty(tuple(shape[axis] for axis in order), dtype)
    return made.transpose(np.argsort(order))
