"""Whole numbers: float arithmetic on integers, done in integers where that is exact.

    s of 0 .. 2295:  t0 = float64(s);  t1 = t0 / 9.0;  t2 = rint t1;  out = uint8(t2)
                     ->   out = (s + 4) // 9

A float that is known to be a whole number below 2**53 is the same number as an integer, and
integers have narrow lanes.  The quotient of two such numbers is rounded by the division first;
but it lies at least 1 / (2 * d) from any half that it is not, which is more than the rounding
while the dividend is below 2**52, so that the rounded quotient is that of exact arithmetic.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..analysis.ranges import Interval, bound, interval, ranges
from ..analysis.rewrite import binary, number, replayed, simplify
from ..language.dtypes import DType
from ..language.ir import (
    COMPARISONS,
    Assign,
    Atom,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Kernel,
    Ref,
    Select,
    Unary,
)
from .storage import limited

_EXACT = {DType.F32: 2**24, DType.F64: 2**53}
_ROUNDINGS = ("rint", "floor", "ceil", "trunc")


def wholesome(kernel: Kernel) -> Kernel:
    """Replace float operations on whole numbers by those of integers."""
    return _Rewriter(kernel).kernel()


class _Rewriter:
    def __init__(self, source: Kernel) -> None:
        self.source = source
        self.known: dict[str, Interval] = ranges(source)
        self.whole: dict[str, Atom] = {}
        self.quotients: dict[str, tuple[Atom, int]] = {}
        self.body: list[Assign] = []

    def kernel(self) -> Kernel:
        outputs = replayed(self.source.body, self.source.outputs, self._replaced)
        return simplify(replace(self.source, body=tuple(self.body), outputs=outputs))

    def _replaced(self, name: str, expr: Expr) -> Atom:
        made = self._integer(name, expr)
        if made is None:
            self.body.append(Assign(name, expr))
            made = Ref(expr.dtype, name)
        return made

    def emit(self, expr: Expr) -> Atom:
        name = f"n{len(self.body)}"
        self.body.append(Assign(name, expr))
        self.known[name] = bound(expr, self.known, {}, {})
        return Ref(expr.dtype, name)

    def _integer(self, name: str, expr: Expr) -> Atom | None:
        """The operation as one of integers, if its result is an integer or a truth.

        Floats that are whole are remembered; they stay, until nothing uses them.
        """
        match expr:
            case Cast(storage="") if expr.dtype in _EXACT and expr.arg.dtype is DType.INT:
                if interval(expr.arg, self.known).below(_EXACT[expr.dtype]):
                    self.whole[name] = expr.arg
            case Cast() if expr.dtype is DType.INT and expr.arg.dtype in _EXACT:
                return self._truncated(expr)
            case Call(function=function) if function in _ROUNDINGS:
                self._rounded(name, expr)
            case Unary(op="-"):
                inner = self._of(expr.arg)
                if inner is not None and not _holds_zero(interval(inner, self.known)):
                    self.whole[name] = self.emit(Unary(DType.INT, "-", inner))
            case Select() if expr.dtype in _EXACT:
                then, other = self._of(expr.then), self._of(expr.other)
                if then is not None and other is not None:
                    self.whole[name] = self.emit(Select(DType.INT, expr.test, then, other))
            case Binary():
                return self._binary(name, expr)
            case _:
                pass
        return None

    def _of(self, atom: Atom) -> Atom | None:
        """The integer that a float operand is."""
        if isinstance(atom, Ref):
            return self.whole.get(atom.name)
        value = atom.value
        limit = _EXACT.get(atom.dtype)
        if limit is None or isinstance(value, complex) or not abs(value) < limit:
            return None
        if value != int(value) or atom.text == "-0.0":
            return None
        return number(DType.INT, value)

    def _truncated(self, expr: Cast) -> Atom | None:
        inner = self._of(expr.arg)
        if inner is None or not expr.storage:
            return inner
        return limited(inner, interval(inner, self.known), np.dtype(expr.storage), self.emit)

    def _rounded(self, name: str, expr: Call) -> None:
        (arg,) = expr.args
        inner = self._of(arg)
        if inner is not None:
            self.whole[name] = inner
            return
        quotient = self.quotients.get(arg.name) if isinstance(arg, Ref) else None
        if quotient is None or expr.function not in ("rint", "floor"):
            return
        dividend, divisor = quotient
        # A float may be -0.0 where the integer is 0; both are 0 once they are integers, and a
        # whole float is only ever used as one.
        if expr.function == "floor":
            self.whole[name] = self._divided(dividend, divisor)
            return
        moved = binary("+", dividend, number(DType.INT, divisor // 2), self.emit)
        rounded = self._divided(moved, divisor)
        if divisor % 2 == 0:
            rounded = self._to_even(moved, rounded, divisor)
        self.whole[name] = rounded

    def _divided(self, dividend: Atom, divisor: int) -> Atom:
        return binary("//", dividend, number(DType.INT, divisor), self.emit)

    def _to_even(self, moved: Atom, rounded: Atom, divisor: int) -> Atom:
        """Halves go to the even neighbour: one less where a tie was rounded up to an odd one."""
        zero = number(DType.INT, 0)
        rest = binary("%", moved, number(DType.INT, divisor), self.emit)
        odd = binary("&", rounded, number(DType.INT, 1), self.emit)
        tie = binary("==", rest, zero, self.emit)
        step = self.emit(Select(DType.INT, tie, odd, zero))
        return binary("-", rounded, step, self.emit)

    def _binary(self, name: str, expr: Binary) -> Atom | None:
        if expr.left.dtype not in _EXACT or expr.right.dtype not in _EXACT:
            return None
        left, right = self._of(expr.left), self._of(expr.right)
        if left is None or right is None:
            return None
        if expr.op in COMPARISONS:
            return binary(expr.op, left, right, self.emit)
        if (
            expr.op == "/"
            and isinstance(right, Const)
            and interval(left, self.known).below(2.0**51)
        ):
            divisor = int(right.text)
            if 0 < divisor < 2**20 and expr.dtype is DType.F64:
                self.quotients[name] = (left, divisor)
        elif expr.op in ("+", "-", "minimum", "maximum"):
            made = binary(expr.op, left, right, self.emit)
            if interval(made, self.known).below(_EXACT[expr.dtype]):
                self.whole[name] = made
        return None


def _holds_zero(value: Interval) -> bool:
    return value.low <= 0 <= value.high
