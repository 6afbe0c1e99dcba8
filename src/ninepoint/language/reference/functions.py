"""What Python's, `math`'s and NumPy's functions mean for the numbers of a kernel.

The functions themselves do the work; here are only the places where a kernel's rules
differ from them: integers stay exact, an integer never widens a float, nothing raises.

The reductions of a window: of integers sums, differences and extremes stay integers; what divides
is a float64.  Floats are added from left to right in double precision; the result has the type of
the elements.
"""

from __future__ import annotations

import math
from functools import partial, reduce
from typing import Any

import numpy as np

from ..functions import origin
from .number import (
    DOUBLE,
    OPERATORS,
    SINGLE,
    WRITTEN,
    Array,
    Number,
    Operation,
    binary,
    common,
    converted,
    integer,
    plain,
    see,
    truncated,
    wrapped,
)


def _strong(value: Any) -> Any:
    """A number as NumPy's functions take and give it: one of Python's is one of NumPy's."""
    value = plain(value)
    return see(np.asarray(value)[()] if type(value) in (float, complex) else value)


def is_known(value: Any) -> bool:
    """Whether it is a function of numbers: a conversion of Python's, one of `math` or of NumPy."""
    if not callable(value):
        return False
    return isinstance(value, np.ufunc) or origin(value) in ("math", "numpy") or value in WRITTEN


def called(function: Any, *arguments: Any, **options: Any) -> Any:
    """Such a function of numbers."""
    options = {name: plain(value) for name, value in options.items()}
    if function in OPERATORS:
        # Of numbers of NumPy, which know Python's operators.
        found = function(see(arguments[0]), *arguments[1:], **options)
        return tuple(map(_strong, found)) if function is np.divmod else _strong(found)
    if function in EXACT:
        return EXACT[function](*arguments, **options)
    if getattr(function, "__module__", None) == "math":
        return _call_math(function, *arguments, **options)
    if isinstance(function, type) and issubclass(function, np.generic):
        return Number(converted(arguments[0] if arguments else 0, function))
    values = [plain(value) for value in arguments]
    if function in OF_INTEGERS and integer(values[0]):
        return OF_INTEGERS[function](see(values[0]))
    narrow = any(isinstance(v, SINGLE) for v in values)
    wide = any(isinstance(v, DOUBLE) for v in values)
    float_kind = np.float32 if narrow and not wide else np.float64
    values = [converted(v, float_kind) if integer(v) else v for v in values]
    return see(function(*values, **options))


def _call_math(function: Operation, *arguments: Any) -> Any:
    """A function of `math`: weak floats; what NumPy gives where Python would raise."""
    if function in (math.floor, math.ceil, math.trunc):
        found = called(getattr(np, function.__name__), *arguments)
        return found if integer(found.value) else Number(truncated(found.value))
    values = [int(v) if isinstance(v, np.uint64) else v for v in map(plain, arguments)]
    try:
        return see(function(*values))
    except (ValueError, ArithmeticError):
        numpys = getattr(np, function.__name__, lambda *values: math.nan)
        beyond: Operation = BEYOND.get(function, numpys)
        return Number(float(beyond(*map(np.float64, values))))


def _of_words(builtin: Any, left: Any, right: Any) -> Number | None:
    """The lesser or the greater of two integers, with a uint64 among them; None of others.

    Beside an integer that might be negative the lesser is an int, and the greater a uint64.
    """
    a, b = plain(left), plain(right)
    if not (integer(a) and integer(b)) or np.uint64 not in (type(a), type(b)):
        return None
    unsigned = isinstance(binary("+", left, right).value, np.uint64)
    return wrapped(builtin(int(a), int(b)), builtin is max or unsigned)


def _extreme(builtin: Any, ufunc: Any, left: Any, right: Any) -> Number:
    """The lesser or the greater of two, or NaN."""
    found = _of_words(builtin, left, right)
    if found is not None:
        return found
    a, b = common(left, right)
    return Number(builtin(a, b) if integer(a) else ufunc(a, b))


