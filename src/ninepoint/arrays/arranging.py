"""Arrangements: arrays as a kernel needs them, and its results as they were asked for.

    fields of fewer axes, axes in another order, strides or bytes that cannot be read
        -> one shape, core axes last, rows whose elements lie side by side

    (rows, columns, 3), along (0, 1)      rows of 3 * columns elements, the next column 3 on
    (rows, columns), in Fortran's order   columns for rows, and a kernel that is transposed

Axes that lie in another order than the kernel has them are so done without moving them.  A row of
few *lanes*, which lie innermost, is too short for a loop of its own, so each such number of lanes
is compiled for.

To a program that looks at no neighbour all axes are alike: they become as few as can be.

    shape (4, 5, 6), strides (240, 48, 8)     ->     shape (120,), strides (8,)
    shape (4, 5, 6), strides (8, 32, 160)     ->     the same, its axes taken in another order
    shape (4, 5, 6) beside (5, 6)             ->     shapes (4, 30) and (4, 30), strides (0, 8)

Axes are put in the order of memory, and those that lie in memory as one would are made one, in
all arrays alike.  What is to be done with each array is settled once; a call then does just that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..base import limits
from ..base.frozen import frozen
from .layout import Array, Axes, PlainArrays, Shape

# What has more lanes is copied: a kernel is compiled for their number.
MANY = 256


@frozen
class Turned:
    """How arrays are given to a program: their axes in another order, some of which become one.

    Attributes
    ----------
    order : tuple of int
        The axes: those of the stack that lie outside, the core axes, those that lie inside.
    merged : tuple of tuple of int
        For each axis of the program the lengths of those that it is made of, but for the first;
        nothing if all stay apart.
    """

    order: Axes
    merged: tuple[Shape, ...] = ()

    def of(self, array: Array) -> Array:
        """Give an array so: a view, of arrays that lie as they must."""
        turned = array.transpose(self.order)
        if not self.merged:
            return turned
        lengths = iter(turned.shape)
        return turned.reshape(
            [math.prod(islice(lengths, 1 + len(inner))) for inner in self.merged]
        )

    def back(self, result: Array) -> Array:
        """Give a result of the program the axes of the arrays, in their order."""
        if self.merged:
            pairs = zip(result.shape, self.merged, strict=True)
            shape = [(n // math.prod(inner), *inner) for n, inner in pairs]
            result = result.reshape(list(chain(*shape)))
        return result.transpose([self.order.index(axis) for axis in range(len(self.order))])


def with_lanes(
    program: Any, fields: PlainArrays, outs: PlainArrays = ()
) -> tuple[Turned, int | Axes] | None:
    """Find how a program does arrays whose stack lies innermost, or axes in another order.

    None if it does them as they are; else how they are given to it, and what it is turned by (see
    `Compiled.turned`).  The fields have one shape and core axes last.
    """
    # Results are moved, rather than that fields are read across their rows.
    if all(abs(field.strides[-1]) <= field.itemsize for field in fields):
        return None
    first, arrays, split = fields[0], (*fields, *outs), fields[0].ndim - program.ndim
    shape, last = first.shape, first.ndim - 1
    order = memory_order(shape, [first.strides])
    inside = order[order.index(last) + 1 :] if first.size and shape[last] > 1 else ()
    inner = [axis for axis in inside if axis < split and first.strides[axis] > 0]
    if inner:
        lengths = tuple(shape[axis] for axis in inner)
        outer = (axis for axis in range(split) if axis not in inner)
        merged = (*((),) * (last - len(inner)), lengths)
        how, count = Turned((*outer, *range(split, last + 1), *inner), merged), math.prod(lengths)
        rows = (one.transpose(how.order)[(slice(1),) * (len(merged) - 1)] for one in arrays)
        if all(row.flags.c_contiguous for row in rows):
            # Rows of lanes have no gaps, nor steps.
            return None if program.every or count > MANY else (how, count)
    # How far apart elements are is counted of all arrays; if nothing is nearer, rows stay.
    turn = memory_order(shape[split:], [array.strides[split:] for array in arrays])
    near = sum(abs(array.strides[split + turn[-1]]) for array in arrays)
    if math.prod(shape) < limits.current.transposed_points or not near or split + turn[-1] == last:
        return None
    return Turned((*range(split), *(split + axis for axis in turn))), turn


def core_last(ndim: int, core: Sequence[int]) -> Axes:
    """An order of axes in which some come last."""
    axes = [axis % ndim for axis in core]
    return (*(axis for axis in range(ndim) if axis not in axes), *axes)


def merging(arrays: PlainArrays) -> Turned:
    """Find how arrays of one shape, of one axis at least, become arrays of as few as can be."""
    shape, strides = arrays[0].shape, [array.strides for array in arrays]
    if len(shape) == 1 or not math.prod(shape):
        return Turned(tuple(range(len(shape))))
    order = memory_order(shape, strides)
    lengths = [shape[axis] for axis in order]
    merged = together(lengths, [[steps[axis] for axis in order] for steps in strides])
    return Turned(order, merged if any(merged) else ())


def arranged(call: Any, fields: PlainArrays, order: Axes, outs: PlainArrays) -> tuple[Any, Turned]:
    """What does a call on arrays like some, of one shape, and how these are given to it.

    Their axes are to be in this `order`, in which the core axes come last.
    """
    compiled = call.compiled
    if compiled.at_points and not compiled.positions:
        return call, merging([*fields, *outs])
    lain = ([one.transpose(order) for one in arrays] for arrays in (fields, outs))
    found = with_lanes(compiled, *lain)
    made = found and call.turned(found[1])
    if not found or made is None:
        return call, Turned(order)
    return made, replace(found[0], order=tuple(order[axis] for axis in found[0].order))


def told(program: Any, fields: PlainArrays) -> Iterator[tuple[str, str]]:
    """How a program does a stack that lies innermost, axes in another order, rows with gaps.

    The fields are those that it is given, of one shape, core axes last.  What is as usual is not
    told.
    """
    found = None if program.positions else with_lanes(program, fields)
    if found is not None and program.turned(found[1]):
        how, form = found
        fields = list(map(how.of, fields))
        if how.merged:
            lies = "of a row all at once, a column is as many on"
            yield "stack", f"{form} lanes, innermost: {lies}"
        else:
            done = "the kernel is transposed, and results lie so as well"
            yield "axes", f"in memory in the order {form}: {done}"
    pairs = zip(fields, program.field_dtypes, strict=False)
    copied = [
        f"field {k}"
        for k, (array, dtype) in enumerate(pairs, 1)
        if not plain(array, dtype, program.ndim)
    ]
    if copied:
        yield "strides", f"copied: {', '.join(copied)}, whose rows are none that it can read"


# Where elements lie: what is known by lengths and strides.

# Where arrays stand of which it only matters how they lie.
SOMEWHERE = 1 << 40


def standing(
    address: int, shape: Shape, dtype: np.dtype, strides: Shape | None = None
) -> np.ndarray:
    """An array that stands at an address, which is not 0; in C order, if no strides are given."""
    lies = {
        "version": 3, "data": (address, False), "shape": shape, "strides": strides,
        "typestr": f"|V{dtype.itemsize}",
    }  # fmt: skip
    found: np.ndarray = np.asarray(SimpleNamespace(__array_interface__=lies))
    return found.view(dtype)


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
    ndim, given = compiled.ndim, len(fields) - len(compiled.positions)
    found = [
        not plain(field, dtype, ndim)
        for field, dtype in zip(fields, compiled.field_dtypes, strict=True)
    ]
    # Of a position one element of each row is read, wherever the others lie.
    for k, position in enumerate(compiled.positions, given):
        found[k] = found[k] and position.axis == ndim - 1
    return found


def memory_order(lengths: Shape, steps: Sequence[Sequence[int]]) -> Axes:
    """Find an order of the axes in which the longest steps come first, and the last are short.

    The steps are those of some arrays of these lengths.
    """
    far = [sum(map(abs, own)) for own in zip(*steps, strict=True)]
    return tuple(sorted(range(len(lengths)), key=lambda axis: (lengths[axis] != 1, -far[axis])))


def together(lengths: Sequence[int], steps: Sequence[Sequence[int]]) -> tuple[Shape, ...]:
    """Of each group of axes that lie in memory as one, in all arrays, the lengths but the first.

    Axes of length 1 are in groups of others.
    """
    groups: list[list[int]] = []
    before: list[int] | None = None
    for axis, n in enumerate(lengths):
        own = [one[axis] for one in steps]
        if groups and (n == 1 or before in (None, [step * n for step in own])):
            groups[-1].append(n)
        else:
            groups.append([])
        before = own if n != 1 else before
    return tuple(map(tuple, groups))
