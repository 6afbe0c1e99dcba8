"""The text of one operation, in CUDA C++.

    Assign t2 = t0 + t1, int32     ->     "int(unsigned(t0) + unsigned(t1))"

Registers of a GPU have 32 bits, or two of them have 64: values that fit in 32 are kept so.  Sums,
differences, products and shifts to the left are those of unsigned numbers, which may wrap in C++.
Which types these are is decided in `lowering.typed`; here it is only printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import numpy as np

from ...analysis.ranges import Interval
from ...language.dtypes import SHORT_FLOATS, DType
from ...language.ir import Atom, Binary, Expr
from ...lowering.typed import (
    Apply,
    Choose,
    Function,
    Given,
    Node,
    Number,
    Part,
    To,
    Typed,
    Whole,
    called,
)

# How the machine types are called in C++: those of values, and those that only storage has.
C_TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "npt_int64",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "npt_uint64",
    "float32": "float",
    "float64": "double",
    "complex64": "npt_complex64",
    "complex128": "npt_complex128",
} | {name: one.device for name, one in SHORT_FLOATS.items()}

# How tightly an operator binds; more binds more.
_BINDING = {
    "|": 5, "^": 6, "&": 7, "==": 8, "!=": 8, "<": 9, "<=": 9, ">": 9, ">=": 9, "<<": 10,
    ">>": 10, "+": 11, "-": 11, "*": 12, "/": 12,
}  # fmt: skip
_CHOICE, _SIGN, _CLOSED = 2, 13, 15

# Of integers these are done modulo a power of two.
_MODULAR = frozenset("+-*")


def stored_type(dtype: np.dtype) -> str:
    """How the elements of an array are called; of a bool whatever byte there is."""
    return "unsigned char" if dtype == np.bool_ else C_TYPES[dtype.name]


class Operations(Typed):
    """The texts of the operations of one kernel; `names` are those that values have in it."""

    least = 32
    vectors = False

    def __init__(
        self, known: dict[str, Interval], types: dict[str, str], names: Mapping[str, str]
    ) -> None:
        super().__init__(known, types)
        self.names = dict(names)

    def atom(self, atom: Atom, machine: str | None = None) -> str:
        """An operand, in a given machine type."""
        return self._print(self.operand(atom, machine))[0]

    def text(self, name: str, expr: Expr) -> str:
        """The text of an operation that takes atoms only."""
        return self._print(self.operation(name, expr))[0]

    def node(self, node: Node) -> str:
        """The text of what is decided elsewhere."""
        return self._open(node)

    def _float_extreme(self, expr: Binary, left: Node, right: Node) -> Node:
        if expr.loose and expr.dtype is DType.F32:
            return called("lesser" if expr.op == "minimum" else "greater", left, right)
        return super()._float_extreme(expr, left, right)

    def _print(self, node: Node) -> tuple[str, int]:
        """The text, and how tightly it binds."""
        match node:
            case Given(name):
                return self.names[name], _CLOSED
            case Number(machine, value):
                text = number(machine, value)
                return text, _SIGN if text.startswith("-") else _CLOSED
            case Whole(value):
                return str(value), _CLOSED
            case To(machine, arg):
                return self._converted(machine, arg)
            case Function("complex", (real, imag)):
                return f"npt_complex128{{{self._open(real)}, {self._open(imag)}}}", _CLOSED
            case Function(name, args):
                return f"npt_{name}({', '.join(map(self._open, args))})", _CLOSED
            case Part(which, arg):
                return f"{self._within(arg, _CLOSED)}.{which}", _CLOSED
            case Choose(test, then, other):
                parts = (self._within(one, _CHOICE + 1) for one in (test, then, other))
                return "{} ? {} : {}".format(*parts), _CHOICE
            case Apply("not", (arg,)):
                return f"!{self._within(arg, _SIGN + 1)}", _SIGN
            case Apply("-", (arg,)):
                machine = self._machine(arg)
                if _whole(machine) and machine != "int32":
                    return self._converted(machine, Apply("-", (Whole(0), arg)))
                return f"-{self._within(arg, _SIGN + 1)}", _SIGN
            case Apply("//", (left, right)):
                return f"npt_integer_divide({self._open(left)}, {self._open(right)})", _CLOSED
            case Apply("**", (left, right)):
                return f"npt_power({self._open(left)}, {self._open(right)})", _CLOSED
            case Apply(op, (left, right)):
                return self._infix(op, left, right)
            case Apply():
                raise AssertionError(node)
            case _:
                assert_never(node)

    def _open(self, node: Node) -> str:
        return self._print(node)[0]

    def _within(self, node: Node, binding: int) -> str:
        """The text, in parentheses unless it binds as tightly as that."""
        text, own = self._print(node)
        return text if own >= binding else f"({text})"

    def _converted(self, machine: str, arg: Node) -> tuple[str, int]:
        """A value in a machine type; an operation on integers is done in its width."""
        if self._machine(arg) == machine:
            return self._print(arg)
        if machine.startswith("complex"):
            return f"npt_as<{C_TYPES[machine]}>::from({self._open(arg)})", _CLOSED
        if _whole(machine):
            bits = max(32, np.dtype(machine).itemsize * 8)
            unsigned = f"uint{bits}"
            match arg:
                case Apply(op, (left, right)) if op in _MODULAR:
                    if (
                        machine == "int32"
                        and self._machine(left) == self._machine(right) == machine
                    ):
                        # What the ranges prove to fit does not wrap.
                        return self._infix(op, left, right)
                    text, binding = self._modular(arg, unsigned)
                    return (text, binding) if machine == unsigned else _cast(machine, text)
                case Apply("<<", (left, right)):
                    moved = self._modular(left, unsigned, _BINDING["<<"])[0]
                    return _cast(machine, f"{moved} << {self._within(right, _SIGN)}")
        return _cast(machine, self._open(arg))

    def _infix(self, op: str, left: Node, right: Node) -> tuple[str, int]:
        binding = _BINDING[op]
        # Who reads `a < b & c` or `a & b == c` need not know which binds more.
        least = _BINDING["+"] if binding < _BINDING["<<"] else binding
        first, last = self._within(left, least), self._within(right, least + 1)
        return f"{first} {op} {last}", binding

    def _modular(self, node: Node, machine: str, least: int = 0) -> tuple[str, int]:
        """A sum, a difference or a product of unsigned numbers, bound so tightly at least."""
        match node:
            case Apply(op, (left, right)) if op in _MODULAR:
                binding = _BINDING[op]
                first, _ = self._modular(left, machine, binding)
                last, _ = self._modular(right, machine, binding + 1)
                text = f"{first} {op} {last}"
                return (text, binding) if binding >= least else (f"({text})", _CLOSED)
            case Number(_, value) | Whole(value):
                return number(machine, value), _CLOSED
            case To(other, arg) if _whole(other) and self._wider(other, machine, arg):
                return self._modular(arg, machine, least)
            case _:
                if self._machine(node) == machine:
                    text, binding = self._print(node)
                    return (text, binding) if binding >= least else (f"({text})", _CLOSED)
                return _cast(machine, self._open(node))

    def _wider(self, other: str, machine: str, arg: Node) -> bool:
        """Whether a conversion of an integer is undone by the one to `machine`."""
        enough = np.dtype(other).itemsize >= np.dtype(machine).itemsize
        return enough and isinstance(arg, To | Given) and _whole(self._machine(arg))

    def _machine(self, node: Node) -> str:
        """The machine type of an operand."""
        match node:
            case Given(name):
                return self.types[name]
            case Number(machine, _) | To(machine, _):
                return machine
            case _:
                return ""


def _whole(machine: str) -> bool:
    return machine.startswith(("int", "uint"))


def _cast(machine: str, text: str) -> tuple[str, int]:
    return cast(machine, text), _CLOSED


def cast(machine: str, text: str) -> str:
    """A value as another machine type."""
    name = C_TYPES[machine]
    return f"({name})({text})" if " " in name else f"{name}({text})"


def number(machine: str, value: bool | int | float | complex) -> str:
    """A number of a machine type."""
    if machine == "bool":
        return "true" if value else "false"
    if machine.startswith("complex"):
        whole = complex(value)
        part = "float32" if machine == "complex64" else "float64"
        return f"{C_TYPES[machine]}{{{number(part, whole.real)}, {number(part, whole.imag)}}}"
    assert not isinstance(value, complex)
    if machine.startswith("float"):
        return _float(float(value), machine)
    bits = np.dtype(machine).itemsize * 8
    whole_value = int(value) % 2**bits
    if machine.startswith("int") and whole_value >= 2 ** (bits - 1):
        whole_value -= 2**bits
    suffix = {"uint32": "u", "int64": "ll", "uint64": "ull"}.get(machine, "")
    if whole_value == -(2 ** (bits - 1)) and bits >= 32:
        # C++ has no negative numbers: the sign is an operator on one that is too large.
        return f"({whole_value + 1}{suffix} - 1)"
    return f"{whole_value}{suffix}"


def _float(value: float, machine: str) -> str:
    bits = machine.removeprefix("float")
    if value != value:
        return f"NPT_NAN{bits}"
    if machine == "float32":
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    if value in (float("inf"), float("-inf")):
        return f"{'-' if value < 0 else ''}NPT_INF{bits}"
    mantissa, exponent = value.hex().split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").removesuffix(".")
    return f"{mantissa}p{exponent}{'f' if machine == 'float32' else ''}"
