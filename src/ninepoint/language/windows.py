"""Windows, and values at other points, from what stands in the kernel already.

d = x[1] - x[-1]            t2 = t0 - t1
d[2]                 ->     t3 = read x +3;  t4 = read x +1;  t5 = t3 - t4

w = x[-1:2, -1:2];  cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)
w[cross]      ->     a window of 5: Tap(x, from (-1, -1), picked (0, 1), (1, 0), (1, 1), ...)
w[0, 2]       ->     Read(x, (-1, 1))

What is picked of a window, at constant places, is a window of one axis, or a single element; the
order is NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import starmap
from typing import Any, TypeAlias

import numpy as np

from . import errors
from .dtypes import Coefficients
from .ir import (
    Assign,
    Atom,
    Binary,
    Coefficient,
    Const,
    Expr,
    Gather,
    Loop,
    Noting,
    Offset,
    Position,
    Read,
    Reduce,
    Ref,
    Tap,
    Weight,
    added,
    at_index,
    atoms,
    needed,
    renamed,
    renamed_atom,
    shifted,
    zero_product,
)
from .values import NotUnderstood, Value, emit, reading, varies_index, words

# What writes an operation again, which is given as it was and with new operands.
Write: TypeAlias = Callable[[Expr, Expr], Atom]


def _again(
    atom: Atom, expressions: Mapping[str, Expr], stays: Callable[[Ref], bool], write: Write
) -> Atom:
    """A value whose operations are written again, each once; those that stay are as they were."""
    new: dict[str, Atom] = {}
    for one in needed(starmap(Assign, expressions.items()), (atom,)):
        if not stays(Ref(one.value.dtype, one.name)):
            new[one.name] = write(one.value, renamed(one.value, new))
    return renamed_atom(atom, new)


# What a value comes from.


def varies(atom: Atom) -> bool:
    """Whether a value differs from point to point."""
    return any(True for _ in reads(atom)) or on_position(atom)


def on_position(atom: Atom) -> bool:
    """Whether a value depends on where the point is."""
    return any(_position(expr) for expr in _behind(atom))


def _position(expr: Expr) -> Position | None:
    """Which position an operation reads."""
    return reading.positions.get(expr.field) if isinstance(expr, Read) else None


def reads(atom: Atom) -> Iterator[tuple[Offset, Offset]]:
    """The first and the last offset of each read that a value comes from."""
    for expr in _behind(atom):
        if not _position(expr):
            yield from _extents(expr)


def _extents(expr: Expr) -> Iterator[tuple[Offset, Offset]]:
    match expr:
        case Read():
            yield expr.offset, expr.offset
        case Gather():
            yield added(expr.origin, expr.low), added(expr.origin, expr.high)
        case Reduce():
            for inner in expr.body:
                if isinstance(inner.value, Tap):
                    yield inner.value.ends(expr.shape)
        case Loop():
            for inner in expr.body:
                yield from _extents(inner.value)
        case _:
            pass


def _behind(atom: Atom) -> Iterator[Expr]:
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
        pending += atoms(expr)


# At other points.


def elsewhere(value: Value, first: Offset, along: Offset, shape: Offset) -> Value:
    """The value at the point that lies `first` from here, or over a window from there on."""

    def write(expr: Expr, new: Expr) -> Atom:
        if any(isinstance(a, Ref) and a.name in reading.body.begins for a in atoms(expr)):
            raise NotUnderstood("what a loop changes, at another point")
        if along and isinstance(expr, Reduce | Noting):
            held = "window" if isinstance(expr, Reduce) else "loop"
            raise NotUnderstood(f"a window of what holds a {held}")
        position = _position(expr)
        if position is None:
            if along and isinstance(expr, Read):
                origin = added(expr.offset, first)
                return emit(Tap(expr.dtype, expr.field, origin, along), False, shape).atom
            return emit(shifted(new, first), False, shape).atom
        here, axis = emit(expr).atom, position.axis
        # How many steps along the axis each element of the window is from the point.
        moves = dict(zip(along, zip(*np.ndindex(shape), strict=True), strict=True))
        steps = tuple(str(first[axis] + step) for step in moves.get(axis, [0] * math.prod(shape)))
        if not along and steps == ("0",):
            return here
        there: Atom = Const(expr.dtype, steps[0])
        if along:
            there = emit(Weight(expr.dtype, steps), False, shape).atom
        return emit(Binary(expr.dtype, "+", here, there), False, shape).atom

    atom = _again(value.atom, reading.body.reachable(), lambda ref: not varies(ref), write)
    # Of a position it is one no more: what lies where it is told by the point alone.
    return Value(atom, value.weak, shape)


# Elements of a window.


def picked(window: Value, index: Any, text: str) -> Value:
    """What `window[index]` is.

    Raises
    ------
    StencilError
        If the index is none that NumPy takes.
    NotUnderstood
        If it varies, or what it picks has several axes.
    """
    shape = window.shape
    found = _taken(shape, index, text)
    if found.shape == shape and np.array_equal(found.ravel(), range(found.size)):
        return window
    if found.ndim > 1:
        raise NotUnderstood("a part of a window that has several axes")
    numbers = [int(place) for place in found.ravel()]
    at = [tuple(map(int, np.unravel_index(number, shape))) for number in numbers]

    def some(_: Expr, new: Expr) -> Atom:
        match new:
            case Tap() | Coefficient():
                # Where in the field's own window, or in the array, the elements lie.
                own = tuple(new.picked[i[0]] for i in at) if new.picked else tuple(at)
                new = replace(new, picked=own)
            case Weight():
                new = replace(new, texts=tuple(new.texts[number] for number in numbers))
        return emit(new, False, found.shape).atom

    def one_number(expr: Expr, new: Expr) -> Atom:
        zero = zero_product(expr, expressions, numbers[0])
        there = zero or at_index(new, at[0], numbers[0])
        return there if isinstance(there, Const) else emit(there).atom

    expressions = reading.windows.values
    write = some if found.ndim else one_number
    atom = _again(window.atom, expressions, lambda _: False, write)
    return Value(atom, window.weak, found.shape)


def _taken(shape: Offset, index: Any, text: str) -> np.ndarray:
    """The elements of a window that an index takes, by their numbers."""
    for one in index if isinstance(index, tuple) else (index,):
        _check(one, shape, text)
    try:
        found = np.asarray(np.arange(int(np.prod(shape))).reshape(shape)[index])
    except IndexError as error:
        raise errors.window_index(text, str(error)) from error
    if not found.size:
        raise errors.mask_empty(text)
    return found


def _check(index: Any, shape: Offset, text: str) -> None:
    if varies_index(index):
        raise NotUnderstood("an element of a window at an index that varies")
    if isinstance(index, np.ndarray) and index.dtype.kind not in "biu":
        raise errors.mask_type(text, f"an array of {index.dtype}")
    if isinstance(index, np.ndarray) and index.dtype == bool and index.shape != shape:
        raise errors.mask_shape(shape, index.shape)
    if isinstance(index, Coefficients):
        raise errors.mask_type(text, "an array that only the call gives")
    whole = isinstance(index, int | slice | np.ndarray) or index in (None, Ellipsis)
    if isinstance(index, bool) or not whole:
        raise errors.mask_type(text, words(index))
