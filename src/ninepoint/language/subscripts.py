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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from . import buffers, errors, ir
from .dtypes import DType, value_type
from .errors import Span
from .frame import Frame, settled
from .ir import Atom, Const, Offset, Ref
from .kinds import Coefficients, Field
from .values import Index, NotUnderstood, Operations, Value, constant, words


class Subscripts(Frame):
    """A frame that understands `x[...]`."""

    def subscript(self, node: ast.Subscript) -> Any:
        if (buffer := self.buffer(node.value)) is not None:
            return buffers.element(self.ops, buffer, self.place(buffer, node))
        base = self.eval(node.value)
        index = self.eval(node.slice)
        span = self.at(node)
        indices = index if isinstance(index, tuple) else (index,)
        text = ast.unparse(node.value)
        unknown = any(map(_varies, indices))
        if isinstance(base, Coefficients) or (isinstance(base, np.ndarray) and unknown):
            name = base.name if isinstance(base, Coefficients) else text
            where = buffers.place(self.ops, base, indices, name, span)
            return buffers.element(self.ops, base, where)
        match base:
            case Field():
                return self.read_field(base, indices, node)
            case np.ndarray():
                if len(indices) > base.ndim:
                    raise errors.index_count(span, text, len(indices), base.ndim)
                if any(not isinstance(i, int) for i in indices):
                    for one in indices:
                        if isinstance(one, float | str | np.floating):
                            raise errors.index_type(span, text, words(one))
                    try:
                        return settled(base[index])
                    except IndexError as error:
                        raise errors.window_index(span, text, str(error)) from error
                shape = base.shape[: len(indices)]
                return settled(
                    base[tuple(buffers.steps(self.ops, shape, indices, text, span, text))]
                )
            case tuple() | range():
                if isinstance(index, int) and not -len(base) <= index < len(base):
                    raise errors.index_outside(span, text, index, len(base))
                if isinstance(index, float | str | np.floating | tuple):
                    raise errors.index_type(span, text, words(index))
                if not isinstance(index, int | slice) or _varies(index):
                    raise NotUnderstood("a tuple at an index that varies", span)
                return base[index]
            case Value(shape=shape) if shape is not None:
                return picked(self.ops, base, index, span, text)
            case Value() if isinstance(node.value, ast.Name) and varies(self.ops, base.atom):
                return self.read_value(base, indices, node)
            case _:
                raise errors.bad_operand(span, "Indexing", words(base))

    def place(self, buffer: buffers.Buffer, node: ast.Subscript) -> Any:
        """Which element of a buffer is meant."""
        index, text = self.eval(node.slice), ast.unparse(node.value)
        indices = index if isinstance(index, tuple) else (index,)
        return buffers.place(self.ops, buffer, indices, text, self.at(node))

    def read_field(self, field: Field, indices: tuple[Any, ...], node: ast.Subscript) -> Value:
        if self.axes.neighborhood is not None and any(map(_computed, indices)):
            return self.gather(field, indices, node)
        first, last, along, shape = self.box(indices, node)
        self.axes.check(field.name, first, last, self.at(node))
        dtype = value_type(field.storage)
        if not along:
            return self.ops.emit(ir.Read(dtype, field.label, first))
        return self.ops.emit(ir.Tap(dtype, field.label, first, along), False, shape)

    def gather(self, field: Field, indices: tuple[Any, ...], node: ast.Subscript) -> Value:
        """An element at an offset that is computed, which must be in the neighborhood."""
        span, declared = self.at(node), self.axes.neighborhood or ()
        # Of each axis what is known of the offset, what is computed, and between which ends.
        parts: list[tuple[int, ir.Atom, int, int]] = []
        for axis, (index, place) in enumerate(
            zip(indices, self.places(node, len(indices)), strict=True)
        ):
            if not _computed(index):
                origin, _ = self.offsets(index, place)
                if isinstance(index, slice):
                    raise NotUnderstood("a window at an offset that varies", span)
                parts.append((origin, ir.Const(DType.INT, "0"), 0, 0))
                continue
            if not index.dtype.is_integer or index.shape is not None:
                raise errors.offset_type(self.at(place), words(index) + " that is not whole")
            if on_position(self.ops, index.atom) and self.axes.factors:
                self.offset(index, self.at(place), place)
            ends = declared[axis] if axis < len(declared) else (0, 0)
            parts.append((0, self.ops.cast(index, DType.INT), *ends))
        origins, steps, low, high = zip(*parts, strict=True)
        least, most = ir.added(origins, low), ir.added(origins, high)
        self.axes.check(field.name, least, most, self.at(node))
        return self.ops.emit(
            ir.Gather(
                value_type(field.storage),
                field.label,
                origins,
                steps,
                low,
                high,
                self.ops.lift(self.ops.active()).atom,
                f"{span.file}|{span.line}",
            )
        )

    def read_value(self, value: Value, indices: tuple[Any, ...], node: ast.Subscript) -> Value:
        """An expression of fields at another point, or over a window of points."""
        first, last, along, shape = self.box(indices, node)
        span = self.at(node)
        name = ast.unparse(node.value)
        if self.axes.pointwise:
            raise errors.ufunc_index(span, name)
        if len(first) != self.axes.count:
            raise errors.offset_count(
                span, name, len(first), self.axes.count or 0, self.axes.neighborhood is not None
            )
        made = (
            windowed(self.ops, value, first, along, shape)
            if along
            else moved(self.ops, value, first)
        )
        for low, high in reads(self.ops, value.atom):
            self.axes.check(name, ir.added(low, first), ir.added(high, last), span)
        return made

    def box(
        self, indices: tuple[Any, ...], node: ast.Subscript
    ) -> tuple[Offset, Offset, Offset, Offset]:
        """The first and the last offset along each axis; the axes of a window, and its shape."""
        self.at(node)
        places = self.places(node, len(indices))
        ends = [self.offsets(index, place) for index, place in zip(indices, places, strict=True)]
        first, last = tuple(low for low, _ in ends), tuple(high for _, high in ends)
        along = tuple(axis for axis, index in enumerate(indices) if isinstance(index, slice))
        return first, last, along, tuple(last[axis] - first[axis] + 1 for axis in along)

    @staticmethod
    def places(node: ast.Subscript, count: int) -> list[ast.expr]:
        """Where each of so many indices stands."""
        nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return nodes if len(nodes) == count else [node.slice] * count

    def offsets(self, index: Any, place: ast.expr) -> tuple[int, int]:
        """The first and the last offset along one axis."""
        span = self.at(place)
        if isinstance(index, slice):
            if index.step is not None and index.step != 1:
                raise errors.window_step(span)
            if index.start is None or index.stop is None:
                raise errors.window_open(span)
            ends = (self.offset(index.start, span, place), self.offset(index.stop, span, place))
            if ends[0] >= ends[1]:
                raise errors.window_empty(span, *ends)
            return ends[0], ends[1] - 1
        where = self.offset(index, span, place)
        return where, where

    def offset(self, index: Any, span: Span, place: ast.expr) -> int:
        index = constant(index)
        if isinstance(index, Index):
            if index.line.scale != 1:
                factor = self.axes.factors
                raise errors.index_factor(span, ast.unparse(place), index.line.scale, factor)
            return index.line.shift
        if isinstance(index, Value):
            if index.shape is None and index.dtype.is_integer:
                if on_position(self.ops, index.atom) and self.axes.factors:
                    raise errors.index_factor(span, ast.unparse(place), 0, self.axes.factors)
                if on_position(self.ops, index.atom) and self.axes.neighborhood is None:
                    raise errors.offset_position(span, ast.unparse(place))
                if self.axes.neighborhood is None:
                    raise errors.offset_not_constant(span, f"'{ast.unparse(place)}'")
                raise NotUnderstood("an offset that varies", span)
            raise errors.offset_type(span, words(index) + " that is not whole")
        if isinstance(index, bool) or not isinstance(index, int):
            raise errors.offset_type(span, words(index))
        return index


