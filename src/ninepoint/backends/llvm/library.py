"""What generated text calls: rows, arithmetic with NumPy's rules at the edges, order statistics.

Each function is plain Python, so that generated text also runs without being compiled; the
compiled form is made of the same text (see `printing`).
"""

from __future__ import annotations

import math

import numpy as np

b1, i8, i16, i32, i64 = np.bool_, np.int8, np.int16, np.int32, np.int64
u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64
f32, f64, c64, c128 = np.float32, np.float64, np.complex64, np.complex128
nan, inf = f64(math.nan), f64(math.inf)


def row_function(*, fastmath=False):
    """Decorate a generated function that computes one row, or several, which overlap no other.

    `fastmath` is for who compiles it.
    """
    return lambda function: function


def row(array, index, first=0):
    """The elements of `array` along its last axis, from one on, at indices of the other axes.

    The caller sees to it that they lie side by side.
    """
    return array[index][first:]


def go_on(notes):
    """Whether a loop that may never end shall go on; `threads` says what the notes are."""
    return now(notes, 1) == 0


def note(notes, site, offset):
    """Note a read outside its neighborhood, unless there was one before, and end all loops."""
    if notes[0] == 0:
        notes[0], notes[2] = site, offset
    notes[1] = 1


def now(array, place):
    """The element of an array that another thread may write."""
    return array[place]


def integer_divide(a, b):
    """a // b of 64-bit integers; 0 where b is 0."""
    if b == 0:
        return a - a
    if b < 0 and b + 1 == 0:
        return -a
    return a // b


def integer_modulo(a, b):
    """a % b of 64-bit integers; 0 where b is 0."""
    if b == 0 or (b < 0 and b + 1 == 0):
        return a - a
    return a % b


def integer_power(a, n):
    """a ** n for n >= 0, wrapping at 64 bits."""
    base, result = u64(a), u64(1)
    while n > 0:
        if n & 1:
            result = u64(result * base)
        base = u64(base * base)
        n = n >> 1
    return result


def shift_left(a, n):
    """a << n; 0 where the count is negative or 64 and more."""
    return a << n if 0 <= n < 64 else a - a


def shift_right(a, n):
    """a >> n; 0, or -1 for a negative a, where the count is negative or 64 and more."""
    if 0 <= n < 64:
        return a >> n
    return a >> 63 if a < 0 else a - a


def nearest_multiple(a, step):
    """The multiple of `step` nearest to an integer, the even one of two; wraps at 64 bits."""
    one = step // step
    half = step // (one + one)
    whole = a // step
    rest = a - whole * step
    if rest > half or (rest == half and (whole & one) == one):
        whole = whole + one
    return u64(u64(whole) * u64(step))


def floor_divide(a, b):
    """a // b of floats of one type, as NumPy's: from the remainder, which is exact."""
    zero, one = type_of(a, 0.0), type_of(a, 1.0)
    if b == zero:
        return a / b
    if a - a != zero or b != b:
        return type_of(a, nan)
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    if rest != zero and (b < zero) != (rest < zero):
        quotient = quotient - one
    if quotient == zero:
        return type_of(a, math.copysign(0.0, a / b))
    whole = np.floor(quotient)
    return whole + one if quotient - whole > type_of(a, 0.5) else whole


def remainder(a, b):
    """a % b of floats, as NumPy's: of the sign of b."""
    x, y = f64(a), f64(b)
    if y == 0.0 or x - x != 0.0 or y != y:
        return nan
    rest = np.fmod(x, y)
    if rest == 0.0:
        return math.copysign(0.0, y)
    return rest + y if (y < 0.0) != (rest < 0.0) else rest


def saturate(value, low, high):
    """A float cut to a whole number and to low .. high, of the type of these; NaN is 0."""
    wide = f64(value)
    if wide != wide:
        return low - low
    if wide <= f64(low):
        return low
    if wide >= f64(high):
        return high
    return type_of(low, wide)


def type_of(like, value):
    """`value` in the type of another number, cut off where that is an integer."""
    return type(like)(value)


def float32_of_bits(bits):
    """The float32 whose bits are those of an int32."""
    return np.int32(bits).view(np.float32)


def float64_of_bits(bits):
    """The float64 whose bits are those of an int64."""
    return np.int64(bits).view(np.float64)


def bits_of_float64(value):
    """The bits of a float64, as an int64."""
    return np.float64(value).view(np.int64)


def bits_of_float32(value):
    """The bits of a float32, as an int32."""
    return np.float32(value).view(np.int32)


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
            # It has its place.
            left = right
    return buffer[k]


def padded(length, itemsize):
    """The length of a buffer's row: so much more that rows fall into different cache sets."""
    # Rows that are a multiple of 4096 bytes apart fall into the same ones (up to 2x, Zen 4).
    size = (length * itemsize + 63) // 64 * 64 + 64
    if size % 4096 == 0:
        size += 64
    return size // itemsize


