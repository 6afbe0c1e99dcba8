"""Typed: each operation with the machine types it is done in, and every conversion.

    t2 = t0 + t1, of int8, in -200..254       ->      int16(int16(t0) + int16(t1))

Which types, which conversions, and how a quotient, a shift or a power is computed, is decided
here; a back end only prints it.  A sum, a product or a shift of integers has no type of its own:
it stands in a conversion, which cuts it to the width of that.

    node := Given(name) | Number(machine, value) | Whole(value) | To(machine, node)
          | Apply(op, node*) | Choose(test, then, other) | Function(name, node*)
          | Part(which, node)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..analysis.ranges import Interval, interval
from ..language.dtypes import SHORT_FLOATS, DType
from ..language.ir import COMPARISONS, Atom, Binary, Call, Cast, Const, Expr, Select, Unary
from .machine import constant_type, machine_type, multiplier, working_type


@dataclass(frozen=True, slots=True)
class Given:
    """A value that has a name."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A constant of a machine type; an integer is taken modulo what that holds."""

    machine: str
    value: bool | int | float | complex


@dataclass(frozen=True, slots=True)
class Whole:
    """A small integer of the type of whatever it is compared with."""

    value: int


@dataclass(frozen=True, slots=True)
class To:
    """The value in a machine type: an integer is cut to it, a float cut off or rounded."""

    machine: str
    arg: Node


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator on one value or two of the same type."""

    op: str
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choose:
    """One of two values; both may be computed."""

    test: Node
    then: Node
    other: Node


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a back end's support, or of the names that NumPy and C have for it."""

    name: str
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """The real or the imaginary part."""

    which: str
    arg: Node


Node: TypeAlias = Given | Number | Whole | To | Apply | Choose | Function | Part


def apply(op: str, *args: Node) -> Node:
    """An operator on its values."""
    return Apply(op, args)


def called(name: str, *args: Node) -> Node:
    """A function on its values."""
    return Function(name, args)