def _computed(index: Any) -> bool:
    """Whether an offset is known at run time only."""
    return isinstance(index, Value) and not isinstance(index, Index)


def _varies(index: Any) -> bool:
    parts = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
    return any(isinstance(part, Value) for part in parts)


# What writes an operation again, given what puts new operands into it.
Write: TypeAlias = Callable[[ir.Expr, Callable[[ir.Expr], ir.Expr]], Atom]


def _again(
    atom: Atom, expressions: Mapping[str, ir.Expr], stays: Callable[[Ref], bool], write: Write
) -> Atom:
    """A value whose operations are written again, each once; those that stay are as they were."""

    @cache
    def again(atom: Atom) -> Atom:
        if not isinstance(atom, Ref) or stays(atom):
            return atom
        return write(expressions[atom.name], operands)

    def operands(expr: ir.Expr) -> ir.Expr:
        return ir.renamed(expr, {a.name: again(a) for a in ir.atoms(expr) if isinstance(a, Ref)})

    return again(atom)


# What a value comes from.


def varies(ops: Operations, atom: Atom) -> bool:
    """Whether a value differs from point to point."""
    return any(True for _ in reads(ops, atom)) or on_position(ops, atom)


def on_position(ops: Operations, atom: Atom) -> bool:
    """Whether a value depends on where the point is."""
    return any(_is_position(ops, expr) for expr in _behind(ops, atom))


def _is_position(ops: Operations, expr: ir.Expr) -> bool:
    return isinstance(expr, ir.Read) and expr.field in ops.positions


