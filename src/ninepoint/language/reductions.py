"""Reductions of windows: one number from all elements, or from those that count.

    w.sum(where=m)       ->     sum of (m ? w : 0)
    w.mean(where=m)      ->     sum of (m ? w : 0) / sum of m
    w.max(where=m, initial=0)     ->     maximum(max of (m ? w : 0), 0)
    np.nanmean(w)      ->     sum of (w == w ? w : 0) over the window / sum of (w == w)
    np.nanmin(w)       ->     n = sum of (w == w);  n != 0 ? min of (w == w ? w : inf) : nan
    np.nanvar(w)       ->     m = nanmean(w);  sum of (w == w ? (w - m)**2 : 0) / (n - ddof)

A mask of constants picks its elements, as `w[mask]` does.  `initial` is one value more, as in
NumPy; an extreme needs one beside `where`, since the mask may leave nothing.  What leaves NaN out
has one condition more; integers have no NaN, so for them these are the plain reductions.  Ranks
among what is no NaN are an operation of their own, for which see `lowering.windows`.
"""

from __future__ import annotations

import builtins
import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .errors import mistake
from .ir import RANKED, Coefficients, Const, DType, Reduce, ReduceKind, sort
from .operations import (
    Builder,
    as_window,
    binary,
    call,
    cast,
    float_function,
    float_of,
    in_common,
    lift,
    logical,
    select,
    truth,
)
from .statistics import in_order, ranked
from .values import NotUnderstood, Value, emit, is_number, picked, reading, words

# Elements up to which a network puts them in order: one of 81 takes 7 s to compile, one of 49
# takes 1.7 s (two cores of a Zen 4).
NETWORK = 100

# What complex numbers have none of.
_ORDERED = RANKED | {"min", "max", "argmin", "argmax", "var"}


def window_of(value: Any, name: str, axis: Any = None, *, ordered: bool = False) -> Value:
    """The window that is reduced; raises where it is none, or is reduced along one axis only.

    Elements that are to be `ordered` must not be complex numbers.
    """
    if axis is not None:
        raise NotUnderstood("the argument 'axis'")
    if isinstance(value, Coefficients):
        raise NotUnderstood(f"'{name}' of the whole array '{value.name}'")
    if isinstance(value, np.ndarray) or is_number(value):
        raise mistake("bad-operand", f"'{name}'", words(value))
    window = lift(value)
    if not window.shape:
        raise mistake("bad-operand", f"'{name}'", "a single number")
    if ordered and window.dtype.is_complex:
        raise mistake("bad-operand", f"'{name}'", "complex numbers")
    return window


def reduce(
    kind: ReduceKind,
    value: Any,
    parameter: float = 0.0,
    dtype: DType | None = None,
) -> Value:
    """One number from a window, of NumPy's type for it or of `dtype`."""
    window = window_of(value, kind, ordered=kind in _ORDERED)
    taken = natural = source = window.dtype
    whole = DType.INT if source is DType.BOOL else source
    match kind:
        case "sum" | "prod":
            taken = natural = whole
        case "mean" | "var" | "quantile":
            taken, natural = whole, float_of(source)
        case "any" | "all":
            taken = natural = DType.BOOL
        case "argmin" | "argmax":
            natural = DType.INT
    atom = truth(window).atom if taken is DType.BOOL else cast(window, taken).atom
    body = reading.windows.assignments((atom,))
    return emit(Reduce(dtype or natural, kind, window.shape, body, atom, parameter))


# Which elements count.


def _taken(name: str, value: Any, axis: Any, where: Any) -> tuple[Value, Value | None]:
    """The window, or what a constant mask picks of it; and which of its elements count.

    All of them do where that is None.  For a reduction that leaves NaN out, those do not.
    """
    kind = name.removeprefix("nan")
    label = name if kind == name else f"np.{name}"
    window = window_of(value, label, axis, ordered=kind in _ORDERED)
    test = None
    if isinstance(where, np.ndarray) and where.dtype == bool:
        if where.shape != window.shape:
            raise mistake("mask-shape", window.shape, where.shape)
        if where.any() and not where.all():
            window = picked(window, where, "where=")
        where = bool(where.any())
    if where is not None and where is not True:
        if not isinstance(where, Value | bool):
            array = isinstance(where, np.ndarray)
            raise mistake("where-type", f"an array of {where.dtype}" if array else words(where))
        test = lift(where)
        if test.dtype is not DType.BOOL:
            raise mistake("where-type", "numbers, not truths")
        if test.shape not in ((), window.shape):
            raise mistake("mask-shape", window.shape, test.shape)
    if kind != name and not window.dtype.is_integer:
        there = window == window
        test = there if test is None else there & test
    return window, test


