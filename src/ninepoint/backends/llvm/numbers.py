"""Numbers in LLVM's terms: machine types, elements in memory, operations and functions.

A number is held by one of LLVM's values, a complex one by a pair.  Operands and results of an
operation have one machine type, but those of comparisons and of questions.  Functions are LLVM's
own, those of C's library, and a few that are written here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from ...language.functions import FLOAT_FUNCTIONS
from ...loops.nodes import BITS, COMPARISONS, PARTS
from .building import BIT, BYTE, INT, WORD, function

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


# Operations and functions.

_INTEGER = {"+": "add", "-": "sub", "*": "mul", "&": "and_", "|": "or_", "^": "xor", "<<": "shl"}
_FLOATING = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}

_ENDS = {"float32": "f32", "float64": "f64"}
_SUFFIX = {"float32": "f", "float64": ""}


def applied(
    b: Any, op: str, machine: str, args: list[Held], exact: bool, flags: tuple[str, ...]
) -> Held:
    """An operation of numbers of a machine type; `exact` integers never overflow."""
    if op in COMPARISONS:
        return compared(b, op, args[0], args[1], machine)
    if machine in PARTS:
        return _of_parts(b, op, machine, args)
    if machine in FLOATS:
        return _of_floats(b, op, machine, args, flags)
    return _of_integers(b, op, machine, args, exact)


def _of_integers(b: Any, op: str, machine: str, args: list[Held], exact: bool) -> Held:
    if len(args) == 1:
        match op:
            case "~" | "not":
                return b.not_(args[0])
            case "popcount":
                return _called(b, "llvm.ctpop.i64", args)
        raise AssertionError(op)
    first, last = args
    match op:
        case ">>":
            return (b.ashr if signed(machine) else b.lshr)(first, last)
        case "//" | "%" if not signed(machine):
            return (b.udiv if op == "//" else b.urem)(first, last)
        case "//" | "%":
            return _divided(b, op, first, last)
        case "+" | "-" | "*" if exact:
            return getattr(b, _INTEGER[op])(first, last, flags=("nsw",))
        case _:
            return getattr(b, _INTEGER[op])(first, last)


def _divided(b: Any, op: str, first: Any, last: Any) -> Any:
    """A quotient that is rounded down, or what is left."""
    zero = first.type(0)
    rest = b.srem(first, last)
    other_sign = b.icmp_signed("<", b.xor(rest, last), zero)
    below = b.and_(b.icmp_signed("!=", rest, zero), other_sign)
    if op == "%":
        return b.add(rest, b.select(below, last, zero))
    return b.sub(b.sdiv(first, last), b.zext(below, first.type))


def _of_floats(b: Any, op: str, machine: str, args: list[Held], flags: tuple[str, ...]) -> Held:
    if op in _FLOATING and len(args) == 2:
        return getattr(b, _FLOATING[op])(*args, flags=flags)
    match op:
        case "-":
            return b.fneg(args[0])
        case "**":
            return _called(b, f"llvm.pow.{_ENDS[machine]}", args)
        case "fmod":
            return b.frem(*args)
        case "fmin" | "fmax":
            return _extreme(b, "<=" if op == "fmin" else ">=", machine, args)
        case "isnan":
            return b.fcmp_unordered("uno", args[0], args[0])
        case "isinf" | "isfinite":
            size = _called(b, f"llvm.fabs.{_ENDS[machine]}", args)
            infinity = constant(machine, math.inf)
            return b.fcmp_ordered("==" if op == "isinf" else "<", size, infinity)
        case "signbit":
            bits = ir.IntType(32 if machine == "float32" else 64)
            return b.icmp_signed("<", b.bitcast(args[0], bits), bits(0))
    row = FLOAT_FUNCTIONS[op]
    if row.intrinsic:
        return _called(b, f"llvm.{row.c}.{_ENDS[machine]}", args)
    return _called(b, row.c + _SUFFIX[machine], args)


def _called(b: Any, name: str, values: list[Any]) -> Any:
    found = function(b.module, name, values[0].type, [value.type for value in values])
    found.attributes.add("nounwind")
    if not name.startswith("llvm."):
        # Nobody asks for `errno`.
        found.attributes.add("readnone")
    return b.call(found, values)


def _extreme(b: Any, op: str, machine: str, args: list[Held]) -> Held:
    """The smaller or the larger of two, or that which is a number."""
    first, last = args
    strange = b.fcmp_unordered("uno", first, last)
    # Of two of which both are none, what NumPy gives.
    asked = last if op == ">=" else first
    left = (first, last) if op == ">=" else (last, first)
    left = b.select(b.fcmp_unordered("uno", asked, asked), *left)
    return b.select(strange, left, b.select(compared(b, op, first, last, machine), first, last))


def _of_parts(b: Any, op: str, machine: str, args: list[Held]) -> Held:
    """An operation of complex numbers."""
    part = PARTS[machine]
    re, im = args[0]
    match op:
        case "-" if len(args) == 1:
            return b.fneg(re), b.fneg(im)
        case "conj":
            return re, b.fsub(ir.Constant(im.type, -0.0), im)
        case "isnan" | "isinf" | "isfinite":
            both = [_of_floats(b, op, part, [one], ()) for one in (re, im)]
            return (b.and_ if op == "isfinite" else b.or_)(*both)
    d, e = args[1]
    match op:
        case "+" | "-":
            return tuple(getattr(b, _FLOATING[op])(*pair) for pair in ((re, d), (im, e)))
        case "*":
            real = b.fsub(b.fmul(re, d), b.fmul(im, e))
            return real, b.fadd(b.fmul(re, e), b.fmul(im, d))
        case "/":
            return _complex_quotient(b, part, args)
        case _:
            raise AssertionError(op)


def _complex_quotient(b: Any, part: str, args: list[Held]) -> Held:
    """A quotient of complex numbers.

    Source: R. L. Smith, "Algorithm 116: Complex division", Communications of the ACM 5 (8), 1962.
    """
    (a, c), (re, im) = args
    wide, narrow = (_called(b, f"llvm.fabs.{_ENDS[part]}", [one]) for one in (re, im))
    along = b.fcmp_ordered(">=", wide, narrow)
    near, far = chosen(b, along, (re, im), (im, re))
    first, last = chosen(b, along, (a, c), (c, a))
    ratio = b.fdiv(far, near)
    scale = b.fdiv(constant(part, 1.0), b.fadd(near, b.fmul(far, ratio)))
    real = b.fadd(first, b.fmul(last, ratio))
    product = b.fmul(first, ratio)
    imaginary = b.fsub(*chosen(b, along, (last, product), (product, last)))
    none = b.fcmp_ordered("==", b.fadd(wide, narrow), constant(part, 0.0))
    strange = b.fdiv(a, wide), b.fdiv(c, wide)
    return chosen(b, none, strange, (b.fmul(real, scale), b.fmul(imaginary, scale)))
