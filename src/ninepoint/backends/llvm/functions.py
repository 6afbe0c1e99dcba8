"""Functions of numbers in generated loops: LLVM's intrinsics, C's library, and a few here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from .building import function
from .values import (
    FLOATS,
    PARTS,
    NotWritten,
    Number,
    chosen,
    common,
    compared,
    constant,
    convert,
)

# Functions that LLVM knows.
_INTRINSICS = frozenset("exp exp2 log log10 log2 sin cos sqrt fabs floor ceil trunc rint".split())

# The names that C's library has for others; that of float32 has an "f" behind it.
_LIBRARY = {
    "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "expm1": "expm1", "log1p": "log1p", "cbrt": "cbrt", "erf": "erf", "erfc": "erfc",
    "gamma": "tgamma", "lgamma": "lgamma",
}  # fmt: skip
_LIBRARY_PAIRS = {"hypot": "hypot", "arctan2": "atan2"}
_FACTORS = {"deg2rad": math.pi / 180, "rad2deg": 180 / math.pi}


def call(b: Any, name: str, args: list[Number]) -> Number:
    """A function of NumPy's or of C's by its name."""
    if any(arg.machine in PARTS for arg in args):
        return _of_parts(b, name, args)
    kind = "float32"
    for arg in args:
        kind = common(Number(kind, None), arg)
    numbers = [convert(b, arg, kind) for arg in args]
    values = [number.held for number in numbers]
    if name in _INTRINSICS:
        return Number(kind, _called(b, f"llvm.{name}.{_ENDS[kind]}", values))
    if name in _LIBRARY:
        return Number(kind, _called(b, _LIBRARY[name] + _SUFFIX[kind], values))
    if name in _LIBRARY_PAIRS:
        return Number(kind, _called(b, _LIBRARY_PAIRS[name] + _SUFFIX[kind], values))
    if name in _FACTORS:
        return Number(kind, b.fmul(values[0], constant(kind, _FACTORS[name]).held))
    if name not in _OWN:
        raise NotWritten(name)
    return _OWN[name](b, kind, numbers)


_ENDS = {"float32": "f32", "float64": "f64"}
_SUFFIX = {"float32": "f", "float64": ""}


def power(b: Any, left: Number, right: Number) -> Number:
    """A float to the power of another."""
    kind = common(left, right)
    values = [convert(b, one, kind).held for one in (left, right)]
    return Number(kind, _called(b, f"llvm.pow.{_ENDS[kind]}", values))


def _called(b: Any, name: str, values: list[Any]) -> Any:
    found = function(b.module, name, values[0].type, [value.type for value in values])
    found.attributes.add("nounwind")
    if not name.startswith("llvm."):
        # Nobody asks for `errno`.
        found.attributes.add("readnone")
    return b.call(found, values)


def _fmod(b: Any, kind: str, args: list[Number]) -> Number:
    return Number(kind, b.frem(args[0].held, args[1].held))


def _copysign(b: Any, kind: str, args: list[Number]) -> Number:
    return Number(kind, _called(b, f"llvm.copysign.{_ENDS[kind]}", [a.held for a in args]))


def _power(b: Any, kind: str, args: list[Number]) -> Number:
    del kind
    return power(b, *args)


def _signbit(b: Any, kind: str, args: list[Number]) -> Number:
    bits = ir.IntType(32 if kind == "float32" else 64)
    return Number("bool", b.icmp_signed("<", b.bitcast(args[0].held, bits), bits(0)))


def _isnan(b: Any, kind: str, args: list[Number]) -> Number:
    del kind
    return Number("bool", b.fcmp_unordered("uno", args[0].held, args[0].held))


def _isinf(b: Any, kind: str, args: list[Number]) -> Number:
    size = _called(b, f"llvm.fabs.{_ENDS[kind]}", [args[0].held])
    return Number("bool", b.fcmp_ordered("==", size, ir.Constant(FLOATS[kind], math.inf)))


def _isfinite(b: Any, kind: str, args: list[Number]) -> Number:
    size = _called(b, f"llvm.fabs.{_ENDS[kind]}", [args[0].held])
    return Number("bool", b.fcmp_ordered("<", size, ir.Constant(FLOATS[kind], math.inf)))


def _extreme(op: str) -> Callable[[Any, str, list[Number]], Number]:
    """The smaller or the larger of two, or that which is a number."""

    def of(b: Any, kind: str, args: list[Number]) -> Number:
        first, last = args
        strange = Number("bool", b.fcmp_unordered("uno", first.held, last.held))
        # Of two of which both are none, what NumPy gives.
        asked = _isnan(b, kind, [last if op == ">=" else first])
        left = chosen(b, asked, *((first, last) if op == ">=" else (last, first)))
        return chosen(b, strange, left, chosen(b, compared(b, op, first, last), first, last))

    return of


_OWN: dict[str, Callable[[Any, str, list[Number]], Number]] = {
    "fmod": _fmod,
    "copysign": _copysign,
    "power": _power,
    "signbit": _signbit,
    "isnan": _isnan,
    "isinf": _isinf,
    "isfinite": _isfinite,
    "fmin": _extreme("<="),
    "fmax": _extreme(">="),
}


def _of_parts(b: Any, name: str, args: list[Number]) -> Number:
    """A function of complex numbers."""
    kind = args[0].machine
    part = PARTS[kind]
    re, im = args[0].held
    if name == "conj":
        return Number(kind, (re, b.fsub(ir.Constant(im.type, -0.0), im)))
    if name in ("isnan", "isinf", "isfinite"):
        both = [_OWN[name](b, part, [Number(part, one)]).held for one in (re, im)]
        return Number("bool", (b.and_ if name == "isfinite" else b.or_)(*both))
    if name == "divide":
        return divided(b, args[0], args[1])
    raise NotWritten(name)


def divided(b: Any, left: Number, right: Number) -> Number:
    """A quotient of complex numbers.

    Source: R. L. Smith, "Algorithm 116: Complex division", Communications of the ACM 5 (8), 1962.
    """
    kind = common(left, right)
    part = PARTS[kind]
    (a, c), (re, im) = (convert(b, one, kind).held for one in (left, right))
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
    both = tuple(
        b.select(none, nan, b.select(along, first, last))
        for nan, first, last in zip(strange, one, other, strict=True)
    )
    return Number(kind, both)