minimum = partial(_extreme, min, np.minimum)
maximum = partial(_extreme, max, np.maximum)


def clip(value: Any, least: Any = None, greatest: Any = None, **named: Any) -> Any:
    """`np.clip`: the maximum with `least`, then the minimum with `greatest`."""
    least, greatest = named.get("min", least), named.get("max", greatest)
    value = value if least is None else maximum(value, least)
    return see(value) if greatest is None else minimum(value, greatest)


def ordered(builtin: Any, *arguments: Any, **options: Any) -> Any:
    """Python's `min` or `max`; numbers of two types have one type, whichever is less."""
    items = list(arguments[0]) if len(arguments) == 1 else list(arguments)
    if options or len(items) < 2:
        return builtin(*arguments, **options)

    def pair(found: Any, item: Any) -> Any:
        words = _of_words(builtin, found, item)
        if words is not None:
            return words
        if isinstance(plain(found), np.floating) and isinstance(plain(item), np.floating):
            found, item = map(Number, common(found, item))
        return builtin(found, item)

    return reduce(pair, items)


# What gives the number where a function of `math` raises, if not NumPy's of the same name.
BEYOND: dict[Any, Operation] = {
    math.pow: np.power,
    math.atanh: np.arctanh,
    math.log: lambda value, base=math.e: np.log(value) / np.log(base),
    math.gamma: lambda value: math.copysign(math.inf, value) if value >= 0 else math.nan,
    math.lgamma: lambda value: math.inf,
}


def _round(value: Any, decimals: Any = 0) -> Any:
    value, decimals = see(value), plain(decimals)
    if integer(value.value):
        return value if decimals >= 0 else round(value, decimals)
    return see(np.round(value.value, decimals))


def _sign(value: Any) -> Any:
    return binary("-", value > 0, value < 0) if value < 0 or value > 0 else value * 0


def _logical(function: Any) -> Operation:
    return lambda *values: Number(bool(function(*(bool(plain(v)) for v in values))))


# What functions of floats are of integers.
OF_INTEGERS: dict[Any, Operation] = {
    **dict.fromkeys((np.floor, np.ceil, np.trunc), lambda value: +value),
    **dict.fromkeys((np.isnan, np.isinf), lambda value: Number(False)),
    **dict.fromkeys((np.conjugate, np.nan_to_num), lambda value: value),
    np.sign: _sign,
    np.signbit: lambda value: value < 0,
    np.isfinite: lambda value: Number(True),
}

