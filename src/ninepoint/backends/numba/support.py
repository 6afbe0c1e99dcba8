"""Arithmetic of the general path: functions of `llvm.library`, for Numba."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic, overload, register_jitable

from ..llvm import library
from ..llvm.library import (
    bits_of_float64,
    f32,
    float32_of_bits,
    float64_of_bits,
    floor_divide_float32,
    floor_divide_float64,
    i32,
    i64,
    integer_divide,
    integer_modulo,
    integer_power,
    remainder,
    remainder_float32,
    round_to_half,
    saturate_wide,
    shift_left,
    shift_right,
    type_of,
    u32,
    u64,
)

for _function in (
    floor_divide_float32, floor_divide_float64, integer_divide, integer_modulo, integer_power,
    remainder, remainder_float32, round_to_half, saturate_wide, shift_left, shift_right,
):  # fmt: skip
    register_jitable(_function)


@overload(type_of)
def _type_of(limit, value):
    cast = {types.int32: i32, types.uint32: u32, types.uint64: u64}.get(limit, i64)

    def convert(limit, value):
        return cast(value)

    return convert


@intrinsic
def _same_bits(typingctx, bits):
    result: Any = types.float32 if bits.bitwidth == 32 else types.float64
    if isinstance(bits, types.Float):
        result = types.int64

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return result(bits), codegen


@overload(float32_of_bits, inline="always")
@overload(float64_of_bits, inline="always")
@overload(bits_of_float64, inline="always")
def _of_bits(bits):
    def view(bits):
        return _same_bits(bits)  # type: ignore[call-arg]

    return view


__all__ = [
    "f32",
    "floor_divide_float32",
    "floor_divide_float64",
    "integer_divide",
    "integer_modulo",
    "integer_power",
    "library",
    "remainder",
    "remainder_float32",
    "round_to_half",
    "saturate_wide",
    "shift_left",
    "shift_right",
]
