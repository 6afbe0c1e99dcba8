"""Nodes of the loop language: typed values, statements, functions and modules, and arithmetic.

    function band(x: float32[2], out: float32[2])
        for i in 0 .. size(out, 0)
            view row = out[i, :]
            for j in 0 .. size(row, 0)
                row[j] = x[i, j] * 0.5

    value     := Number | Name | Op(op, value*) | Load(array, value*) | Size(array, axis)
               | Call(function, (value | array)*)
    statement := Let | Variable | Assign | Store | View | Laid | For | While | If | Return | Call

Every value has a machine type: "bool", "int8" to "uint64", "float32", "float64", "complex64" or
"complex128".  Both operands of an operation have one type, and conversions are operations.  An
integer operation wraps, unless it is `exact`: then it never overflows.

An array is a view of memory: elements of one type, lengths and strides along its axes.  In a
`dense` one elements lie side by side, in C order.  A name is bound once, except that of a
`Variable`; names of values and arrays differ.

Values are made from others by one set of rules; constants are computed at once:

    applied("+", Name("int8", "a"), word(1))          Op("int64", "+", (to int64 a, 1), exact)
    cut(that, "int16")                                Op("int16", "+", (to int16 a, 1))

Untyped arithmetic computes integers in 64 bits and floats in the wider of their types.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ..base.frozen import frozen
from ..language.functions import PYTHON

BITS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
FLOATS = ("float32", "float64")
# The type of each part of a complex number.
PARTS = {"complex64": "float32", "complex128": "float64"}

# A line of the cache [bytes]: memory begins at one.
LINE = 64

# What types are called in texts: by their first letter and their bits, as i16 and c128.
SHORT = {kind: kind[0] + re.sub("[a-z]+", "", kind) for kind in (*BITS, *FLOATS, *PARTS)}
SHORT["bool"] = "b1"


@frozen
class Number:
    """A constant."""

    type: str
    value: Any


@frozen
class Name:
    """The value of a name."""

    type: str
    name: str


@frozen
class Op:
    """An operation of values; it has no effect, and may be computed where nobody needs it.

    "to" converts to `type`: an integer is cut to its bits, a float cut off or rounded.  Other
    operations are arithmetic, comparisons, "select", functions of NumPy by their names, "complex",
    "real" and "imag", and those that look at bits: "bits" keeps these and changes the type,
    "popcount" counts them, "half" gives the bits of the nearest half float, "unhalf" the float32.
    """

    type: str
    op: str
    args: Values
    exact: bool = False


@frozen
class Array:
    """A name for a view of memory: elements of a type, along so many axes."""

    element: str
    ndim: int
    name: str
    dense: bool = False

    @property
    def itemsize(self) -> int:
        """The size of an element [bytes]."""
        return np.dtype(self.element).itemsize


@frozen
class Load:
    """An element of an array; one that other threads may write is read `anew` each time."""

    array: Array
    index: Values
    anew: bool = False

    @property
    def type(self) -> str:
        """The type of the element."""
        return self.array.element


@frozen
class Size:
    """The length of an array along an axis."""

    array: Array
    axis: int
    type: str = "int64"


@frozen
class Call:
    """What a function of the module gives."""

    type: str
    function: str
    args: tuple[Value | Array, ...]


Value: TypeAlias = Number | Name | Op | Load | Size | Call
Values: TypeAlias = tuple[Value, ...]


@frozen
class Let:
    """Bind a name to a value."""

    name: str
    value: Value


@frozen
class Variable:
    """Bind a name that `Assign` may change; it begins with a value."""

    name: str
    value: Value


@frozen
class Assign:
    """Give a variable another value, of the same type."""

    name: str
    value: Value


@frozen
class Store:
    """Write an element of an array."""

    array: Array
    index: Values
    value: Value


@frozen
class View:
    """Bind an array to what another holds at some first indices, from element `first` on.

    The name may have another element type of the same size.  It is `dense` if the caller has
    seen to it that its elements lie side by side.
    """

    array: Array
    of: Array
    index: Values = ()
    first: Value | None = None


@frozen
class Laid:
    """Bind an array to memory at an address, of these lengths.

    A dense one has no `strides`, the bytes between elements along each axis.
    """

    array: Array
    address: Value
    shape: Values
    strides: Values = ()


@frozen
class For:
    """Do statements for an index that goes up from `start` to before `stop`.

    What comes next is asked anew each turn: no statement changes `stop`.
    """

    index: str
    start: Value
    stop: Value
    body: Block
    step: int = 1


@frozen
class While:
    """Do `head`, then `body` if the test holds, and begin again."""

    head: Block
    test: Value
    body: Block


@frozen
class If:
    """Do one of two blocks."""

    test: Value
    then: Block
    other: Block = ()


@frozen
class Return:
    """Leave the function, which gives a value."""

    value: Value


Statement: TypeAlias = (
    Let | Variable | Assign | Store | View | Laid | For | While | If | Return | Call
)  # fmt: skip
Block: TypeAlias = tuple[Statement, ...]


@frozen
class Function:
    """A function: its parameters, what it does, and the type of what it gives, by default 0.

    A function of a `row` is compiled by itself, and what it writes lies apart from what it reads.
    Any other function stands where it is called.
    """

    name: str
    parameters: tuple[Name | Array, ...]
    body: Block
    result: str
    row: bool = False


@frozen
class Module:
    """Functions that call each other, and tables of constants, which are dense arrays."""

    functions: tuple[Function, ...]
    tables: tuple[tuple[str, np.ndarray], ...] = ()
    fastmath: bool = False

    def function(self, name: str) -> Function:
        """The function of a name."""
        return next(one for one in self.functions if one.name == name)


# Values made from others.

# Operations whose lowest bits depend on nothing but the lowest bits of their operands.
MODULAR = frozenset({"+", "-", "*", "&", "|", "^", "~"})


def number(machine: str, value: Any) -> Number:
    """A constant; an integer is taken modulo what its type holds, a float is rounded to it."""
    if machine in BITS:
        return Number(machine, wrapped(int(value), machine))
    return Number(machine, np.dtype(machine).type(value).item())


def word(value: int) -> Number:
    """A known integer of 64 bits."""
    return Number("int64", value)


def wrapped(value: int, machine: str) -> int:
    """An integer modulo what its type holds."""
    bits = BITS[machine]
    value %= 2**bits
    return value - 2**bits if machine.startswith("i") and value >= 2 ** (bits - 1) else value


def integer(value: Value) -> bool:
    """Whether a value is an integer, or a truth, which counts as one."""
    return value.type in BITS or value.type == "bool"


def known(value: Value) -> Any:
    """The constant that a value is; None if it is not known."""
    return value.value if isinstance(value, Number) else None


def convert(value: Value, machine: str) -> Value:
    """The value in another machine type: cut to it, cut off or rounded."""
    if value.type == machine:
        return value
    if isinstance(value, Number):
        held = value.value
        if machine not in BITS or (held == held and abs(held) != float("inf")):
            return number(machine, held)
    return Op(machine, "to", (value,))


def cut(value: Value, machine: str) -> Value:
    """The value in another machine type, in which alone sums of integers inside are computed."""
    if (
        isinstance(value, Op)
        and value.op in MODULAR
        and BITS.get(value.type, 0) >= BITS.get(machine, 65)
        and all(map(integer, value.args))
    ):
        return Op(machine, value.op, tuple(cut(arg, machine) for arg in value.args))
    return convert(value, machine)


def common(left: Value, right: Value) -> str:
    """The type in which two numbers are added."""
    kinds = {left.type, right.type}
    if kinds & set(PARTS):
        return "complex128" if kinds & {"complex128", "float64", "int64"} else "complex64"
    if kinds & set(FLOATS):
        wide = "float64" in kinds or any(BITS.get(one.type, 0) > 16 for one in (left, right))
        return "float64" if wide else "float32"
    unsigned = [kind for kind in (left.type, right.type) if kind.startswith("u")]
    if len(unsigned) == 2:
        return "uint64"
    if "uint64" in unsigned:
        # A known number of the other type fits as well.
        other = left if right.type == "uint64" else right
        if other.type == "bool" or (known(other) is not None and known(other) >= 0):
            return "uint64"
        raise TypeError("an unsigned integer of 64 bits beside a signed one")
    return "int64"


def applied(op: str, left: Value, right: Value) -> Value:
    """An arithmetic operation of two numbers."""
    machine = common(left, right)
    if op == "/" and integer(left) and integer(right):
        machine = "float64"
    if machine in FLOATS or machine in PARTS:
        return Op(machine, op, (convert(left, machine), convert(right, machine)))
    if isinstance(left, Number) and isinstance(right, Number):
        return number(machine, PYTHON[op](left.value, right.value))
    if left.type == right.type == "bool" and op in ("&", "|", "^"):
        return Op("bool", op, (left, right))
    exact = machine == "int64" and op in ("+", "-", "*")
    return Op(machine, op, (convert(left, machine), convert(right, machine)), exact)


def compared(op: str, left: Value, right: Value) -> Value:
    """A comparison."""
    if isinstance(left, Number) and isinstance(right, Number):
        return number("bool", PYTHON[op](left.value, right.value))
    kinds = {left.type, right.type}
    if kinds & set(PARTS):
        machine = common(left, right)
    elif kinds & set(FLOATS):
        machine = "float64" if "float64" in kinds else "float32"
        # A small whole number is the same in both types.
        for one in (left, right):
            if integer(one) and (known(one) is None or abs(known(one)) >= 2**24):
                machine = "float64"
    else:
        left, right = _fitting(left, right), _fitting(right, left)
        machine = left.type if left.type == right.type else common(left, right)
    return Op("bool", op, (convert(left, machine), convert(right, machine)))


def _fitting(value: Value, other: Value) -> Value:
    """A known integer in the type that it is compared with, if that holds it."""
    if not isinstance(value, Number) or value.type not in BITS or other.type not in BITS:
        return value
    info = np.iinfo(other.type)
    return convert(value, other.type) if info.min <= value.value <= info.max else value


def chosen(test: Value, then: Value, other: Value) -> Value:
    """One of two numbers; both may be computed."""
    if isinstance(test, Number):
        return then if test.value else other
    if then.type != other.type:
        machine = common(then, other)
        then, other = convert(then, machine), convert(other, machine)
    return Op(then.type, "select", (test, then, other))


def negated(value: Value) -> Value:
    """-value."""
    if isinstance(value, Number) and value.type in (*FLOATS, "int64"):
        return replace(value, value=-value.value)
    if value.type in FLOATS or value.type in PARTS:
        return Op(value.type, "-", (value,))
    machine = common(value, value)
    return Op(machine, "-", (number(machine, 0), convert(value, machine)))
