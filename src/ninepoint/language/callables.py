"""The functions that a kernel may call: Python's builtins, `math` and NumPy.

One table from the function itself to how it is built; whoever wants to know whether a
function is understood looks here.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from .dtypes import short, value_type
from .errors import mistake
from .functions import FLOAT_FUNCTIONS
from .ir import Call, Cast, Const, DType, Unary
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
    real_number,
    select,
    strong,
    to_integer,
    together,
    truth,
    unary,
)
from .values import OPERATORS, Value, emit, is_number, wrapped


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
    return reduce(better, items)


def _part(op: Any, value: Any) -> Any:
    """A part of a complex number, or its size; of other numbers only a size is another one."""
    lifted = lift(value)
    dtype = lifted.dtype
    if dtype.is_complex:
        real = DType.F32 if dtype is DType.C64 else DType.F64
        dtype = dtype if op == "conj" else real
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
    return to_integer(result) if whole else result


def _round(value: Any, digits: Any = None) -> Any:
    if digits is not None:
        return _numpy_round(value, digits)
    return _rounded(True, "rint", +real_number(value, "round()"))


def _numpy_round(value: Any, decimals: Any = 0) -> Any:
    lifted = real_number(value, "round()")
    if not isinstance(decimals, int):
        raise mistake("wrong-arguments", "round", "the number of digits is not constant")
    if lifted.dtype.is_integer:
        return lifted if decimals >= 0 else _whole_tens(lifted, 10**-decimals)
    dtype = lifted.dtype
    if decimals == 0:
        return call("rint", dtype, lifted, weak=lifted.weak)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return call("rint", dtype, lifted * scale) / scale
    return call("rint", dtype, lifted / scale) * scale


def _whole_tens(value: Value, step: int) -> Value:
    """The nearest multiple of a power of ten, the even of two; above 64 bits it wraps."""
    dtype = DType.UINT if value.dtype is DType.UINT else DType.INT
    if step < 2**63 or (step < 2**64 and dtype is DType.UINT):
        return in_common("round", dtype, value, Value(Const(dtype, str(step)), True))
    if step > 2**64:
        return lift(value * 0)
    above, below = value > step // 2, value < -step // 2
    return lift(select(above, wrapped(step), select(below, wrapped(-step), 0)))


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


def _where(test: Any, then: Any, other: Any) -> Any:
    if isinstance(test, np.ndarray):
        _, shape = together(then, other)
        test = as_window(test.astype(bool), shape) if shape else test
    return select(test, then, other)


def _clip(value: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        value = strong(binary("maximum", value, low))
    return value if high is None else binary("minimum", value, high)


def _floats(name: str, *values: Any) -> list[Value]:
    """Operands of a function of floats in their common type, which is a float's."""
    lifted = [real_number(value, f"np.{name}") for value in values]
    dtype = float_of(common(lifted))
    return [strong(cast(one, dtype)) for one in lifted]


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


def _heaviside(x: Any, at_zero: Any) -> Any:
    """`np.heaviside`: 0 below 0, 1 above it, `at_zero` at it, and NaN of NaN."""
    value, middle = _floats("heaviside", x, at_zero)
    above = select(value > 0, 1.0, select(value == 0, middle, value))
    return select(value < 0, 0.0, above)


def _logaddexp(left: Any, right: Any) -> Any:
    """`np.logaddexp`: log(exp(a) + exp(b)), of numbers of any size."""
    a, b = _floats("logaddexp", left, right)
    dtype = a.dtype
    more = call("log1p", dtype, call("exp", dtype, -_absolute(a - b)))
    found = binary("maximum", a, b) + more
    # Of infinities that are alike there is no difference.
    alike = a + math.log(2.0)
    return select(a == b, alike, found)


def _sinc(value: Any) -> Any:
    """`np.sinc`: sin(pi x) / (pi x), and 1 at 0."""
    (x,) = _floats("sinc", value)
    angle = x * math.pi
    ratio = call("sin", x.dtype, angle) / angle
    return select(x == 0, 1.0, ratio)


