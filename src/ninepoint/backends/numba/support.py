"""What generated text calls: row views, and arithmetic with NumPy's rules at the edges.

Each function is plain Python, so that generated text also runs without being compiled; the
compiled form is made by Numba from the same text, save for `row`.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic, lower_builtin, overload, register_jitable, type_callable
from numba.np.arrayobj import make_array, populate_array

from .compilers import RowCompiler

b1, i8, i16, i32, i64 = np.bool_, np.int8, np.int16, np.int32, np.int64
u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64
f32, f64, c64, c128 = np.float32, np.float64, np.complex64, np.complex128
nan, inf = f64(math.nan), f64(math.inf)


def row(array, index):
    """The elements of `array` along its last axis, at the given indices of the others.

    Compiled, it is a contiguous view with no wrap-around of negative indices: what LLVM
    needs to see plain pointers.  The caller sees to it that the last axis is contiguous.
    """
    return array[index]


def row_from(array, index, first):
    """A row as `row` gives it, from element `first` on."""
    return array[index][first:]


@type_callable(row)
def _type_row(context):
    def typer(array, index):
        return types.Array(array.dtype, 1, "C", readonly=not array.mutable)

    return typer


@type_callable(row_from)
def _type_row_from(context):
    def typer(array, index, first):
        return types.Array(array.dtype, 1, "C", readonly=not array.mutable)

    return typer


# Not as an overload: to inline one takes Numba 10 ms at each place where a row is named.
@lower_builtin(row, types.Array, types.BaseTuple)
@lower_builtin(row_from, types.Array, types.BaseTuple, types.Integer)
def _row_view(context, builder, signature, args):
    array_type, index_type = signature.args[:2]
    source = make_array(array_type)(context, builder, args[0])
    strides = cgutils.unpack_tuple(builder, source.strides, array_type.ndim)
    shape = cgutils.unpack_tuple(builder, source.shape, array_type.ndim)
    indices = cgutils.unpack_tuple(builder, args[1], len(index_type))
    offset = context.get_constant(types.intp, 0)
    for stride, one in zip(strides[:-1], indices, strict=True):
        offset = builder.add(offset, builder.mul(stride, one, flags=["nsw"]), flags=["nsw"])
    itemsize = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(array_type.dtype))
    )
    if len(args) > 2:
        first = context.cast(builder, args[2], signature.args[2], types.intp)
        offset = builder.add(offset, builder.mul(itemsize, first, flags=["nsw"]), flags=["nsw"])
    data = cgutils.pointer_add(builder, source.data, offset, source.data.type)
    view = make_array(signature.return_type)(context, builder)
    populate_array(
        view,
        data=data,
        shape=cgutils.pack_array(builder, [shape[-1]]),
        strides=cgutils.pack_array(builder, [itemsize]),
        itemsize=itemsize,
        meminfo=None,
        parent=None,
    )
    return view._getvalue()


@register_jitable
def integer_divide(a, b):
    """a // b of 64-bit integers; 0 where b is 0."""
    if b == 0:
        return a - a
    if b == -1:
        return -a
    return a // b


@register_jitable
def integer_modulo(a, b):
    """a % b of 64-bit integers; 0 where b is 0."""
    if b in (0, -1):
        return a - a
    return a % b


@register_jitable
def integer_power(a, n):
    """a ** n for n >= 0, wrapping at 64 bits."""
    base, result = u64(a), u64(1)
    while n > 0:
        if n & 1:
            result = u64(result * base)
        base = u64(base * base)
        n = n >> 1
    return result


@register_jitable
def shift_left(a, n):
    """a << n; 0 where the count is negative or 64 and more."""
    return a << n if 0 <= n < 64 else a - a


@register_jitable
def shift_right(a, n):
    """a >> n; 0, or -1 for a negative a, where the count is negative or 64 and more."""
    if 0 <= n < 64:
        return a >> n
    return a >> 63 if a < 0 else a - a


@register_jitable
def nearest_multiple(a, step):
    """The multiple of `step` nearest to an integer, the even one of two; wraps at 64 bits."""
    one = step // step
    half = step // (one + one)
    whole = a // step
    rest = a - whole * step
    if rest > half or (rest == half and (whole & one) == one):
        whole = whole + one
    return u64(u64(whole) * u64(step))


@register_jitable
def floor_divide_float32(a, b):
    """a // b of float32, as NumPy's: from the remainder, which is exact; rounded at each step."""
    if b == f32(0.0):
        return f32(a / b)
    if a - a != f32(0.0) or b != b:
        return f32(nan)
    rest = f32(np.fmod(a, b))
    quotient = f32(f32(a - rest) / b)
    if rest != f32(0.0) and (b < f32(0.0)) != (rest < f32(0.0)):
        quotient = f32(quotient - f32(1.0))
    if quotient == f32(0.0):
        return f32(math.copysign(0.0, a / b))
    whole = np.floor(quotient)
    return f32(whole + f32(1.0)) if quotient - whole > f32(0.5) else whole


