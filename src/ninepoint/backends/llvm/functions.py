"""Operations and functions of numbers in LLVM's terms: its own, C's library, and a few here.

Operands and results have one machine type, but those of comparisons and of questions.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from ...language.functions import FLOAT_FUNCTIONS
from ...loops.nodes import COMPARISONS, PARTS
from .building import function
from .values import FLOATS, Held, chosen, compared, constant, signed

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
