"""Buffers: small arrays of the kernel's own, as the numbers that they hold.

    b = np.zeros(3)                 b: 0.0, 0.0, 0.0
    b[1] = x[0]            ->       b: 0.0, t0, 0.0
    b[k] += 1                       b: t0 + 1 if k == 0 else ..., ...

A buffer has one name, by which it is read and written element by element; nothing else holds it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from . import errors, ir
from . import operations as ops
from .dtypes import Coefficients, DType, value_type
from .errors import Span
from .ir import Offset
from .values import NotUnderstood, Value, words

# What makes a new array, and the types of those whose elements numbers keep as they are.
_MAKERS = (np.zeros, np.empty, np.ones, np.full, np.array, np.arange)
_KINDS = frozenset("bool int64 float32 float64 complex64 complex128".split())

# With more elements an array in memory takes less work, and with more than the second number where
# an index chooses among all.  (Nine numbers sorted by insertion take 100 ns so, and 75 on the
# general path; at constant places a median of nine takes 1.4 instead of 71. Zen 5.)
_MOST, _CHOSEN = 64, 16


@dataclass(frozen=True, slots=True)
class Buffer:
    """The elements of an array, in order; only the frame that has made it knows it."""

    dtype: DType
    shape: Offset
    items: tuple[Value, ...]
    owner: object = field(compare=False)


# What elements of are read absolutely.
Array: TypeAlias = Buffer | Coefficients | np.ndarray


def made(array: np.ndarray, maker: Any, owner: object) -> Any:
    """The buffer that an array is the beginning of, if its elements can be numbers."""
    if not callable(maker) or maker not in _MAKERS or array.size > _MOST:
        return array
    if not array.ndim or array.dtype.name not in _KINDS:
        return array
    # What an empty one holds is nobody's business, but the same each time.
    numbers = (array * 0 if maker is np.empty else array).ravel()
    items = tuple(replace(ops.lift(one), weak=False) for one in numbers)
    return Buffer(value_type(array.dtype), array.shape, items, owner)


def written_names(definition: ast.AST) -> set[str]:
    """The names of what elements of are written to."""
    found = set()
    for node in ast.walk(definition):
        match node:
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                found.add(name)
    return found


def steps(shape: Offset, indices: Sequence[Any], name: str, span: Span, whole: str) -> list[Any]:
    """Absolute indices, checked, one for each axis; negative ones count from the end."""
    if len(indices) > len(shape):
        raise errors.index_count(span, name, len(indices), len(shape))
    for index in indices:
        if isinstance(index, Value) and index.shape:
            raise errors.index_type(span, name, words(index))
    if len(indices) < len(shape) or any(isinstance(i, slice) for i in indices):
        raise NotUnderstood(f"a part of {whole}", span)
    found: list[Any] = []
    for axis, (index, length) in enumerate(zip(indices, shape, strict=True)):
        if isinstance(index, Value) and index.dtype.is_integer:
            active = ops.lift(ops.active()).atom
            where = f"{name}, axis {axis}|{span.file}|{span.line}"
            step = ops.cast(index, DType.INT)
            found.append(ops.emit(ir.Inside(DType.INT, step, length, active, where)))
        elif isinstance(index, bool) or not isinstance(index, int):
            raise errors.index_type(span, name, words(index))
        elif not -length <= index < length:
            raise errors.index_outside(span, name, index, length)
        else:
            found.append(index % length)
    return found


def place(array: Array, indices: Sequence[Any], name: str, span: Span) -> Any:
    """Which of the elements an index means; known at run time only if that is a value."""
    whole = f"'{name}'" if isinstance(array, Coefficients) else "a buffer"
    known = steps(array.shape, indices, name, span, whole)
    if not all(isinstance(step, int) for step in known) and math.prod(array.shape) > _CHOSEN:
        raise NotUnderstood(f"'{name}' at an index that varies", span)
    found: Any = 0
    for axis, step in enumerate(known):
        rest = math.prod(array.shape[axis + 1 :])
        found = ops.binary("+", found, ops.binary("*", step, rest) if rest > 1 else step)
    return found


def element(array: Array, where: Any) -> Value:
    """One of the elements."""
    if isinstance(where, int):
        return _item(array, where)
    found, *more = (_item(array, number) for number in range(math.prod(array.shape)))
    for number, item in enumerate(more, 1):
        found = ops.select(ops.binary("==", where, number), item, found)
    return found


def _item(array: Array, number: int) -> Value:
    match array:
        case Buffer():
            return array.items[number]
        case Coefficients():
            at = np.unravel_index(number, array.shape)
            dtype = value_type(array.storage)
            return ops.emit(ir.Element(dtype, array.label, tuple(map(int, at))))
        case _:
            return replace(ops.lift(array.flat[number]), weak=False)


def stored(buffer: Buffer, where: Any, value: Any, span: Span) -> Buffer:
    """The buffer after one of its elements was written to."""
    lifted = ops.lift(value)
    if lifted.shape or lifted.dtype.is_complex > buffer.dtype.is_complex:
        raise NotUnderstood("a buffer that is written to", span)
    new = Value(ops.cast(lifted, buffer.dtype))
    items = (
        (new if where == number else item)
        if isinstance(where, int)
        else ops.select(ops.binary("==", where, number), new, item)
        for number, item in enumerate(buffer.items)
    )
    return replace(buffer, items=tuple(items))
