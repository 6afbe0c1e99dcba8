"""Operations on the values of a kernel, which stand in it from then on.

    x[0] * 2 + 1     ->     t0 = read x +0;  t1 = t0 * 2;  t2 = t1 + 1

Constants are computed at once, as Python's.  Of uint64 beside integers that may be negative:

    u < i               ->      i >= 0 and u < uint64(i)
    minimum(u, i)       ->      minimum(int(minimum(u, uint64(maximum(i, 0)))), i)
    u // i              ->      the quotient of u and abs(i), rounded down where i < 0

Sums and products of uint64 are taken modulo 2**64.  A difference of two, a negation, and what is
computed of a uint64 and an integer that may be negative, are int64: exact as far as 63 bits reach.
An order is exact, and so is a remainder, which has the type of what is divided by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from .definitions import Line
from .dtypes import promote, value_type
from .errors import mistake
from .functions import FLOAT_FUNCTIONS, PYTHON, UFUNCS, UNARY, UNARY_UFUNCS
from .ir import (
    COMPARISONS,
    MIRRORED,
    Atom,
    Binary,
    Call,
    Cast,
    Coefficients,
    Const,
    DType,
    Element,
    Offset,
    Select,
    Unary,
    Weight,
)
from .values import (
    OPERATORS,
    Index,
    NotUnderstood,
    Value,
    constant,
    emit,
    is_large,
    is_number,
    reading,
    words,
    wrapped,
)

# What a function that kernels call writes, given its arguments.
Builder: TypeAlias = Callable[..., Any]

# Making values.


def lift(value: Any, beside: Collection[DType] = ()) -> Value:
    """A number, known or not, as a value; anything else is the user's mistake.

    An integer that int64 does not hold is one of uint64 beside such, and a float beside floats.
    """
    if isinstance(value, Value):
        return value
    value = constant(value)
    if is_large(value) and any(not dtype.is_integer for dtype in beside):
        with suppress(OverflowError):
            value = float(value)
    if is_large(value) and not (0 <= value < 2**64 and (not beside or DType.UINT in beside)):
        raise mistake("literal-range", value.bit_length())
    if is_number(value):
        number = np.asarray(value)
        atom = Const(value_type(number.dtype), repr(number.item()))
        return Value(atom, not isinstance(value, np.number))
    if isinstance(value, np.ndarray | Coefficients):
        raise NotUnderstood("arithmetic of whole arrays")
    raise mistake("not-a-number", words(value))


def as_window(value: Any, shape: Offset) -> Value:
    """A value in a window of this shape, if there is one; of an array its elements."""
    own = getattr(value, "shape", ())
    if shape and own not in ((), shape):
        raise mistake("window-shape", shape, own)
    if not shape or not isinstance(value, Coefficients | np.ndarray):
        return lift(value)
    if isinstance(value, Coefficients):
        return emit(Element(value.dtype, value.label), False, shape)
    texts = tuple(map(repr, value.ravel().tolist()))
    return emit(Weight(value_type(value.dtype), texts), False, shape)


def together(*values: Any) -> tuple[list[Value], Offset]:
    """Operands as values, with the shape of their common window, if any."""
    shape = next((v.shape for v in values if isinstance(v, Value) and v.shape), ())
    kinds = {as_window(one, shape).dtype for one in values if not is_large(one)} - {DType.BOOL}
    return [lift(v, kinds) if is_large(v) else as_window(v, shape) for v in values], shape


def cast(value: Value, dtype: DType) -> Value:
    """The value in another type."""
    atom = value.atom
    if atom.dtype is dtype:
        return value
    known: Any = atom.value if isinstance(atom, Const) else None
    if known is None or (isinstance(known, complex) and not dtype.is_complex):
        return emit(Cast(dtype, atom), value.weak, value.shape)
    if dtype is DType.BOOL:
        known = bool(known)
    elif dtype.is_integer:
        if not isinstance(known, int):
            known = 0 if known != known else int(min(max(known, -(2**63)), 2**63 - 1))
        known = known % 2**64 if dtype is DType.UINT else wrapped(known)
    else:
        with np.errstate(all="ignore"):
            known = dtype.numpy.type(known).item()
    return replace(value, atom=Const(dtype, repr(known)))


def strong(value: Any) -> Any:
    """What a function of NumPy gives: its own numbers, not Python's."""
    if isinstance(value, tuple):
        return tuple(map(strong, value))
    return Value(value.atom, False, value.shape) if isinstance(value, Value) else value


