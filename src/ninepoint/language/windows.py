"""Values at other points: an expression of fields moved, over a window, or at elements of one.

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

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from . import errors, ir
from .errors import Span
from .ir import Atom, Const, Offset, Ref
from .kinds import Coefficients
from .values import NotUnderstood, Operations, Value, words

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
