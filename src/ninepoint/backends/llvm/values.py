"""Values of generated loops: numbers of machine types and views of arrays, in LLVM's terms.

Numbers follow the rules under which generated text is written: arithmetic of integers is done in
64 bits, or in the width of the conversion that it stands in; of floats in the wider type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from .building import BIT, BYTE, INT, WORD

FLOATS = {"float32": ir.FloatType(), "float64": ir.DoubleType()}
PARTS = {"complex64": "float32", "complex128": "float64"}
WIDTHS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}

_ORDERED = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "==": "=="}


class NotWritten(Exception):
    """Text that nobody knows how to write."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number: its machine type, what holds it, and which it is, if that is known.

    A complex one is held by a pair.
    """

    machine: str
    held: Any
    known: int | float | bool | None = None

    @property
    def is_integer(self) -> bool:
        return self.machine in WIDTHS

    @property
    def is_whole(self) -> bool:
        """Whether it is an integer, or a truth, which counts as one."""
        return self.machine in WIDTHS or self.machine == "bool"

    @property
    def is_signed(self) -> bool:
        return not self.machine.startswith("u") and self.machine != "bool"


@dataclass(frozen=True, slots=True)
class Array:
    """A view of an array: where its elements begin, how many there are, and the bytes between.

    `strides` of a row whose elements lie side by side are None.
    """

    machine: str
    data: Any  # a pointer to elements
    shape: tuple[Number, ...]
    strides: tuple[Any, ...] | None = None

    @property
    def itemsize(self) -> int:
        return np.dtype(self.machine).itemsize


@dataclass(frozen=True, slots=True)
class Machine:
    """The name of a machine type, which converts what it is called with."""

    machine: str


Value: TypeAlias = Number | Array | Machine | tuple["Value", ...]


def stored(machine: str) -> Any:
    """LLVM's type of an element in memory."""
    if machine == "bool":
        return BYTE
    return held(machine)


def held(machine: str) -> Any:
    """LLVM's type of a number; of both parts of a complex one."""
    if machine == "bool":
        return BIT
    if machine in PARTS:
        part = FLOATS[PARTS[machine]]
        return ir.LiteralStructType([part, part])
    return FLOATS[machine] if machine in FLOATS else ir.IntType(WIDTHS[machine])


def constant(machine: str, value: int | float | bool) -> Number:
    """A known number."""
    if machine == "bool":
        return Number(machine, BIT(bool(value)), bool(value))
    if machine in FLOATS:
        value = float(np.float32(value)) if machine == "float32" else float(value)
        return Number(machine, ir.Constant(FLOATS[machine], value), value)
    bits = WIDTHS[machine]
    return Number(machine, ir.IntType(bits)(int(value) % 2**bits), int(value))


def word(value: int) -> Number:
    """A known integer of 64 bits."""
    return constant("int64", value)


def common(left: Number, right: Number) -> str:
    """The type in which two numbers are added."""
    kinds = (left.machine, right.machine)
    if any(kind in PARTS for kind in kinds):
        return "complex128" if {"complex128", "float64", "int64"} & set(kinds) else "complex64"
    if any(kind in FLOATS for kind in kinds):
        wide = "float64" in kinds or any(
            n.is_integer and WIDTHS[n.machine] > 16 for n in (left, right)
        )
        return "float64" if wide else "float32"
    if kinds == ("bool", "bool"):
        return "int64"
    unsigned = [kind for kind in kinds if kind.startswith("u")]
    if len(unsigned) == 2:
        return "uint64"
    if "uint64" in unsigned:
        # A known number of the other type fits as well.
        other = left if right.machine == "uint64" else right
        if other.machine == "bool" or (other.known is not None and other.known >= 0):
            return "uint64"
        raise NotWritten("an unsigned integer of 64 bits beside a signed one")
    return "int64"


