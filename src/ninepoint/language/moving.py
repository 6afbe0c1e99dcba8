"""Moving: an expression of fields, at another point and over a window of points.

    d = x[1] - x[-1]            t2 = t0 - t1
    d[2]                 ->     t3 = read x +3;  t4 = read x +1;  t5 = t3 - t4

A local that holds such an expression is read relative to the point, as a field is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from . import ir
from .ir import (
    Atom,
    Offset,
    Ref,
)
from .values import NotUnderstood, Operations, Value


def varies(operations: Operations, atom: Atom) -> bool:
    """Whether a value differs from point to point."""
    return any(True for _ in reads(operations, atom)) or on_position(operations, atom)


def on_position(operations: Operations, atom: Atom) -> bool:
    """Whether a value depends on where the point is."""
    return any(
        isinstance(expr, ir.Read) and expr.field in operations.positions
        for expr in _behind(operations, atom)
    )


def reads(operations: Operations, atom: Atom) -> Iterator[tuple[Offset, Offset]]:
    """The first and the last offset of each read that a value comes from."""
    for expr in _behind(operations, atom):
        match expr:
            case ir.Read():
                if expr.field not in operations.positions:
                    yield expr.offset, expr.offset
            case _:
                yield from _extents(expr)


def _extents(expr: ir.Expr) -> Iterator[tuple[Offset, Offset]]:
    match expr:
        case ir.Gather():
            yield _sum(expr.origin, expr.low), _sum(expr.origin, expr.high)
        case ir.Reduce():
            for inner in expr.body:
                if isinstance(inner.value, ir.Tap):
                    yield inner.value.ends(expr.shape)
        case ir.Loop():
            for inner in expr.body:
                yield from _extents(inner.value)
        case _:
            pass


def _behind(operations: Operations, atom: Atom) -> Iterator[ir.Expr]:
    """The operations that a value comes from."""
    expressions = operations.body.reachable()
    pending, seen = [atom], set[str]()
    while pending:
        one = pending.pop()
        if not isinstance(one, Ref) or one.name in seen or one.name not in expressions:
            continue
        seen.add(one.name)
        expr = expressions[one.name]
        yield expr
        pending += ir.atoms(expr)


def moved(operations: Operations, value: Value, by: Offset) -> Value:
    """The value at the point that lies `by` from here."""
    return replace(value, atom=_Moved(operations, by).atom(value.atom))


def windowed(
    operations: Operations, value: Value, first: Offset, along: Offset, shape: Offset
) -> Value:
    """The values at the points of a window, from `first` on along some axes."""
    atom = _Window(operations, first, along, shape).atom(value.atom)
    return Value(atom, value.weak, shape)


class _Moved:
    """Writes operations again for another point; what does not vary stays."""

    def __init__(self, operations: Operations, by: Offset) -> None:
        self.operations = operations
        self.by = by
        self.expressions = operations.body.reachable()
        self.known: dict[str, Atom] = {}

    def atom(self, atom: Atom) -> Atom:
        if not isinstance(atom, Ref) or atom.name not in self.expressions:
            if isinstance(atom, Ref) and atom.name in self.operations.body.begins:
                raise NotUnderstood("what a loop changes, at another point", self.operations.span)
            return atom
        if atom.name not in self.known:
            expr = self.expressions[atom.name]
            found = self.emit(expr) if varies(self.operations, atom) else atom
            self.known[atom.name] = found
        return self.known[atom.name]

    def emit(self, expr: ir.Expr) -> Atom:
        return self.operations.emit(self.expression(expr)).atom

    def expression(self, expr: ir.Expr) -> ir.Expr:
        match expr:
            case ir.Read() if expr.field in self.operations.positions:
                step = self.by[self.operations.positions[expr.field].axis]
                if not step:
                    return expr
                here = self.operations.emit(expr).atom
                return ir.Binary(expr.dtype, "+", here, ir.Const(expr.dtype, str(step)))
            case _:
                return self.operands(ir.shifted(expr, self.by))

    def operands(self, expr: ir.Expr) -> ir.Expr:
        """The operation on operands that are moved."""
        alias = {a.name: self.atom(a) for a in ir.atoms(expr) if isinstance(a, Ref)}
        return ir.renamed(expr, alias)


class _Window(_Moved):
    """Writes them for every point of a window."""

    def __init__(
        self, operations: Operations, first: Offset, along: Offset, shape: Offset
    ) -> None:
        super().__init__(operations, first)
        self.along = along
        self.shape = shape

    def emit(self, expr: ir.Expr) -> Atom:
        if isinstance(expr, ir.Reduce):
            raise NotUnderstood("a window of what holds a window", self.operations.span)
        if isinstance(expr, ir.Noting):
            raise NotUnderstood("a window of what holds a loop", self.operations.span)
        if isinstance(expr, ir.Read) and expr.field in self.operations.positions:
            axis = self.operations.positions[expr.field].axis
            here = self.operations.emit(expr).atom
            steps = (self.by[axis] + self._step(axis, at) for at in np.ndindex(self.shape))
            weight = ir.Weight(expr.dtype, tuple(map(str, steps)))
            there = self.operations.emit(weight, False, self.shape).atom
            moved: ir.Expr = ir.Binary(expr.dtype, "+", here, there)
        elif isinstance(expr, ir.Read):
            moved = ir.Tap(expr.dtype, expr.field, _sum(expr.offset, self.by), self.along)
        else:
            moved = self.operands(expr)
        return self.operations.emit(moved, False, self.shape).atom

    def _step(self, axis: int, at: Offset) -> int:
        """How many steps along an axis an element of the window is from its first one."""
        return at[self.along.index(axis)] if axis in self.along else 0


def _sum(a: Offset, b: Offset) -> Offset:
    return tuple(x + y for x, y in zip(a, b, strict=True))
