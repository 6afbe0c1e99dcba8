"""Numbers as a kernel sees them, and small tables of them; their types say how they compute.

    bool            a truth value; counts as 0 or 1 in arithmetic, but ~ & | ^ are logical
    int             exact, wraps at 64 bits as two's complement
    np.uint64       sums and products of these are taken modulo 2**64; differences, and what is
                    computed of one and an integer that may be negative, are ints
    float, complex  weak, as Python's literals in NEP 50
    np.float32, np.float64, np.complex64, np.complex128

`Number` wraps such a value and is no subclass of `int` or `float`: Python's own
`0.5 * n` would swallow a subclass of `int` and give a weak float.  Literals in the user's
function are plain Python numbers and reach this module as the other operand.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..functions import PYTHON, UFUNCS, UNARY, UNARY_UFUNCS

WORD = 2**64
Array: TypeAlias = np.ndarray[Any, Any]
# A function of numbers, or of windows.
Operation: TypeAlias = Callable[..., Any]
# A number for each axis: a point, an offset or a shape.
Point: TypeAlias = tuple[int, ...]

LEAST, GREATEST = -(2**63), 2**63 - 1
SINGLE = (np.float32, np.complex64)
DOUBLE = (np.float64, np.complex128)
# Numbers as they stand in a text.
WRITTEN = (bool, int, float, complex)


_UNARY: dict[str, Operation] = {
    **UNARY,
    # Of a truth it is the other one.
    "~": lambda value: not value if isinstance(value, bool) else ~value,
    "abs": abs,
}

# Functions of NumPy that are operators of numbers.
_SYMBOLS = {**UFUNCS, **UNARY_UFUNCS, np.absolute: "abs"}
OPERATORS = frozenset({*_SYMBOLS, np.divmod})


def python(symbol: str, *operands: Any) -> Any:
    """What an operator of Python gives of one or two bare operands."""
    return (PYTHON if operands[1:] else _UNARY)[symbol](*operands)


class Operand(NDArrayOperatorsMixin):
    """Python's operators, for numbers and arrays alike: NumPy's functions, which ask who they are.

    A subclass has `combine(symbol, *operands)`, of one or two.  That of the greatest `rank` has
    the word.
    """

    __slots__ = ()
    rank = 1

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        first: Any = self
        for one in reversed(inputs):
            if isinstance(one, Operand) and one.rank >= first.rank:
                first = one
        if method == "__call__" and ufunc in _SYMBOLS:
            made = first.combine(_SYMBOLS[ufunc], *inputs)
        elif ufunc is np.divmod:
            made = tuple(first.combine(symbol, *inputs) for symbol in ("//", "%"))
        else:
            return whole(getattr(ufunc, method), *inputs, **options)
        out = options["out"][0] if options else None
        if not isinstance(out, np.ndarray):
            return made
        out[...] = made
        return out


# What is called at one point after another; it knows what expressions are at other points, and
# where the point is.  See `evaluate`.
running: ContextVar[Any] = ContextVar("running")


def _of_value(function: Operation) -> Any:
    """The method that gives what a function gives of a number's value."""
    return lambda self: function(self.value)


