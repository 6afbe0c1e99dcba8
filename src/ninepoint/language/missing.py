"""Reductions that leave NaN out, or count: written in terms of those that every pass knows.

    np.nanmean(w)      ->     sum of (w == w ? w : 0) over the window / sum of (w == w)
    np.nanmin(w)       ->     n = sum of (w == w);  n != 0 ? min of (w == w ? w : inf) : nan
    np.nanvar(w)       ->     m = nanmean(w);  sum of (w == w ? (w - m)**2 : 0) / (n - ddof)

Integers have no NaN, so for them these are the plain reductions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import errors
from .callables import FUNCTIONS, Builder, reduce, spread, whole
from .ir import Const, ReduceKind
from .values import Coefficients, NotUnderstood, Operations, Value, is_number, words


def _window(ops: Operations, value: Any, name: str) -> Value:
    """The window that is reduced; anything else is a mistake, or the general path's."""
    if isinstance(value, Coefficients):
        raise NotUnderstood(f"'{name}' of the whole array '{value.name}'", ops.span)
    if isinstance(value, np.ndarray) or is_number(value):
        raise errors.bad_operand(ops.span, f"'{name}'", words(value))
    window = ops.lift(value)
    if window.shape is None:
        raise errors.bad_operand(ops.span, f"'{name}'", "a single number")
    return window


def _there(ops: Operations, window: Value) -> Value:
    """Whether each element is a number, and not NaN."""
    there: Value = ops.binary("==", window, window)
    return there


def _nan(value: Value) -> Value:
    return Value(Const(value.atom.dtype, "nan"))


def _filled(ops: Operations, window: Value, text: str) -> Value:
    """The window with another number in the place of each NaN."""
    filled: Value = ops.select(
        _there(ops, window), window, Value(Const(window.atom.dtype, text), window.weak)
    )
    return filled


def _zero(window: Value) -> str:
    return "0j" if window.atom.dtype.is_complex else "0.0"


def _one(window: Value) -> str:
    return "(1+0j)" if window.atom.dtype.is_complex else "1.0"


def _nansum(ops: Operations, value: Any) -> Any:
    window = _window(ops, value, "np.nansum")
    if window.atom.dtype.is_integer:
        return reduce(ops, "sum", window)
    return reduce(ops, "sum", _filled(ops, window, _zero(window)))


def _nanprod(ops: Operations, value: Any) -> Any:
    window = _window(ops, value, "np.nanprod")
    if window.atom.dtype.is_integer:
        return reduce(ops, "prod", window)
    return reduce(ops, "prod", _filled(ops, window, _one(window)))


def _nanmean(ops: Operations, value: Any) -> Any:
    window = _window(ops, value, "np.nanmean")
    if window.atom.dtype.is_integer:
        return reduce(ops, "mean", window)
    return ops.binary("/", _nansum(ops, window), reduce(ops, "sum", _there(ops, window)))


def _nan_extreme(kind: ReduceKind, last: str) -> Builder:
    def build(ops: Operations, value: Any) -> Any:
        window = _window(ops, value, f"np.nan{kind}")
        if window.atom.dtype.is_integer or window.atom.dtype.is_complex:
            return reduce(ops, kind, window)
        found = reduce(ops, kind, _filled(ops, window, last))
        return ops.select(reduce(ops, "any", _there(ops, window)), found, _nan(found))

    return build


def _nan_variance(ops: Operations, value: Any, ddof: Any) -> Value:
    window = _window(ops, value, "np.nanvar")
    if window.atom.dtype.is_integer or window.atom.dtype.is_complex:
        return reduce(ops, "var", window, float(ddof))
    # In two passes, as NumPy does it: nothing cancels.
    apart = ops.binary("-", window, _nanmean(ops, window))
    zero = Value(Const(window.atom.dtype, "0.0"), window.weak)
    squares = ops.select(_there(ops, window), ops.binary("*", apart, apart), zero)
    count = ops.binary("-", reduce(ops, "sum", _there(ops, window)), ddof)
    found = ops.binary("/", reduce(ops, "sum", squares), count)
    variance: Value = ops.select(ops.binary(">", count, 0), found, _nan(found))
    return variance


def _count_nonzero(ops: Operations, value: Any) -> Any:
    window = _window(ops, value, "np.count_nonzero")
    return reduce(ops, "sum", ops.truth(window))


def _average(ops: Operations, value: Any, axis: Any = None, weights: Any = None) -> Any:
    whole(ops, axis)
    window = _window(ops, value, "np.average")
    if weights is None:
        return reduce(ops, "mean", window)
    assert window.shape is not None
    if isinstance(weights, tuple | list):
        weights = np.array(weights)
    if isinstance(weights, np.ndarray):
        items = weights.ravel().tolist()
        total = sum(items) if weights.dtype.kind != "f" else math.fsum(items)
        if not total:
            raise errors.wrong_arguments(ops.span, "average", "the sum of the weights is zero")
    else:
        total = reduce(ops, "sum", ops.as_window(weights, window.shape))
    return ops.binary("/", reduce(ops, "sum", ops.binary("*", window, weights)), total)


REDUCTIONS: dict[Any, Builder] = {
    np.nansum: _nansum,
    np.nanprod: _nanprod,
    np.nanmean: _nanmean,
    np.nanmin: _nan_extreme("min", "inf"),
    np.nanmax: _nan_extreme("max", "-inf"),
    np.nanvar: spread("nanvar", False, _nan_variance),
    np.nanstd: spread("nanvar", True, _nan_variance),
    np.count_nonzero: _count_nonzero,
    np.average: _average,
}

# Every function that is understood.
KNOWN: dict[Any, Builder] = FUNCTIONS | REDUCTIONS
