"""What Python's, `math`'s and NumPy's functions mean for the numbers of a kernel.

The functions themselves do the work; here are only the places where a kernel's rules
differ from them: integers stay exact, an integer never widens a float, nothing raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from ..operators import UFUNCS
from .number import (
    DOUBLE,
    SINGLE,
    Number,
    binary,
    common,
    converted,
    integer,
    modular,
    plain,
    see,
    truncated,
    wrapped,
)


def _strong(value: Any) -> Any:
    """A number as NumPy's functions take and give it: one of Python's is one of NumPy's."""
    value = plain(value)
    return see(np.asarray(value)[()] if type(value) in (float, complex) else value)


def to_int(value: Any = 0) -> Number:
    """`int(value)`: toward zero, saturating, NaN as 0."""
    value = plain(value)
    return wrapped(int(value), False) if isinstance(value, np.uint64) else Number(truncated(value))


CONVERSIONS: dict[Any, Callable[..., Any]] = {
    int: to_int,
    float: lambda value=0.0: Number(float(plain(value))),
    bool: lambda value=False: Number(bool(plain(value))),
    complex: lambda real=0, imag=0: Number(complex(plain(real), plain(imag))),
}


def is_known(value: Any) -> bool:
    """Whether it is a function of numbers: a conversion of Python's, one of `math` or of NumPy."""
    module = (getattr(value, "__module__", None) or "").partition(".")[0]
    known = isinstance(value, np.ufunc) or (callable(value) and module in ("math", "numpy"))
    return known or any(value is conversion for conversion in CONVERSIONS)


def called(function: Any, *arguments: Any, **options: Any) -> Any:
    """Such a function of numbers."""
    if function in CONVERSIONS:
        return CONVERSIONS[function](*arguments, **options)
    if getattr(function, "__module__", None) == "math":
        return _call_math(function, *arguments, **options)
    return _call_numpy(function, *arguments, **options)


def _call_math(function: Callable[..., Any], *arguments: Any) -> Any:
    """A function of `math`: weak floats; what NumPy gives where Python would raise."""
    values = [int(v) if isinstance(v, np.uint64) else v for v in map(plain, arguments)]
    if function in (math.floor, math.ceil, math.trunc):
        value = values[0]
        if isinstance(value, int):
            return see(plain(arguments[0]) if not isinstance(value, bool) else int(value))
        return Number(truncated(getattr(np, function.__name__)(value)))
    try:
        return see(function(*values))
    except (ValueError, ArithmeticError):
        numpys = getattr(np, function.__name__, lambda *values: math.nan)
        beyond: Callable[..., Any] = BEYOND.get(function, numpys)
        return Number(float(beyond(*map(np.float64, values))))


def _call_numpy(function: Any, *arguments: Any, **options: Any) -> Any:
    """A scalar function of NumPy."""
    if isinstance(function, type) and issubclass(function, np.generic):
        return Number(converted(arguments[0] if arguments else 0, function))
    options = {name: plain(value) for name, value in options.items()}
    if function in EXACT:
        return EXACT[function](*arguments, **options)
    values = [plain(value) for value in arguments]
    if function in OF_INTEGERS and integer(values[0]):
        return OF_INTEGERS[function](see(values[0]))
    narrow = any(isinstance(v, SINGLE) for v in values)
    wide = any(isinstance(v, DOUBLE) for v in values)
    float_kind = np.float32 if narrow and not wide else np.float64
    values = [converted(v, float_kind) if integer(v) else v for v in values]
    return see(function(*values, **options))


def _of_words(builtin: Any, left: Any, right: Any) -> Number | None:
    """The lesser or the greater of two integers, with a uint64 among them; None of others.

    Beside an integer that might be negative the lesser is an int, and the greater a uint64.
    """
    a, b = plain(left), plain(right)
    if not (integer(a) and integer(b)) or np.uint64 not in (type(a), type(b)):
        return None
    return wrapped(builtin(int(a), int(b)), builtin is max or modular(left, right))


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
    return see(plain(value)) if greatest is None else minimum(value, greatest)


def ordered(builtin: Any, *arguments: Any, **options: Any) -> Any:
    """Python's `min` or `max`; a uint64 beside other integers has one type, whichever is less."""
    items = list(arguments[0]) if len(arguments) == 1 else list(arguments)
    if options or len(items) < 2:
        return builtin(*arguments, **options)

    def pair(found: Any, item: Any) -> Any:
        words = _of_words(builtin, found, item)
        return builtin(found, item) if words is None else words

    return reduce(pair, items)


def _gamma(value: Any) -> float:
    return math.copysign(math.inf, value) if value >= 0 else math.nan


def _logarithm(value: Any, base: Any = math.e) -> Any:
    return np.log(value) / np.log(base)


# What gives the number where a function of `math` raises, if not NumPy's of the same name.
BEYOND: dict[Any, Callable[..., Any]] = {
    math.pow: np.power,
    math.atanh: np.arctanh,
    math.log: _logarithm,
    math.gamma: _gamma,
    math.lgamma: lambda value: math.inf,
}


def _round(value: Any, decimals: Any = 0) -> Any:
    value, decimals = see(plain(value)), plain(decimals)
    if integer(value.value):
        return value if decimals >= 0 else round(value, decimals)
    return see(np.round(value.value, decimals))


def _sign(value: Any) -> Any:
    return binary("-", value > 0, value < 0) if value < 0 or value > 0 else value * 0


def _operator(symbol: str) -> Callable[[Any, Any], Any]:
    return lambda left, right: _strong(binary(symbol, see(plain(left)), right))


def _logical(function: Any) -> Callable[..., Any]:
    return lambda *values: Number(bool(function(*(bool(plain(v)) for v in values))))


# What functions of floats are of integers.
OF_INTEGERS: dict[Any, Callable[[Any], Any]] = {
    **dict.fromkeys((np.floor, np.ceil, np.trunc), lambda value: +value),
    **dict.fromkeys((np.isnan, np.isinf), lambda value: Number(False)),
    **dict.fromkeys((np.conjugate, np.nan_to_num), lambda value: value),
    np.sign: _sign,
    np.signbit: lambda value: value < 0,
    np.isfinite: lambda value: Number(True),
}

EXACT: dict[Any, Callable[..., Any]] = {
    **{function: _operator(symbol) for function, symbol in UFUNCS.items()},
    np.divmod: lambda left, right: (_operator("//")(left, right), _operator("%")(left, right)),
    **{
        function: _logical(function)
        for function in (np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
    },
    np.negative: lambda value: -_strong(value),
    np.positive: lambda value: +_strong(value),
    np.invert: lambda value: ~see(plain(value)),
    np.absolute: lambda value: abs(_strong(value)),
    np.square: lambda value: _strong(value) * _strong(value),
    np.minimum: minimum,
    np.maximum: maximum,
    # One of two values, in their common type.
    np.where: lambda test, then, other: Number(common(then, other)[0 if plain(test) else 1]),
    np.clip: clip,
    np.round: _round,
    np.around: _round,
    np.real: lambda value: see(plain(value).real),
    np.imag: lambda value: see(plain(value).imag),
}