@register_jitable
def floor_divide_float64(a, b):
    """As `floor_divide_float32`, of float64."""
    a, b = f64(a), f64(b)
    if b == 0.0:
        return a / b
    if a - a != 0.0 or b != b:
        return nan
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    if rest != 0.0 and (b < 0.0) != (rest < 0.0):
        quotient -= 1.0
    if quotient == 0.0:
        return f64(math.copysign(0.0, a / b))
    whole = np.floor(quotient)
    return whole + 1.0 if quotient - whole > 0.5 else whole


@register_jitable
def remainder(a, b):
    """a % b of floats, as NumPy's: of the sign of b."""
    a, b = f64(a), f64(b)
    if b == 0.0 or a - a != 0.0 or b != b:
        return nan
    rest = np.fmod(a, b)
    if rest == 0.0:
        return math.copysign(0.0, b)
    return rest + b if (b < 0.0) != (rest < 0.0) else rest


@register_jitable
def remainder_float32(a, b):
    """a % b of float32: the sum of two of them, rounded twice, is that which is rounded once."""
    return f32(remainder(a, b))


@register_jitable
def saturate(value, low, high):
    """A float cut to whole numbers and to low .. high, which 32 bits hold; NaN is 0."""
    value = f64(value)
    inside = value if value > low else f64(low)
    inside = inside if inside < high else f64(high)
    return i32(inside if value == value else 0.0)


@register_jitable
def saturate_wide(value, low, high):
    """As `saturate`, for limits of 32 or 64 bits; the result has the type of the limits."""
    value = f64(value)
    if value != value:
        return low - low
    if value <= f64(low):
        return low
    if value >= f64(high):
        return high
    return type_of(low, value)


def type_of(limit, value):
    """`value` as the integer type of `limit`."""
    return type(limit)(int(value))


@overload(type_of)
def _type_of(limit, value):
    cast = {types.int32: i32, types.uint32: u32, types.uint64: u64}.get(limit, i64)

    def convert(limit, value):
        return cast(value)

    return convert


def float32_of_bits(bits):
    """The float32 whose bits are those of an int32."""
    return np.int32(bits).view(np.float32)


def float64_of_bits(bits):
    """The float64 whose bits are those of an int64."""
    return np.int64(bits).view(np.float64)


def bits_of_float64(value):
    """The bits of a float64, as an int64."""
    return np.float64(value).view(np.int64)


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


@register_jitable
def exp_float32(x):
    """e**x to about one unit in the last place, on vectors; the C library's has none.

    x = n log(2) + r with |r| <= log(2) / 2; then a polynomial, and n added to the exponent in
    two halves, so that results below the normal range come out right.
    Source: W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980,
    chapter 6; the polynomial is that of the Cephes library's expf.
    """
    y = x if x < f32(89.0) else f32(89.0)
    y = y if y > f32(-104.0) else f32(-104.0)
    n = np.floor(y * f32(1.44269504088896341) + f32(0.5))
    r = y - n * f32(0.693359375)
    r = r - n * f32(-2.12194440e-4)
    p = f32(1.9875691500e-4) * r + f32(1.3981999507e-3)
    p = p * r + f32(8.3334519073e-3)
    p = p * r + f32(4.1665795894e-2)
    p = p * r + f32(1.6666665459e-1)
    p = p * r + f32(5.0000001201e-1)
    p = p * r * r + r + f32(1.0)
    whole = i32(n)
    half = i32(whole >> i32(1))
    low = float32_of_bits(i32(i32(half + i32(127)) << i32(23)))
    high = float32_of_bits(i32(i32(i32(whole - half) + i32(127)) << i32(23)))
    return p * low * high if x == x else x


@register_jitable
def exp_float64(x):
    """As `exp_float32`, with a quotient of polynomials in the place of one."""
    y = x if x < 710.0 else 710.0
    y = y if y > -746.0 else -746.0
    n = np.floor(y * 1.4426950408889634 + 0.5)
    r = y - n * 6.93145751953125e-1
    r = r - n * 1.42860682030941723212e-6
    s = r * r
    p = r * ((1.26177193074810590878e-4 * s + 3.02994407707441961300e-2) * s + 1.0)
    q = 3.00198505138664455042e-6 * s + 2.52448340349684104192e-3
    q = (q * s + 2.27265548208155028766e-1) * s + 2.0
    e = 1.0 + 2.0 * (p / (q - p))
    whole = i64(n)
    half = i64(whole >> i64(1))
    low = float64_of_bits(i64(i64(half + i64(1023)) << i64(52)))
    high = float64_of_bits(i64(i64(i64(whole - half) + i64(1023)) << i64(52)))
    return e * low * high if x == x else x


