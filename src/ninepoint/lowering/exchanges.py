"""Exchanges: the lesser and the greater of two as operations, for those that have them.

    swap = b < a                          low = minimum(a, b)
    low = b if swap else a         ->     high = maximum(a, b)
    high = a if swap else b

Where the comparison is `loose` it does not matter which of two an exchange takes if one is NaN,
or if they are zeros of two signs: whether there was a NaN is asked for elsewhere.  A minimum that
lets every NaN through answers that as well, so where all that is asked about was exchanged, the
question goes.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..analysis.rewrite import Body, in_bodies, made_as, replayed
from ..language.dtypes import DType
from ..language.ir import (
    Assign,
    Atom,
    Binary,
    BinaryOp,
    Const,
    Expr,
    Kernel,
    Ref,
    Select,
    needed,
)

_EXTREMES: dict[str, BinaryOp] = {
    "<": "minimum", "<=": "minimum", ">": "maximum", ">=": "maximum",
}  # fmt: skip
_OPPOSITE: dict[str, BinaryOp] = {"minimum": "maximum", "maximum": "minimum"}


def exchanged(kernel: Kernel) -> Kernel:
    """The kernel with exchanges of float32 done at once, by a minimum that lets NaN through."""

    def change(body: Body, values: tuple[Atom, ...]) -> tuple[Body, tuple[Atom, ...]]:
        known: dict[str, Expr] = {}

        def emit(name: str, expr: Expr) -> Atom:
            expr = _extreme(expr, known)
            through = _asked(expr, known)
            if through is None:
                known[name] = expr
                return Ref(expr.dtype, name)
            return through

        values = replayed(body, values, emit)
        made = tuple(Assign(name, expr) for name, expr in known.items())
        return (made, values) if made == body else (needed(made, values), values)

    return in_bodies(kernel, change)


def _extreme(expr: Expr, known: Mapping[str, Expr]) -> Expr:
    """A choice by a loose comparison of what it compares, as a minimum or a maximum."""
    test = made_as(expr.test, known) if isinstance(expr, Select) else None
    if not isinstance(expr, Select) or not isinstance(test, Binary) or not test.loose:
        return expr
    if test.op not in _EXTREMES or expr.dtype is not DType.F32:
        return expr
    op = _EXTREMES[test.op]
    if (expr.then, expr.other) == (test.right, test.left):
        op = _OPPOSITE[op]
    elif (expr.then, expr.other) != (test.left, test.right):
        return expr
    return Binary(expr.dtype, op, test.left, test.right, loose=True)


def _asked(expr: Expr, known: Mapping[str, Expr]) -> Atom | None:
    """What is chosen unless one of some values is NaN, if it is NaN then by itself."""
    if not isinstance(expr, Select):
        return None
    if not isinstance(expr.then, Const) or expr.then.text != "nan":
        return None
    asked = _questions(expr.test, known)
    if asked is None or not asked <= _through(expr.other, known):
        return None
    return expr.other


def _questions(test: Atom, known: Mapping[str, Expr]) -> set[Atom] | None:
    """The values of which some test asks whether any is NaN; None if it asks for anything else."""
    match made_as(test, known):
        case Binary(op="!=", left=left, right=right) if left == right:
            return {left}
        case Binary(op="|", left=left, right=right):
            first, last = _questions(left, known), _questions(right, known)
            return None if first is None or last is None else first | last
        case _:
            return None


def _through(value: Atom, known: Mapping[str, Expr]) -> set[Atom]:
    """The values of which a NaN comes through to this one."""
    found: set[Atom] = set()
    waiting: list[Atom] = [value]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        made = made_as(one, known)
        if isinstance(made, Binary) and made.loose and made.op in _OPPOSITE:
            waiting += [made.left, made.right]
    return found
