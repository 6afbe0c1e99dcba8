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
from dataclasses import replace

from ..analysis.simplify import drop_dead
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
    Values,
    renamed,
    renamed_atom,
)

_EXTREMES: dict[str, BinaryOp] = {
    "<": "minimum", "<=": "minimum", ">": "maximum", ">=": "maximum",
}  # fmt: skip
_OPPOSITE: dict[str, BinaryOp] = {"minimum": "maximum", "maximum": "minimum"}


def exchanged(kernel: Kernel, of: DType = DType.F32) -> Kernel:
    """The kernel with exchanges of this type done at once, by a minimum that lets NaN through."""
    stages = []
    for stage in kernel.stages:
        if isinstance(stage, Values):
            one = _exchanged(replace(kernel, body=stage.body, outputs=stage.values), of)
            stage = replace(stage, body=one.body, values=one.outputs)
        stages.append(stage)
    return _exchanged(replace(kernel, stages=tuple(stages)), of)


def _exchanged(kernel: Kernel, of: DType) -> Kernel:
    known: dict[str, Expr] = {}
    alias: dict[str, Atom] = {}
    body: list[Assign] = []
    for assign in kernel.body:
        expr = _extreme(renamed(assign.value, alias), known, of)
        if isinstance(expr, Select):
            through = _asked(expr, known)
            if through is not None:
                alias[assign.name] = through
                continue
        known[assign.name] = expr
        body.append(Assign(assign.name, expr))
    if tuple(body) == kernel.body:
        return kernel
    outputs = tuple(renamed_atom(output, alias) for output in kernel.outputs)
    return drop_dead(replace(kernel, body=tuple(body), outputs=outputs))


def _extreme(expr: Expr, known: Mapping[str, Expr], of: DType) -> Expr:
    """A choice by a comparison of what it compares, as a minimum or a maximum.

    Of integers any comparison will do, of floats a loose one.
    """
    if not isinstance(expr, Select) or expr.dtype is not of:
        return expr
    test = known.get(expr.test.name) if isinstance(expr.test, Ref) else None
    if not isinstance(test, Binary) or test.op not in _EXTREMES:
        return expr
    if not test.loose and not of.is_integer:
        return expr
    if test.left.dtype is not of or test.right.dtype is not of:
        return expr
    op = _EXTREMES[test.op]
    if (expr.then, expr.other) == (test.right, test.left):
        op = _OPPOSITE[op]
    elif (expr.then, expr.other) != (test.left, test.right):
        return expr
    return Binary(expr.dtype, op, test.left, test.right, loose=True)


def _asked(expr: Select, known: Mapping[str, Expr]) -> Atom | None:
    """What is chosen unless one of some values is NaN, if it is NaN then by itself."""
    if not isinstance(expr.then, Const) or expr.then.text != "nan":
        return None
    asked = _questions(expr.test, known)
    if asked is None or not asked <= _through(expr.other, known):
        return None
    return expr.other


def _questions(test: Atom, known: Mapping[str, Expr]) -> set[Atom] | None:
    """The values of which some test asks whether any is NaN; None if it asks for anything else."""
    made = known.get(test.name) if isinstance(test, Ref) else None
    match made:
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
        made = known.get(one.name) if isinstance(one, Ref) else None
        if isinstance(made, Binary) and made.loose and made.op in _OPPOSITE:
            waiting += [made.left, made.right]
    return found