@register_jitable
def round_to_half(x):
    """A float64 rounded to float16 and back: once, to the even of two; as a float32."""
    size = np.fabs(x)
    if size < 2.0**-14:
        return f32(np.rint(x * 2.0**24) * 2.0**-24)
    if size < 65520.0:
        bits = bits_of_float64(x)
        up = i64(i64(bits >> i64(42)) & i64(1)) + i64(2**41 - 1)
        return f32(float64_of_bits(i64(i64(bits + up) & i64(-(2**42)))))
    return f32(x) if x != x else f32(math.copysign(inf, x))


@register_jitable
def select(buffer, count, k):
    """The k-th smallest of the first `count` elements; the buffer is rearranged.

    Source: C. A. R. Hoare, "Algorithm 65: Find", Communications of the ACM 4 (7), 1961.
    """
    left, right = 0, count - 1
    while left < right:
        pivot = buffer[(left + right) // 2]
        i, j = left, right
        while i <= j:
            while buffer[i] < pivot:
                i += 1
            while pivot < buffer[j]:
                j -= 1
            if i <= j:
                buffer[i], buffer[j] = buffer[j], buffer[i]
                i += 1
                j -= 1
        if k <= j:
            right = j
        elif k >= i:
            left = i
        else:
            break
    return buffer[k]


@register_jitable
def padded(length, itemsize):
    """The length of a buffer's row: so much more that rows fall into different cache sets."""
    # Rows that are a multiple of 4096 bytes apart fall into the same ones (up to 2x, Zen 4).
    size = (length * itemsize + 63) // 64 * 64 + 64
    if size % 4096 == 0:
        size += 64
    return size // itemsize


@register_jitable
def aligned(shape, dtype):
    """An empty array that begins at a cache line."""
    size = 1
    for n in shape:
        size *= n
    memory = np.empty(size + 64, dtype)
    first = (-memory.ctypes.data) % 64 // memory.itemsize
    return memory[first : first + size].reshape(shape)


# The ends of an axis, as an array of whole numbers: what to do before and after, and then where
# the elements that lie `reach` beyond it come from, -1 for the constant.
OPEN, BEYOND, FILL, KEEP = range(4)


@register_jitable
def absent_ends(row, at, n, ends, low, high, before, first, value):
    """Write what "fill" and "keep" write, on a row whose column 0 is element `at`.

    So many columns as `low` and `high` say; "keep" takes them from `before`, from `first` on.
    """
    if ends[1] >= FILL:
        for j in range(max(0, n - high), n):
            row[at + j] = before[first + j] if ends[1] == KEEP else value
    if ends[0] >= FILL:
        for j in range(min(low, n)):
            row[at + j] = before[first + j] if ends[0] == KEEP else value


@register_jitable
def beyond_ends(row, at, n, ends, low, high, value):
    """Write what lies beyond the ends of a row whose column 0 is element `at`."""
    reach = (ends.size - 2) // 2
    if ends[0] != OPEN:
        for k in range(low):
            source = ends[2 + reach - low + k]
            row[at - low + k] = value if source < 0 else row[at + source]
    if ends[1] != OPEN:
        for k in range(high):
            source = ends[2 + reach + k]
            row[at + n + k] = value if source < 0 else row[at + source]


@register_jitable
def absent_row(row, i, n, ends, low, high, before, first, value):
    """As `absent_ends`, for row `i` of `n` as a whole."""
    kind = OPEN
    if i >= n - high and ends[1] >= FILL:
        kind = ends[1]
    if i < low and ends[0] >= FILL:
        kind = ends[0]
    if kind != OPEN:
        # The rows of a shorter type may be fewer elements long.
        for j in range(min(row.size, before.size - first)):
            row[j] = before[first + j] if kind == KEEP else value


@register_jitable
def beyond_rows(plane, at, n, ends, low, high, value):
    """As `beyond_ends`, for whole rows of a plane whose row 0 is row `at`."""
    reach = (ends.size - 2) // 2
    if ends[0] != OPEN:
        for k in range(low):
            source = ends[2 + reach - low + k]
            for j in range(plane.shape[1]):
                plane[at - low + k, j] = value if source < 0 else plane[at + source, j]
    if ends[1] != OPEN:
        for k in range(high):
            source = ends[2 + reach + k]
            for j in range(plane.shape[1]):
                plane[at + n + k, j] = value if source < 0 else plane[at + source, j]


def row_function(*, noalias=False, apart=(), overlap=(), fastmath=False):
    """Decorate a generated function that computes one row, or several."""
    promises = {"noalias": noalias, "apart": apart, "overlap": overlap}
    pipeline = type("_RowCompiler", (RowCompiler,), promises)
    # Only other compiled functions call it.
    wrappers: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(
        nogil=True, error_model="numpy", pipeline_class=pipeline, fastmath=fastmath, **wrappers
    )
