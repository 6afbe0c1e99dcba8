"""Numbers of uint64 beside integers that may be negative.

    u < i               ->      i >= 0 and u < uint64(i)
    minimum(u, i)       ->      minimum(int(minimum(u, uint64(maximum(i, 0)))), i)
    u // i              ->      the quotient of u and abs(i), rounded down where i < 0

Sums and products of uint64 are taken modulo 2**64.  A difference of two, a negation, and what is
computed of a uint64 and an integer that may be negative, are int64: exact as far as 63 bits reach.
An order is exact, and so is a remainder, which has the type of what is divided by.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .dtypes import DType
from .ir import Binary, Const, Unary, Weight

if TYPE_CHECKING:
    from .values import Operations, Value

_MIRRORED: dict[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def mixed(ops: Operations, left: Value, right: Value) -> bool:
    """Whether one is of uint64 and the other an integer that may be negative."""
    return (left.dtype is DType.UINT and _signed(ops, right)) or (
        right.dtype is DType.UINT and _signed(ops, left)
    )


def _signed(ops: Operations, value: Value) -> bool:
    atom = value.atom
    if atom.dtype is not DType.INT:
        return False
    if isinstance(atom, Const):
        return atom.text.startswith("-")
    made = ops.windows.values.get(atom.name)
    return not isinstance(made, Weight) or any(text.startswith("-") for text in made.texts)


def compared(ops: Operations, op: str, left: Value, right: Value) -> Any:
    """`left op right` of mixed integers."""
    if left.dtype is not DType.UINT:
        left, right, op = right, left, _MIRRORED[op]
    if isinstance(right.atom, Const):
        # Every number of uint64 is above a negative one; the window keeps its shape.
        return ops.binary("==" if op in (">", ">=", "!=") else "!=", left, left)
    word = _word(ops, right)
    if op in (">", ">=", "!="):
        return ops.binary("|", ops.binary("<", right, 0), ops.binary(op, left, word))
    return ops.binary("&", ops.binary(">=", right, 0), ops.binary(op, left, word))


def extreme(ops: Operations, op: Any, left: Value, right: Value) -> Value:
    """The lesser of mixed integers, an int; or the greater, of uint64."""
    if left.dtype is not DType.UINT:
        left, right = right, left
    _, shape = ops.together(left, right)
    if isinstance(right.atom, Const):
        chosen = right.atom if op == "minimum" else left.atom
        return replace(right, atom=chosen, weak=False, shape=shape)
    zero = Const(DType.INT, "0")
    floor = ops.emit(Binary(DType.INT, "maximum", right.atom, zero), False, right.shape)
    word = ops.cast(floor, DType.UINT)
    found = ops.emit(Binary(DType.UINT, op, left.atom, word), False, shape)
    if op == "maximum":
        return found
    return ops.emit(Binary(DType.INT, op, ops.cast(found, DType.INT), right.atom), False, shape)


def divided(ops: Operations, op: str, left: Value, right: Value) -> Any:
    """`left // right` or `left % right` of mixed integers; 0 where right is 0.

    A quotient is an int, and a remainder has the type of `right`.
    """
    signed = left if left.dtype is DType.INT else right
    negative = ops.binary("<", signed, 0)
    size = ops.emit(Unary(DType.INT, "abs", signed.atom), False, signed.shape)
    size = _word(ops, size)
    top, bottom = (size, right) if signed is left else (left, size)
    rest = ops.binary("%", top, bottom)
    inexact = ops.binary("!=", rest, 0)
    if op == "//":
        down = ops.unary("-", ops.binary("+", ops.binary("//", top, bottom), inexact))
        return ops.select(negative, down, ops.binary("//", top, bottom))
    if signed is right:
        turned = ops.binary("-", rest, bottom)
    else:
        # Both are of uint64, and the remainder is the lesser.
        turned = ops.emit(Binary(DType.UINT, "-", bottom.atom, rest.atom), False, rest.shape)
    return ops.select(ops.binary("&", negative, inexact), turned, rest)


def _word(ops: Operations, value: Value) -> Value:
    return replace(value, atom=ops.cast(value, DType.UINT), weak=False)
