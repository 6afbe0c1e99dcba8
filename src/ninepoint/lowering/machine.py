"""Machine types: the narrowest that hold what the ranges prove.

    x of int8:   t2 = t0 + t1      -256 .. 254      int16
                 t3 = t2 > 0                        bool

Sums, differences and products are computed modulo the width of their result, so operands may
be cut to it.  Other operations need a type that holds their operands as well: `working` gives
that.

    t // 9,  0 <= t <= 2295      ->      (t * 7282) >> 16

A division by a constant is a multiplication: exact, and as wide as its operands only.

A target without narrow registers asks for integers of at `least` so many bits: then all that
fewer would hold are signed ones of as many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..analysis.ranges import Interval, interval, smallest_integer
from ..language.dtypes import DType
from ..language.ir import COMPARISONS, Atom, Binary, Const, Expr, Unary, atoms

_MODULAR = frozenset({"+", "-", "*", "<<", "**"})


def machine_type(dtype: DType, value: Interval, least: int = 8) -> str:
    """The type in which a value is kept."""
    if dtype is DType.BOOL:
        return "bool"
    if dtype.is_integer:
        if value.high > 2**63 - 1:
            return "uint64"
        if -(2 ** (least - 1)) <= value.low and value.high < 2 ** (least - 1) and least > 8:
            return f"int{least}"
        return str(smallest_integer(value))
    return str(dtype.value)


def working_type(expr: Expr, own: str, known: Mapping[str, Interval], least: int = 8) -> str:
    """The type in which an integer operation is done; `own` is that of its result."""
    if isinstance(expr, Binary):
        operands: tuple[Atom, ...] = (expr.left, expr.right)
        if expr.op in _MODULAR or not expr.left.dtype.is_integer:
            return own
        if expr.op == ">>":
            operands = (expr.left,)
    elif isinstance(expr, Unary) and expr.op == "abs":
        operands = (expr.arg,)
    else:
        return own
    if not operands[0].dtype.is_integer:
        return own
    joined = interval(operands[0], known)
    for operand in operands[1:]:
        joined = joined | interval(operand, known)
    if expr.dtype is not DType.BOOL or expr.op in COMPARISONS:
        if expr.dtype.is_integer and expr.dtype is not DType.BOOL:
            joined = joined | known_result(expr, known)
        signed = all(operand.dtype is not DType.UINT for operand in operands)
        return (
            "int64" if signed and joined.high >= 2**63 else machine_type(DType.INT, joined, least)
        )
    return own


def known_result(expr: Expr, known: Mapping[str, Interval]) -> Interval:
    """A bound of a result from those of its operands, for quotients, bits and absolutes."""
    if isinstance(expr, Unary):
        arg = interval(expr.arg, known)
        return Interval(0, arg.largest)
    first = interval(atoms(expr)[0], known)
    if isinstance(expr, Binary) and expr.op in ("//", "%"):
        divisor = interval(expr.right, known)
        if divisor.low <= -1 <= divisor.high:
            # The quotient, which a remainder is made from, may be that of the least by -1.
            return first | Interval(-first.high, -first.low)
    return first


def constant_type(atom: Const, least: int = 8) -> str:
    """The machine type of a constant."""
    if atom.dtype.is_integer and atom.dtype is not DType.BOOL:
        value = atom.value
        assert isinstance(value, int)
        return machine_type(atom.dtype, Interval(value, value), least)
    return atom.dtype.value


@dataclass(frozen=True, slots=True)
class Multiplier:
    """floor(n / d) == (((n + shift * d) * factor) >> bits) - shift, done in `width` bits."""

    factor: int
    bits: int
    shift: int
    width: int


def multiplier(low: int, high: int, divisor: int) -> Multiplier | None:
    """Find a multiplication for low <= n <= high, the narrowest there is.

    For 0 <= n <= top and m = ceil(2**k / d), floor(n / d) == (n * m) >> k whenever
    top * (m * d - 2**k) < 2**k: the excess of the multiplier never carries n past the next
    multiple.  Source: H. S. Warren, "Hacker's Delight", 2nd edition, section 10-9.  A dividend
    that can be negative is first moved up by a multiple of the divisor.

    The dividend fits in half of `width`; None if 64 bits do not do.
    """
    assert divisor > 1
    shift = -(low // divisor) if low < 0 else 0
    top = high + shift * divisor
    for width in (32, 64):
        half = width // 2
        if top >= 2**half:
            continue
        for bits in (half, *range(half + 1, width)):
            factor = -(-(2**bits) // divisor)
            if top * factor >= 2**width or factor >= 2**width:
                break
            if top * (factor * divisor - 2**bits) < 2**bits:
                return Multiplier(factor, bits, shift, width)
    return None