def _angle(value: Any, deg: Any = False) -> Any:
    """`np.angle`: the angle of a complex number, of a real one 0 or pi."""
    real, imag = (_part(op, value) for op in ("real", "imag"))
    found = float_function("arctan2", False, imag, real)
    return _scaled(_DEGREES, False, found) if deg else found


def _is_close(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> Any:
    """`np.isclose`: |a - b| <= atol + rtol * |b|, or both are the same infinity."""
    x, y = _floats("isclose", a, b)
    near = _absolute(x - y) <= atol + rtol * _absolute(y)
    found = near & _test("isfinite", y) | (x == y)
    return found | _test("isnan", x) & _test("isnan", y) if equal_nan else found


def _scaled(factor: float, weak: bool, value: Any) -> Any:
    """Degrees to radians, or back; a function of `math` gives a weak float."""
    x = _cast(float, value) if weak else _floats("degrees", value)[0]
    return x * factor


def _logical(op: str, left: Any, right: Any) -> Any:
    return binary(op, truth(left), truth(right))


def _log(value: Any, base: Any = None) -> Any:
    log = partial(float_function, "log", True)
    return log(value) if base is None else log(value) / log(base)


# Casts.


def _cast(target: type, value: Any = 0) -> Any:
    if target is bool or target is np.bool:
        return truth(value)
    if target is int:
        return to_integer(value)
    if target is float:
        return _weak(real_number(value, "float()"), DType.F64)
    storage = np.dtype(target)
    lifted = lift(value)
    if storage.kind in "iu":
        return to_integer(lifted, storage.name)
    dtype = value_type(storage)
    if lifted.dtype.is_complex and not dtype.is_complex:
        raise mistake("bad-operand", f"np.{storage.name}", "complex numbers")
    if short(storage):
        exact = cast(lifted, DType.F64) if dtype is not lifted.dtype else lifted
        return emit(Cast(DType.F32, exact.atom, storage.name), False, lifted.shape)
    return strong(cast(lifted, dtype))


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
    return reduce(partial(binary, "+"), items, start)


def _divmod(left: Any, right: Any) -> Any:
    return binary("//", left, right), binary("%", left, right)


def _named(module: Any, names: str, build: Builder) -> dict[Any, Builder]:
    """Functions of a module that are built alike, but for their names."""
    return {getattr(module, name): partial(build, name) for name in names.split()}


# The types of numbers, called as functions.
_TYPES: tuple[Any, ...] = (
    bool, int, float, np.bool, np.float16, np.float32, np.float64, np.complex64, np.complex128,
    *(np.dtype(one).type for one in "bBhHiIlLqQ"),
)  # fmt: skip

_RADIANS, _DEGREES = math.pi / 180, 180 / math.pi

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
    **dict.fromkeys((np.degrees, np.rad2deg), partial(_scaled, _DEGREES, False)),
    **dict.fromkeys((np.radians, np.deg2rad), partial(_scaled, _RADIANS, False)),
    **dict.fromkeys((np.round, np.around), _numpy_round),
    **dict.fromkeys((np.divmod, divmod), _divmod),
    **{one: partial(_cast, one) for one in _TYPES},
    complex: _complex,
    abs: _absolute,
    min: partial(_builtin_extreme, min),
    max: partial(_builtin_extreme, max),
    round: _round,
    pow: partial(binary, "**"),
    sum: _sum,
    math.log: _log,
    math.fabs: lambda v: _absolute(_cast(float, v)),
    math.degrees: partial(_scaled, _DEGREES, True),
    math.radians: partial(_scaled, _RADIANS, True),
    np.logical_not: partial(unary, "not"),
    np.logical_and: partial(_logical, "&"),
    np.logical_or: partial(_logical, "|"),
    np.logical_xor: partial(_logical, "^"),
    np.sign: _sign,
    np.where: _where,
    np.clip: _clip,
    np.nan_to_num: _nan_to_num,
    np.heaviside: _heaviside,
    np.logaddexp: _logaddexp,
    np.sinc: _sinc,
    np.angle: _angle,
    np.isclose: _is_close,
    np.square: lambda v: lift(v) * v,
    np.reciprocal: partial(binary, "/", 1.0),
}
