"""Subscripts: reads of fields at offsets, values at other points, elements of what is known.

x[-1, 0]        ->     Read(x, (-1, 0))
x[-1:2, 0]      ->     Read(x, (-1, 0), along axis 0), a window of 3

A local that holds an expression of fields is read relative to the point, as a field is.

    d = x[1] - x[-1]            t2 = t0 - t1
    d[2]                 ->     t3 = read x +3;  t4 = read x +1;  t5 = t3 - t4

    b = np.zeros(3)                 b: 0.0, 0.0, 0.0
    b[1] = x[0]            ->       b: 0.0, t0, 0.0
    b[k] += 1                       b: t0 + 1 if k == 0 else ..., ...

A buffer has one name, by which it is read and written element by element; nothing else holds it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from .dtypes import value_type
from .errors import here, mistake
from .ir import (
    Atom,
    Coefficients,
    Const,
    DType,
    Element,
    Expr,
    Field,
    Gather,
    Inside,
    Loop,
    Noting,
    Offset,
    Position,
    Read,
    Reduce,
    Ref,
    added,
    named,
    operands,
    replayed,
    shifted,
)
from .operations import active, as_window, cast, in_common, lift, select, strong
from .values import (
    Buffer,
    Index,
    NotUnderstood,
    Value,
    constant,
    emit,
    picked,
    reading,
    settled,
    several,
    varies_index,
    words,
)

# What makes a new array, and the types of those whose elements numbers keep as they are.
_MAKERS = (np.zeros, np.empty, np.ones, np.full, np.array, np.arange)
_KINDS = frozenset("bool int64 float32 float64 complex64 complex128".split())

# With more elements an array in memory takes less work, and with more than the second number where
# an index chooses among all.  (Nine numbers sorted by insertion take 100 ns so, and 75 on the
# general path; at constant places a median of nine takes 1.4 instead of 71. Zen 5.)
_MOST, _CHOSEN = 64, 16

# What elements of are read absolutely.
Array: TypeAlias = Buffer | Coefficients | np.ndarray


def subscript(base: Any, index: Any, node: ast.Subscript) -> Any:
    """What `base[index]` is."""
    indices = several(index)
    if isinstance(base, Field):
        return _read_field(base, indices, node)
    text = ast.unparse(node.value)
    match base:
        case np.ndarray() | tuple() | range() if not any(map(varies_index, indices)):
            try:
                return settled(base[index])
            except (IndexError, TypeError) as error:
                raise mistake("window-index", text, str(error)) from error
        case Buffer() | Coefficients() | np.ndarray():
            return _element(base, which(base, index, text))
        case tuple() | range():
            raise NotUnderstood("a tuple at an index that varies")
        case Value(shape=shape) if shape:
            return picked(base, index, text)
        case Value() if isinstance(node.value, ast.Name) and any(
            any(_extents(expr)) for expr in _behind(base.atom)
        ):
            # It differs from point to point.
            return _read_value(base, text, indices, node)
        case _:
            raise mistake("bad-operand", "Indexing", words(base))


# Fields, and expressions of them.


def _read_field(field: Field, indices: tuple[Any, ...], node: ast.Subscript) -> Value:
    """An element of a field, or a window of it."""
    first, last, along, shape = ends_of(field.name, indices, node, computed=True)
    reading.stages.read.add(field.name)
    if not any(isinstance(one, Value) for one in first):
        reading.check(field.name, first, last)
        return emit(Read(field.dtype, field.label, first, along), False, shape)
    if along:
        raise NotUnderstood("a window at an offset that varies")
    # Of each axis what is known of the offset, between which ends what is computed is, and that.
    within = reading.neighborhood or ()
    parts = [
        (0, *within[axis], _inside(one, *within[axis], str(axis)).atom)
        if isinstance(one, Value)
        else (one, 0, 0, Const(DType.INT, "0"))
        for axis, one in enumerate(first)
    ]
    offset, low, high, steps = zip(*parts, strict=True)
    reading.check(field.name, added(offset, low), added(offset, high))
    return emit(Gather(field.dtype, field.label, offset, steps, low, high))


def _inside(index: Value, low: int, high: int, name: str) -> Value:
    """An index that is computed, which must be within these."""
    step, place = cast(index, DType.INT).atom, f"{name}|{here.span.file}|{here.span.line}"
    return emit(Inside(DType.INT, step, low, high, lift(active()).atom, place))


def _read_value(value: Value, name: str, indices: Sequence[Any], node: ast.Subscript) -> Value:
    """An expression of fields at another point, or over a window of points."""
    first, last, along, shape = ends_of(name, indices, node)
    if reading.pointwise:
        raise mistake("ufunc-index", name)
    made = elsewhere(value, first, along, shape)
    for expr in _behind(value.atom):
        if not _position(expr):
            for low, high in _extents(expr):
                reading.check(name, added(low, first), added(high, last))
    return made


def ends_of(
    name: str, indices: Sequence[Any], node: ast.Subscript, computed: bool = False
) -> tuple[tuple[Any, ...], Offset, Offset, Offset]:
    """The first and the last offset along each axis, which are values if they are `computed`.

    Beside these the axes along which a window is asked for, and its shape.
    """
    found: list[Any] = []
    along: Offset = ()
    # Where each of the indices stands.
    parts = getattr(node.slice, "elts", ())
    if len(parts) != len(indices):
        parts = [node.slice] * len(indices)
    for axis, (index, part) in enumerate(zip(indices, parts, strict=True)):
        here.at(part)
        window = isinstance(index, slice)
        if window:
            along += (axis,)
            if index.step is not None and index.step != 1:
                raise mistake("window-step")
            if index.start is None or index.stop is None:
                raise mistake("window-open")
        ends = (index.start, index.stop) if window else (index,)
        start, *stop = (_offset(one, part) for one in ends)
        if any(isinstance(one, Value) for one in (start, *stop)) and (window or not computed):
            raise NotUnderstood("an offset that varies")
        last = stop[0] - 1 if window else start
        if window and start > last:
            raise mistake("window-empty", start, *stop)
        found.append((start, last))
    here.at(node)
    reading.check_count(name, found)
    first, last = zip(*found, strict=True)
    return first, last, along, tuple(last[axis] - first[axis] + 1 for axis in along)


def _offset(index: Any, part: ast.expr) -> int | Value:
    """An offset; a value where it is computed, as a declared neighborhood allows."""
    index = constant(index)
    if not isinstance(index, Value):
        if isinstance(index, bool) or not isinstance(index, int):
            raise mistake("offset-type", words(index))
        return index
    if isinstance(index, Index) and index.line.scale == 1:
        return index.line.shift
    if index.shape or not index.dtype.is_integer:
        raise mistake("offset-type", words(index) + " that is not whole")
    text, positioned = ast.unparse(part), any(map(_position, _behind(index.atom)))
    if positioned and reading.factors:
        raise mistake("index-factor", text, reading.factors, reading.factors[0])
    if reading.neighborhood is not None:
        return index
    raise mistake("offset-position" if positioned else "offset-not-constant", text)


# What a value comes from.


def _position(expr: Expr) -> Position | None:
    """Which position an operation reads."""
    return reading.positions.get(expr.field) if isinstance(expr, Read) else None


def _extents(expr: Expr) -> Iterator[tuple[Offset, Offset]]:
    """The first and the last offset of each read of an operation."""
    match expr:
        case Read():
            yield expr.offset, expr.offset
        case Gather():
            yield added(expr.offset, expr.low), added(expr.offset, expr.high)
        case Reduce(shape=shape):
            for inner in expr.body:
                if isinstance(inner.value, Read):
                    ends = [(0,) * len(shape), tuple(n - 1 for n in shape)]
                    at = map(inner.value.place, np.ndindex(shape) if inner.value.picked else ends)
                    axes = list(zip(*at, strict=True))
                    yield tuple(map(min, axes)), tuple(map(max, axes))
        case Loop():
            for inner in expr.body:
                yield from _extents(inner.value)


def _behind(atom: Atom) -> list[Expr]:
    """The operations that a value comes from."""
    return [one.value for one in reading.body.assignments((atom,))]


# At other points.


def elsewhere(value: Value, first: Offset, along: Offset, shape: Offset) -> Value:
    """The value at the point that lies `first` from here, or over a window from there on."""

    def write(name: str, new: Expr) -> Atom:
        expr = known[name]
        if new == expr and not any(_extents(expr)):
            # It is the same at all points.
            return Ref(expr.dtype, name)
        if not reading.body.begins.isdisjoint(operands(expr)):
            raise NotUnderstood("what a loop changes, at another point")
        if along and isinstance(expr, Reduce | Noting):
            raise NotUnderstood("a window of what holds a window or a loop")
        position = _position(expr)
        if position is None:
            there = shifted(new, first)
            if isinstance(there, Read):
                there = replace(there, axes=along)
            return emit(there, False, shape).atom
        point, axis = emit(expr), position.axis
        steps: Any = first[axis]
        if along:
            # How many steps along the axis each element of the window is from the point.
            own = np.indices(shape)[along.index(axis)] if axis in along else np.zeros(shape, int)
            steps = as_window(own + steps, shape)
        elif not steps:
            return point.atom
        return in_common("+", expr.dtype, point, lift(steps)).atom

    body = reading.body.assignments((value.atom,))
    known = named(body)
    (atom,) = replayed(body, (value.atom,), write)
    # Of a position it is one no more: what lies where it is told by the point alone.
    return Value(atom, value.weak, shape)


# Arrays that are read absolutely, and buffers.


def made(array: np.ndarray, maker: Any, owner: object) -> Any:
    """The buffer that an array is the beginning of, if its elements can be numbers."""
    known = maker in _MAKERS and array.dtype.name in _KINDS
    if not known or not array.ndim or array.size > _MOST:
        return array
    # What an empty one holds is nobody's business, but the same each time.
    numbers = (np.zeros_like(array) if maker is np.empty else array).ravel()
    items = tuple(Value(lift(one).atom) for one in numbers)
    return Buffer(value_type(array.dtype), array.shape, items, owner)


def which(array: Array, index: Any, name: str) -> Any:
    """Which of the elements an index means; known at run time only if that is a value.

    Negative indices, one for each axis, count from the end.
    """
    shape, indices = array.shape, several(index)
    if len(indices) > len(shape):
        raise mistake(
            "window-index", name, f"{len(indices)} indices, and so many axes: {len(shape)}"
        )
    for one in indices:
        if isinstance(one, Value) and one.shape:
            raise mistake("window-index", name, f"this is {words(one)}")
    if len(indices) < len(shape) or any(isinstance(i, slice) for i in indices):
        raise NotUnderstood(f"a part of '{name}'")
    found: Any = None
    for axis, (one, length) in enumerate(zip(indices, shape, strict=True)):
        if isinstance(one, Value) and one.dtype.is_integer:
            if math.prod(shape) > _CHOSEN:
                raise NotUnderstood(f"'{name}' at an index that varies")
            step = _inside(one, -length, length - 1, f"{name}, axis {axis}")
            step = select(step < 0, step + length, step)
        elif isinstance(one, bool) or not isinstance(one, int):
            raise mistake("window-index", name, f"this is {words(one)}")
        elif not -length <= one < length:
            raise mistake("window-index", name, f"index {one} in an axis of length {length}")
        else:
            step = one % length
        found = found * length + step if axis else step
    return found


def _element(array: Array, where: Any) -> Value:
    """One of the elements."""

    def item(number: int) -> Value:
        match array:
            case Buffer():
                return array.items[number]
            case Coefficients():
                at = tuple(map(int, np.unravel_index(number, array.shape)))
                return emit(Element(array.dtype, array.label, at))
            case _:
                return Value(lift(array.flat[number]).atom)

    if isinstance(where, int):
        return item(where)
    found = item(0)
    for number in range(1, math.prod(array.shape)):
        found = select(where == number, item(number), found)
    return found


def stored(buffer: Buffer, where: Any, value: Any) -> Buffer:
    """The buffer after one of its elements was written to."""
    lifted = lift(value)
    if lifted.shape or lifted.dtype.is_complex > buffer.dtype.is_complex:
        raise NotUnderstood("a buffer that is written to")
    new = strong(cast(lifted, buffer.dtype))
    items = (select(where == number, new, item) for number, item in enumerate(buffer.items))
    return replace(buffer, items=tuple(items))