class Number(Operand):
    """One value of a field, a scalar argument, or what was computed from them."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    # Python would take what has an index for a sequence.
    __iter__ = None

    def __getitem__(self, index: Any) -> Any:
        return running.get().elsewhere(self, index)

    def combine(self, symbol: str, *operands: Any) -> Any:
        scalars = all(isinstance(v, (Number, *WRITTEN, np.generic)) for v in operands)
        return computed(symbol, *operands) if scalars else NotImplemented

    def __round__(self, digits: Any = None) -> Number:
        value, digits = self.value, plain(digits)
        if integer(value):
            return wrapped(round(int(value), digits), isinstance(value, np.uint64))
        if digits is None:
            return Number(truncated(np.rint(value)))
        return Number(type(value)(np.round(value, digits)))

    __bool__ = _of_value(bool)
    __index__ = _of_value(operator.index)
    __int__ = _of_value(lambda value: truncated(value))
    __float__ = _of_value(float)
    __complex__ = _of_value(complex)
    __hash__ = _of_value(hash)
    __repr__ = _of_value(str)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    real = property(lambda self: see(self.value.real))
    imag = property(lambda self: see(self.value.imag))

    def conjugate(self) -> Any:
        """Give the complex conjugate."""
        return see(self.value.conjugate())


class Natural(Number):
    """A constant integer that is not negative, nor is any other of its array."""

    __slots__ = ()


class Literal(Number):
    """An integer that the call gave: it mixes with Python's floats as one in the text does."""

    __slots__ = ()


class Text(Literal):
    """A number that stands in the text: beside others of these it is Python's own."""

    __slots__ = ()
    # What a text asks of one by `isinstance`.
    __class__: Any = property(lambda self: type(self.value))

    rank = 0

    def combine(self, symbol: str, *operands: Any) -> Any:
        if not all(isinstance(v, (Text, *WRITTEN)) for v in operands):
            return super().combine(symbol, *operands)
        try:
            return literal(python(symbol, *map(plain, operands)))
        except ZeroDivisionError:
            # By the rules of numbers that are not known.
            return literal(binary(symbol, *operands).value)

    def __round__(self, digits: Any = None) -> Any:
        return literal(round(self.value, plain(digits)))


class Table(Operand, np.ndarray[Any, Any]):  # type: ignore[misc]
    """A small array, indexed absolutely, whose elements are numbers of the kernel."""

    rank = 3

    def combine(self, symbol: str, *operands: Any) -> Any:
        return python(symbol, *map(bare, operands)).view(type(self))

    def __getitem__(self, index: Any) -> Any:
        item = super().__getitem__(bare(index))
        return item if isinstance(item, np.ndarray) else self.number(item)

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(bare(index), bare(value))

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    def number(self, item: Any) -> Any:
        """An element as a number of the kernel."""
        return see(item)


class Constant(Table):
    """A table from the enclosing scope: known at decoration, so its zeros are dropped."""

    def number(self, item: Any) -> Any:
        return known(item)


def literal(value: Any) -> Any:
    """A number of Python as one that stands in the text; anything else as it is."""
    return Text(value) if type(value) in WRITTEN else value


def known(value: Any) -> Any:
    """A number of NumPy that is known: integers and truth values are literals, floats strong."""
    value = plain(value)
    value = int(value) if isinstance(value, np.uint64) else value
    return literal(value) if isinstance(value, int) else Number(value)


def see(value: Any) -> Any:
    """What Python or NumPy gave, as the kernel sees it: a number, or several."""
    if isinstance(value, tuple):
        return tuple(map(see, value))
    if isinstance(value, np.ndarray):
        return value.view(Table) if value.ndim else see(value[()])
    return Number(plain(value))


def bare(item: Any) -> Any:
    """An argument as Python and NumPy have it, without what the kernel sees in its place."""
    if isinstance(item, (list, tuple)):
        return type(item)(bare(one) for one in item)
    if isinstance(item, np.ndarray):
        return np.asarray(item)
    # A function that the kernel names is exchanged for one that knows its numbers; see `world`.
    return plain(getattr(item, "original", item))


def whole(function: Operation, *arguments: Any, **options: Any) -> Any:
    """A function of arrays: NumPy's own, of the elements as they are."""
    return see(function(*map(bare, arguments), **{k: bare(v) for k, v in options.items()}))


def plain(value: Any) -> Any:
    """The value in a `Number`, or a bare value as one of the types above."""
    if isinstance(value, Number):
        return value.value
    if isinstance(value, np.uint64) or not isinstance(value, np.generic):
        return value
    if isinstance(value, np.bool | np.integer):
        return value.item()
    # A float of 16 bits.
    return np.float32(value) if value.itemsize == 2 else value


