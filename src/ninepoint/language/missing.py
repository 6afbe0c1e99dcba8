"""Reductions that leave NaN out, or count: written in terms of those that every pass knows.

    np.nanmean(w)      ->     sum of (w == w ? w : 0) over the window / sum of (w == w)
    np.nanmin(w)       ->     n = sum of (w == w);  n != 0 ? min of (w == w ? w : inf) : nan
    np.nanvar(w)       ->     m = nanmean(w);  sum of (w == w ? (w - m)**2 : 0) / (n - ddof)

Integers have no NaN, so for them these are the plain reductions.  Ranks among what is no NaN are
an operation of their own, for which see `lowering.valid`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import errors, masks
from .callables import FUNCTIONS, Builder, fraction, reduce, spread, whole
from .dtypes import DType
from .ir import Const, ReduceKind
from .masks import (
    METHODS,
    check_initial,
    counted,
    filled,
    mean_of,
    squares_of,
    taken,
    window_of,
)
from .ranked import ranked
from .values import Operations, Value


def _there(ops: Operations, window: Value, test: Value | None = None) -> Value:
    """Whether each element is a number, and not NaN, and taken."""
    there: Value = ops.binary("==", window, window)
    return there if test is None else ops.binary("&", there, test)


def _nan(value: Value) -> Value:
    return Value(Const(value.atom.dtype, "nan"))


def _total(name: str, kind: ReduceKind, first: int, op: str) -> Builder:
    plain = METHODS[kind]

    def build(
        ops: Operations, value: Any, axis: Any = None, *, initial: Any = None, where: Any = None
    ) -> Any:
        whole(ops, axis)
        window = window_of(ops, value, f"np.{name}")
        if window.atom.dtype.is_integer:
            return plain(ops, window, initial=initial, where=where)
        window, test = taken(ops, window, where)
        numbers = filled(ops, window, _there(ops, window, test), first)
        found = reduce(ops, kind, numbers)
        return found if initial is None else ops.binary(op, found, initial)

    return build


def _nanmean(ops: Operations, value: Any, axis: Any = None, *, where: Any = None) -> Any:
    whole(ops, axis)
    window = window_of(ops, value, "np.nanmean")
    if window.atom.dtype.is_integer:
        return METHODS["mean"](ops, window, where=where)
    window, test = taken(ops, window, where)
    return mean_of(ops, window, _there(ops, window, test))


def _nan_extreme(kind: ReduceKind, last: float) -> Builder:
    plain, better = METHODS[kind], FUNCTIONS[np.fmin if kind == "min" else np.fmax]

    def build(
        ops: Operations, value: Any, axis: Any = None, *, initial: Any = None, where: Any = None
    ) -> Any:
        whole(ops, axis)
        window = window_of(ops, value, f"np.nan{kind}")
        if window.atom.dtype.is_integer or window.atom.dtype.is_complex:
            return plain(ops, window, initial=initial, where=where)
        if where is not None and where is not True:
            check_initial(ops, f"nan{kind}", initial)
        window, test = taken(ops, window, where)
        there = _there(ops, window, test)
        found = reduce(ops, kind, filled(ops, window, there, last))
        found = ops.select(reduce(ops, "any", there), found, _nan(found))
        return found if initial is None else better(ops, found, initial)

    return build


def _nan_variance(ops: Operations, value: Any, ddof: Any, where: Any = None) -> Value:
    window = window_of(ops, value, "np.nanvar")
    if window.atom.dtype.is_integer or window.atom.dtype.is_complex:
        plain: Value = METHODS["var"](ops, window, ddof=ddof, where=where)
        return plain
    window, test = taken(ops, window, where)
    there = _there(ops, window, test)
    count = ops.binary("-", counted(ops, window, there), ddof)
    found = ops.binary("/", squares_of(ops, window, there), count)
    variance: Value = ops.select(ops.binary(">", count, 0), found, _nan(found))
    return variance


def _in_order(ops: Operations, value: Any, name: str) -> Value:
    """The window, whose elements can be put in order."""
    window = window_of(ops, value, name)
    if window.atom.dtype.is_complex:
        raise errors.bad_operand(ops.span, f"'{name}'", "complex numbers")
    return window


def _nan_quantile(scale: float, name: str) -> Builder:
    def build(ops: Operations, value: Any, q: Any, axis: Any = None) -> Any:
        whole(ops, axis)
        window = _in_order(ops, value, f"np.{name}")
        kind: ReduceKind = "quantile" if window.atom.dtype.is_integer else "nanquantile"
        return reduce(ops, kind, window, fraction(ops, q, scale, name))

    return build


def _nanmedian(ops: Operations, value: Any, axis: Any = None) -> Any:
    return _nan_quantile(1.0, "nanmedian")(ops, value, 0.5, axis)


def _ranked(ops: Operations, value: Any, percentage: Any) -> Any:
    # Only filters call it, by these names.
    window = _in_order(ops, value, "median' or 'percentile")
    if window.atom.dtype.is_integer:
        window = Value(ops.cast(window, DType.F64), window.weak, window.shape)
    fraction(ops, percentage, 100.0, "ranked()")
    return reduce(ops, "nanrank", window, float(percentage))


def _count_nonzero(ops: Operations, value: Any) -> Any:
    window = window_of(ops, value, "np.count_nonzero")
    return reduce(ops, "sum", ops.truth(window))


def _average(ops: Operations, value: Any, axis: Any = None, weights: Any = None) -> Any:
    whole(ops, axis)
    window = window_of(ops, value, "np.average")
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
    np.nansum: _total("nansum", "sum", 0, "+"),
    np.nanprod: _total("nanprod", "prod", 1, "*"),
    np.nanmean: _nanmean,
    np.nanmin: _nan_extreme("min", math.inf),
    np.nanmax: _nan_extreme("max", -math.inf),
    np.nanvar: spread("nanvar", False, _nan_variance),
    np.nanstd: spread("nanvar", True, _nan_variance),
    np.nanmedian: _nanmedian,
    np.nanpercentile: _nan_quantile(100.0, "nanpercentile"),
    np.nanquantile: _nan_quantile(1.0, "nanquantile"),
    np.count_nonzero: _count_nonzero,
    np.average: _average,
    ranked: _ranked,
}

# Every function that is understood.
KNOWN: dict[Any, Builder] = FUNCTIONS | masks.REDUCTIONS | REDUCTIONS
