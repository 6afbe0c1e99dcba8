"""The functions that a kernel may call: Python's builtins, `math`, NumPy, reductions of windows.

One table from the function itself to how it is built; whoever wants to know whether a
function is understood looks here.  A reduction is one number from all elements of a window, or
from those that count:

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

import functools
import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .dtypes import short, value_type
from .errors import mistake
from .functions import FLOAT_FUNCTIONS
from .ir import RANKED, Call, Cast, Coefficients, Const, DType, Reduce, ReduceKind, Unary, sort
from .operations import (
    Builder,
    as_window,
    binary,
    call,
    cast,
    common,
    float_function,
    float_of,
    in_common,
    lift,
    logical,
    real_number,
    select,
    strong,
    together,
    truth,
    unary,
)
from .statistics import in_order, ranked
from .values import (
    OPERATORS,
    NotUnderstood,
    Value,
    emit,
    is_number,
    picked,
    reading,
    words,
    wrapped,
)

# Elements up to which a network puts them in order: one of 81 takes 7 s to compile, one of 49
# takes 1.7 s (two cores of a Zen 4).
NETWORK = 100

# What complex numbers have none of.
_ORDERED = RANKED | {"min", "max", "argmin", "argmax", "var"}


def _builtin_extreme(builtin: Any, *args: Any) -> Any:
    """Python's `min` and `max`: the later wins only if it compares as better."""

    def better(left: Any, right: Any) -> Any:
        if is_number(left) and is_number(right):
            return builtin(left, right)
        (a, b), _ = together(left, right)
        if a.dtype.is_integer and b.dtype.is_integer:
            return binary(f"{builtin.__name__}imum", a, b)
        return select(b < a if builtin is min else b > a, b, a)

    items = args[0] if len(args) == 1 else args
    if not isinstance(items, tuple) or not items:
        window = isinstance(items, Value) and items.shape
        needs = "a window: use its method instead" if window else "it needs two values or a tuple"
        raise mistake("wrong-arguments", builtin.__name__, needs)
    return functools.reduce(better, items)


def _part(op: Any, value: Any) -> Any:
    """A part of a complex number, or its size; of other numbers only a size is another one."""
    lifted = lift(value)
    dtype = lifted.dtype
    if dtype.is_complex:
        if op != "conj":
            dtype = DType.F32 if dtype is DType.C64 else DType.F64
    elif op == "imag":
        return 0
    elif op != "abs" or dtype is DType.UINT:
        return lifted
    elif dtype is DType.BOOL:
        dtype, lifted = DType.INT, +lifted
    return emit(Unary(dtype, op, lifted.atom), lifted.weak, lifted.shape)


_absolute = partial(_part, "abs")


def _rounded(whole: bool, function: str, value: Any) -> Any:
    """Floor and its like: NumPy's leave integers as they are, `math`'s make integers."""
    lifted = real_number(value, function)
    if lifted.dtype.is_integer:
        return lifted
    result = call(function, lifted.dtype, lifted, weak=lifted.weak)
    return cast(result, DType.INT) if whole else result


def _round(value: Any, ndigits: Any = None) -> Any:
    if ndigits is not None:
        return _numpy_round(value, ndigits)
    return _rounded(True, "rint", +real_number(value, "round()"))


