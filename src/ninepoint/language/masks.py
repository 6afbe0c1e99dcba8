"""Masks: reductions of those elements of a window at which a condition holds.

    w.sum(where=m)       ->     sum of (m ? w : 0)
    w.mean(where=m)      ->     sum of (m ? w : 0) / sum of m
    w.max(where=m, initial=0)     ->     maximum(max of (m ? w : 0), 0)

A mask of constants picks its elements, as `w[mask]` does.  `initial` is one value more, as in
NumPy; an extreme needs one beside `where`, since the mask may leave nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import errors
from .callables import FUNCTIONS, UNMASKED, Builder, reduce, spread, whole
from .dtypes import DType
from .ir import Const, ReduceKind
from .values import Coefficients, Field, NotUnderstood, Operations, Value, is_number, words
from .windows import picked


def window_of(ops: Operations, value: Any, name: str) -> Value:
    """The window that is reduced; anything else is a mistake, or the general path's."""
    if isinstance(value, Coefficients):
        raise NotUnderstood(f"'{name}' of the whole array '{value.name}'", ops.span)
    if isinstance(value, np.ndarray) or is_number(value):
        raise errors.bad_operand(ops.span, f"'{name}'", words(value))
    window = ops.lift(value)
    if window.shape is None:
        raise errors.bad_operand(ops.span, f"'{name}'", "a single number")
    return window


def taken(ops: Operations, window: Value, where: Any) -> tuple[Value, Value | None]:
    """The window, or what a constant mask picks of it, and the condition that is left."""
    assert window.shape is not None
    if where is None or where is True:
        return window, None
    if isinstance(where, Field | Coefficients | tuple | str):
        raise errors.where_type(ops.span, words(where))
    if isinstance(where, np.ndarray):
        if where.dtype != bool:
            raise errors.where_type(ops.span, f"an array of {where.dtype}")
        if where.shape != window.shape:
            raise errors.mask_shape(ops.span, window.shape, where.shape)
        if where.all():
            return window, None
        if where.any():
            return picked(ops, window, where, ops.span, "where="), None
        where = False
    test = ops.lift(where)
    if test.atom.dtype is not DType.BOOL:
        numbers = "numbers, not truths"
        raise errors.where_type(ops.span, numbers if isinstance(where, Value) else words(where))
    if test.shape not in (None, window.shape):
        raise errors.mask_shape(ops.span, window.shape, test.shape)
    return window, test


def filled(ops: Operations, window: Value, test: Value, number: complex) -> Value:
    """The window with a number in the place of what is left out."""
    dtype = window.atom.dtype
    text = repr(complex(number)) if dtype.is_complex else repr(float(number.real))
    if dtype.is_integer:
        text = str(bool(number) if dtype is DType.BOOL else int(number.real))
    chosen: Value = ops.select(test, window, Value(Const(dtype, text), window.weak))
    return Value(chosen.atom, chosen.weak, window.shape)


def counted(ops: Operations, window: Value, test: Value) -> Any:
    """How many elements are taken."""
    assert window.shape is not None
    if test.shape is None:
        return ops.select(test, math.prod(window.shape), 0)
    return reduce(ops, "sum", test)


def mean_of(ops: Operations, window: Value, test: Value) -> Any:
    """The mean of what is taken; NaN of nothing."""
    # Added to, -0.0 changes nothing at all: what is left out needs no choice beforehand.
    terms = filled(ops, window, test, 0 if window.atom.dtype.is_complex else -0.0)
    if terms.atom.dtype in (DType.INT, DType.UINT):
        # A sum that does not wrap, for it becomes a float.
        total = reduce(ops, "sum", terms, dtype=DType.F64)
    else:
        total = reduce(ops, "sum", terms)
    return ops.binary("/", total, counted(ops, window, test))


def squares_of(ops: Operations, window: Value, test: Value) -> Any:
    """The sum of squares about the mean of what is taken."""
    # In two passes, as NumPy does it: nothing cancels.
    apart = ops.binary("-", window, mean_of(ops, window, test))
    return reduce(ops, "sum", filled(ops, ops.binary("*", apart, apart), test, -0.0))


def _total(kind: ReduceKind, first: int, op: str) -> Builder:
    def build(
        ops: Operations, value: Any, axis: Any = None, *, initial: Any = None, where: Any = None
    ) -> Any:
        whole(ops, axis)
        window, test = taken(ops, window_of(ops, value, kind), where)
        if test is not None:
            window = filled(ops, window, test, first)
        found = reduce(ops, kind, window)
        return found if initial is None else ops.binary(op, found, initial)

    return build


def _extreme(kind: ReduceKind) -> Builder:
    def build(
        ops: Operations, value: Any, axis: Any = None, *, initial: Any = None, where: Any = None
    ) -> Any:
        whole(ops, axis)
        window, test = taken(ops, window_of(ops, value, kind), where)
        if where is not None and where is not True:
            check_initial(ops, kind, initial)
        if test is not None:
            window = ops.select(test, window, initial)
        found = reduce(ops, kind, window)
        return found if initial is None else FUNCTIONS[EXTREMES[kind]](ops, found, initial)

    return build


EXTREMES = {"min": np.minimum, "max": np.maximum}


def check_initial(ops: Operations, name: str, initial: Any) -> None:
    """Demand what an extreme of nothing is, which is a number or a value of the point."""
    if initial is None:
        raise errors.where_initial(ops.span, name)
    if ops.lift(initial).shape is not None:
        raise errors.bad_operand(ops.span, "'initial'", words(initial))


def _mean(ops: Operations, value: Any, axis: Any = None, *, where: Any = None) -> Any:
    whole(ops, axis)
    window, test = taken(ops, window_of(ops, value, "mean"), where)
    return reduce(ops, "mean", window) if test is None else mean_of(ops, window, test)


def _truths(kind: ReduceKind) -> Builder:
    def build(ops: Operations, value: Any, axis: Any = None, *, where: Any = None) -> Any:
        whole(ops, axis)
        window, test = taken(ops, window_of(ops, value, kind), where)
        if test is not None:
            window = filled(ops, ops.truth(window), test, kind == "all")
        return reduce(ops, kind, window)

    return build


def _variance(ops: Operations, value: Any, ddof: Any, where: Any = None) -> Any:
    window, test = taken(ops, window_of(ops, value, "var"), where)
    if test is None:
        return reduce(ops, "var", window, float(ddof))
    if window.atom.dtype.is_complex:
        raise errors.bad_operand(ops.span, "'var'", "complex numbers")
    left = ops.binary("-", counted(ops, window, test), ddof)
    divisor = ops.select(ops.binary(">", left, 0), left, ops.binary("*", left, 0))
    return ops.binary("/", squares_of(ops, window, test), divisor)


METHODS: dict[str, Builder] = UNMASKED | {
    "sum": _total("sum", 0, "+"),
    "prod": _total("prod", 1, "*"),
    "mean": _mean,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "any": _truths("any"),
    "all": _truths("all"),
    "std": spread("var", True, _variance),
    "var": spread("var", False, _variance),
}

REDUCTIONS: dict[Any, Builder] = {
    getattr(np, name): METHODS[name]
    for name in ("sum", "prod", "mean", "min", "max", "any", "all", "var", "std")
} | {np.amin: METHODS["min"], np.amax: METHODS["max"]}
