"""Half floats: their bits are 16-bit integers in generated loops, computed with as float32.

Most processors convert several of them at once (F16C of x86, all of ARMv8); where none is known
to, it is done by their bits: the exponent is moved as a factor of 2^112 moves it.
"""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from .values import FLOATS, Held

_HALF, _FLOAT, _WORD = ir.HalfType(), FLOATS["float32"], ir.IntType(32)

# By how much the exponents of both types differ.
_UP = 2.0**112


def widened(b: Any, bits: Held) -> Held:
    """The half float of these bits, as a float32."""
    if has_instructions():
        return b.fpext(b.bitcast(bits, _HALF), _FLOAT)
    return _widened_by_bits(b, b.zext(bits, _WORD))


def narrowed(b: Any, value: Held) -> Held:
    """The bits of the half float that is nearest to a float32, of two the even one."""
    if has_instructions():
        return b.bitcast(b.fptrunc(value, _HALF), ir.IntType(16))
    return b.trunc(_narrowed_by_bits(b, b.bitcast(value, _WORD)), ir.IntType(16))


@cache
def has_instructions() -> bool:
    """Whether this machine converts half floats."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return True
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:
        return False
    return bool(features.get("avx") and features.get("f16c"))


def _widened_by_bits(b: Any, bits: Any) -> Any:
    sign = b.shl(b.and_(bits, _WORD(0x8000)), _WORD(16))
    size = b.shl(b.and_(bits, _WORD(0x7FFF)), _WORD(13))
    whole = b.fmul(b.bitcast(size, _FLOAT), ir.Constant(_FLOAT, _UP))
    # What is no number stays none: its exponent has no bit that is 0.
    special = b.icmp_unsigned(">=", size, _WORD(0x7C00 << 13))
    more = b.select(special, _WORD(0x7F800000), _WORD(0))
    return b.bitcast(b.or_(b.or_(b.bitcast(whole, _WORD), more), sign), _FLOAT)


def _narrowed_by_bits(b: Any, bits: Any) -> Any:
    sign = b.and_(b.lshr(bits, _WORD(16)), _WORD(0x8000))
    size = b.and_(bits, _WORD(0x7FFFFFFF))
    # 13 bits go: half of the last that stays is added, but for the even of two.
    odd = b.and_(b.lshr(size, _WORD(13)), _WORD(1))
    rounded = b.add(b.add(size, odd), _WORD(0xFFF))
    normal = b.sub(b.lshr(rounded, _WORD(13)), _WORD(112 << 10))
    # Below 2^-14 the last bit is 2^-24: that of a float32 of about a half.
    moved = b.bitcast(b.fadd(b.bitcast(size, _FLOAT), ir.Constant(_FLOAT, 0.5)), _WORD)
    small = b.sub(moved, _WORD(0x3F000000))
    near = b.select(b.icmp_unsigned("<", size, _WORD(113 << 23)), small, normal)
    infinite = b.icmp_unsigned(">=", size, _WORD(0x477FF000))
    near = b.select(infinite, _WORD(0x7C00), near)
    none = b.icmp_unsigned(">", size, _WORD(0x7F800000))
    return b.or_(sign, b.select(none, _WORD(0x7E00), near))
