"""Reductions that leave NaN out, or count: written in terms of those that every pass knows.

    np.nanmean(w)      ->     sum of (w == w ? w : 0) over the window / sum of (w == w)
    np.nanmin(w)       ->     n = sum of (w == w);  n != 0 ? min of (w == w ? w : inf) : nan
    np.nanvar(w)       ->     m = nanmean(w);  sum of (w == w ? (w - m)**2 : 0) / (n - ddof)

Integers have no NaN, so for them these are the plain reductions.  Ranks among what is no NaN are
an operation of their own, for which see `lowering.valid`.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from . import errors, masks
from .callables import FUNCTIONS, Builder, fraction, reduce, spread, whole
from .dtypes import DType
from .ir import Atom, Const, Expr, ReduceKind
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
from .networks import merged, sort
from .statistics import in_order, ranked
from .values import NotUnderstood, Operations, Value
from .windows import picked

# Elements up to which a network puts them in order: one of 81 takes 7 s to compile, one of 49
# takes 1.7 s (two cores of a Zen 4).
NETWORK = 100


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


def _elements(ops: Operations, value: Any, name: str, cut: Any = 0.0) -> tuple[Value, ...]:
    """The elements in order, by a network, whose first part is what neighbours have too."""
    window = _in_order(ops, value, name)
    assert window.shape is not None
    count = math.prod(window.shape)
    fraction(ops, cut, 0.5, name)
    if 2 * int(cut * count) >= count:
        raise errors.wrong_arguments(ops.span, name, f"nothing is left of {count} elements")
    if count > NETWORK:
        raise NotUnderstood(f"a window of more than {NETWORK} elements in order", ops.span)

    def emit(expr: Expr) -> Atom:
        return ops.emit(expr).atom

    # Three operations for each of so many comparators, and others for what is made of them.
    ops.body.limit += 3 * count * count.bit_length() ** 2
    across = [range(n) for n in window.shape[:-1]] if len(window.shape) > 1 else []
    lists = [
        sort([picked(ops, window, (*i, k), ops.span, name).atom for i in product(*across)], emit)
        for k in range(window.shape[-1])
    ]
    ordered = merged(lists, emit) if across else sort([one[0] for one in lists], emit)
    if window.atom.dtype.is_float:
        known = reduce(ops, "all", ops.binary("==", window, window))
        ordered[-1] = ops.select(known, Value(ordered[-1]), _nan(window)).atom
    return tuple(Value(one, window.weak) for one in ordered)


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
    in_order: _elements,
}

# Every function that is understood.
KNOWN: dict[Any, Builder] = FUNCTIONS | masks.REDUCTIONS | REDUCTIONS