# The ends of an axis, as an array of whole numbers: what to do before and after, and then where
# the elements that lie `reach` beyond it come from, -1 for the constant.
OPEN, BEYOND, FILL, KEEP = range(4)


def absent(row, kept, low, high, length, ends, value):
    """Write the first and the last points of a row as the ends of its axis say."""
    written(row, kept, max(0, length - high), length, ends[1], value)
    written(row, kept, 0, min(low, length), ends[0], value)


def absent_row(row, kept, place, low, high, length, ends, value):
    """Write a row that is among the first or the last ones, as the ends of that axis say."""
    if place >= length - high:
        written(row, kept, 0, row.size, ends[1], value)
    if place < low:
        written(row, kept, 0, row.size, ends[0], value)


def written(row, kept, start, stop, end, value):
    """Write some elements of a row as an end says: a value, or those of another row.

    Rows of a shorter type may be fewer elements long.
    """
    if end >= FILL:
        for j in range(start, min(stop, row.size, kept.size)):
            row[j] = kept[j] if end == KEEP else value


def beyond(kept, at, low, high, length, ends, value):
    """Write some elements, or rows, beyond the ends of an axis, whose first one is `at`."""
    for k in range(low, 0):
        repeated(kept, at, k, k, ends, value)
    for k in range(high):
        repeated(kept, at, length + k, k, ends, value)


def beyond_in_turn(kept, at, turn, low, high, length, ends, value):
    """The same of rows, or planes, that are kept in turn, where one of them was just made.

    What they repeat may be there only later, and some are read before all are.
    """
    if 0 <= turn <= min(-low, length - 1):
        for k in range(low, 0):
            repeated(kept, at, k, k, ends, value)
    if length <= turn < length + high:
        repeated(kept, at, turn, turn - length, ends, value)


