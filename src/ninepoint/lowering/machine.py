"""Machine types: the narrowest that hold what the ranges prove.

    x of int8:   t2 = t0 + t1      -256 .. 254      int16
                 t3 = t2 > 0                        bool

Sums, differences and products are computed modulo the width of their result, so operands may
be cut to it.  Other operations need a type that holds their operands as well: `working` gives
that.

A target without narrow registers asks for integers of at `least` so many bits: then all that
fewer would hold are signed ones of as many.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

from ..analysis.ranges import Interval, interval, machine_type
from ..language.dtypes import DType
from ..language.ir import COMPARISONS, Atom, Binary, Expr, Unary

_MODULAR = frozenset({"+", "-", "*", "<<", "**"})


def working_type(
    name: str, expr: Expr, own: str, known: Mapping[str, Interval], least: int = 8
) -> str:
    """The type in which an integer operation is done; `own` is that of its result, `name`."""
    operands: tuple[Atom, ...] = ()
    if isinstance(expr, Binary) and expr.op not in _MODULAR:
        operands = (expr.left,) if expr.op == ">>" else (expr.left, expr.right)
    elif isinstance(expr, Unary) and expr.op == "abs":
        operands = (expr.arg,)
    compares = isinstance(expr, Binary) and expr.op in COMPARISONS
    if not operands or not operands[0].dtype.is_integer:
        return own
    if expr.dtype is DType.BOOL and not compares:
        return own
    joined = reduce(or_, (interval(operand, known) for operand in operands))
    if expr.dtype.is_integer and not compares:
        joined = joined | known[name]
        if isinstance(expr, Binary) and expr.op == "%":
            # The quotient that a remainder is made from may be that of the least by -1.
            first, divisor = interval(expr.left, known), interval(expr.right, known)
            if divisor.low <= -1 <= divisor.high:
                joined = joined | Interval(-first.high, -first.low)
    if joined.high >= 2**63 and all(operand.dtype is not DType.UINT for operand in operands):
        return "int64"
    return machine_type(DType.INT, joined, least)
