"""The text of one operation, in the plain Python that Numba compiles.

    Assign t2 = t0 + t1, int16     ->     "i16(i16(t0) + i16(t1))"

Every integer is cast to the type it is computed in: Numba widens to 64 bits after each
operation, and the cast tells LLVM that it need not.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...analysis.ranges import Interval, interval
from ...language.dtypes import DType
from ...language.ir import (
    COMPARISONS,
    Atom,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Select,
    Unary,
)
from ...lowering.division import multiplier
from ...lowering.machine import constant_type, machine_type, working_type

SHORT = {
    "bool": "b1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}


class Expressions:
    """The texts of the operations of one kernel, whose ranges are `known`."""

    def __init__(
        self, known: dict[str, Interval], types: dict[str, str], names: Mapping[str, str]
    ) -> None:
        self.known = known
        self.types = types
        # What scalars are called in the text.
        self.names = names

    def atom_type(self, atom: Atom) -> str:
        return constant_type(atom) if isinstance(atom, Const) else self.types[atom.name]

    def atom(self, atom: Atom, machine: str | None = None) -> str:
        """An operand, as a given machine type."""
        if isinstance(atom, Const):
            return literal(atom, machine or constant_type(atom))
        if machine is None or self.types[atom.name] == machine:
            return self.names.get(atom.name, atom.name)
        return f"{SHORT[machine]}({self.names.get(atom.name, atom.name)})"

    def declare(self, name: str, expr: Expr) -> str:
        """Choose the machine type of an operation's result, and remember it."""
        machine = machine_type(expr.dtype, self.known[name])
        self.types[name] = machine
        return machine

    def text(self, name: str, expr: Expr) -> str:
        """The text of an operation that takes atoms only."""
        own = self.declare(name, expr)
        match expr:
            case Unary():
                return self._unary(expr, own)
            case Binary():
                return self._binary(expr, own)
            case Select():
                test = self.atom(expr.test)
                then, other = self.atom(expr.then, own), self.atom(expr.other, own)
                return f"{then} if {test} else {other}"
            case Cast():
                return self._cast(expr, own)
            case Call():
                return self._call(expr, own)
            case _:
                raise AssertionError(expr)

    def _unary(self, expr: Unary, own: str) -> str:
        work = working_type(expr, own, self.known)
        if expr.op == "not":
            return f"not {self.atom(expr.arg)}"
        if expr.op in ("real", "imag"):
            return f"{self.atom(expr.arg)}.{expr.op}"
        if expr.op == "conj":
            return f"np.conj({self.atom(expr.arg)})"
        if expr.op == "abs" and expr.arg.dtype.is_complex:
            arg = self.atom(expr.arg)
            return f"{SHORT[own]}(np.hypot({arg}.real, {arg}.imag))"
        if expr.op == "abs":
            if expr.dtype.is_float:
                return f"np.fabs({self.atom(expr.arg)})"
            arg = self.atom(expr.arg, work)
            return f"{SHORT[own]}(-{arg} if {arg} < {SHORT[work]}(0) else {arg})"
        arg = self.atom(expr.arg, work)
        if expr.dtype.is_integer:
            if expr.op == "-":
                return f"{SHORT[own]}({SHORT[own]}(0) - {arg})"
            return f"{SHORT[own]}({arg} ^ {SHORT[own]}({_all_ones(own)}))"
        return f"{expr.op}{arg}"

    def _binary(self, expr: Binary, own: str) -> str:
        work = working_type(expr, own, self.known)
        if expr.op in COMPARISONS:
            if not expr.left.dtype.is_integer:
                return f"{self.atom(expr.left)} {expr.op} {self.atom(expr.right)}"
            return f"{self.atom(expr.left, work)} {expr.op} {self.atom(expr.right, work)}"
        if expr.dtype.is_integer:
            return self._integer(expr, own, work)
        left, right = self.atom(expr.left, own), self.atom(expr.right, own)
        if expr.op == "/" and expr.left.dtype.is_integer:
            left, right = self.atom(expr.left, "float64"), self.atom(expr.right, "float64")
        if expr.op in ("minimum", "maximum"):
            return self._float_extreme(expr, left, right)
        if expr.op == "//" and isinstance(expr.right, Const) and _small_whole(expr.right):
            # floor(a / b) is exact for a whole b while |a| < 2**53 (2**24 for float32), and
            # 14 times faster than the general rule, which takes a remainder first.
            nan = literal(Const(expr.dtype, "nan"), own)
            return f"np.floor({left} / {right}) if {left} - {left} == 0 else {nan}"
        if expr.op == "//":
            return f"{SHORT[own]}(floor_divide({left}, {right}))"
        if expr.op == "%":
            return f"{SHORT[own]}(remainder({left}, {right}))"
        if expr.op == "/" and expr.dtype.is_complex:
            # Numba's own operator raises where the divisor is zero.
            return f"{SHORT[own]}(np.divide({left}, {right}))"
        if expr.op == "**":
            return self._float_power(expr, left, right, own)
        return f"{left} {expr.op} {right}"

    def _float_extreme(self, expr: Binary, left: str, right: str) -> str:
        op = "<" if expr.op == "minimum" else ">"
        first, last = interval(expr.left, self.known), interval(expr.right, self.known)
        if not first.nan and not last.nan:
            return f"{left} if {left} {op} {right} else {right}"
        # A comparison that is false for NaN gives `right`, NaN or not: one vector instruction.
        return f"({left} if {left} {op} {right} else {right}) if {left} == {left} else {left}"

    def _float_power(self, expr: Binary, left: str, right: str, own: str) -> str:
        known = expr.right.value if isinstance(expr.right, Const) else None
        if known == 0.5 and not expr.dtype.is_complex:
            # Unlike a power, a root of -inf would be nan and of -0.0 be -0.0.
            root = f"np.sqrt({left})"
            inf, zero = (literal(Const(expr.dtype, t), own) for t in ("inf", "0.0"))
            return f"{root} + {zero} if {left} != -{inf} else {inf}"
        return f"{left} ** {right}"

    def _integer(self, expr: Binary, own: str, work: str) -> str:
        short = SHORT[own]
        if own == "bool":
            op = {"minimum": "&", "maximum": "|"}.get(expr.op, expr.op)
            return f"{self.atom(expr.left)} {op} {self.atom(expr.right)}"
        left, right = self.atom(expr.left, work), self.atom(expr.right, work)
        match expr.op:
            case "minimum" | "maximum":
                op = "<" if expr.op == "minimum" else ">"
                chosen = f"{left} if {left} {op} {right} else {right}"
                return chosen if work == own else f"{short}({chosen})"
            case "//":
                return self._floor_divide(expr, own, work)
            case "%":
                return self._modulo(expr, own, work)
            case "round":
                wide = "uint64" if expr.dtype is DType.UINT else "int64"
                args = f"{self.atom(expr.left, wide)}, {self.atom(expr.right, wide)}"
                return f"{short}(nearest_multiple({args}))"
            case "**":
                if isinstance(expr.right, Const) and expr.right.value in (2, 3):
                    return self._small_power(left, int(expr.right.text), own)
                wide = "uint64" if expr.dtype is DType.UINT else "int64"
                args = f"{self.atom(expr.left, wide)}, {self.atom(expr.right, wide)}"
                return f"{short}(integer_power({args}))"
            case "<<" | ">>":
                return self._shift(expr, own, work)
            case _:
                return f"{short}({left} {expr.op} {right})"

    def _small_power(self, left: str, exponent: int, own: str) -> str:
        short = SHORT[own]
        square = f"{short}({left} * {left})"
        return square if exponent == 2 else f"{short}({square} * {left})"

    def _floor_divide(self, expr: Binary, own: str, work: str) -> str:
        short, left, right = SHORT[own], self.atom(expr.left, work), self.atom(expr.right, work)
        divisor = _positive_constant(expr.right)
        if divisor is None:
            return f"{short}({self._any_quotient(expr, work)})"
        if divisor & (divisor - 1) == 0:
            return f"{short}({left} >> {SHORT[work]}({divisor.bit_length() - 1}))"
        dividend = interval(expr.left, self.known)
        found = multiplier(int(dividend.low), int(dividend.high), divisor)
        if found is None:
            return f"{short}({left} // {right})"
        half, wide = f"u{found.width // 2}", f"u{found.width}"
        moved = left if SHORT[work] == half else f"{half}({left})"
        if found.shift:
            moved = f"{half}({left} + {_signed_literal(found.shift * divisor, work)})"
        product = f"{wide}({wide}({moved}) * {wide}({found.factor}))"
        quotient = f"{half}({product} >> {wide}({found.bits}))"
        if found.shift:
            return f"{short}({_wide(work)}({quotient}) - {_wide(work)}({found.shift}))"
        return quotient if short == half else f"{short}({quotient})"

    def _any_quotient(self, expr: Binary, work: str) -> str:
        """floor(a / b) for any b; 0 where b is 0.

        The quotient of two floats, which has vectors, is that of the integers while the
        dividend is below 2**52: it cannot be rounded up to the next whole number.  A divisor
        above that leaves 0 or -1, however it is rounded itself.
        """
        left, right = self.atom(expr.left, work), self.atom(expr.right, work)
        if not self._below(expr.left, 2**52):
            return f"integer_divide({left}, {right})"
        short = SHORT[work]
        quotient = f"{short}(np.floor(f64({left}) / f64({right})))"
        return f"{quotient} if {right} != {short}(0) else {short}(0)"

    def _below(self, atom: Atom, limit: int) -> bool:
        value = interval(atom, self.known)
        return -limit < value.low and value.high < limit

    def _modulo(self, expr: Binary, own: str, work: str) -> str:
        short, left, right = SHORT[own], self.atom(expr.left, work), self.atom(expr.right, work)
        divisor = _positive_constant(expr.right)
        if divisor is None:
            if not self._below(expr.left, 2**52):
                return f"{short}(integer_modulo({left}, {right}))"
            quotient = f"{SHORT[work]}({self._any_quotient(expr, work)})"
            rest = f"{short}({left} - {quotient} * {right})"
            return f"{rest} if {right} != {SHORT[work]}(0) else {short}(0)"
        if divisor & (divisor - 1) == 0:
            return f"{short}({left} & {SHORT[work]}({divisor - 1}))"
        quotient = self._floor_divide(expr, work, work)
        return f"{short}({left} - {quotient} * {SHORT[work]}({divisor}))"

    def _shift(self, expr: Binary, own: str, work: str) -> str:
        count = interval(expr.right, self.known)
        bits = np.dtype(work).itemsize * 8
        if count.low < 0 or count.high >= bits:
            name = "shift_left" if expr.op == "<<" else "shift_right"
            wide = "uint64" if expr.dtype is DType.UINT else "int64"
            # A negative count is one of 64 and more, taken modulo 2**64.
            args = f"{self.atom(expr.left, wide)}, {self.atom(expr.right, wide)}"
            return f"{SHORT[own]}({name}({args}))"
        left, right = self.atom(expr.left, work), self.atom(expr.right, work)
        return f"{SHORT[own]}({left} {expr.op} {right})"

    def _cast(self, expr: Cast, own: str) -> str:
        arg, source = expr.arg, expr.arg.dtype
        short = SHORT[own]
        if expr.dtype is DType.BOOL:
            return f"{self.atom(arg)} != 0"
        if source.is_float and expr.dtype.is_integer:
            return self._truncation(expr, own)
        if expr.storage == "float16":
            return f"round_to_half(f64({self.atom(arg)}))"
        if expr.storage and expr.dtype.is_integer:
            return _cast(self.atom(arg, expr.storage), expr.storage, own)
        if source is DType.BOOL and not expr.dtype.is_integer:
            return f"{short}(u8({self.atom(arg)}))"
        return _cast(self.atom(arg), self.atom_type(arg), own)

    def _truncation(self, expr: Cast, own: str) -> str:
        """Float to integer: toward zero, saturating, NaN as 0."""
        arg, value = self.atom(expr.arg), interval(expr.arg, self.known)
        target = expr.storage or ("uint64" if expr.dtype is DType.UINT else "int64")
        info = np.iinfo(target)
        low, high = int(info.min), int(info.max)
        short = SHORT[own]
        if low <= value.low and value.high <= high and not value.nan:
            wide = "int32" if value.low >= -(2**31) and value.high < 2**31 else target
            return _cast(f"{SHORT[wide]}({arg})", wide, own)
        helper = "saturate" if np.dtype(target).itemsize < 4 else "saturate_wide"
        limits = f"{SHORT[target]}({low}), {SHORT[target]}({high})"
        if helper == "saturate":
            limits = f"i32({low}), i32({high})"
        return f"{short}({helper}({arg}, {limits}))"

    def _call(self, expr: Call, own: str) -> str:
        args = ", ".join(self.atom(a) for a in expr.args)
        function = expr.function
        if function in ("erf", "erfc", "gamma", "lgamma"):
            return f"{SHORT[own]}(math.{function}({args}))"
        tests = {
            "isnan": f"{args} != {args}",
            "isfinite": f"{args} - {args} == 0",
            "isinf": f"({args} == {args}) & ({args} - {args} != 0)",
        }
        if function in tests and not expr.args[0].dtype.is_complex:
            return tests[function]
        if function == "exp" and expr.dtype.is_float:
            return f"exp_{own}({args})"
        if function == "complex":
            return f"{SHORT[own]}(complex({args}))"
        if expr.dtype.is_float:
            return f"{SHORT[own]}(np.{function}({args}))"
        return f"np.{function}({args})"