EXACT: dict[Any, Operation] = {
    # Toward zero, saturating, NaN as 0; of uint64 it wraps.
    int: lambda value=0: wrapped(truncated(value), False),
    float: lambda value=0.0: Number(float(plain(value))),
    bool: lambda value=False: Number(bool(plain(value))),
    complex: lambda real=0, imag=0: Number(complex(plain(real), plain(imag))),
    **{
        function: _logical(function)
        for function in (np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
    },
    np.square: lambda value: _strong(value) * _strong(value),
    np.minimum: minimum,
    np.maximum: maximum,
    # One of two values, in their common type.
    np.where: lambda test, then, other: Number(common(then, other)[0 if plain(test) else 1]),
    np.clip: clip,
    np.round: _round,
    np.around: _round,
    np.real: lambda value: see(value).real,
    np.imag: lambda value: see(value).imag,
}


# Reductions of windows.

# Those that are methods of windows, and those that are functions.
METHODS = frozenset("sum prod mean min max median any all std var argmin argmax ptp".split())
REDUCTIONS = METHODS | frozenset(
    "percentile quantile count_nonzero nansum nanprod nanmean nanmin nanmax nanvar nanstd "
    "nanmedian nanpercentile nanquantile".split()
)

# Reductions that are given a number.
PARAMETRIC = frozenset("percentile quantile nanpercentile nanquantile nanrank".split())


def reduced(
    name: str,
    values: Array,
    *arguments: Any,
    taken: Array | None = None,
    initial: Any = None,
    **options: Any,
) -> Any:
    """Reduce an array of one axis, or those elements that are `taken`, and an `initial` one.

    What leaves NaN out does so among floats only.
    """
    kind = name.removeprefix("nan")
    skips = kind != name and not _whole(values)
    left = values if taken is None else values[taken]
    left = left[left == left] if skips else left
    # Nothing may be left to divide a sum of squares by.
    spent = skips and kind in ("var", "std") and len(left) <= options.get("ddof", 0)
    if len(left) and not spent:
        found = see(_number(kind, left, *arguments, **options))
    elif kind in ("any", "all", "sum", "prod"):
        found = see(getattr(np, kind)(left))
    elif initial is not None:
        return Number(common(initial, values[0])[0])
    else:
        # A mean of nothing is NaN.
        found = see(np.float64(np.nan) if _whole(values) else values.dtype.type(np.nan))
    if initial is None:
        return found
    if kind in ("min", "max") and skips and plain(initial) != plain(initial):
        return Number(common(found, initial)[0])
    return _WITH_INITIAL[kind](found, initial)


# How an initial element comes to what is reduced.
_WITH_INITIAL: dict[str, Operation] = {
    "sum": partial(binary, "+"),
    "prod": partial(binary, "*"),
    "min": minimum,
    "max": maximum,
}


def _whole(values: Array) -> bool:
    """Whether they are integers or truth values."""
    return values.dtype.kind in "biu"


def _number(name: str, values: Array, *arguments: Any, **options: Any) -> Any:
    """Reduce some values, without exceptions."""
    if name in ("any", "all", "count_nonzero"):
        return getattr(np, name)(values)
    if values.dtype.kind == "c" and name not in ("sum", "prod", "mean", "std", "var"):
        raise TypeError(f"complex numbers have no order: {name}")
    if name == "rank":
        place = min(int(len(values) * arguments[0] / 100), len(values) - 1)
        return np.sort(values, kind="stable")[place]
    if not _whole(values):
        return _of_floats(name, values, *arguments, **options)
    match name:
        case "min" | "max" | "argmin" | "argmax":
            return getattr(np, name)(values)
        case "sum" | "prod" | "ptp":
            # A truth counts as an integer.
            return getattr(np, name)(values + 0)
        case "mean":
            return np.float64(sum(values.tolist()) / len(values))
        case "median":
            exact, half = sorted(values.tolist()), len(values) // 2
            return np.float64((exact[half] + exact[-1 - half]) / 2)
        case _:
            return getattr(np, name)(values.astype(np.float64), *arguments, **options)


def _of_floats(name: str, values: Array, *arguments: Any, **options: Any) -> Any:
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    if name in ("sum", "mean"):
        total = np.add.accumulate(wide)[-1]
        result = total if name == "sum" else total / len(wide)
    elif name == "median" and np.isnan(wide).any():
        result = np.float64(np.nan)
    elif name in ("percentile", "quantile"):
        result = _quantile(wide, *(q / 100 if name == "percentile" else q for q in arguments))
    else:
        result = getattr(np, name)(wide, *arguments, **options)
    if values.dtype == wide.dtype or name in ("argmin", "argmax"):
        return result
    return result.astype(np.complex64 if result.dtype.kind == "c" else np.float32)


def _quantile(values: Array, q: float) -> Any:
    """A quantile by NumPy's rule, of infinities too.

    An element that is met exactly is the quantile, and half-way between two, beside infinities,
    is their mean.
    """
    ordered, where = np.sort(values), q * (len(values) - 1)
    low, part = int(where), where % 1
    if np.isnan(ordered[-1]) or not part:
        return ordered[-1] if np.isnan(ordered[-1]) else ordered[low]
    one, other = ordered[low : low + 2]
    if part == 0.5 and np.isinf(ordered[[0, -1]]).any():
        return (one + other) / 2
    return one + (other - one) * part if part < 0.5 else other - (other - one) * (1 - part)