def operand(value: Any) -> Number:
    """A value as a `Number`: one of Python's stands in the text."""
    number = value if isinstance(value, Number) else literal(plain(value))
    return number if isinstance(number, Number) else Number(number)


def computed(symbol: str, *operands: Any) -> Number:
    """What an operator gives of one or two numbers."""
    if operands[1:]:
        return binary(symbol, *operands)
    one = operand(*operands)
    word = isinstance(one.value, np.uint64)
    made = _UNARY[symbol](int(one.value) if word else one.value)
    return (
        type(one)(wrapped(made, word and symbol != "-").value) if integer(made) else Number(made)
    )


def binary(symbol: str, left: Any, right: Any) -> Number:
    """`left symbol right`; at least one of them is a `Number`, or the caller wants one."""
    left, right = operand(left), operand(right)
    a, b = left.value, right.value
    literals = isinstance(left, Literal) and isinstance(right, Literal)
    if integer(a) and integer(b):
        if symbol == "/" or (symbol == "**" and not _natural(right)):
            found = PYTHON[symbol](converted(a, np.float64), converted(b, np.float64))
            return Number(float(found) if literals else found)
        result = _integers(symbol, left, right)
        known = literals and not isinstance(result.value, bool)
        return Literal(result.value) if known else result
    a, b = _beside(left, b), _beside(right, a)
    weak = not isinstance(a, np.generic) and not isinstance(b, np.generic)
    if not weak:
        return Number(plain(PYTHON[symbol](a, b)))
    # Python would raise on 1.0 / 0.0; in double precision NumPy's result is the same number.
    return Number(PYTHON[symbol](np.asarray(a)[()], np.asarray(b)[()]).item())


def common(left: Any, right: Any) -> tuple[Any, Any]:
    """Both values, converted to the type in which they would be added."""
    a, b = plain(left), plain(right)
    if isinstance(a, bool) and isinstance(b, bool):
        return a, b
    total = binary("+", left, right).value
    if integer(total):
        word = isinstance(total, np.uint64)
        return wrapped(int(a), word).value, wrapped(int(b), word).value
    kind = np.asarray(total).dtype.type  # two weak floats give a float64, as np.where does
    return converted(a, kind), converted(b, kind)


def truncated(value: Any) -> int:
    """A number as an integer of 64 bits: toward zero, saturating, NaN as 0."""
    return int(value) if integer(value) else int(converted(value, np.int64))


def converted(value: Any, kind: type[np.generic]) -> Any:
    """`kind(value)` with a single rounding; integers wrap, floats truncate and saturate."""
    value = plain(value)
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind in "iu":
        if integer(value):
            return plain(np.uint64(int(value) % WORD).astype(dtype))
        info = np.iinfo(dtype)
        # Floats and integers of Python are compared exactly.
        held = min(max(float(value), int(info.min)), int(info.max))
        return plain(dtype.type(0 if math.isnan(value) else int(held)))
    return plain(np.asarray(value).astype(dtype)[()])


def integer(value: Any) -> bool:
    """Whether a bare value is an integer of the kernel, or a truth value."""
    return isinstance(value, (int, np.uint64))


def _beside(one: Number, other: Any) -> Any:
    """A number as it enters a floating operation with the value `other`.

    An integer never widens a float: it takes the type of the float beside it.  Beside a
    weak float an integer of the kernel is a float64, and a literal stays weak.
    """
    value = one.value
    if not integer(value):
        return value
    if isinstance(other, SINGLE):
        return converted(value, np.float32)
    if isinstance(other, DOUBLE) or not isinstance(one, Literal):
        return converted(value, np.float64)
    return float(value)


def _natural(exponent: Number) -> bool:
    """Whether an exponent is known not to be negative before anything is computed."""
    known = isinstance(exponent.value, (bool, np.uint64))
    return known or (isinstance(exponent, Text) and exponent.value >= 0)