def reads(ops: Operations, atom: Atom) -> Iterator[tuple[Offset, Offset]]:
    """The first and the last offset of each read that a value comes from."""
    for expr in _behind(ops, atom):
        if not _is_position(ops, expr):
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


def _behind(ops: Operations, atom: Atom) -> Iterator[ir.Expr]:
    """The operations that a value comes from."""
    expressions = ops.body.reachable()
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


def moved(ops: Operations, value: Value, by: Offset) -> Value:
    """The value at the point that lies `by` from here."""

    def write(expr: ir.Expr, operands: Callable[[ir.Expr], ir.Expr]) -> Atom:
        if not _is_position(ops, expr):
            return ops.emit(operands(ir.shifted(expr, by))).atom
        here = ops.emit(expr)
        step = by[_axis(ops, expr)]
        if not step:
            return here.atom
        there = ir.Const(expr.dtype, str(step))
        return ops.emit(ir.Binary(expr.dtype, "+", here.atom, there)).atom

    return replace(value, atom=_elsewhere(ops, value, write))


def windowed(ops: Operations, value: Value, first: Offset, along: Offset, shape: Offset) -> Value:
    """The values at the points of a window, from `first` on along some axes."""

    def write(expr: ir.Expr, operands: Callable[[ir.Expr], ir.Expr]) -> Atom:
        if isinstance(expr, ir.Reduce | ir.Noting):
            held = "window" if isinstance(expr, ir.Reduce) else "loop"
            raise NotUnderstood(f"a window of what holds a {held}", ops.span)
        if _is_position(ops, expr):
            axis = _axis(ops, expr)
            here = ops.emit(expr).atom
            # How many steps along the axis each element of the window is from the point.
            place = along.index(axis) if axis in along else None
            steps = (first[axis] + (0 if place is None else at[place]) for at in np.ndindex(shape))
            weight = ir.Weight(expr.dtype, tuple(map(str, steps)))
            there = ops.emit(weight, False, shape).atom
            moved: ir.Expr = ir.Binary(expr.dtype, "+", here, there)
        elif isinstance(expr, ir.Read):
            moved = ir.Tap(expr.dtype, expr.field, ir.added(expr.offset, first), along)
        else:
            moved = operands(expr)
        return ops.emit(moved, False, shape).atom

    return Value(_elsewhere(ops, value, write), value.weak, shape)


def _elsewhere(ops: Operations, value: Value, write: Write) -> Atom:
    """A value of the point written again; what does not vary stays."""

    def stays(ref: Ref) -> bool:
        if ref.name in ops.body.begins:
            raise NotUnderstood("what a loop changes, at another point", ops.span)
        return not varies(ops, ref)

    return _again(value.atom, ops.body.reachable(), stays, write)


def _axis(ops: Operations, expr: ir.Expr) -> int:
    """Along which axis a position is."""
    assert isinstance(expr, ir.Read), expr
    return ops.positions[expr.field].axis


# Elements of a window.


def picked(ops: Operations, window: Value, index: Any, span: Span, text: str) -> Value:
    """What `window[index]` is.

    Raises
    ------
    StencilError
        If the index is none that NumPy takes.
    NotUnderstood
        If it varies, or what it picks has several axes.
    """
    shape = window.shape
    assert shape is not None
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
        match expr:
            case ir.Tap():
                expr = ir.Read(expr.dtype, expr.field, expr.offset(at[0]))
            case ir.Coefficient():
                expr = ir.Element(expr.dtype, expr.array, expr.place(at[0]))
            case ir.Weight():
                return Const(expr.dtype, expr.texts[numbers[0]])
            case ir.Binary() if _vanishes(ops, expr, numbers[0]):
                return Const(expr.dtype, "0" if expr.dtype.is_integer else "0.0")
            case _:
                expr = operands(expr)
        return ops.emit(expr).atom

    expressions = ops.windows.values
    atom = _again(
        window.atom,
        expressions,
        lambda ref: ref.name not in expressions,
        some if found.ndim else one_number,
    )
    return Value(atom, window.weak, found.shape or None)


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
    parts = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
    if any(isinstance(part, Value) for part in parts):
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


def _vanishes(ops: Operations, expr: ir.Binary, number: int) -> bool:
    """Whether it is a product with a constant weight that is zero."""
    for side in (expr.left, expr.right):
        found = ops.windows.values.get(side.name) if isinstance(side, Ref) else None
        if isinstance(found, ir.Cast) and isinstance(found.arg, Ref):
            found = ops.windows.values.get(found.arg.name)
        if isinstance(found, ir.Weight):
            text = found.texts[number]
            if expr.op == "*" and (text == "False" or (text != "True" and not complex(text))):
                return True
    return False