def truth(value: Any) -> Any:
    """`bool(value)`: a Python bool when it is known."""
    if is_number(value) or value is None or isinstance(value, tuple | str):
        return bool(value)
    if isinstance(value, np.ndarray):
        return value.astype(bool)
    lifted = lift(value)
    return lifted if lifted.dtype is DType.BOOL else lifted != 0


def under(test: Any, holds: bool) -> AbstractContextManager[None]:
    """Read what is computed only if a truth is this."""
    return reading.changed(path=(*reading.path, (test, holds)))


def active() -> Any:
    """Whether what is read now is computed at all; within a loop, in a turn of it."""
    found: Any = True
    for test, holds in reading.path:
        found = logical("&", found, test if holds else unary("not", test))
    return found


# Operations.


def binary(op: str, left: Any, right: Any) -> Any:
    """`left op right` for the operators of Python, or the lesser or greater, or NaN."""
    left, right = constant(left), constant(right)
    known = [is_number(one) or isinstance(one, np.ndarray) for one in (left, right)]
    if all(known) and op not in _EXTREMES:
        return folded(op, left, right)
    # A position and a number make a number, or a position again.
    line: Line | int | None = None
    if isinstance(left, Index) and type(right) is int:
        line = left.line.combined(op, right)
    elif isinstance(right, Index) and type(left) is int:
        line = right.line.combined(op, left, reflected=True)
    if isinstance(line, int):
        return line
    (a, b), _ = together(left, right)
    if line is not None:
        return Index(in_common(op, DType.INT, a, b).atom, True, (), line)
    if op in (*_BITWISE, "<<", ">>") and not (a.dtype.is_integer and b.dtype.is_integer):
        raise mistake("bad-operand", f"'{op}'", "floats")
    for one in (a, b) if op in _ORDERED else ():
        real_number(one, f"np.{op}" if op in _EXTREMES else f"'{op}'")
    mixed = _mixed(a, b)
    if mixed:
        if op in COMPARISONS:
            if a.dtype is not DType.UINT:
                a, b, op = b, a, MIRRORED[op]
            found = binary(op, a, cast(b, DType.UINT))
            return (b < 0) | found if op in (">", ">=", "!=") else (b >= 0) & found
        if op in ("//", "%"):
            return _divided(op, a, b)
        if op in _EXTREMES:
            return _extreme(op, a, b)
    kind = common((a, b))
    if (mixed or kind is DType.BOOL) and op not in (*COMPARISONS, *_BITWISE, *_EXTREMES):
        # In arithmetic a truth counts as 0 or 1.
        kind = DType.INT
    match op:
        case "**":
            return _power(a, b, kind)
        case "/" if kind.is_integer:
            kind = DType.F64
        case "-" if kind is DType.UINT:
            kind = DType.INT
        case "<<" | ">>":
            # It has the type of what is shifted.
            kind = (+a).dtype
    return in_common(op, kind, a, b)


def in_common(op: Any, common: DType, a: Value, b: Value) -> Value:
    """An operation on two values in their common type."""
    compares = op in COMPARISONS
    dtype = DType.BOOL if compares else common
    expr = Binary(dtype, op, cast(a, common).atom, cast(b, common).atom)
    return emit(expr, a.weak and b.weak and not compares, a.shape or b.shape)


