"""Linear forms: explicit sums that are windows in disguise.

    (x[-1, -1] + x[-1, 0] + ... + x[1, 1]) // 9     ->     t0 = sum of x over 3 x 3;  t0 // 9

Integer arithmetic is exact modulo 2**64 in any order, so a tree of sums, differences and
products with constants is the same as its collected terms.  Where the terms are a window whose
weights are a product of one factor for each axis, and that takes clearly fewer operations, the
tree becomes a reduction; `algorithms` does the rest.  Floats keep the order they were written
in, unless the user gave it up with `fastmath`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ..analysis.simplify import simplify
from ..language.dtypes import DType
from ..language.ir import (
    Assign,
    Atom,
    Binary,
    Const,
    Expr,
    Kernel,
    Offset,
    Read,
    Reduce,
    Ref,
    Tap,
    Unary,
    Weight,
    atoms,
)
from .choices import NO_PRODUCT, Refused
from .schedule import Schedule
from .separable import separated

# The terms of a sum: (field, offset) -> coefficient, with None for the constant.
Term: TypeAlias = tuple[str, DType, Offset] | None
Form: TypeAlias = dict[Term, float]

# More terms than this are not collected: they are no window that somebody wrote out.
MOST = 512


def windowed(kernel: Kernel, schedule: Schedule, *, floats: bool = False) -> Kernel:
    """Turn explicit sums into reductions where that is worthwhile."""
    forms, roots = _collected(kernel, floats)
    body: list[Assign] = []
    changed = False
    for assign in kernel.body:
        made: Reduce | Refused = Refused("")
        if assign.name in roots:
            made = _window(forms[assign.name], assign.value.dtype, schedule.separable)
        if isinstance(made, Refused):
            body.append(assign)
            continue
        changed = True
        body += _assigned(assign.name, made, assign.value.dtype, forms[assign.name].get(None, 0))
    return simplify(replace(kernel, body=tuple(body))) if changed else kernel


def sums(
    kernel: Kernel, schedule: Schedule, *, floats: bool = False
) -> tuple[tuple[int, DType, Reduce | Refused], ...]:
    """Each explicit sum: its terms and type, and the window it is or why it becomes none."""
    forms, roots = _collected(kernel, floats)
    return tuple(
        (
            len(forms[assign.name].keys() - {None}),
            assign.value.dtype,
            _window(forms[assign.name], assign.value.dtype, schedule.separable),
        )
        for assign in kernel.body
        if assign.name in roots
    )


def _collected(kernel: Kernel, floats: bool) -> tuple[dict[str, Form], set[str]]:
    """The linear assignments as terms, and the names of those that are whole sums."""
    forms: dict[str, Form] = {}
    values = {assign.name: assign.value for assign in kernel.body}
    for assign in kernel.body:
        form = _form(assign.value, forms, floats)
        if form is not None and len(form) <= MOST:
            forms[assign.name] = form
    return forms, _roots(kernel, values, forms)


def _form(expr: Expr, forms: Mapping[str, Form], floats: bool) -> Form | None:
    """The collected terms of an operation, if it is linear in reads."""
    if not (expr.dtype in (DType.INT, DType.UINT) or (floats and expr.dtype.is_float)):
        return None
    match expr:
        case Read():
            return {(expr.field, expr.dtype, expr.offset): 1}
        case Unary(op="-", arg=arg):
            return _scaled(_of(arg, forms), -1)
        case Binary(op="+" | "-" as op, left=left, right=right):
            a, b = _of(left, forms), _of(right, forms)
            if a is None or b is None:
                return None
            sign = 1 if op == "+" else -1
            total = dict(a)
            for term, weight in b.items():
                total[term] = total.get(term, 0) + sign * weight
            return {term: weight for term, weight in total.items() if weight != 0}
        case Binary(op="*", left=left, right=right):
            for known, other in ((left, right), (right, left)):
                if isinstance(known, Const):
                    return _scaled(_of(other, forms), _number(known))
            return None
        case _:
            return None


def _of(atom: Atom, forms: Mapping[str, Form]) -> Form | None:
    if isinstance(atom, Const):
        return {None: _number(atom)}
    return forms.get(atom.name)


def _scaled(form: Form | None, factor: float) -> Form | None:
    return None if form is None else {t: w * factor for t, w in form.items() if w * factor != 0}


def _number(atom: Const) -> float:
    value = atom.value
    assert not isinstance(value, complex)
    return value


def _roots(kernel: Kernel, values: Mapping[str, Expr], forms: Mapping[str, Form]) -> set[str]:
    """The linear assignments that something else than a linear one uses."""
    roots = {o.name for o in kernel.outputs if isinstance(o, Ref) and o.name in forms}
    for name, value in values.items():
        if name not in forms:
            roots |= {a.name for a in atoms(value) if isinstance(a, Ref) and a.name in forms}
    return {name for name in roots if not isinstance(values[name], Read)}


def _window(form: Form, dtype: DType, worthwhile: float) -> Reduce | Refused:
    """The reduction that a form is, where that is worthwhile."""
    terms = {term: weight for term, weight in form.items() if term is not None}
    fields = {(term[0], term[1]) for term in terms}
    if len(terms) < 4:
        return Refused("fewer than 4 terms gain nothing")
    if len(fields) != 1:
        return Refused("its terms are of several fields")
    ((name, read_type),) = fields
    if read_type is not dtype:
        return Refused("its terms are of another type than the sum")
    offsets = [term[2] for term in terms]
    low = tuple(map(min, zip(*offsets, strict=True)))
    high = tuple(map(max, zip(*offsets, strict=True)))
    shape = tuple(b - a + 1 for a, b in zip(low, high, strict=True))
    axes = tuple(axis for axis, length in enumerate(shape) if length > 1)
    if len(axes) < 2:
        return Refused("its terms lie along one axis")
    if np.prod(shape) > MOST:
        return Refused("its terms lie far apart")
    table = np.zeros(shape)
    for term, weight in terms.items():
        place = tuple(o - a for o, a in zip(term[2], low, strict=True))
        table[place] = weight
        if dtype.is_integer and abs(weight) >= 2**53:
            return Refused("its weights are too large")
    table = table.reshape([shape[axis] for axis in axes])
    found = separated(table, dtype.is_integer)
    if found is None:
        return Refused(NO_PRODUCT)
    in_turn = sum(sum(weight != 0 for weight in factor) for factor in found)
    if len(terms) < worthwhile * in_turn:
        return Refused(
            f"axis by axis it needs {in_turn} reads instead of {len(terms)}: too small a gain"
        )
    tap = Assign("w0", Tap(dtype, name, low, axes))
    reduced = tuple(shape[axis] for axis in axes)
    if (table == 1).all():
        return Reduce(dtype, "sum", reduced, (tap,), Ref(dtype, "w0"))
    texts = tuple(_text(value, dtype) for value in table.ravel().tolist())
    weights = Assign("w1", Weight(dtype, texts))
    product = Assign("w2", Binary(dtype, "*", Ref(dtype, "w0"), Ref(dtype, "w1")))
    return Reduce(dtype, "sum", reduced, (tap, weights, product), Ref(dtype, "w2"))


def _text(value: float, dtype: DType) -> str:
    return str(int(value)) if dtype.is_integer else repr(dtype.numpy.type(value).item())


def _assigned(name: str, reduce: Reduce, dtype: DType, constant: float) -> list[Assign]:
    if not constant:
        return [Assign(name, reduce)]
    added = Binary(dtype, "+", Ref(dtype, f"{name}_sum"), Const(dtype, _text(constant, dtype)))
    return [Assign(f"{name}_sum", reduce), Assign(name, added)]
