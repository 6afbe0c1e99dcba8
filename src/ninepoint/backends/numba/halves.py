"""Half floats in generated text: their bits are 16-bit integers there, computed with as float32.

Most processors convert several of them at once (F16C of x86, all of ARMv8); where none is known
to, it is done by their bits: the exponent is moved as a factor of 2^112 moves it.
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
from llvmlite import binding
from llvmlite import ir as llvm
from numba import config
from numba.core import types
from numba.extending import lower_builtin, type_callable

_HALF, _FLOAT = llvm.HalfType(), llvm.FloatType()
_WORD = llvm.IntType(32)

# By how much the exponents of both types differ.
_UP, _DOWN = 2.0**112, 2.0**-112


def float32_of_half(bits):
    """The half float of these bits, as a float32."""
    return np.float32(np.uint16(bits).view(np.float16))


def half_of_float32(value):
    """The bits of the half float that is nearest to a float32, of two the even one."""
    with np.errstate(over="ignore"):
        return np.float16(np.float32(value)).view(np.uint16)


@type_callable(float32_of_half)
def _type_float(context):
    return lambda bits: types.float32


@type_callable(half_of_float32)
def _type_half(context):
    return lambda value: types.uint16


@lower_builtin(float32_of_half, types.uint16)
def _float(context, builder, signature, args):
    if _has_instructions():
        return builder.fpext(builder.bitcast(args[0], _HALF), _FLOAT)
    return _float_by_bits(builder, builder.zext(args[0], _WORD))


@lower_builtin(half_of_float32, types.Float)
def _half(context, builder, signature, args):
    value = context.cast(builder, args[0], signature.args[0], types.float32)
    if _has_instructions():
        return builder.bitcast(builder.fptrunc(value, _HALF), llvm.IntType(16))
    return builder.trunc(_half_by_bits(builder, builder.bitcast(value, _WORD)), llvm.IntType(16))


def _has_instructions() -> bool:
    """Whether the machine that is compiled for converts half floats."""
    settings: Any = config
    if settings.CPU_NAME or settings.CPU_FEATURES:
        return False
    if platform.machine().lower() in ("aarch64", "arm64"):
        return True
    try:
        features = binding.get_host_cpu_features()
    except RuntimeError:
        return False
    return bool(settings.ENABLE_AVX and features.get("avx") and features.get("f16c"))


def _float_by_bits(builder: Any, bits: Any) -> Any:
    sign = builder.shl(builder.and_(bits, _WORD(0x8000)), _WORD(16))
    size = builder.shl(builder.and_(bits, _WORD(0x7FFF)), _WORD(13))
    whole = builder.fmul(builder.bitcast(size, _FLOAT), llvm.Constant(_FLOAT, _UP))
    # What is no number stays none: its exponent has no bit that is 0.
    special = builder.icmp_unsigned(">=", size, _WORD(0x7C00 << 13))
    more = builder.select(special, _WORD(0x7F800000), _WORD(0))
    found = builder.or_(builder.or_(builder.bitcast(whole, _WORD), more), sign)
    return builder.bitcast(found, _FLOAT)


def _half_by_bits(builder: Any, bits: Any) -> Any:
    sign = builder.and_(builder.lshr(bits, _WORD(16)), _WORD(0x8000))
    size = builder.and_(bits, _WORD(0x7FFFFFFF))
    # 13 bits go: half of the last that stays is added, but for the even of two.
    odd = builder.and_(builder.lshr(size, _WORD(13)), _WORD(1))
    rounded = builder.add(builder.add(size, odd), _WORD(0xFFF))
    normal = builder.sub(builder.lshr(rounded, _WORD(13)), _WORD(112 << 10))
    # Below 2^-14 the last bit is 2^-24: that of a float32 of about a half.
    half = llvm.Constant(_FLOAT, 0.5)
    moved = builder.bitcast(builder.fadd(builder.bitcast(size, _FLOAT), half), _WORD)
    small = builder.sub(moved, _WORD(0x3F000000))
    found = builder.select(builder.icmp_unsigned("<", size, _WORD(113 << 23)), small, normal)
    infinite = builder.icmp_unsigned(">=", size, _WORD(0x477FF000))
    found = builder.select(infinite, _WORD(0x7C00), found)
    none = builder.icmp_unsigned(">", size, _WORD(0x7F800000))
    return builder.or_(sign, builder.select(none, _WORD(0x7E00), found))
