"""Nodes of the loop language: typed values, statements, functions and modules.

    function band(x: float32[2], out: float32[2])
        for i in 0 .. size(out, 0)
            view row = out[i, :]
            for j in 0 .. size(row, 0)
                row[j] = x[i, j] * 0.5

    value     := Number | Name | Op(op, value*) | Load(array, value*) | Size(array, axis)
               | Call(function, (value | array)*)
    statement := Let | Variable | Assign | Store | View | Alloc | For | While | If | Return | Call

Every value has a machine type: "bool", "int8" to "uint64", "float32", "float64", "complex64" or
"complex128".  Both operands of an operation have one type, and conversions are operations.  An
integer operation wraps, unless it is `exact`: then it never overflows.

An array is a view of memory: elements of one type, lengths and strides along its axes.  In a
`dense` one elements lie side by side, in C order.  A name is bound once, except that of a
`Variable`; names of values and arrays differ.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import numpy as np

from ..base.frozen import frozen

BITS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
FLOATS = ("float32", "float64")
# The type of each part of a complex number.
PARTS = {"complex64": "float32", "complex128": "float64"}

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
    """What a function of the module returns; `type` is empty if it returns nothing."""

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
class Alloc:
    """Bind an array to new memory, which begins at a line of the cache and lives as the call."""

    array: Array
    shape: Values


@frozen
class For:
    """Do statements for an index that goes up from `start` to before `stop`."""

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
    Let | Variable | Assign | Store | View | Alloc | For | While | If | Return | Call
)  # fmt: skip
Block: TypeAlias = tuple[Statement, ...]


@frozen
class Function:
    """A function: its parameters, and what it does.

    A function of a `row` is compiled by itself, and what it writes lies apart from what it reads.
    Any other function stands where it is called.
    """

    name: str
    parameters: tuple[Name | Array, ...]
    body: Block
    result: str = ""
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
