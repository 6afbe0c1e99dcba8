"""Operations and functions of numbers in LLVM's terms: its own, C's library, and a few here.

Operands and results have one machine type, but those of comparisons and of questions.
"""

from __future__ import annotations

import math
import platform
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from ...language.functions import FLOAT_FUNCTIONS
from ...loops.nodes import COMPARISONS, PARTS
from .building import INT, WORD, function
from .values import FLOATS, Held, chosen, compared, constant, convert, held, signed

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
                count = function(b.module, "llvm.ctpop.i64", WORD, [WORD])
                return b.call(count, args)
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
        case "+":
            return b.fadd(re, d), b.fadd(im, e)
        case "-":
            return b.fsub(re, d), b.fsub(im, e)
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
    zero = ir.Constant(re.type, 0.0)
    none = b.and_(b.fcmp_ordered("==", wide, zero), b.fcmp_ordered("==", narrow, zero))

    def way(near: Any, far: Any, turned: bool) -> tuple[Any, Any]:
        ratio = b.fdiv(far, near)
        scale = b.fdiv(ir.Constant(re.type, 1.0), b.fadd(near, b.fmul(far, ratio)))
        if turned:
            first, last = b.fadd(b.fmul(a, ratio), c), b.fsub(b.fmul(c, ratio), a)
        else:
            first, last = b.fadd(a, b.fmul(c, ratio)), b.fsub(c, b.fmul(a, ratio))
        return b.fmul(first, scale), b.fmul(last, scale)

    one, other = way(re, im, False), way(im, re, True)
    strange = b.fdiv(a, wide), b.fdiv(c, wide)
    return chosen(b, none, strange, chosen(b, along, one, other))


def of_bits(b: Any, op: str, source: str, target: str, value: Held) -> Held:
    """What looks at the bits of a number of one type, and gives one of another."""
    match op:
        case "half":
            return _narrowed(b, convert(b, value, source, "float32"))
        case "unhalf":
            return _widened(b, value)
        case "bits":
            return b.bitcast(value, held(target))
        case _:
            raise AssertionError(op)


# Half floats: their bits are 16-bit integers in generated loops, computed with as float32.
# Most processors convert several of them at once (F16C of x86, all of ARMv8); where none is known
# to, it is done by their bits: the exponent is moved as a factor of 2^112 moves it.

_HALF, _FLOAT = ir.HalfType(), FLOATS["float32"]

# By how much the exponents of both types differ.
_UP = 2.0**112


def _widened(b: Any, bits: Held) -> Held:
    """The half float of these bits, as a float32."""
    if _has_halves():
        return b.fpext(b.bitcast(bits, _HALF), _FLOAT)
    return _widened_by_bits(b, b.zext(bits, INT))


def _narrowed(b: Any, value: Held) -> Held:
    """The bits of the half float that is nearest to a float32, of two the even one."""
    if _has_halves():
        return b.bitcast(b.fptrunc(value, _HALF), ir.IntType(16))
    return b.trunc(_narrowed_by_bits(b, b.bitcast(value, INT)), ir.IntType(16))


@cache
def _has_halves() -> bool:
    """Whether this machine converts half floats."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return True
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:
        return False
    return bool(features.get("avx") and features.get("f16c"))


def _widened_by_bits(b: Any, bits: Any) -> Any:
    sign = b.shl(b.and_(bits, INT(0x8000)), INT(16))
    size = b.shl(b.and_(bits, INT(0x7FFF)), INT(13))
    whole = b.fmul(b.bitcast(size, _FLOAT), ir.Constant(_FLOAT, _UP))
    # What is no number stays none: its exponent has no bit that is 0.
    special = b.icmp_unsigned(">=", size, INT(0x7C00 << 13))
    more = b.select(special, INT(0x7F800000), INT(0))
    return b.bitcast(b.or_(b.or_(b.bitcast(whole, INT), more), sign), _FLOAT)


def _narrowed_by_bits(b: Any, bits: Any) -> Any:
    sign = b.and_(b.lshr(bits, INT(16)), INT(0x8000))
    size = b.and_(bits, INT(0x7FFFFFFF))
    # 13 bits go: half of the last that stays is added, but for the even of two.
    odd = b.and_(b.lshr(size, INT(13)), INT(1))
    rounded = b.add(b.add(size, odd), INT(0xFFF))
    normal = b.sub(b.lshr(rounded, INT(13)), INT(112 << 10))
    # Below 2^-14 the last bit is 2^-24: that of a float32 of about a half.
    moved = b.bitcast(b.fadd(b.bitcast(size, _FLOAT), ir.Constant(_FLOAT, 0.5)), INT)
    small = b.sub(moved, INT(0x3F000000))
    near = b.select(b.icmp_unsigned("<", size, INT(113 << 23)), small, normal)
    infinite = b.icmp_unsigned(">=", size, INT(0x477FF000))
    near = b.select(infinite, INT(0x7C00), near)
    none = b.icmp_unsigned(">", size, INT(0x7F800000))
    return b.or_(sign, b.select(none, INT(0x7E00), near))