def _filled(window: Value, test: Value | None, number: float) -> Any:
    """The window with a number in the place of what is left out."""
    if test is None:
        return window
    return select(test, window, replace(cast(lift(number), window.dtype), weak=window.weak))


def _counted(window: Value, test: Value) -> Any:
    """How many elements are taken."""
    if not test.shape:
        return select(test, math.prod(window.shape), 0)
    return reduce("sum", test)


def _mean_of(window: Value, test: Value | None) -> Any:
    """The mean of what is taken; NaN of nothing."""
    if test is None:
        return reduce("mean", window)
    # Added to, -0.0 changes nothing at all: what is left out needs no choice beforehand.
    terms = _filled(window, test, 0 if window.dtype.is_complex else -0.0)
    # A sum that does not wrap, for it becomes a float.
    exact = DType.F64 if terms.dtype in (DType.INT, DType.UINT) else None
    total = reduce("sum", terms, dtype=exact)
    return total / _counted(window, test)


def _nan(value: Value) -> Value:
    return Value(Const(value.dtype, "nan"))


# The reductions, by the names that NumPy has for them: "nansum" leaves NaN out.


def _total(
    name: str, value: Any, axis: Any = None, *, initial: Any = None,
    where: Any = None,
) -> Any:  # fmt: skip
    window, test = _taken(name, value, axis, where)
    kind: Any = name.removeprefix("nan")
    first, op = (0, "+") if kind == "sum" else (1, "*")
    found = reduce(kind, _filled(window, test, first))
    return found if initial is None else binary(op, found, initial)


def _mean(name: str, value: Any, axis: Any = None, *, where: Any = None) -> Any:
    return _mean_of(*_taken(name, value, axis, where))


def _extreme(
    name: str, value: Any, axis: Any = None, *, initial: Any = None,
    where: Any = None,
) -> Any:  # fmt: skip
    kind: Any = name.removeprefix("nan")
    window, test = _taken(name, value, axis, where)
    skips = name != kind and window.dtype.is_float
    if where is not None and where is not True:
        if initial is None:
            raise mistake("where-initial", name if skips else kind)
        if lift(initial).shape:
            raise mistake("bad-operand", "'initial'", words(initial))
    if skips:
        window = _filled(window, test, math.inf if kind == "min" else -math.inf)
    elif test is not None:
        window = select(test, window, initial)
    found = reduce(kind, window)
    if skips:
        found = select(reduce("any", test), found, _nan(found))
    if initial is None:
        return found
    if skips:
        return float_function(f"f{kind}", False, found, initial)
    return binary(f"{kind}imum", found, initial)


def _truths(kind: ReduceKind, value: Any, axis: Any = None, *, where: Any = None) -> Any:
    window, test = _taken(kind, value, axis, where)
    return reduce(kind, _filled(truth(window), test, kind == "all"))


def _spread(
    name: str, value: Any, axis: Any = None, dtype: Any = None, out: Any = None,
    ddof: Any = 0, *, where: Any = None,
) -> Any:  # fmt: skip
    """`np.var` or its like, or the square root of it."""
    variance = name.replace("std", "var")
    if dtype is not None or out is not None:
        raise NotUnderstood("the arguments 'dtype' and 'out'")
    if not is_number(ddof) or isinstance(ddof, complex):
        raise mistake("wrong-arguments", variance, "'ddof' is not a constant number")
    window, test = _taken(variance, value, axis, where)
    skips = name.startswith("nan") and window.dtype.is_float
    found = _variance(window, test, ddof, skips)
    return call("sqrt", found.dtype, found) if name != variance else found


def _variance(window: Value, test: Value | None, ddof: Any, skips: bool) -> Any:
    if test is None:
        return reduce("var", window, float(ddof))
    left = _counted(window, test) - ddof
    divisor = left if skips else select(left > 0, left, left * 0)
    # In two passes, as NumPy does it: nothing cancels.
    apart = window - _mean_of(window, test)
    found = reduce("sum", _filled(apart * apart, test, -0.0)) / divisor
    return select(left > 0, found, _nan(found)) if skips else found


def _reduction(kind: ReduceKind, value: Any, axis: Any = None) -> Any:
    return reduce(kind, window_of(value, kind, axis))