def _power(a: Value, b: Value, common: DType) -> Value:
    exponent: Any = b.atom.value if isinstance(b.atom, Const) else None
    if common.is_integer:
        natural = b.dtype is not DType.INT or (exponent is not None and exponent >= 0)
        if not natural:
            return in_common("**", DType.F64, a, b)
        # The exponent keeps its sign; what the power is modulo 2**64 has none.
        word = DType.UINT if DType.UINT in (a.dtype, b.dtype) else common
        return cast(in_common("**", word, a, b), common)
    if exponent == 2 and not common.is_complex:
        base = replace(a, weak=a.weak and b.weak)
        return in_common("*", common, base, base)
    return in_common("**", common, a, b)


def folded(op: str, left: Any, right: Any) -> Any:
    """An operation on what is known, by the rules of what is not."""
    with np.errstate(all="ignore"):
        try:
            return constant(PYTHON[op](left, right))
        except ZeroDivisionError:
            if op != "/" and isinstance(left, int) and isinstance(right, int):
                return 0
            kind: Any = np.complex128 if isinstance(left + right, complex) else np.float64
            return PYTHON[op](kind(left), kind(right)).item()
        except (TypeError, OverflowError, ValueError):
            raise mistake("bad-operand", f"'{op}'", f"{words(left)} and {words(right)}") from None


def unary(op: Any, arg: Any) -> Any:
    """`-`, `+`, `~` and `not`."""
    arg = constant(arg)
    if op == "not":
        arg = truth(arg)
    if op == "~" and isinstance(arg, bool):
        return not arg
    if is_number(arg) or isinstance(arg, np.ndarray):
        try:
            return constant(UNARY[op](arg))
        except TypeError:
            raise mistake("bad-operand", f"'{op}'", words(arg)) from None
    value = lift(arg)
    if op == "not" or (op == "~" and value.dtype is DType.BOOL):
        return emit(Unary(DType.BOOL, "not", value.atom), False, value.shape)
    dtype = DType.INT if value.dtype is DType.BOOL else value.dtype
    if op == "~" and not dtype.is_integer:
        raise mistake("bad-operand", "'~'", "floats")
    if op == "-" and dtype is DType.UINT:
        dtype = DType.INT
    plain = cast(value, dtype)
    if op == "+":
        return plain
    return emit(Unary(dtype, op, plain.atom), value.weak, value.shape)


def select(test: Any, then: Any, other: Any) -> Any:
    """`then if test else other`, for numbers, windows and tuples of them."""
    holds = truth(test)
    if isinstance(holds, bool):
        return then if holds else other
    if then is other:
        return then
    if isinstance(then, tuple) and isinstance(other, tuple) and len(then) == len(other):
        return tuple(select(holds, a, b) for a, b in zip(then, other, strict=True))
    # As texts: 0.0 is not -0.0, nor 1 the same as 1.0.
    if is_number(then) and is_number(other) and repr(then) == repr(other):
        return then
    (t, a, b), shape = together(holds, then, other)
    if a.atom == b.atom:
        return a
    one, two = in_one_type((a, b))
    return emit(Select(one.dtype, t.atom, one, two), a.weak and b.weak, shape)


def in_one_type(values: Sequence[Value]) -> list[Atom]:
    """Some values in the type that a choice between them has."""
    kind = common(values)
    if _mixed(*values):
        for value in values:
            if isinstance(value.atom, Const) and _signed(value):
                raise mistake("choice-sign", value.atom.value)
        kind = DType.INT if kind is DType.UINT else kind
    return [cast(value, kind).atom for value in values]


def common(values: Sequence[Value]) -> DType:
    """The type of all, if they have one, or in which they would be added."""
    found, weak = values[0].dtype, values[0].weak
    for value in values[1:]:
        if value.dtype is not found:
            found = promote(found, value.dtype, weak, value.weak)
        weak = weak and value.weak
    return found


