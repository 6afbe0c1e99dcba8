"""Lanes: stacks that lie innermost in memory, done without moving them to the front.

    (rows, columns, 3), along (0, 1)      rows of 3 * columns elements, the next column 3 on
    (rows, columns, 137), along (0, 1)    a third axis, along which nothing looks

A row of few lanes is too short for a loop of its own, so each such number of lanes is compiled
for; rows of many lanes are long enough by themselves, and one form of the kernel does all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ninepoint.arrays.borders import Array, Border
from ninepoint.arrays.layout import Shape
from ninepoint.backends.backend import Code
from ninepoint.backends.memory import empty

Program = TypeVar("Program", bound=Code)

# From so many lanes on each column is a row of its own.  What has no form for that is compiled for
# their number up to the second.
LEVELS, MANY = 32, 256


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

    def empty(self, shape: Shape, dtype: np.dtype) -> Array:
        """Make an array of the axes of the arrays, which lies as it must."""
        made: Array = empty(tuple(shape[axis] for axis in self.order), dtype)
        return made.transpose(np.argsort(self.order))

    def of_stack(self) -> Lanes:
        """The same for arrays with one axis for all of the stack that lies outside, the first."""
        core = tuple(range(2, 2 + self.core))
        return Lanes((0, *core, 1), (self.count,), self.core, self.levels)

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
    # Nearly always rows are in order, and nothing has to be found out.
    inner = _inside(first, core) if abs(first.strides[-1]) > first.itemsize else []
    if not inner:
        return None
    order = (
        *(axis for axis in range(first.ndim - core) if axis not in inner),
        *range(first.ndim - core, first.ndim),
        *inner,
    )
    lengths = tuple(first.shape[axis] for axis in inner)
    found = Lanes(order, lengths, core, False)
    return found if all(map(found.lies, (*fields, *outs))) else None


def has_lanes(fields: Sequence[Array], along: Sequence[int]) -> bool:
    """Whether the stack of fields of one shape lies innermost, beside these axes."""
    if any(field.shape != fields[0].shape for field in fields) or fields[0].ndim < -min(along):
        return False
    ends = tuple(range(-len(along), 0))
    moved = [np.moveaxis(field, along, ends) for field in fields]
    return lanes(moved, (), len(along)) is not None


def width_of(fields: Sequence[Array], core: int) -> int:
    """How many elements a column has, of fields whose core axes come last."""
    if any(field.shape != fields[0].shape for field in fields) or fields[0].ndim < core:
        return 1
    found = lanes(fields, (), core)
    return 1 if found is None else found.count


def _inside(array: Array, core: int) -> list[int]:
    """The axes of the stack that lie inside the last core axis, in the order of memory."""
    column = abs(array.strides[-1])
    if not array.size or array.shape[-1] == 1:
        return []
    lead = range(array.ndim - core)
    inner = [axis for axis in lead if array.shape[axis] != 1 and 0 < array.strides[axis] < column]
    return sorted(inner, key=lambda axis: -array.strides[axis])


def with_lanes(
    program: Program, fields: Sequence[Array], outs: Sequence[Array] = ()
) -> tuple[Lanes, Program] | None:
    """Find what does a program on arrays whose stack lies innermost; None if it is done before.

    The fields have one shape and core axes last; the program knows the lengths that it asks for.
    """
    found = lanes(fields, outs, program.ndim)
    if found is None or program.every:
        return None
    if found.count >= LEVELS:
        other = program.levelled()
        if other is not None:
            return replace(found, levels=True), other
    other = program.interleaved(found.count) if found.count <= MANY else None
    return None if other is None else (found, other)


def told(program: Code, fields: Sequence[Array]) -> str:
    """How a program does a stack that lies innermost, in words; empty where none does.

    The fields have one shape and core axes last.
    """
    if not any(_inside(field, program.ndim) for field in fields):
        return ""
    positions = len(fields) < len(program.field_dtypes)
    found = None if positions else with_lanes(program, fields)
    if found is not None and found[0].levels:
        return f"{found[0].count} lanes, innermost: an axis of its own, along which nothing looks"
    if found is not None:
        return f"{found[0].count} lanes, innermost: of a row all at once, a column is as many on"
    lying = lanes(fields, (), program.ndim)
    if positions:
        reason = "positions are the same in all lanes"
    elif lying is None:
        reason = "rows have gaps, or not all fields have the stack inside"
    elif lying.count > MANY:
        reason = f"a kernel that runs down rows is compiled for {MANY} lanes at the most"
    else:
        reason = "the kernel takes the general path"
    return f"innermost, but copied in blocks, image by image: {reason}"


def made_like(program: Code, fields: Sequence[Array], shape: Shape, dtype: np.dtype) -> Array:
    """An array that lies in memory as a result of a program on such fields, core axes last."""
    found = with_lanes(program, fields)
    if found is None:
        return empty(shape, dtype)
    return found[0].empty(shape, dtype)