def wrapped(value: int, modular: bool) -> Number:
    """The integer as 64 bits hold it; a truth is one."""
    if isinstance(value, bool):
        return Number(value)
    if modular:
        return Number(np.uint64(value % WORD))
    return Number((value - LEAST) % WORD + LEAST)


def _signed(one: Number) -> bool:
    """Whether an integer may be negative: it is one of the kernel, or written so."""
    natural = isinstance(one, (Text, Natural)) and one.value >= 0
    return type(one.value) is int and not natural


def _integers(symbol: str, left: Number, right: Number) -> Number:
    """Exact arithmetic, wrapped at the end."""
    a, b = left.value, right.value
    if isinstance(a, bool) and isinstance(b, bool) and symbol in "&|^":
        return Number(PYTHON[symbol](a, b))
    a, b = _held(a, b), _held(b, a)
    held = isinstance(a, np.uint64), isinstance(b, np.uint64)
    natural = not (_signed(left) or _signed(right))
    match symbol:
        case "-":
            word = False
        case "&" | "|" | "^":
            word = any(held)
        case "<<" | ">>":
            word = held[0]
        case "%":
            word = any(held) if natural else held[1]
        case _:
            word = any(held) and natural
    a, b = int(a), int(b)
    if symbol in ("//", "%") and b == 0:
        return Number(np.uint64(0) if word else 0)
    if symbol in ("<<", ">>") and not 0 <= b < 64:
        return wrapped(-1 if symbol == ">>" and a < 0 else 0, word)
    if symbol == "**":
        return wrapped(pow(a, b, WORD), word)
    return wrapped(PYTHON[symbol](a, b), word)


def _held(value: Any, other: Any) -> Any:
    """An integer beside another; a literal above 63 bits is a uint64 beside such a number."""
    if isinstance(value, np.uint64) or LEAST <= value <= GREATEST:
        return value
    if 0 <= value < WORD and isinstance(other, (bool, np.uint64)):
        return np.uint64(value)
    raise TypeError(f"{value} does not fit into 64 bits; beside integers it has no meaning")


def number(output: Any) -> Any:
    """A Python integer or truth value, or a float or complex scalar of NumPy."""
    value = plain(output)
    if isinstance(value, (float, complex, np.inexact)):
        return np.asarray(value)[()]
    if not integer(value):
        raise TypeError(f"a kernel returns numbers, not {type(value).__name__}")
    return value if isinstance(value, bool) else int(value)


def store(values: Array, dtype: Any, overflow: str | None = None) -> Array:
    """Convert `values` to an array of `dtype`.

    Floats become the nearest integers, saturating, NaN as 0; of those that "wrap" the fraction
    is cut.  An integer that does not fit is an OverflowError unless `overflow` is "saturate" or
    "wrap".  Only what is chosen from a uint64 and an integer can be beyond int64 where that is
    kept: it is modulo 2**64.
    """
    dtype = np.dtype(dtype).newbyteorder("=")
    result = np.empty(values.shape, dtype)
    for place in np.ndindex(values.shape):
        value = plain(values[place])
        if dtype.kind in "iu" and integer(value):
            info = np.iinfo(dtype)
            value = int(value)
            if overflow == "saturate":
                value = min(max(value, int(info.min)), int(info.max))
            elif overflow != "wrap" and info.bits < 64 and not info.min <= value <= info.max:
                raise OverflowError(f"{value} does not fit into {dtype}")
        elif dtype.kind in "iu":
            value = converted(value, np.int64) if overflow == "wrap" else np.rint(value)
        elif dtype.kind == "f" and isinstance(value, (complex, np.complexfloating)):
            raise TypeError(f"a complex value does not fit into {dtype}")
        with np.errstate(all="ignore"):
            result[place] = converted(value, dtype.type)
    return result
