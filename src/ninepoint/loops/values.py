"""Values of the loop language made from others: constants are computed at once.

    applied("+", Name("int8", "a"), word(1))          Op("int64", "+", (to int64 a, 1), exact)
    cut(that, "int16")                                Op("int16", "+", (to int16 a, 1))

Untyped arithmetic follows one set of rules: integers are computed in 64 bits and floats in the
wider of their types.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..language.functions import PYTHON
from .nodes import BITS, FLOATS, PARTS, Number, Op, Value

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
    machine = "uint64" if value.type.startswith("u") else "int64"
    return Op(machine, "-", (number(machine, 0), convert(value, machine)))