def _cast(text: str, machine: str, own: str) -> str:
    """A value of one machine type as another."""
    return text if machine == own else f"{SHORT[own]}({text})"


def literal(atom: Const, machine: str) -> str:
    """A constant of a machine type."""
    if machine == "bool":
        return str(bool(atom.value))
    value = atom.value
    if machine.startswith("complex"):
        whole = complex(value)
        return f"{SHORT[machine]}(complex({_float(whole.real)}, {_float(whole.imag)}))"
    assert not isinstance(value, complex)
    if machine.startswith("float"):
        text = _float(float(value))
        return text if machine == "float64" else f"f32({text})"
    bits = np.dtype(machine).itemsize * 8
    whole_value = int(value) % 2**bits
    if machine.startswith("int") and whole_value >= 2 ** (bits - 1):
        whole_value -= 2**bits
    return f"{SHORT[machine]}({whole_value})"


def _float(value: float) -> str:
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return repr(value)


def _all_ones(machine: str) -> str:
    return "-1" if machine.startswith("int") else str(2 ** (np.dtype(machine).itemsize * 8) - 1)


def _positive_constant(atom: Atom) -> int | None:
    if isinstance(atom, Const) and isinstance(atom.value, int) and atom.value > 0:
        return int(atom.value)
    return None


def _small_whole(atom: Const) -> bool:
    value = atom.value
    assert not isinstance(value, complex)
    return value == value and abs(value) < 2**20 and value == int(value) and value != 0


def _signed_literal(value: int, machine: str) -> str:
    return f"{_wide(machine)}({value})"


def _wide(machine: str) -> str:
    """A type with room for one more bit than `machine`, and for a sign."""
    size = np.dtype(machine).itemsize
    return {1: "i16", 2: "i32"}.get(size, "i64")