def convert(b: Any, value: Number, machine: str) -> Number:
    """The number in another machine type: cut to it, cut off or rounded."""
    if value.machine == machine:
        return value
    if machine in PARTS:
        part = PARTS[machine]
        if value.machine in PARTS:
            own = PARTS[value.machine]
            both = tuple(convert(b, Number(own, one), part).held for one in value.held)
            return Number(machine, both)
        return Number(machine, (convert(b, value, part).held, constant(part, 0.0).held))
    if value.known is not None and not isinstance(value.known, complex):
        number = value.known
        if machine == "bool":
            return constant(machine, bool(number))
        if machine in FLOATS:
            return constant(machine, float(number))
        if number == number and abs(number) != float("inf"):
            return constant(machine, _wrapped(int(number), machine))
    if machine == "bool":
        return truth(b, value)
    target = held(machine)
    if machine in FLOATS:
        if value.machine in FLOATS:
            cast = b.fpext if machine == "float64" else b.fptrunc
            return Number(machine, cast(value.held, target))
        cast = b.sitofp if value.is_signed else b.uitofp
        return Number(machine, cast(value.held, target))
    if value.machine in FLOATS:
        cast = b.fptosi if machine.startswith("i") else b.fptoui
        return Number(machine, cast(value.held, target))
    return Number(machine, resized(b, value, WIDTHS[machine]))


def _wrapped(value: int, machine: str) -> int:
    bits = WIDTHS[machine]
    value %= 2**bits
    return value - 2**bits if machine.startswith("i") and value >= 2 ** (bits - 1) else value


def resized(b: Any, value: Number, bits: int) -> Any:
    """The bits of an integer, cut or extended by its own sign."""
    own = 1 if value.machine == "bool" else WIDTHS[value.machine]
    if value.known is not None:
        return ir.IntType(bits)(int(value.known) % 2**bits)
    if own == bits:
        return value.held
    if own > bits:
        return b.trunc(value.held, ir.IntType(bits))
    return (b.sext if value.is_signed else b.zext)(value.held, ir.IntType(bits))


def truth(b: Any, value: Number) -> Number:
    """Whether a number is not 0."""
    if value.machine == "bool":
        return value
    if value.known is not None:
        return constant("bool", bool(value.known))
    if value.machine in FLOATS:
        zero = ir.Constant(value.held.type, 0.0)
        return Number("bool", b.fcmp_unordered("!=", value.held, zero))
    return Number("bool", b.icmp_signed("!=", value.held, value.held.type(0)))


def compared(b: Any, op: str, left: Number, right: Number) -> Number:
    """A comparison."""
    if left.machine in PARTS or right.machine in PARTS:
        return _compared_parts(b, op, left, right)
    if left.machine in FLOATS or right.machine in FLOATS:
        kind = "float64" if "float64" in (left.machine, right.machine) else "float32"
        # A small whole number is the same in both types.
        for one in (left, right):
            if one.is_integer and (one.known is None or abs(one.known) >= 2**24):
                kind = "float64"
        first, last = convert(b, left, kind), convert(b, right, kind)
        if op == "!=":
            return Number("bool", b.fcmp_unordered("!=", first.held, last.held))
        return Number("bool", b.fcmp_ordered(_ORDERED[op], first.held, last.held))
    if left.known is not None and right.known is not None:
        return constant("bool", _PYTHON[op](left.known, right.known))
    left, right = (_fitting(b, one, other) for one, other in ((left, right), (right, left)))
    if "uint64" in (left.machine, right.machine) and left.is_signed != right.is_signed:
        return _compared_signs(b, op, left, right)
    kind = left.machine if left.machine == right.machine else common(left, right)
    first, last = convert(b, left, kind).held, convert(b, right, kind).held
    compare = b.icmp_unsigned if kind.startswith("u") or kind == "bool" else b.icmp_signed
    return Number("bool", compare(op, first, last))


