"""Subscripts: reads of fields at offsets, values at other points, elements of what is known.

x[-1, 0]        ->     Read(x, (-1, 0))
x[-1:2, 0]      ->     Tap(x, from (-1, 0), along axis 0), a window of 3

d = x[1] - x[-1]            t2 = t0 - t1
d[2]                 ->     t3 = read x +3;  t4 = read x +1;  t5 = t3 - t4

w = x[-1:2, -1:2];  cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)
w[cross]      ->     a window of 5: Tap(x, from (-1, -1), picked (0, 1), (1, 0), (1, 1), ...)
w[0, 2]       ->     Read(x, (-1, 1))

A local that holds an expression of fields is read relative to the point, as a field is.  What is
picked of a window, at constant places, is a window of one axis, or a single element; the order is
NumPy's.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import Any, TypeAlias

import numpy as np

from . import buffers, errors, ir
from . import operations as ops
from .dtypes import Coefficients, DType, Field, value_type
from .errors import Span
from .frame import Frame, settled
from .ir import Atom, Const, Offset, Ref
from .values import Index, NotUnderstood, Value, constant, reading, words


class Subscripts(Frame):
    """A frame that understands `x[...]`."""

    def subscript(self, node: ast.Subscript) -> Any:
        base = self.buffer(node.value) or self.eval(node.value)
        index = self.eval(node.slice)
        span, text = self.at(node), ast.unparse(node.value)
        indices = index if isinstance(index, tuple) else (index,)
        unknown = any(map(_varies, indices))
        floats = [one for one in indices if isinstance(one, float | str | np.floating)]
        match base:
            case Field():
                return self.read_field(base, indices, node)
            case np.ndarray() if not unknown:
                if len(indices) > base.ndim:
                    raise errors.index_count(span, text, len(indices), base.ndim)
                if floats:
                    raise errors.index_type(span, text, words(floats[0]))
                if all(isinstance(one, int) for one in indices):
                    shape = base.shape[: len(indices)]
                    index = tuple(buffers.steps(shape, indices, text, span, text))
                try:
                    return settled(base[index])
                except IndexError as error:
                    raise errors.window_index(span, text, str(error)) from error
            case buffers.Buffer() | Coefficients() | np.ndarray():
                name = base.name if isinstance(base, Coefficients) else text
                where = buffers.place(base, indices, name, span)
                return buffers.element(base, where)
            case tuple() | range():
                if isinstance(index, int) and not -len(base) <= index < len(base):
                    raise errors.index_outside(span, text, index, len(base))
                if floats or isinstance(index, tuple):
                    raise errors.index_type(span, text, words(index))
                if not isinstance(index, int | slice) or unknown:
                    raise NotUnderstood("a tuple at an index that varies", span)
                return base[index]
            case Value(shape=shape) if shape:
                return picked(base, index, span, text)
            case Value() if isinstance(node.value, ast.Name) and varies(base.atom):
                return self.read_value(base, indices, node)
            case _:
                raise errors.bad_operand(span, "Indexing", words(base))

    def place(self, buffer: buffers.Buffer, node: ast.Subscript) -> Any:
        """Which element of a buffer is meant."""
        index, text = self.eval(node.slice), ast.unparse(node.value)
        indices = index if isinstance(index, tuple) else (index,)
        return buffers.place(buffer, indices, text, self.at(node))

    def read_field(self, field: Field, indices: tuple[Any, ...], node: ast.Subscript) -> Value:
        """An element of a field, or a window of it."""
        ends, along = self.ends(indices, node), _along(indices)
        span, dtype = self.at(node), value_type(field.storage)
        if any(isinstance(one, Value) for one in ends):
            if along:
                raise NotUnderstood("a window at an offset that varies", span)
            return self.gather(field, ends, span)
        first, last, shape = _box(ends, along)
        self.axes.check(field.name, first, last, span)
        if not along:
            return ops.emit(ir.Read(dtype, field.label, first))
        return ops.emit(ir.Tap(dtype, field.label, first, along), False, shape)

    def gather(self, field: Field, ends: list[Any], span: Span) -> Value:
        """An element at an offset that is computed, which must be in the neighborhood."""
        # Of each axis what is known of the offset, what is computed, and between which ends.
        parts: list[tuple[int, Atom, int, int]] = []
        within = dict(enumerate(self.axes.neighborhood or ()))
        for axis, one in enumerate(ends):
            if isinstance(one, Value):
                parts.append((0, ops.cast(one, DType.INT), *within.get(axis, (0, 0))))
            else:
                parts.append((one[0], Const(DType.INT, "0"), 0, 0))
        origins, steps, low, high = zip(*parts, strict=True)
        self.axes.check(field.name, ir.added(origins, low), ir.added(origins, high), span)
        active = ops.lift(ops.active()).atom
        dtype, place = value_type(field.storage), f"{span.file}|{span.line}"
        return ops.emit(ir.Gather(dtype, field.label, origins, steps, low, high, active, place))

    def read_value(self, value: Value, indices: tuple[Any, ...], node: ast.Subscript) -> Value:
        """An expression of fields at another point, or over a window of points."""
        ends, along = self.ends(indices, node), _along(indices)
        for one, place in zip(ends, _places(node, len(ends)), strict=True):
            if isinstance(one, Value):
                raise NotUnderstood("an offset that varies", self.at(place))
        first, last, shape = _box(ends, along)
        span = self.at(node)
        name = ast.unparse(node.value)
        if self.axes.pointwise:
            raise errors.ufunc_index(span, name)
        self.axes.check_count(name, first, span)
        made = elsewhere(value, first, along, shape)
        for low, high in reads(value.atom):
            self.axes.check(name, ir.added(low, first), ir.added(high, last), span)
        return made

    def ends(self, indices: tuple[Any, ...], node: ast.Subscript) -> list[Any]:
        """The first and the last offset along each axis, or one that is computed."""
        self.at(node)
        found: list[Any] = []
        for index, place in zip(indices, _places(node, len(indices)), strict=True):
            span = self.at(place)
            if not isinstance(index, slice):
                where = self.offset(index, span, place)
                found.append(where if isinstance(where, Value) else (where, where))
                continue
            if index.step is not None and index.step != 1:
                raise errors.window_step(span)
            if index.start is None or index.stop is None:
                raise errors.window_open(span)
            start, stop = (self.offset(one, span, place) for one in (index.start, index.stop))
            if isinstance(start, Value) or isinstance(stop, Value):
                raise NotUnderstood("an offset that varies", span)
            if start >= stop:
                raise errors.window_empty(span, start, stop)
            found.append((start, stop - 1))
        return found

    def offset(self, index: Any, span: Span, place: ast.expr) -> int | Value:
        """An offset; a value where it is computed, as a declared neighborhood allows."""
        index, text = constant(index), ast.unparse(place)
        if isinstance(index, Index):
            if index.line.scale != 1:
                raise errors.index_factor(span, text, index.line.scale, self.axes.factors)
            return index.line.shift
        if isinstance(index, Value):
            if index.shape or not index.dtype.is_integer:
                raise errors.offset_type(span, words(index) + " that is not whole")
            positioned = on_position(index.atom)
            if positioned and self.axes.factors:
                raise errors.index_factor(span, text, 0, self.axes.factors)
            if self.axes.neighborhood is None and positioned:
                raise errors.offset_position(span, text)
            if self.axes.neighborhood is None:
                raise errors.offset_not_constant(span, f"'{text}'")
            return index
        if isinstance(index, bool) or not isinstance(index, int):
            raise errors.offset_type(span, words(index))
        return index


def _places(node: ast.Subscript, count: int) -> list[ast.expr]:
    """Where each of so many indices stands."""
    nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return nodes if len(nodes) == count else [node.slice] * count


def _along(indices: tuple[Any, ...]) -> Offset:
    """The axes of a window."""
    return tuple(axis for axis, index in enumerate(indices) if isinstance(index, slice))


def _box(ends: list[Any], along: Offset) -> tuple[Offset, Offset, Offset]:
    """The first and the last offset of each axis, and the shape of a window."""
    first, last = zip(*ends, strict=True)
    return first, last, tuple(last[axis] - first[axis] + 1 for axis in along)


def _varies(index: Any) -> bool:
    parts = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
    return any(isinstance(part, Value) for part in parts)


# What writes an operation again, given what puts new operands into it.
Write: TypeAlias = Callable[[ir.Expr, Callable[[ir.Expr], ir.Expr]], Atom]


def _again(
    atom: Atom, expressions: Mapping[str, ir.Expr], stays: Callable[[Ref], bool], write: Write
) -> Atom:
    """A value whose operations are written again, each once; those that stay are as they were."""
    new: dict[str, Atom] = {}
    for one in ir.needed(starmap(ir.Assign, expressions.items()), (atom,)):
        if not stays(Ref(one.value.dtype, one.name)):
            new[one.name] = write(one.value, partial(ir.renamed, alias=new))
    return ir.renamed_atom(atom, new)


# What a value comes from.


def varies(atom: Atom) -> bool:
    """Whether a value differs from point to point."""
    return any(True for _ in reads(atom)) or on_position(atom)


def on_position(atom: Atom) -> bool:
    """Whether a value depends on where the point is."""
    return any(_position(expr) for expr in _behind(atom))


def _position(expr: ir.Expr) -> ir.Position | None:
    """Which position an operation reads."""
    return reading.positions.get(expr.field) if isinstance(expr, ir.Read) else None


def reads(atom: Atom) -> Iterator[tuple[Offset, Offset]]:
    """The first and the last offset of each read that a value comes from."""
    for expr in _behind(atom):
        if not _position(expr):
            yield from _extents(expr)


def _extents(expr: ir.Expr) -> Iterator[tuple[Offset, Offset]]:
    match expr:
        case ir.Read():
            yield expr.offset, expr.offset
        case ir.Gather():
            yield ir.added(expr.origin, expr.low), ir.added(expr.origin, expr.high)
        case ir.Reduce():
            for inner in expr.body:
                if isinstance(inner.value, ir.Tap):
                    yield inner.value.ends(expr.shape)
        case ir.Loop():
            for inner in expr.body:
                yield from _extents(inner.value)
        case _:
            pass


def _behind(atom: Atom) -> Iterator[ir.Expr]:
    """The operations that a value comes from."""
    expressions = reading.body.reachable()
    pending, seen = [atom], set[str]()
    while pending:
        one = pending.pop()
        if not isinstance(one, Ref) or one.name in seen or one.name not in expressions:
            continue
        seen.add(one.name)
        expr = expressions[one.name]
        yield expr
        pending += ir.atoms(expr)


# At other points.


def elsewhere(value: Value, first: Offset, along: Offset, shape: Offset) -> Value:
    """The value at the point that lies `first` from here, or over a window from there on."""

    def write(expr: ir.Expr, operands: Callable[[ir.Expr], ir.Expr]) -> Atom:
        if any(isinstance(a, Ref) and a.name in reading.body.begins for a in ir.atoms(expr)):
            raise NotUnderstood("what a loop changes, at another point", reading.span)
        if along and isinstance(expr, ir.Reduce | ir.Noting):
            held = "window" if isinstance(expr, ir.Reduce) else "loop"
            raise NotUnderstood(f"a window of what holds a {held}", reading.span)
        position = _position(expr)
        if position is None:
            if along and isinstance(expr, ir.Read):
                origin = ir.added(expr.offset, first)
                return ops.emit(ir.Tap(expr.dtype, expr.field, origin, along), False, shape).atom
            return ops.emit(operands(ir.shifted(expr, first)), False, shape).atom
        here, axis = ops.emit(expr).atom, position.axis
        # How many steps along the axis each element of the window is from the point.
        moves = dict(zip(along, zip(*np.ndindex(shape), strict=True), strict=True))
        steps = tuple(str(first[axis] + step) for step in moves.get(axis, [0] * math.prod(shape)))
        if not along and steps == ("0",):
            return here
        there: Atom = Const(expr.dtype, steps[0])
        if along:
            there = ops.emit(ir.Weight(expr.dtype, steps), False, shape).atom
        return ops.emit(ir.Binary(expr.dtype, "+", here, there), False, shape).atom

    atom = _again(value.atom, reading.body.reachable(), lambda ref: not varies(ref), write)
    # Of a position it is one no more: what lies where it is told by the point alone.
    return Value(atom, value.weak, shape)


# Elements of a window.


def picked(window: Value, index: Any, span: Span, text: str) -> Value:
    """What `window[index]` is.

    Raises
    ------
    StencilError
        If the index is none that NumPy takes.
    NotUnderstood
        If it varies, or what it picks has several axes.
    """
    shape = window.shape
    found = _taken(shape, index, span, text)
    if found.shape == shape and np.array_equal(found.ravel(), range(found.size)):
        return window
    if found.ndim > 1:
        raise NotUnderstood("a part of a window that has several axes", span)
    numbers = [int(place) for place in found.ravel()]
    at = [tuple(map(int, np.unravel_index(number, shape))) for number in numbers]

    def some(expr: ir.Expr, operands: Callable[[ir.Expr], ir.Expr]) -> Atom:
        match expr:
            case ir.Tap() | ir.Coefficient():
                # Where in the field's own window, or in the array, the elements lie.
                own = tuple(expr.picked[i[0]] for i in at) if expr.picked else tuple(at)
                expr = replace(expr, picked=own)
            case ir.Weight():
                expr = replace(expr, texts=tuple(expr.texts[number] for number in numbers))
            case _:
                expr = operands(expr)
        return ops.emit(expr, False, found.shape).atom

    def one_number(expr: ir.Expr, operands: Callable[[ir.Expr], ir.Expr]) -> Atom:
        zero = ir.zero_product(expr, expressions, numbers[0])
        there = zero or ir.at_index(expr, at[0], numbers[0])
        return there if isinstance(there, Const) else ops.emit(operands(there)).atom

    expressions = reading.windows.values
    write = some if found.ndim else one_number
    atom = _again(window.atom, expressions, lambda _: False, write)
    return Value(atom, window.weak, found.shape)


def _taken(shape: Offset, index: Any, span: Span, text: str) -> np.ndarray:
    """The elements of a window that an index takes, by their numbers."""
    for one in index if isinstance(index, tuple) else (index,):
        _check(one, shape, span, text)
    try:
        found = np.asarray(np.arange(int(np.prod(shape))).reshape(shape)[index])
    except IndexError as error:
        raise errors.window_index(span, text, str(error)) from error
    if not found.size:
        raise errors.mask_empty(span, text)
    return found


def _check(index: Any, shape: Offset, span: Span, text: str) -> None:
    if _varies(index):
        raise NotUnderstood("an element of a window at an index that varies", span)
    if isinstance(index, np.ndarray) and index.dtype.kind not in "biu":
        raise errors.mask_type(span, text, f"an array of {index.dtype}")
    if isinstance(index, np.ndarray) and index.dtype == bool and index.shape != shape:
        raise errors.mask_shape(span, shape, index.shape)
    if isinstance(index, Coefficients):
        raise errors.mask_type(span, text, "an array that only the call gives")
    whole = isinstance(index, int | slice | np.ndarray) or index in (None, Ellipsis)
    if isinstance(index, bool) or not whole:
        raise errors.mask_type(span, text, words(index))
