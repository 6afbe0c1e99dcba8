"""Picking: a window of some elements of another one, at constant places.

    w = x[-1:2, -1:2];  cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)
    w[cross]      ->     a window of 5: Tap(x, from (-1, -1), picked (0, 1), (1, 0), (1, 1), ...)
    w[0, 2]       ->     Read(x, (-1, 1))

What is picked is a window of one axis, or a single element; the order is NumPy's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from . import errors, ir
from .errors import Span
from .ir import Atom, Const, Offset, Ref
from .values import Coefficients, NotUnderstood, Operations, Value, words


def picked(operations: Operations, window: Value, index: Any, span: Span, text: str) -> Value:
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
    indices = index if isinstance(index, tuple) else (index,)
    for one in indices:
        _check(one, shape, span, text)
    places = np.arange(int(np.prod(shape))).reshape(shape)
    try:
        found = places[index]
    except IndexError as error:
        raise errors.window_index(span, text, str(error)) from error
    if isinstance(found, np.ndarray) and found.ndim:
        if not found.size:
            raise errors.mask_empty(span, text)
        if np.array_equal(found, places):
            return window
        if found.ndim > 1:
            raise NotUnderstood("a part of a window that has several axes", span)
        writer = _Picked(operations, shape, tuple(int(place) for place in found))
        return Value(writer.atom(window.atom), window.weak, (len(found),))
    element = _Element(operations, shape, (int(found),))
    return Value(element.atom(window.atom), window.weak)


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


class _Picked:
    """Writes the assignments of a window again, for some of its elements."""

    def __init__(self, operations: Operations, shape: Offset, places: tuple[int, ...]) -> None:
        self.operations = operations
        self.places = places
        self.indices = tuple(tuple(map(int, np.unravel_index(place, shape))) for place in places)
        self.expressions = dict(operations.windows.values)
        self.known: dict[str, Atom] = {}

    def atom(self, atom: Atom) -> Atom:
        if not isinstance(atom, Ref) or atom.name not in self.expressions:
            return atom
        if atom.name not in self.known:
            self.known[atom.name] = self.emit(self.expressions[atom.name])
        return self.known[atom.name]

    def emit(self, expr: ir.Expr) -> Atom:
        match expr:
            case ir.Tap() | ir.Coefficient():
                expr = replace(expr, picked=self.of(expr))
            case ir.Weight():
                expr = replace(expr, texts=tuple(expr.texts[place] for place in self.places))
            case _:
                expr = self.operands(expr)
        return self.operations.emit(expr, False, (len(self.places),)).atom

    def of(self, expr: ir.Tap | ir.Coefficient) -> tuple[Offset, ...]:
        """Where in the field's own window, or in the array, the elements lie."""
        return tuple(expr.picked[i[0]] for i in self.indices) if expr.picked else self.indices

    def operands(self, expr: ir.Expr) -> ir.Expr:
        alias = {a.name: self.atom(a) for a in ir.atoms(expr) if isinstance(a, Ref)}
        return ir.renamed(expr, alias)


class _Element(_Picked):
    """Writes them for a single element, which is a number of the point."""

    def emit(self, expr: ir.Expr) -> Atom:
        match expr:
            case ir.Tap():
                (index,) = self.indices
                expr = ir.Read(expr.dtype, expr.field, expr.offset(index))
            case ir.Coefficient():
                expr = ir.Element(expr.dtype, expr.array, self.of(expr)[0])
            case ir.Weight():
                return Const(expr.dtype, expr.texts[self.places[0]])
            case ir.Binary() if self.vanishes(expr):
                return Const(expr.dtype, "0" if expr.dtype.is_integer else "0.0")
            case _:
                expr = self.operands(expr)
        return self.operations.emit(expr).atom

    def vanishes(self, expr: ir.Binary) -> bool:
        """Whether it is a product with a constant weight that is zero."""
        for side in (expr.left, expr.right):
            found = self.expressions.get(side.name) if isinstance(side, Ref) else None
            if isinstance(found, ir.Cast) and isinstance(found.arg, Ref):
                found = self.expressions.get(found.arg.name)
            if isinstance(found, ir.Weight):
                text = found.texts[self.places[0]]
                if expr.op == "*" and (text == "False" or (text != "True" and not complex(text))):
                    return True
        return False


def as_box(reduce: ir.Reduce) -> ir.Reduce:
    """The reduction of a box, where every element of it was picked."""
    taps = [a.value for a in reduce.body if isinstance(a.value, ir.Tap | ir.Coefficient)]
    places = {tap.picked for tap in taps}
    if len(places) != 1 or not (picked := places.pop()):
        return reduce
    shape = tuple(max(axis) + 1 for axis in zip(*picked, strict=True))
    if picked != tuple(ir.window_indices(shape)):
        return reduce
    body = tuple(
        ir.Assign(a.name, replace(a.value, picked=()))
        if isinstance(a.value, ir.Tap | ir.Coefficient)
        else a
        for a in reduce.body
    )
    return replace(reduce, shape=shape, body=body)