class Typed:
    """The operations of one kernel, whose ranges are `known`; `types` are those of its values.

    Who names a value otherwise than by `operation` tells its type in `types`.
    """

    # The fewest bits of an integer that has a name.
    least = 8

    # Whether quotients of floats have vectors, and those of integers have not.
    vectors = True

    def __init__(self, known: dict[str, Interval], types: dict[str, str]) -> None:
        self.known = known
        self.types = types

    def machine(self, atom: Atom) -> str:
        """The machine type of an operand."""
        if isinstance(atom, Const):
            return constant_type(atom, self.least)
        return self.types[atom.name]

    def operand(self, atom: Atom, machine: str | None = None) -> Node:
        """An operand, in a given machine type."""
        if isinstance(atom, Const):
            return Number(machine or self.machine(atom), atom.value)
        given = Given(atom.name)
        return given if machine in (None, self.types[atom.name]) else To(machine, given)

    def _both(self, expr: Binary, machine: str | None = None) -> tuple[Node, Node]:
        """Both operands, in a given machine type."""
        return self.operand(expr.left, machine), self.operand(expr.right, machine)

    def declare(self, name: str, expr: Expr) -> str:
        """Choose the machine type of an operation's result, and remember it."""
        machine = machine_type(expr.dtype, self.known[name], self.least)
        self.types[name] = machine
        return machine

    def operation(self, name: str, expr: Expr) -> Node:
        """An operation that takes atoms only; its result is called `name`."""
        own = self.declare(name, expr)
        match expr:
            case Unary():
                return self._unary(expr, own)
            case Binary():
                return self._binary(expr, own)
            case Select():
                then, other = self.operand(expr.then, own), self.operand(expr.other, own)
                return Choose(self.operand(expr.test), then, other)
            case Cast():
                return self._cast(expr, own)
            case Call():
                return self._call(expr, own)
            case _:
                raise AssertionError(expr)

    def _unary(self, expr: Unary, own: str) -> Node:
        work = working_type(expr, own, self.known, self.least)
        plain = self.operand(expr.arg)
        match expr.op:
            case "not":
                return apply("not", plain)
            case "real" | "imag":
                return Part(expr.op, plain)
            case "conj":
                return called("conj", plain)
            case "abs" if expr.arg.dtype.is_complex:
                return To(own, called("hypot", Part("real", plain), Part("imag", plain)))
            case "abs" if expr.dtype.is_float:
                return called("fabs", plain)
            case "abs":
                arg = self.operand(expr.arg, work)
                negative = apply("<", arg, Number(work, 0))
                return To(own, Choose(negative, apply("-", arg), arg))
        arg = self.operand(expr.arg, work)
        if expr.dtype.is_integer and expr.op == "-":
            return To(own, apply("-", Number(own, 0), arg))
        if expr.dtype.is_integer:
            return To(own, apply("^", arg, Number(own, -1)))
        return apply(expr.op, arg)

    def _binary(self, expr: Binary, own: str) -> Node:
        work = working_type(expr, own, self.known, self.least)
        if expr.op in COMPARISONS:
            machine = work if expr.left.dtype.is_integer else None
            return apply(expr.op, *self._both(expr, machine))
        if expr.dtype.is_integer:
            return self._integer(expr, own, work)
        whole = expr.op == "/" and expr.left.dtype.is_integer
        left, right = self._both(expr, "float64" if whole else own)
        if expr.op in ("minimum", "maximum"):
            return self._float_extreme(expr, left, right)
        if expr.op == "//" and self._simple_quotient(expr, own):
            # floor(a / b) is exact for a whole b while |a| < 2**53 (2**24 for float32), and
            # 14 times faster than the general rule, which takes a remainder first.
            finite = apply("==", apply("-", left, left), Whole(0))
            return Choose(finite, called("floor", apply("/", left, right)), Number(own, np.nan))
        if expr.op == "//":
            return called(f"floor_divide_{own}", left, right)
        if expr.op == "%":
            return To(own, called("remainder", left, right))
        if expr.op == "/" and expr.dtype.is_complex:
            # Numba's own operator raises where the divisor is zero.
            return To(own, called("divide", left, right))
        if expr.op == "**":
            return self._float_power(expr, left, right, own)
        return apply(expr.op, left, right)

    def _simple_quotient(self, expr: Binary, own: str) -> bool:
        """Whether floor(a / b) serves: not where `a` is known to have numbers that are too large.

        Of the elements of a field nothing is known, and few are as large as that.
        """
        if not isinstance(expr.right, Const) or not _small_whole(expr.right):
            return False
        largest = interval(expr.left, self.known).largest
        return largest < (2**24 if own == "float32" else 2**53) or math.isinf(largest)

    def _float_extreme(self, expr: Binary, left: Node, right: Node) -> Node:
        op = "<" if expr.op == "minimum" else ">"
        first, last = interval(expr.left, self.known), interval(expr.right, self.known)
        chosen = Choose(apply(op, left, right), left, right)
        if expr.loose or not (first.nan or last.nan):
            return chosen
        # A comparison that is false for NaN gives `right`, NaN or not: one vector instruction.
        return Choose(apply("==", left, left), chosen, left)

    def _float_power(self, expr: Binary, left: Node, right: Node, own: str) -> Node:
        known = expr.right.value if isinstance(expr.right, Const) else None
        if known == 0.5 and not expr.dtype.is_complex:
            # Unlike a power, a root of -inf would be nan and of -0.0 be -0.0.
            root = apply("+", called("sqrt", left), Number(own, 0.0))
            inf = Number(own, np.inf)
            return Choose(apply("!=", left, apply("-", inf)), root, inf)
        return apply("**", left, right)

    def _integer(self, expr: Binary, own: str, work: str) -> Node:
        if own == "bool":
            op = {"minimum": "&", "maximum": "|"}.get(expr.op, expr.op)
            return apply(op, *self._both(expr))
        left, right = self._both(expr, work)
        match expr.op:
            case "minimum" | "maximum":
                op = "<" if expr.op == "minimum" else ">"
                return _as(Choose(apply(op, left, right), left, right), work, own)
            case "//":
                return self._floor_divide(expr, own, work)
            case "%":
                return self._modulo(expr, own, work)
            case "round":
                return To(own, self._wide_call("nearest_multiple", expr))
            case "**":
                if isinstance(expr.right, Const) and expr.right.value in (2, 3):
                    square = To(own, apply("*", left, left))
                    cube = To(own, apply("*", square, left))
                    return square if expr.right.value == 2 else cube
                return To(own, self._wide_call("integer_power", expr))
            case "<<" | ">>":
                return self._shift(expr, own, work)
            case _:
                return To(own, apply(expr.op, left, right))

    def _wide_call(self, name: str, expr: Binary) -> Node:
        """A function of two integers of 64 bits."""
        wide = "uint64" if expr.dtype is DType.UINT else "int64"
        return called(name, *self._both(expr, wide))

    def _floor_divide(self, expr: Binary, own: str, work: str) -> Node:
        left, right = self._both(expr, work)
        divisor = _positive_constant(expr.right)
        if divisor is None:
            return To(own, self._any_quotient(expr, work))
        if divisor & (divisor - 1) == 0:
            return To(own, apply(">>", left, Number(work, divisor.bit_length() - 1)))
        dividend = interval(expr.left, self.known)
        found = multiplier(int(dividend.low), int(dividend.high), divisor)
        if found is None:
            return To(own, apply("//", left, right))
        half, wide = (f"uint{max(n, self.least)}" for n in (found.width // 2, found.width))
        signed = _wider(work)
        moved = _as(left, work, half)
        if found.shift:
            moved = To(half, apply("+", left, Number(signed, found.shift * divisor)))
        product = To(wide, apply("*", To(wide, moved), Number(wide, found.factor)))
        quotient = To(half, apply(">>", product, Number(wide, found.bits)))
        if found.shift:
            return To(own, apply("-", To(signed, quotient), Number(signed, found.shift)))
        return _as(quotient, half, own)

    def _any_quotient(self, expr: Binary, work: str) -> Node:
        """floor(a / b) for any b; 0 where b is 0.

        The quotient of two floats, which has vectors, is that of the integers while the
        dividend is below 2**52: it cannot be rounded up to the next whole number.  A divisor
        above that leaves 0 or -1, however it is rounded itself.
        """
        left, right = self._both(expr, work)
        if not self.vectors or not interval(expr.left, self.known).below(2**52):
            return called("integer_divide", left, right)
        floats = apply("/", To("float64", left), To("float64", right))
        zero = Number(work, 0)
        return Choose(apply("!=", right, zero), To(work, called("floor", floats)), zero)

    def _modulo(self, expr: Binary, own: str, work: str) -> Node:
        left, right = self._both(expr, work)
        divisor = _positive_constant(expr.right)
        if divisor is None:
            if not self.vectors or not interval(expr.left, self.known).below(2**52):
                return To(own, called("integer_modulo", left, right))
            quotient: Node = To(work, self._any_quotient(expr, work))
            rest = To(own, apply("-", left, apply("*", quotient, right)))
            return Choose(apply("!=", right, Number(work, 0)), rest, Number(own, 0))
        if divisor & (divisor - 1) == 0:
            return To(own, apply("&", left, Number(work, divisor - 1)))
        quotient = self._floor_divide(expr, work, work)
        return To(own, apply("-", left, apply("*", quotient, Number(work, divisor))))

    def _shift(self, expr: Binary, own: str, work: str) -> Node:
        count = interval(expr.right, self.known)
        bits = np.dtype(work).itemsize * 8
        if count.low < 0 or count.high >= bits:
            # A negative count is one of 64 and more, taken modulo 2**64.
            name = "shift_left" if expr.op == "<<" else "shift_right"
            return To(own, self._wide_call(name, expr))
        left, right = self._both(expr, work)
        return To(own, apply(expr.op, left, right))

    def _cast(self, expr: Cast, own: str) -> Node:
        arg, source = expr.arg, expr.arg.dtype
        plain = self.operand(arg)
        if expr.dtype is DType.BOOL:
            return apply("!=", plain, Whole(0))
        if source.is_float and expr.dtype.is_integer:
            return self._truncation(expr, own)
        if expr.storage in SHORT_FLOATS:
            return called(SHORT_FLOATS[expr.storage].round, To("float64", plain))
        if expr.storage and expr.dtype.is_integer:
            return _as(self.operand(arg, expr.storage), expr.storage, own)
        if source is DType.BOOL and not expr.dtype.is_integer:
            return To(own, To("uint8", plain))
        return _as(plain, self.machine(arg), own)

    def _truncation(self, expr: Cast, own: str) -> Node:
        """Float to integer: toward zero, saturating, NaN as 0."""
        arg, value = self.operand(expr.arg), interval(expr.arg, self.known)
        target = expr.storage or ("uint64" if expr.dtype is DType.UINT else "int64")
        info = np.iinfo(target)
        low, high = int(info.min), int(info.max)
        if low <= value.low and value.high <= high and not value.nan:
            wide = "int32" if value.low >= -(2**31) and value.high < 2**31 else target
            return _as(To(wide, arg), wide, own)
        narrow = np.dtype(target).itemsize < 4
        name, limit = ("saturate", "int32") if narrow else ("saturate_wide", target)
        return To(own, called(name, arg, Number(limit, low), Number(limit, high)))

    def _call(self, expr: Call, own: str) -> Node:
        args = [self.operand(arg) for arg in expr.args]
        function, first = expr.function, args[0]
        if not expr.args[0].dtype.is_complex:
            zero = apply("-", first, first)
            match function:
                case "isnan":
                    return apply("!=", first, first)
                case "isfinite":
                    return apply("==", zero, Whole(0))
                case "isinf":
                    number = apply("==", first, first)
                    return apply("&", number, apply("!=", zero, Whole(0)))
        if function == "exp" and expr.dtype.is_float:
            return called(f"exp_{own}", *args)
        found = called(function, *args)
        return To(own, found) if function == "complex" or expr.dtype.is_float else found


def _as(node: Node, machine: str, own: str) -> Node:
    """A value of one machine type as another."""
    return node if machine == own else To(own, node)


def _positive_constant(atom: Atom) -> int | None:
    if isinstance(atom, Const) and isinstance(atom.value, int) and atom.value > 0:
        return int(atom.value)
    return None


def _small_whole(atom: Const) -> bool:
    value = atom.value
    assert not isinstance(value, complex)
    return value == value and abs(value) < 2**20 and value == int(value) and value != 0


def _wider(machine: str) -> str:
    """A type with room for one more bit than `machine`, and for a sign."""
    return {1: "int16", 2: "int32"}.get(np.dtype(machine).itemsize, "int64")
