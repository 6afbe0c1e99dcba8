"""Machine types in LLVM's terms: conversions, comparisons, and elements of arrays in memory.

A number is held by one of LLVM's values, a complex one by a pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from ...loops.nodes import BITS, PARTS
from .building import BIT, BYTE, INT, WORD

FLOATS = {"float32": ir.FloatType(), "float64": ir.DoubleType()}

Held: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Memory:
    """A view of an array: where its elements begin, how many there are, and the bytes between.

    `strides` of a dense one are None.
    """

    machine: str
    data: Any  # a pointer to elements
    shape: tuple[Any, ...]
    strides: tuple[Any, ...] | None = None

    @property
    def itemsize(self) -> int:
        return np.dtype(self.machine).itemsize


def stored(machine: str) -> Any:
    """LLVM's type of an element in memory."""
    return BYTE if machine == "bool" else held(machine)


def held(machine: str) -> Any:
    """LLVM's type of a number; of both parts of a complex one."""
    if machine == "bool":
        return BIT
    if machine in PARTS:
        part = FLOATS[PARTS[machine]]
        return ir.LiteralStructType([part, part])
    return FLOATS[machine] if machine in FLOATS else ir.IntType(BITS[machine])


def constant(machine: str, value: Any) -> Held:
    """A known number; an integer is taken modulo what its type holds."""
    if machine in PARTS:
        part = PARTS[machine]
        return constant(part, complex(value).real), constant(part, complex(value).imag)
    if machine == "bool":
        return BIT(bool(value))
    if machine in FLOATS:
        number = float(np.float32(value)) if machine == "float32" else float(value)
        return ir.Constant(FLOATS[machine], number)
    return ir.IntType(BITS[machine])(int(value) % 2 ** BITS[machine])


def signed(machine: str) -> bool:
    """Whether numbers of a type may be negative."""
    return not machine.startswith("u") and machine != "bool"


def convert(b: Any, value: Held, source: str, target: str) -> Held:
    """The number in another machine type: cut to it, cut off or rounded."""
    if source == target:
        return value
    if target in PARTS:
        part = PARTS[target]
        if source in PARTS:
            return tuple(convert(b, one, PARTS[source], part) for one in value)
        return convert(b, value, source, part), constant(part, 0.0)
    if target == "bool":
        return nonzero(b, value, source)
    kind = held(target)
    if target in FLOATS and source in FLOATS:
        return (b.fpext if target == "float64" else b.fptrunc)(value, kind)
    if target in FLOATS:
        return (b.sitofp if signed(source) else b.uitofp)(value, kind)
    if source in FLOATS:
        return (b.fptosi if signed(target) else b.fptoui)(value, kind)
    bits, own = BITS[target], BITS.get(source, 1)
    if own == bits:
        return value
    if own > bits:
        return b.trunc(value, kind)
    return (b.sext if signed(source) else b.zext)(value, kind)


def nonzero(b: Any, value: Held, machine: str) -> Held:
    """Whether a number is not 0."""
    if machine == "bool":
        return value
    return compared(b, "!=", value, constant(machine, 0), machine)


def compared(b: Any, op: str, left: Held, right: Held, machine: str) -> Held:
    """A comparison of two numbers of a type."""
    if machine in PARTS:
        tests = [compared(b, op, *pair, PARTS[machine]) for pair in zip(left, right, strict=True)]
        return (b.or_ if op == "!=" else b.and_)(*tests)
    if machine in FLOATS:
        return (b.fcmp_unordered if op == "!=" else b.fcmp_ordered)(op, left, right)
    return (b.icmp_signed if signed(machine) else b.icmp_unsigned)(op, left, right)


def chosen(b: Any, test: Held, then: Held, other: Held) -> Held:
    """One of two numbers; both are there."""
    if isinstance(then, tuple):
        return tuple(b.select(test, *pair) for pair in zip(then, other, strict=True))
    return b.select(test, then, other)


def load(b: Any, machine: str, place: Any, align: int | None = None) -> Held:
    """The element at a pointer, which is aligned as its type is, or to so many bytes."""
    if machine in PARTS:
        return tuple(b.load(b.gep(place, [INT(0), INT(k)]), align=align) for k in range(2))
    value = b.load(place, align=align)
    return b.icmp_unsigned("!=", value, BYTE(0)) if machine == "bool" else value


def store(b: Any, machine: str, place: Any, value: Held, align: int | None = None) -> None:
    """Write an element at a pointer."""
    if machine in PARTS:
        for k, part in enumerate(value):
            b.store(part, b.gep(place, [INT(0), INT(k)]), align=align)
        return
    b.store(b.zext(value, BYTE) if machine == "bool" else value, place, align=align)


def at(b: Any, array: Memory, index: tuple[Any, ...]) -> Any:
    """Where the element at an index begins; with fewer indices, the first of those."""
    if array.strides is None and len(array.shape) == 1:
        return b.gep(array.data, [index[0]], inbounds=True) if index else array.data
    data = b.bitcast(array.data, BYTE.as_pointer())
    offset = WORD(0)
    for one, stride in zip(index, strides_of(b, array), strict=False):
        offset = b.add(offset, b.mul(one, stride, flags=("nsw",)), flags=("nsw",))
    return b.bitcast(b.gep(data, [offset], inbounds=True), array.data.type)


def strides_of(b: Any, array: Memory) -> tuple[Any, ...]:
    """The bytes between elements along each axis."""
    if array.strides is not None:
        return array.strides
    steps, step = [], WORD(array.itemsize)
    for length in reversed(array.shape):
        steps.append(step)
        step = b.mul(step, length, flags=("nsw",))
    return tuple(reversed(steps))


def flat(value: Held) -> list[Any]:
    """What holds a number, as LLVM's values."""
    return list(value) if isinstance(value, tuple) else [value]