def _compared_signs(b: Any, op: str, left: Number, right: Number) -> Number:
    """A comparison of a signed integer with an unsigned one of 64 bits."""
    signed = left if left.is_signed else right
    negative = b.icmp_signed("<", signed.held, signed.held.type(0))
    first, last = resized(b, left, 64), resized(b, right, 64)
    test = b.icmp_unsigned(op, first, last)
    below = op in ("<", "<=") if signed is left else op in (">", ">=")
    if below or op == "!=":
        return Number("bool", b.or_(test, negative))
    return Number("bool", b.and_(test, b.not_(negative)))


_PYTHON = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def _fitting(b: Any, value: Number, other: Number) -> Number:
    """A known integer in the type that it is compared with, if that holds it."""
    if value.known is None or not value.is_integer or not other.is_integer:
        return value
    info = np.iinfo(other.machine)
    return convert(b, value, other.machine) if info.min <= value.known <= info.max else value


def _compared_parts(b: Any, op: str, left: Number, right: Number) -> Number:
    kind = common(left, right)
    first, last = convert(b, left, kind).held, convert(b, right, kind).held
    tests = [
        (b.fcmp_unordered if op == "!=" else b.fcmp_ordered)(op, *pair)
        for pair in zip(first, last, strict=True)
    ]
    return Number("bool", (b.or_ if op == "!=" else b.and_)(*tests))


def chosen(b: Any, test: Number, then: Number, other: Number) -> Number:
    """One of two numbers; both are there."""
    if test.known is not None:
        return then if test.known else other
    if then.machine != other.machine:
        kind = common(then, other)
        then, other = convert(b, then, kind), convert(b, other, kind)
    if then.machine in PARTS:
        both = tuple(
            b.select(test.held, *pair) for pair in zip(then.held, other.held, strict=True)
        )
        return Number(then.machine, both)
    return Number(then.machine, b.select(test.held, then.held, other.held))


def load(b: Any, array: Array, place: Any) -> Number:
    """The element at a pointer."""
    if array.machine in PARTS:
        parts = tuple(b.load(b.gep(place, [INT(0), INT(k)])) for k in range(2))
        return Number(array.machine, parts)
    value = b.load(place)
    if array.machine == "bool":
        value = b.icmp_unsigned("!=", value, BYTE(0))
    return Number(array.machine, value)


def store(b: Any, array: Array, place: Any, value: Number) -> None:
    """Write an element at a pointer."""
    value = convert(b, value, array.machine)
    if array.machine in PARTS:
        for k, part in enumerate(value.held):
            b.store(part, b.gep(place, [INT(0), INT(k)]))
        return
    b.store(b.zext(value.held, BYTE) if array.machine == "bool" else value.held, place)


def at(b: Any, array: Array, index: tuple[Any, ...]) -> Any:
    """Where the element at an index begins; with fewer indices, the first of those."""
    if array.strides is None and len(array.shape) == 1:
        return b.gep(array.data, [index[0]], inbounds=True)
    data = b.bitcast(array.data, BYTE.as_pointer())
    offset = WORD(0)
    for one, stride in zip(index, strides_of(b, array), strict=False):
        offset = b.add(offset, b.mul(one, stride, flags=("nsw",)), flags=("nsw",))
    return b.bitcast(b.gep(data, [offset], inbounds=True), array.data.type)


def strides_of(b: Any, array: Array) -> tuple[Any, ...]:
    """The bytes between elements along each axis."""
    if array.strides is not None:
        return array.strides
    steps, step = [], WORD(array.itemsize)
    for length in reversed(array.shape):
        steps.append(step)
        step = b.mul(step, length.held, flags=("nsw",))
    return tuple(reversed(steps))


def seen_as(b: Any, array: Array, machine: str) -> Array:
    """The same memory as elements of another type of the same size."""
    return replace(
        array, machine=machine, data=b.bitcast(array.data, stored(machine).as_pointer())
    )


def flat(value: Value) -> list[Any]:
    """What holds a value, as LLVM's values."""
    if isinstance(value, Number):
        return list(value.held) if isinstance(value.held, tuple) else [value.held]
    assert isinstance(value, Array)
    words = [one.held for one in value.shape]
    return [value.data, *words, *(value.strides or ())]