def repeated(kept, at, to, k, ends, value):
    """Write element `to` of some, or a row or a plane, which lies beyond an end as number `k`.

    The last before the first one is -1, the first after the last one 0.  They are kept in turn,
    and their first is at `at`.
    """
    if ends[0 if k < 0 else 1] != OPEN:
        source, count = ends[ends.size // 2 + 1 + k], kept.shape[0]
        if source < 0:
            kept[(at + to) % count] = value
        else:
            kept[(at + to) % count] = kept[(at + source) % count]


def keyed(line, first, length, keys, at, masks):
    """Write the keys of some elements of a line, given by their bits; how many are no NaN.

    Keys are unsigned and in the order of the elements; NaN has the greatest.
    """
    top, positive, negative, most = masks[0], masks[1], masks[2], masks[3]
    full = top | (top - u64(1))
    valid = length
    for k in range(length):
        bits = u64(line[first + k])
        key = bits ^ (negative if bits & top else positive)
        if key > most or key < full - most:
            key = full
            valid -= 1
        keys[at + k] = key
    return valid


def ordered(keys, order, counts, length):
    """Keys in order, and where each stood: in a row of both arrays; which of the two it is.

    They come in the first row.  Byte by byte from the lowest; one that all keys have in common
    takes no pass.
    Source: D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.2.5, algorithm R.
    """
    for k in range(counts.size):
        counts[k] = 0
    for k in range(length):
        key = u64(keys[0, k])
        order[0, k] = k
        for byte in range(counts.size >> 8):
            counts[(byte << 8) + i64(key >> u64(byte << 3) & u64(255))] += 1
    turn = 0
    for byte in range(counts.size >> 8):
        shift, first = u64(byte << 3), byte << 8
        if counts[first + i64(u64(keys[turn, 0]) >> shift & u64(255))] != length:
            before = 0
            for k in range(first, first + 256):
                count = counts[k]
                counts[k] = before
                before += count
            here, there = row(keys, (turn,)), row(keys, (1 - turn,))
            stood, stands = row(order, (turn,)), row(order, (1 - turn,))
            for k in range(length):
                key = u64(here[k])
                digit = first + i64(key >> shift & u64(255))
                place = counts[digit]
                counts[digit] = place + 1
                there[place] = key
                stands[place] = stood[k]
            turn = 1 - turn
    return turn


def slid(keys, masks, ranks, inside, words, runs, starts, depth, down, wide, width, rank,
         valid, made, at):  # fmt: skip
    """Write the element of some rank at each point of a row.

    `ranks` are the places of a tile's elements among its `keys` in order, `inside` the set of
    those in the window; `runs` say of each run of the window its plane, its row, where it begins
    and where it ends.  Elements are written as their bits, and NaN where the window holds one.
    """
    count = runs.size // 4
    for r in range(count):
        first = (runs[4 * r] * depth + runs[4 * r + 1] + down) * wide
        starts[2 * r] = first + runs[4 * r + 2]
        starts[2 * r + 1] = first + runs[4 * r + 3]
    for k in range(words):
        inside[k] = u64(0)
    middle, below, strange = 0, i64(0), i64(0)
    for r in range(count):
        for k in range(starts[2 * r], starts[2 * r + 1]):
            place = i64(ranks[k])
            inside[place >> 6] |= u64(1) << u64(place & 63)
            below += i64((place >> 6) < middle)
            strange += i64(place >= valid)
    for j in range(width):
        while below > rank:
            middle -= 1
            below -= ones(inside[middle])
        some = ones(inside[middle])
        while below + some <= rank:
            below += some
            middle += 1
            some = ones(inside[middle])
        left = inside[middle]
        for _ in range(rank - below):
            left &= left - u64(1)
        key = u64(keys[(middle << 6) + ones((left & (u64(0) - left)) - u64(1))])
        bits = key ^ (masks[1] if key & masks[0] else masks[2])
        made[at + j] = masks[4] if strange else bits
        if j + 1 < width:
            # What leaves and what enters, by turns.
            for r in range(2 * count):
                place = i64(ranks[starts[r] + j])
                inside[place >> 6] ^= u64(1) << u64(place & 63)
                sign = ((r & 1) << 1) - 1
                below += sign * i64((place >> 6) < middle)
                strange += sign * i64(place >= valid)


def ones(word):
    """How many bits of a word are set."""
    return int(word).bit_count()


def same_bits(row, like):
    """A row as elements of the type of another, of the same size."""
    return row.view(like.dtype)


def float32_of_half(bits):
    """The half float of these bits, as a float32."""
    return np.float32(np.uint16(bits).view(np.float16))


def half_of_float32(value):
    """The bits of the half float that is nearest to a float32, of two the even one."""
    with np.errstate(over="ignore"):
        return np.float16(np.float32(value)).view(np.uint16)


def float32_of_bfloat(bits):
    """The bfloat16 of these bits, as a float32, of which it is the first half."""
    return float32_of_bits(i32(i32(bits) << i32(16)))


def bfloat_of_float32(value):
    """The bits of the bfloat16 that is nearest to a float32, of two the even one."""
    bits = i64(bits_of_float32(value))
    up = i64(i64(bits >> i64(16)) & i64(1)) + i64(0x7FFF)
    # Of what is no number some bit stays.
    kept = i64(bits + up) if value == value else i64(bits | i64(0x400000))
    return i64(i64(kept >> i64(16)) & i64(0xFFFF))


def float_fmin(a, b):
    """The smaller of two, or that which is a number; of none the last, as NumPy gives."""
    return a if (a <= b) | ((a == a) & (b != b)) else b


def float_fmax(a, b):
    """The larger of two, or that which is a number; of none the first, as NumPy gives."""
    return a if (a >= b) | (b != b) else b


# Operations of complex numbers; other functions are those of C.


def complex_conj(z):
    """The conjugate."""
    return complex(z.real, -z.imag)


def complex_multiply(z, w):
    """The product."""
    x, y, u, v = z.real, z.imag, w.real, w.imag
    return complex(x * u - y * v, x * v + y * u)


def complex_divide(z, w):
    """The quotient.

    Source: R. L. Smith, "Algorithm 116: Complex division", Communications of the ACM 5 (8), 1962.
    """
    x, y, u, v = z.real, z.imag, w.real, w.imag
    wide, narrow = np.fabs(u), np.fabs(v)
    along, none = wide >= narrow, wide + narrow == type_of(u, 0.0)
    near, far = u if along else v, v if along else u
    first, last = x if along else y, y if along else x
    ratio = far / near
    scale = type_of(u, 1.0) / (near + far * ratio)
    product = first * ratio
    real = (first + last * ratio) * scale
    imaginary = (last - product if along else product - last) * scale
    return complex(x / wide if none else real, y / wide if none else imaginary)


def complex_log(z):
    """The logarithm: that of the length, and the angle; C's takes three times as long."""
    x, y = f64(z.real), f64(z.imag)
    return complex(np.log(np.hypot(x, y)), np.arctan2(y, x))


def complex_power(z, w):
    """z**w: of length and angle; a square is a product."""
    x, y, u, v = f64(z.real), f64(z.imag), f64(w.real), f64(w.imag)
    if v == 0.0 and u == 2.0:
        return complex(x * x - y * y, x * y + y * x)
    if u == 0.0 and v == 0.0:
        return complex(1.0, 0.0)
    if x == 0.0 and y == 0.0:
        strange = u <= 0.0 or v != 0.0
        return complex(nan if strange else 0.0, nan if strange else 0.0)
    size, angle = np.hypot(x, y), np.arctan2(y, x)
    length = np.power(size, u) * np.exp(-angle * v)
    turned = angle * u + np.log(size) * v
    return complex(length * np.cos(turned), length * np.sin(turned))
