"""Recognising: which elements a window has, however it is written.

Of a window under a constant mask only those elements that change the result.

    max of (mask ? x : -inf) over 5 x 5          max of x over the 13 elements of the mask
    sum of (mask ? x : 0) over 5 x 5       ->    sum of x over the 13 elements of the mask
    sum of x * mask over 11 x 11                 sum of x over the 81 elements of the mask

An element that is the same constant at every point, and changes no result of its reduction, falls
away; what is left may be done in runs and boxes, as a window of that shape is.

Explicit sums that are windows in disguise:

    (x[-1, -1] + x[-1, 0] + ... + x[1, 1]) // 9     ->     t0 = sum of x over 3 x 3;  t0 // 9

Integer arithmetic is exact modulo 2**64 in any order, so a tree of sums, differences and
products with constants is the same as its collected terms.  Where the terms are a window whose
weights are a product of one factor for each axis, and that takes clearly fewer operations, the
tree becomes a reduction; `algorithms` does the rest.  Floats keep the order they were written
in, unless the user gave it up with `fastmath`.

1 2 1       1
2 4 2   =   2  (1 2 1)          found for integers exactly, for floats to a few units in
1 2 1       1                   the last place of the largest weight
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ..analysis.ranges import Interval, ranges, window_range
from ..analysis.rewrite import mapped, number, simplify, uncast
from ..language.ir import (
    Assign,
    Atom,
    Binary,
    Coefficient,
    Const,
    DType,
    Expr,
    Kernel,
    Offset,
    Read,
    Reduce,
    Ref,
    Select,
    Tap,
    Unary,
    Weight,
    made_as,
    named,
    needed,
    operands,
    window_indices,
)
from .schedule import Refused, Request, Schedule

# What the elements of a mask are called.
_TRUTHS = frozenset({"True", "False", "0", "1", "0.0", "1.0"})


def picked(kernel: Kernel, request: Request) -> Kernel:
    """Reduce only what counts, wherever a constant mask says what that is."""
    known = ranges(kernel)

    def counted(expr: Expr) -> Expr:
        return _counted(expr, known, request.schedule) if isinstance(expr, Reduce) else expr

    return replace(kernel, body=mapped(kernel.body, counted))


def _counted(reduce: Reduce, known: Mapping[str, Interval], schedule: Schedule) -> Reduce:
    """The reduction of those elements that count."""
    values = named(reduce.body)
    match made_as(reduce.result, values):
        case Select(test=test, then=then, other=other):
            mask = made_as(test, values)
            if not isinstance(mask, Weight):
                return reduce
            chosen = [text == "True" for text in mask.texts]
            if isinstance(then, Const):
                then, other, chosen = other, then, [not one for one in chosen]
            if isinstance(other, Const) and not isinstance(then, Const):
                items = window_range(replace(reduce, result=then), known)
                if _neutral(reduce, other, items):
                    return _of(reduce, then, chosen)
        case Binary(op="*", left=left, right=right) if reduce.kind == "sum":
            for factor, rest in ((left, right), (right, left)):
                mask = uncast(factor, values)
                if not isinstance(mask, Weight) or not set(mask.texts) <= _TRUTHS:
                    continue
                if not isinstance(rest, Const) and rest.dtype is reduce.result.dtype:
                    chosen = [text in ("True", "1", "1.0") for text in mask.texts]
                    # Such weights are a product of factors, or written out at once.
                    indices = window_indices(reduce.shape)
                    some = [at for at, one in zip(indices, chosen, strict=True) if one]
                    grid = math.prod(len(set(axis)) for axis in zip(*some, strict=True))
                    plain = len(some) == grid or max(reduce.shape) <= schedule.direct
                    return reduce if plain else _of(reduce, rest, chosen)
    return reduce


def _neutral(reduce: Reduce, other: Const, items: Interval) -> bool:
    """Whether a constant changes no result, whatever else is reduced."""
    match reduce.kind:
        case "sum":
            return other.text in ("0", "0.0", "-0.0", "False")
        case "any" | "all":
            return other.text == str(reduce.kind == "all")
        case "max" | "min" if not isinstance(other.value, complex):
            value = float(other.value)
            sign = 1.0 if reduce.kind == "max" else -1.0
            end = items.low if reduce.kind == "max" else items.high
            # Of two zeros the sign could be another.
            exact = other.dtype.is_integer and value == end
            return exact or sign * value < sign * end or value == -sign * math.inf
        case _:
            return False


def _of(reduce: Reduce, result: Atom, chosen: Sequence[bool]) -> Reduce:
    """The reduction of `result` over the chosen elements, if there are any."""
    positions = [k for k, one in enumerate(chosen) if one]
    if not positions or len(positions) == len(chosen):
        return reduce
    indices = list(window_indices(reduce.shape))
    places = tuple(indices[k] for k in positions)
    body = mapped(needed(reduce.body, [result]), lambda expr: _at(expr, places, positions))
    if not any(isinstance(assign.value, Tap) for assign in body):
        return reduce
    return replace(reduce, shape=(len(places),), body=body, result=result)


def _at(expr: Expr, places: tuple[Offset, ...], positions: Sequence[int]) -> Expr:
    """What is at the places of a window."""
    match expr:
        case Tap() | Coefficient():
            found = tuple(expr.picked[k] for (k,) in places) if expr.picked else places
            return replace(expr, picked=found)
        case Weight():
            return replace(expr, texts=tuple(expr.texts[k] for k in positions))
        case _:
            return expr


# The terms of a sum and their coefficients, with None for the constant.
Form: TypeAlias = dict[Read | None, float]

# More terms than this are not collected: they are no window that somebody wrote out.
MOST = 512


@dataclass(frozen=True, slots=True)
class Sum:
    """An explicit sum: its terms, and the window it is or why it becomes none, in words."""

    dtype: DType
    form: Form
    window: Reduce | str

    @property
    def terms(self) -> int:
        """How many elements are added."""
        return len(self.form.keys() - {None})


def windowed(kernel: Kernel, request: Request) -> Kernel:
    """Turn explicit sums into reductions where that is worthwhile."""
    found = sums(kernel, request.schedule, floats=request.fastmath)
    body: list[Assign] = []
    for assign in kernel.body:
        one = found.get(assign.name)
        if one is not None and isinstance(one.window, Reduce):
            assign = replace(assign, value=one.window)
            constant = one.form.get(None, 0)
            if constant:
                body.append(replace(assign, name=f"{assign.name}_sum"))
                total, more = Ref(one.dtype, body[-1].name), number(one.dtype, constant)
                assign = replace(assign, value=Binary(one.dtype, "+", total, more))
        body.append(assign)
    changed = replace(kernel, body=tuple(body))
    return kernel if changed == kernel else simplify(changed)


def sums(kernel: Kernel, schedule: Schedule, *, floats: bool = False) -> dict[str, Sum]:
    """Each explicit sum by its name, in their order."""
    forms: dict[str, Form] = {}
    # The linear assignments that something else than a linear one uses.
    roots = {atom.name for atom in kernel.outputs if isinstance(atom, Ref)}
    for assign in kernel.body:
        form = _form(assign.value, forms, floats)
        if form is not None and len(form) <= MOST:
            forms[assign.name] = form
        else:
            roots.update(operands(assign.value))
    found: dict[str, Sum] = {}
    for name, expr in named(kernel.body).items():
        if name not in roots & forms.keys() or isinstance(expr, Read):
            continue
        window: Reduce | str
        try:
            window = _window(forms[name], expr.dtype, schedule.separable)
        except Refused as error:
            window = str(error)
        found[name] = Sum(expr.dtype, forms[name], window)
    return found


def _form(expr: Expr, forms: Mapping[str, Form], floats: bool) -> Form | None:
    """The collected terms of an operation, if it is linear in reads."""
    if not (expr.dtype in (DType.INT, DType.UINT) or (floats and expr.dtype.is_float)):
        return None
    parts: list[tuple[Atom, float]]
    match expr:
        case Read():
            return {expr: 1}
        case Unary(op="-", arg=arg):
            parts = [(arg, -1)]
        case Binary(op="+" | "-" as op, left=left, right=right):
            parts = [(left, 1), (right, 1 if op == "+" else -1)]
        case (
            Binary(op="*", left=Const() as known, right=other)
            | Binary(op="*", left=other, right=Const() as known)
        ):
            parts = [(other, _number(known))]
        case _:
            return None
    total: Form = {}
    for atom, factor in parts:
        form = {None: _number(atom)} if isinstance(atom, Const) else forms.get(atom.name)
        if form is None:
            return None
        for term, weight in form.items():
            total[term] = total.get(term, 0) + factor * weight
    return {term: weight for term, weight in total.items() if weight != 0}


def _number(atom: Const) -> float:
    value = atom.value
    assert not isinstance(value, complex)
    return value


def _window(form: Form, dtype: DType, worthwhile: float) -> Reduce:
    """The reduction that a form is, where that is worthwhile."""
    terms = {term: weight for term, weight in form.items() if term is not None}
    fields = {(term.field, term.dtype) for term in terms}
    if len(terms) < 4:
        raise Refused("fewer than 4 terms gain nothing")
    if len(fields) != 1:
        raise Refused("its terms are of several fields")
    ((name, read_type),) = fields
    if read_type is not dtype:
        raise Refused("its terms are of another type than the sum")
    offsets = np.array([term.offset for term in terms])
    low, shape = offsets.min(axis=0), np.ptp(offsets, axis=0) + 1
    axes = np.flatnonzero(shape > 1)
    if len(axes) < 2:
        raise Refused("its terms lie along one axis")
    if np.prod(shape) > MOST:
        raise Refused("its terms lie far apart")
    if dtype.is_integer and max(map(abs, terms.values())) >= 2**53:
        raise Refused("its weights are too large")
    table = np.zeros(shape)
    table[tuple((offsets - low).T)] = [*terms.values()]
    table = table.reshape(shape[axes])
    found = separated(table, dtype.is_integer)
    in_turn = sum(weight != 0 for factor in found for weight in factor)
    if len(terms) < worthwhile * in_turn:
        raise Refused(
            f"axis by axis it needs {in_turn} reads instead of {len(terms)}: too small a gain"
        )
    tap = Assign("w0", Tap(dtype, name, tuple(low.tolist()), tuple(axes.tolist())))
    if (table == 1).all():
        return Reduce(dtype, "sum", table.shape, (tap,), Ref(dtype, "w0"))
    texts = tuple(number(dtype, value).text for value in table.ravel().tolist())
    weights = Assign("w1", Weight(dtype, texts))
    product = Assign("w2", Binary(dtype, "*", Ref(dtype, "w0"), Ref(dtype, "w1")))
    return Reduce(dtype, "sum", table.shape, (tap, weights, product), Ref(dtype, "w2"))


NO_PRODUCT = "its weights are no product of one factor for each axis"

# What the product of the factors may miss of a weight, in units of the largest one: a few
# roundings of the type in which the weights are applied.
TOLERANCE = {DType.F32: 2.0**-21, DType.C64: 2.0**-21}
FINE = 2.0**-50

Factors: TypeAlias = tuple[tuple[float, ...], ...]


def factors(reduce: Reduce, values: Mapping[str, Expr]) -> tuple[Atom, Factors, frozenset[str]]:
    """The window's element without its constant weights, and the weights axis by axis.

    An axis without weights has the factor ().  The names are those of the assignments that
    need no weight.  Refused if the weights are no product, or are not simply multiplied with.
    """
    heavy: set[str] = set()
    for name, value in values.items():
        if isinstance(value, Weight) or heavy.intersection(operands(value)):
            heavy.add(name)
    weightless, result = frozenset(values) - heavy, reduce.result
    if not isinstance(result, Ref) or result.name not in heavy:
        return result, ((),) * len(reduce.shape), weightless
    match values[result.name]:
        case Binary(op="*", left=left, right=right, dtype=dtype) if reduce.kind in ("sum", "mean"):
            for weight, element in ((left, right), (right, left)):
                table = uncast(weight, values)
                if not isinstance(element, Ref) or element.name in heavy:
                    continue
                if isinstance(table, Weight):
                    numbers = [Const(table.dtype, text).value for text in table.texts]
                    array = np.array(numbers, np.complex128).reshape(reduce.shape)
                    if array.imag.any():
                        raise Refused("its weights are complex")
                    # By its type: a bool counts as 0 or 1.
                    whole = all(isinstance(value, int) for value in numbers)
                    found = separated(array.real, whole, TOLERANCE.get(dtype, FINE))
                    return element, found, weightless
    raise Refused("its weights are not simply multiplied with")


def separated(weights: np.ndarray, whole: bool, tolerance: float = FINE) -> Factors:
    """A factor for each axis whose product is `weights`.

    Refused if there are none, and for `whole` numbers that a float does not hold.
    """
    shape: Offset = weights.shape
    fits = not whole or np.abs(weights).max() < 2**53
    if fits and weights.ndim == 1:
        return (tuple(weights.tolist()),)
    matrix = weights.reshape(shape[0], -1)
    largest = np.unravel_index(np.argmax(np.abs(matrix)), matrix.shape)
    pivot = matrix[largest]
    if not fits or pivot == 0:
        raise Refused(NO_PRODUCT)
    row, column = matrix[largest[0]], matrix[:, largest[1]]
    if whole:
        divisor = math.gcd(*(int(v) for v in row))
        row, column = row / divisor, column * divisor / pivot
        product = np.outer(column, row)
        fits = (column == np.round(column)).all() and np.array_equal(product, matrix)
    else:
        column = column / pivot
        fits = np.abs(np.outer(column, row) - matrix).max() <= tolerance * abs(pivot)
    if not fits:
        raise Refused(NO_PRODUCT)
    return tuple(column.tolist()), *separated(row.reshape(shape[1:]), whole, tolerance)