def _fraction(q: Any, scale: float, name: str) -> float:
    """A constant from 0 to `scale` as a fraction."""
    if isinstance(q, Value) and not q.shape:
        raise NotUnderstood("a fraction that is not constant")
    if not is_number(q) or isinstance(q, complex) or not 0 <= q <= scale:
        raise mistake("fraction", name, scale, words(q))
    return float(q) / scale


def _quantile(name: str, value: Any, q: Any, axis: Any = None) -> Any:
    skips, scale = name.startswith("nan"), 100.0 if name.endswith("percentile") else 1.0
    window = window_of(value, f"np.{name}" if skips else "quantile", axis, ordered=True)
    plain = window.dtype.is_integer or not skips
    kind: ReduceKind = "quantile" if plain else "nanquantile"
    return reduce(kind, window, _fraction(q, scale, name))


def _median(name: str, value: Any, axis: Any = None) -> Any:
    return _quantile(name, value, 0.5, axis)


def _peak_to_peak(value: Any) -> Any:
    most, least = (lift(reduce(kind, value)) for kind in ("max", "min"))
    if most.dtype is DType.UINT:
        # Never negative, so that 64 bits hold it.
        return in_common("-", DType.UINT, most, least)
    return most - least


def _any_all(kind: ReduceKind, op: str, items: Any) -> Any:
    """Builtin any/all of a tuple."""
    if not isinstance(items, tuple):
        return reduce(kind, items)
    result: Any = op == "&"
    for item in items:
        result = logical(op, result, truth(item))
    return result


def _average(value: Any, axis: Any = None, weights: Any = None) -> Any:
    window = window_of(value, "np.average", axis)
    if weights is None:
        return reduce("mean", window)
    if isinstance(weights, tuple | list):
        weights = np.array(weights)
    if isinstance(weights, np.ndarray):
        items = weights.ravel().tolist()
        total = sum(items) if weights.dtype.kind != "f" else math.fsum(items)
        if not total:
            raise mistake("wrong-arguments", "average", "the sum of the weights is zero")
    else:
        total = reduce("sum", as_window(weights, window.shape))
    return reduce("sum", window * weights) / total


def _ranked(value: Any, percentage: Any) -> Any:
    # Only filters call it, by these names.
    window = window_of(value, "median' or 'percentile", ordered=True)
    if window.dtype.is_integer:
        window = cast(window, DType.F64)
    _fraction(percentage, 100.0, "ranked()")
    return reduce("nanrank", window, float(percentage))


def _elements(value: Any, name: str, cut: Any = 0.0) -> tuple[Value, ...]:
    """The elements in order, by a network."""
    window = window_of(value, name, ordered=True)
    count = math.prod(window.shape)
    _fraction(cut, 0.5, name)
    if 2 * int(cut * count) >= count:
        raise mistake("wrong-arguments", name, f"nothing is left of {count} elements")
    if count > NETWORK:
        raise NotUnderstood(f"a window of more than {NETWORK} elements in order")
    # Three operations for each of so many comparators, and others for what is made of them.
    reading.body.limit += 3 * count * count.bit_length() ** 2
    elements = [picked(window, place, name).atom for place in np.ndindex(window.shape)]
    ordered = sort(elements, lambda expr: emit(expr).atom)
    if window.dtype.is_float:
        known = reduce("all", window == window)
        ordered[-1] = select(known, Value(ordered[-1]), _nan(window)).atom
    return tuple(Value(one, window.weak) for one in ordered)


# Those that there are for numbers that are no NaN as well.
_BOTH: dict[str, Builder] = {
    "sum": _total,
    "prod": _total,
    "mean": _mean,
    "min": _extreme,
    "max": _extreme,
    "std": _spread,
    "var": _spread,
    "median": _median,
    "quantile": _quantile,
    "percentile": _quantile,
}

# The functions that reduce a window.
REDUCTIONS: dict[Any, Builder] = {
    **{
        getattr(np, f"{nan}{name}"): partial(make, f"{nan}{name}")
        for name, make in _BOTH.items()
        for nan in ("", "nan")
    },
    np.any: partial(_truths, "any"),
    np.all: partial(_truths, "all"),
    np.argmin: partial(_reduction, "argmin"),
    np.argmax: partial(_reduction, "argmax"),
    np.ptp: _peak_to_peak,
    builtins.any: partial(_any_all, "any", "|"),
    builtins.all: partial(_any_all, "all", "&"),
    np.amin: partial(_extreme, "min"),
    np.amax: partial(_extreme, "max"),
    np.count_nonzero: lambda value: reduce("sum", truth(window_of(value, "np.count_nonzero"))),
    np.average: _average,
    ranked: _ranked,
    in_order: _elements,
}