def _numpy_round(value: Any, decimals: Any = 0) -> Any:
    lifted = real_number(value, "round()")
    if not isinstance(decimals, int):
        raise mistake("wrong-arguments", "round", "the number of digits is not constant")
    if lifted.dtype.is_integer:
        if decimals >= 0:
            return lifted
        # The nearest multiple of a power of ten, the even of two; above 64 bits it wraps.
        whole = DType.UINT if lifted.dtype is DType.UINT else DType.INT
        step = 10**-decimals
        if step < 2**63 or (step < 2**64 and whole is DType.UINT):
            return in_common("round", whole, lifted, Value(Const(whole, str(step)), True))
        if step > 2**64:
            return lift(lifted * 0)
        below = select(lifted < -step // 2, wrapped(-step), 0)
        return lift(select(lifted > step // 2, wrapped(step), below))
    rint = partial(call, "rint", lifted.dtype, weak=lifted.weak)
    scale = 10.0 ** abs(decimals)
    return rint(lifted * scale) / scale if decimals > 0 else rint(lifted / scale) * scale


def _test(function: str, value: Any) -> Any:
    """isnan, isinf, isfinite, signbit."""
    lifted = real_number(value, "np.signbit") if function == "signbit" else lift(value)
    if lifted.dtype.is_integer:
        if function == "signbit":
            return lifted < 0
        return lifted == lifted if function == "isfinite" else lifted != lifted
    return emit(Call(DType.BOOL, function, (lifted.atom,)), False, lifted.shape)


def _sign(value: Any) -> Any:
    lifted = real_number(value, "np.sign")
    # Of a zero of either sign it is 0.0, of NaN that.
    rest = 0 if lifted.dtype.is_integer else select(lifted == 0, 0.0, lifted)
    return select(lifted > 0, 1, select(lifted < 0, -1, rest))


def _clip(value: Any, min: Any = None, max: Any = None) -> Any:
    if min is not None:
        value = strong(binary("maximum", value, min))
    return value if max is None else binary("minimum", value, max)


def _floats(name: str, *values: Any) -> list[Value]:
    """Operands of a function of floats in their common type, which is a float's."""
    lifted = [real_number(value, f"np.{name}") for value in values]
    dtype = float_of(common(lifted))
    return [strong(cast(one, dtype)) for one in lifted]


def _of_floats(name: str, build: Builder) -> Builder:
    """What writes a function of NumPy's that is given floats of one type."""

    @functools.wraps(build)
    def built(*values: Any) -> Any:
        return build(*_floats(name, *values))

    return built


def _nan_to_num(
    x: Any, copy: Any = True, nan: Any = 0.0, posinf: Any = None,
    neginf: Any = None,
) -> Any:  # fmt: skip
    """`np.nan_to_num`: numbers in place of NaN and of infinities."""
    value = real_number(x, "np.nan_to_num")
    if value.dtype.is_integer:
        return value
    most = float(np.finfo(value.dtype.numpy).max)
    above, below = (most if posinf is None else posinf), (-most if neginf is None else neginf)
    found = select(value == math.inf, above, value)
    found = select(value == -math.inf, below, found)
    return select(_test("isnan", value), nan, found)


def _logaddexp(a: Any, b: Any) -> Any:
    """`np.logaddexp`: log(exp(a) + exp(b)), of numbers of any size."""
    less = call("exp", a.dtype, -_absolute(a - b))
    found = binary("maximum", a, b) + call("log1p", a.dtype, less)
    # Of infinities that are alike there is no difference.
    return select(a == b, a + math.log(2.0), found)


def _angle(value: Any, deg: Any = False) -> Any:
    """`np.angle`: the angle of a complex number, of a real one 0 or pi."""
    real, imag = (_part(op, value) for op in ("real", "imag"))
    found = float_function("arctan2", False, imag, real)
    return found * _DEGREES if deg else found


def _is_close(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> Any:
    """`np.isclose`: |a - b| <= atol + rtol * |b|, or both are the same infinity."""
    x, y = _floats("isclose", a, b)
    near = _absolute(x - y) <= atol + rtol * _absolute(y)
    found = near & _test("isfinite", y) | (x == y)
    return found | _test("isnan", x) & _test("isnan", y) if equal_nan else found


def _logical(op: str, left: Any, right: Any) -> Any:
    return binary(op, truth(left), truth(right))


def _log(value: Any, base: Any = None) -> Any:
    log = partial(float_function, "log", True)
    return log(value) if base is None else log(value) / log(base)


# Casts.


def _cast(target: Any, value: Any = 0) -> Any:
    if target is bool or target is np.bool:
        return truth(value)
    if target is int:
        return cast(real_number(value, "int()"), DType.INT)
    if target is float:
        return _weak(real_number(value, "float()"), DType.F64)
    storage = np.dtype(target)
    dtype, rounds = value_type(storage), short(storage) is not None
    lifted = lift(value) if dtype.is_complex else real_number(value, f"np.{storage.name}")
    if rounds and dtype is not lifted.dtype:
        lifted = cast(lifted, DType.F64)
    if rounds or dtype.is_integer:
        return emit(Cast(dtype, lifted.atom, storage.name), False, lifted.shape)
    return cast(lifted, dtype)


def _weak(value: Value, dtype: DType) -> Value:
    """A number of Python's."""
    return replace(cast(value, dtype), weak=True)


def _complex(real: Any = 0, imag: Any = None) -> Any:
    """Python's `complex`, of one number or of two parts, each of which may be complex."""
    first = lift(real)
    if imag is None:
        return _weak(first, DType.C128)
    second = lift(imag)
    a, b = _part("real", first), _part("real", second)
    if second.dtype.is_complex:
        a = a - _part("imag", second)
    if first.dtype.is_complex:
        b = b + _part("imag", first)
    (x, y), shape = together(a, b)
    expr = Call(DType.C128, "complex", (cast(x, DType.F64).atom, cast(y, DType.F64).atom))
    return emit(expr, True, shape)


def _sum(items: Any, start: Any = 0) -> Any:
    if not isinstance(items, tuple):
        raise mistake("wrong-arguments", "sum", "it needs a tuple or a list of numbers")
    return functools.reduce(partial(binary, "+"), items, start)


# Reductions.


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
    window = real_number(value, f"'{name}'") if ordered else lift(value)
    if not window.shape:
        raise mistake("bad-operand", f"'{name}'", "a single number")
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


def _taken(name: str, value: Any, axis: Any, where: Any) -> tuple[Value, Any]:
    """The window, or what a constant mask picks of it; and which of its elements count.

    That is True where all of them do.  For a reduction that leaves NaN out, those do not.
    """
    kind = name.removeprefix("nan")
    label = name if kind == name else f"np.{name}"
    window = window_of(value, label, axis, ordered=kind in _ORDERED)
    test = True if where is None else where
    if isinstance(test, np.ndarray) and test.dtype == bool:
        if test.shape != window.shape:
            raise mistake("mask-shape", window.shape, test.shape)
        if test.any() and not test.all():
            window = picked(window, test, "where=")
        test = bool(test.any())
    if test is not True:
        if not isinstance(test, Value | bool):
            array = isinstance(test, np.ndarray)
            raise mistake("where-type", f"an array of {test.dtype}" if array else words(test))
        test = lift(test)
        if test.dtype is not DType.BOOL:
            raise mistake("where-type", "numbers, not truths")
        if test.shape not in ((), window.shape):
            raise mistake("mask-shape", window.shape, test.shape)
    if kind != name and not window.dtype.is_integer:
        test = logical("&", window == window, test)
    return window, test


def _counted(window: Value, test: Value) -> Any:
    """How many elements are taken."""
    if not test.shape:
        return select(test, math.prod(window.shape), 0)
    return reduce("sum", test)


def _mean_of(window: Value, test: Any) -> Any:
    """The mean of what is taken; NaN of nothing."""
    if test is True:
        return reduce("mean", window)
    # Added to, -0.0 changes nothing at all: what is left out needs no choice beforehand.
    terms = select(test, window, -0.0 if window.dtype.is_float else False)
    # A sum that does not wrap, for it becomes a float.
    exact = DType.F64 if terms.dtype in (DType.INT, DType.UINT) else None
    total = reduce("sum", terms, dtype=exact)
    return total / _counted(window, test)


# The reductions, by the names that NumPy has for them: "nansum" leaves NaN out.


def _total(
    name: str, value: Any, axis: Any = None, *, initial: Any = None,
    where: Any = None,
) -> Any:  # fmt: skip
    window, test = _taken(name, value, axis, where)
    kind: Any = name.removeprefix("nan")
    # A truth is 0 or 1 of any type.
    found = reduce(kind, select(test, window, kind == "prod"))
    return found if initial is None else binary("+" if kind == "sum" else "*", found, initial)


def _extreme(
    name: str, value: Any, axis: Any = None, *, initial: Any = None,
    where: Any = None,
) -> Any:  # fmt: skip
    kind: Any = name.removeprefix("nan")
    window, test = _taken(name, value, axis, where)
    skips = name != kind and window.dtype.is_float
    if where is not None and where is not True:
        if initial is None:
            raise mistake("where-initial", name)
        if lift(initial).shape:
            raise mistake("bad-operand", "'initial'", words(initial))
    if not skips:
        found = reduce(kind, select(test, window, initial))
        return found if initial is None else binary(f"{kind}imum", found, initial)
    found = reduce(kind, select(test, window, math.inf if kind == "min" else -math.inf))
    found = select(reduce("any", test), found, math.nan)
    return found if initial is None else float_function(f"f{kind}", False, found, initial)


def _truths(kind: ReduceKind, value: Any, axis: Any = None, *, where: Any = None) -> Any:
    window, test = _taken(kind, value, axis, where)
    return reduce(kind, select(test, truth(window), kind == "all"))


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
    if test is True:
        found: Any = reduce("var", window, float(ddof))
    else:
        left = _counted(window, test) - ddof
        # In two passes, as NumPy does it: nothing cancels.
        apart = window - _mean_of(window, test)
        squares = reduce("sum", select(test, apart * apart, -0.0))
        found = squares / binary("maximum", left, 0)
        if name.startswith("nan") and window.dtype.is_float:
            found = select(left > 0, found, math.nan)
    return call("sqrt", found.dtype, found) if name != variance else found


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


def _peak_to_peak(value: Any) -> Any:
    most, least = (+reduce(kind, value) for kind in ("max", "min"))
    # Never negative, so that 64 bits hold that of uint64 too.
    return in_common("-", most.dtype, most, least)


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
    if isinstance(weights, tuple):
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
        ordered[-1] = select(known, Value(ordered[-1]), math.nan).atom
    return tuple(Value(one, window.weak) for one in ordered)


# The table.


def _named(module: Any, names: str, build: Builder) -> dict[Any, Builder]:
    """Functions of a module that are built alike, but for their names."""
    return {getattr(module, name): partial(build, name) for name in names.split()}


_RADIANS, _DEGREES = math.pi / 180, 180 / math.pi

# Every function that is understood.
FUNCTIONS: dict[Any, Builder] = {
    **{
        getattr(np, name): partial(float_function, name, False)
        for name, known in FLOAT_FUNCTIONS.items()
        if known.numpy
    },
    **{
        getattr(math, known.python): partial(float_function, name, True)
        for name, known in FLOAT_FUNCTIONS.items()
        if known.python
    },
    **OPERATORS,
    **_named(np, "minimum maximum", binary),
    **_named(np, "abs real imag conj", _part),
    **_named(np, "isnan isinf isfinite signbit", _test),
    **_named(math, "isnan isinf isfinite", _test),
    **_named(np, "floor ceil trunc", partial(_rounded, False)),
    **_named(math, "floor ceil trunc", partial(_rounded, True)),
    **dict.fromkeys((np.degrees, np.rad2deg), _of_floats("degrees", lambda x: x * _DEGREES)),
    **dict.fromkeys((np.radians, np.deg2rad), _of_floats("radians", lambda x: x * _RADIANS)),
    **dict.fromkeys((np.round, np.around), _numpy_round),
    **dict.fromkeys((np.divmod, divmod), lambda a, b: (binary("//", a, b), binary("%", a, b))),
    # The types of numbers, called as functions.
    **{
        one: partial(_cast, one)
        for one in (bool, int, float, *(np.dtype(code).type for code in "?bBhHiIlLqQefdFD"))
    },
    complex: _complex,
    abs: _absolute,
    min: partial(_builtin_extreme, min),
    max: partial(_builtin_extreme, max),
    round: _round,
    pow: partial(binary, "**"),
    sum: _sum,
    math.log: _log,
    math.fabs: lambda v: _absolute(_cast(float, v)),
    math.degrees: lambda x: _cast(float, x) * _DEGREES,
    math.radians: lambda x: _cast(float, x) * _RADIANS,
    np.logical_not: partial(unary, "not"),
    np.logical_and: partial(_logical, "&"),
    np.logical_or: partial(_logical, "|"),
    np.logical_xor: partial(_logical, "^"),
    np.sign: _sign,
    np.where: select,
    np.clip: _clip,
    np.nan_to_num: _nan_to_num,
    np.heaviside: _of_floats(
        "heaviside",
        # NaN of NaN.
        lambda x, h: select(x < 0, 0.0, select(x > 0, 1.0, select(x == 0, h, x))),
    ),
    np.logaddexp: _of_floats("logaddexp", _logaddexp),
    np.sinc: _of_floats(
        "sinc", lambda x: select(x == 0, 1.0, call("sin", x.dtype, x * math.pi) / (x * math.pi))
    ),
    np.angle: _angle,
    np.isclose: _is_close,
    np.square: lambda v: lift(v) * v,
    np.reciprocal: partial(binary, "/", 1.0),
    **_named(np, "sum prod nansum nanprod", _total),
    **_named(
        np,
        "mean nanmean",
        lambda name, value, axis=None, *, where=None: _mean_of(*_taken(name, value, axis, where)),
    ),
    **_named(np, "min max nanmin nanmax", _extreme),
    **_named(np, "std var nanstd nanvar", _spread),
    **_named(np, "quantile percentile nanquantile nanpercentile", _quantile),
    **_named(
        np, "median nanmedian", lambda name, value, axis=None: _quantile(name, value, 0.5, axis)
    ),
    **_named(np, "any all", _truths),
    **_named(
        np,
        "argmin argmax",
        lambda kind, value, axis=None: reduce(kind, window_of(value, kind, axis)),
    ),
    np.ptp: _peak_to_peak,
    any: partial(_any_all, "any", "|"),
    all: partial(_any_all, "all", "&"),
    np.amin: partial(_extreme, "min"),
    np.amax: partial(_extreme, "max"),
    np.count_nonzero: lambda value: reduce("sum", truth(window_of(value, "np.count_nonzero"))),
    np.average: _average,
    ranked: _ranked,
    in_order: _elements,
}