def logical(op: str, left: Any, right: Any) -> Any:
    """`and` and `or` of two truths."""
    for known, other in ((left, right), (right, left)):
        if isinstance(known, bool):
            return known if known is (op == "|") else other
    return binary(op, left, right)


def call(function: str, dtype: DType, *args: Value, weak: bool = False) -> Value:
    """A scalar function, all of whose arguments are taken as `dtype`."""
    values, shape = together(*args)
    expr = Call(dtype, function, tuple(cast(v, dtype).atom for v in values))
    return emit(expr, weak, shape)


_BITWISE = ("&", "|", "^")
_EXTREMES = ("minimum", "maximum")

# What complex numbers have none of.
_ORDERED = ("<", "<=", ">", ">=", "//", "%", *_EXTREMES)


def float_of(dtype: DType) -> DType:
    """The type of what a function of floats gives."""
    return DType.F64 if dtype.is_integer else dtype


def float_function(name: str, weak: bool, *values: Any) -> Any:
    """A function of floats; one of `math` gives a weak float64.  A large integer is a float."""
    known, label = FLOAT_FUNCTIONS[name], f"{'math' if weak else 'np'}.{name}"
    if len(values) != known.arguments:
        raise mistake(
            "wrong-arguments", label, f"it takes {known.arguments}, and is given {len(values)}"
        )
    of_complex = known.of_complex and not weak
    numbers = [float(one) if is_large(one) else one for one in values]
    lifted = [lift(one) if of_complex else real_number(one, label) for one in numbers]
    if name == "power":
        return replace(in_common("**", DType.F64, *together(*lifted)[0]), weak=True)
    dtype = DType.F64 if weak else float_of(common(lifted))
    return call(name, dtype, *lifted, weak=weak)


def real_number(value: Any, name: str) -> Value:
    """A number that is not complex, for a function of this name."""
    lifted = lift(value)
    if lifted.dtype.is_complex:
        raise mistake("bad-operand", name, "complex numbers")
    return lifted


# uint64 beside integers that may be negative.


def _mixed(*values: Value) -> bool:
    """Whether one is of uint64 and another an integer that may be negative."""
    return any(one.dtype is DType.UINT for one in values) and any(map(_signed, values))


def _signed(value: Value) -> bool:
    atom = value.atom
    if atom.dtype is not DType.INT:
        return False
    if isinstance(atom, Const):
        return atom.text.startswith("-")
    made = reading.windows.values.get(atom.name)
    return not isinstance(made, Weight) or any(text.startswith("-") for text in made.texts)


def _extreme(op: Any, left: Value, right: Value) -> Value:
    """The lesser of mixed integers, an int; or the greater, of uint64."""
    if left.dtype is not DType.UINT:
        left, right = right, left
    right = strong(right)
    natural = in_common("maximum", DType.INT, right, lift(0))
    found = in_common(op, DType.UINT, left, natural)
    return found if op == "maximum" else in_common(op, DType.INT, found, right)


def _divided(op: str, left: Value, right: Value) -> Any:
    """`left // right` or `left % right` of mixed integers; 0 where right is 0.

    A quotient is an int, and a remainder has the type of `right`.
    """
    signed = left if left.dtype is DType.INT else right
    negative = signed < 0
    absolute = emit(Unary(DType.INT, "abs", signed.atom), False, signed.shape)
    size = cast(absolute, DType.UINT)
    top, bottom = (size, right) if signed is left else (left, size)
    rest = top % bottom
    inexact = rest != 0
    if op == "//":
        return select(negative, -(top // bottom + inexact), top // bottom)
    # Of two of uint64 the remainder is the lesser.
    turned = rest - bottom if signed is right else in_common("-", DType.UINT, bottom, rest)
    return select(negative & inexact, turned, rest)


OPERATORS |= {ufunc: partial(binary, op) for ufunc, op in UFUNCS.items()}
OPERATORS |= {ufunc: partial(unary, op) for ufunc, op in UNARY_UFUNCS.items()}
