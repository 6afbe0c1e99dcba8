"""The text of each operation of a kernel, with its machine types and every conversion.

    t2 = t0 + t1, of int8, in -200..254       ->      "i16(i16(t0) + i16(t1))"

Which types, which conversions, and how a quotient, a shift or a power is computed, is decided
here.  A sum, a product or a shift of integers has no type of its own: it stands in a conversion,
which cuts it to the width of that, and no more bits of it are computed (see `reading`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..analysis.ranges import Interval, interval, machine_type, working_type
from ..language.dtypes import SHORT_FLOATS
from ..language.functions import FLOAT_FUNCTIONS
from ..language.ir import COMPARISONS, Atom, Binary, Call, Cast, Const, DType, Expr, Select, Unary
from .nodes import BITS, PARTS, SHORT, wrapped

# What the least and the greatest of truths are.
_OF_TRUTHS = {"minimum": "&", "maximum": "|"}


def to(machine: str, text: str) -> str:
    """A value in a machine type: an integer is cut to it, a float cut off or rounded."""
    return f"{SHORT[machine]}({text})"


def _question(function: str, text: str) -> str:
    """Whether a float is what a function of NumPy asks for."""
    return {
        "isnan": f"{text} != {text}",
        "isfinite": f"{text} - {text} == 0",
        "isinf": f"({text} == {text}) & ({text} - {text} != 0)",
    }[function]


def number(machine: str, value: Any) -> str:
    """A constant of a machine type; an integer is taken modulo what that holds."""
    if machine == "bool":
        return str(bool(value))
    if machine in BITS:
        return to(machine, str(wrapped(int(value), machine)))
    if machine in PARTS:
        whole = complex(value)
        return to(machine, f"complex({whole.real}, {whole.imag})")
    text = str(float(value))
    if machine == "float64":
        # As an operand of a power, too, it is the number and its sign.
        return f"({text})" if text.startswith("-") else text
    return to(machine, text)


@dataclass(eq=False)
class Operations:
    """The operations of one kernel, whose ranges are `known`; `types` are those of its values.

    Who names a value otherwise than by `text` tells its type in `types`.
    """

    known: dict[str, Interval]
    types: dict[str, str]

    # The fewest bits of an integer that has a name.
    least = 8

    def machine(self, atom: Atom) -> str:
        """The machine type of an operand."""
        if isinstance(atom, Const):
            return machine_type(atom.dtype, interval(atom, self.known), self.least)
        return self.types[atom.name]

    def atom(self, atom: Atom, machine: str | None = None) -> str:
        """An operand, in a given machine type."""
        if isinstance(atom, Const):
            return number(machine or self.machine(atom), atom.value)
        return atom.name if machine in (None, self.types[atom.name]) else to(machine, atom.name)

    def _both(self, expr: Binary, machine: str | None = None) -> tuple[str, str]:
        """Both operands, in a given machine type."""
        return self.atom(expr.left, machine), self.atom(expr.right, machine)

    def declare(self, name: str, expr: Expr) -> str:
        """Choose the machine type of an operation's result, and remember it."""
        machine = machine_type(expr.dtype, self.known[name], self.least)
        self.types[name] = machine
        return machine

    def text(self, name: str, expr: Expr) -> str:
        """An operation that takes atoms only; its result is called `name`."""
        own = self.declare(name, expr)
        work = working_type(name, expr, own, self.known, self.least)
        match expr:
            case Unary():
                return self._unary(expr, own, work)
            case Binary():
                return self._binary(expr, own, work)
            case Select():
                then, other = self.atom(expr.then, own), self.atom(expr.other, own)
                return f"{then} if {self.atom(expr.test)} else {other}"
            case Cast():
                return self._cast(expr, own)
            case Call():
                return self._call(expr, own)
            case _:
                raise AssertionError(expr)

    def _unary(self, expr: Unary, own: str, work: str) -> str:
        plain, arg = self.atom(expr.arg), self.atom(expr.arg, work)
        match expr.op:
            case "not":
                return f"not {plain}"
            case "real" | "imag":
                return f"{plain}.{expr.op}"
            case "conj":
                return f"np.conj({plain})"
            case "abs" if expr.arg.dtype.is_complex:
                return to(own, f"np.hypot({plain}.real, {plain}.imag)")
            case "abs" if expr.dtype.is_float:
                return f"np.fabs({plain})"
            case "abs":
                return to(own, f"-{arg} if {arg} < {number(work, 0)} else {arg}")
        text = f"{expr.op}{arg}"
        return to(own, text) if expr.dtype.is_integer else text

    def _binary(self, expr: Binary, own: str, work: str) -> str:
        if expr.op in COMPARISONS:
            machine = work if expr.left.dtype.is_integer else None
            left, right = self._both(expr, machine)
            return f"{left} {expr.op} {right}"
        if expr.dtype.is_integer:
            return self._integer(expr, own, work)
        whole = expr.op == "/" and expr.left.dtype.is_integer
        kind = "float64" if whole else own
        left, right = self._both(expr, kind)
        if expr.op in ("minimum", "maximum"):
            return self._float_extreme(expr, left, right)
        if expr.op == "//" and self._simple_quotient(expr, own):
            # floor(a / b) is exact for a whole b while |a| < 2**53 (2**24 for float32), and
            # 14 times faster than the general rule, which takes a remainder first.
            nan = number(own, np.nan)
            return f"np.floor({left} / {right}) if {left} - {left} == 0 else {nan}"
        if expr.op == "//":
            return f"floor_divide({left}, {right})"
        if expr.op == "%":
            return to(own, f"remainder({left}, {right})")
        if expr.op == "**" and _known(expr.right) == 0.5 and not expr.dtype.is_complex:
            # Unlike a power, a root of -inf would be nan and of -0.0 be -0.0.
            inf, zero = number(own, np.inf), number(own, 0.0)
            return f"np.sqrt({left}) + {zero} if {left} != -{inf} else {inf}"
        return f"{left} {expr.op} {right}"

    def _simple_quotient(self, expr: Binary, own: str) -> bool:
        """Whether floor(a / b) serves: not where `a` is known to have numbers that are too large.

        Of the elements of a field nothing is known, and few are as large as that.
        """
        divisor = _known(expr.right)
        whole = isinstance(divisor, float) and divisor.is_integer()
        if not whole or not 0 < abs(divisor) < 2**20:
            return False
        largest = interval(expr.left, self.known).largest
        return largest < (2**24 if own == "float32" else 2**53) or math.isinf(largest)

    def _float_extreme(self, expr: Binary, left: str, right: str) -> str:
        op = "<" if expr.op == "minimum" else ">"
        first, last = interval(expr.left, self.known), interval(expr.right, self.known)
        chosen = f"{left} if {left} {op} {right} else {right}"
        if expr.loose or not (first.nan or last.nan):
            return chosen
        # A comparison that is false for NaN gives `right`, NaN or not: one vector instruction.
        return f"({chosen}) if {left} == {left} else {left}"

    def _integer(self, expr: Binary, own: str, work: str) -> str:
        if own == "bool":
            left, right = self._both(expr)
            return f"{left} {_OF_TRUTHS.get(expr.op, expr.op)} {right}"
        left, right = self._both(expr, work)
        known = _known(expr.right) or 0
        match expr.op:
            case "minimum" | "maximum":
                op = "<" if expr.op == "minimum" else ">"
                return _as(f"{left} if {left} {op} {right} else {right}", work, own)
            case "//" if known > 0:
                return self._floor_divide(expr, known, own, work)
            case "//":
                return to(own, f"integer_divide({left}, {right})")
            case "%" if known > 0 and known & (known - 1) == 0:
                return to(own, f"{left} & {number(work, known - 1)}")
            case "%":
                return to(own, f"integer_modulo({left}, {right})")
            case "round":
                return self._wide_call("nearest_multiple", expr, own)
            case "**":
                if known not in (2, 3):
                    return self._wide_call("integer_power", expr, own)
                square = to(own, f"{left} * {left}")
                return square if known == 2 else to(own, f"{square} * {left}")
            case "<<" | ">>":
                count = interval(expr.right, self.known)
                if count.low < 0 or count.high >= BITS[work]:
                    # A negative count is one of 64 and more, taken modulo 2**64.
                    name = "shift_left" if expr.op == "<<" else "shift_right"
                    return self._wide_call(name, expr, own)
        return to(own, f"{left} {expr.op} {right}")

    def _wide_call(self, name: str, expr: Binary, own: str) -> str:
        """A function of two integers of 64 bits."""
        left, right = self._both(expr, expr.dtype.numpy.name)
        return to(own, f"{name}({left}, {right})")

    def _floor_divide(self, expr: Binary, divisor: int, own: str, work: str) -> str:
        if divisor & (divisor - 1) == 0:
            bits = number(work, divisor.bit_length() - 1)
            return to(own, f"{self.atom(expr.left, work)} >> {bits}")
        # Numbers without signs are divided by a constant with one multiplication, as wide as
        # these: so many divisors are added before.  Those of more than 32 bits stay as they are.
        low, high = map(int, interval(expr.left, self.known).ends)
        steps = max(0, -(low // divisor))
        wide = max(self.least, max(divisor, high + steps * divisor).bit_length())
        machine = f"uint{2 ** (wide - 1).bit_length()}"
        if wide > 32:
            machine, steps = work, 0
        natural = self.atom(expr.left, machine)
        if steps:
            natural = to(machine, f"{natural} + {number(machine, steps * divisor)}")
        quotient = to(machine, f"{natural} // {number(machine, divisor)}")
        if steps:
            return to(own, f"{to(own, quotient)} - {number(own, steps)}")
        return _as(quotient, machine, own)

    def _cast(self, expr: Cast, own: str) -> str:
        arg, source = expr.arg, expr.arg.dtype
        plain = self.atom(arg)
        if expr.dtype is DType.BOOL:
            return f"{plain} != 0"
        if source.is_float and expr.dtype.is_integer:
            return self._truncation(expr, own)
        if expr.storage in SHORT_FLOATS:
            return f"{SHORT_FLOATS[expr.storage].round}({to('float64', plain)})"
        if expr.storage and expr.dtype.is_integer:
            return _as(self.atom(arg, expr.storage), expr.storage, own)
        return _as(plain, self.machine(arg), own)

    def _truncation(self, expr: Cast, own: str) -> str:
        """Float to integer: toward zero, saturating, NaN as 0."""
        arg, value = self.atom(expr.arg), interval(expr.arg, self.known)
        target = expr.storage or expr.dtype.numpy.name
        info = np.iinfo(target)
        low, high = int(info.min), int(info.max)
        if low <= value.low and value.high <= high and not value.nan:
            wide = "int32" if value.low >= -(2**31) and value.high < 2**31 else target
            return _as(to(wide, arg), wide, own)
        return to(own, f"saturate({arg}, {number(target, low)}, {number(target, high)})")

    def _call(self, expr: Call, own: str) -> str:
        args = list(map(self.atom, expr.args))
        function, given = expr.function, ", ".join(args)
        if function in ("isnan", "isinf", "isfinite"):
            if not expr.args[0].dtype.is_complex:
                return _question(function, given)
            real, imag = (_question(function, f"{given}.{part}") for part in ("real", "imag"))
            return f"({real}) {'&' if function == 'isfinite' else '|'} ({imag})"
        if function == "exp" and expr.dtype.is_float:
            return f"exp_{own}({given})"
        row, room = FLOAT_FUNCTIONS.get(function), "np."
        if function == "complex":
            room = ""
        elif row and not row.numpy:
            room = "math."
        return to(own, f"{room}{function}({given})")


def _as(text: str, machine: str, own: str) -> str:
    """A value of one machine type as another."""
    return text if machine == own else to(own, text)


def _known(atom: Atom) -> Any:
    """The number that an operand is; None if it is not known."""
    return atom.value if isinstance(atom, Const) else None
