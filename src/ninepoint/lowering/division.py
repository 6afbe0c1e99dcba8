"""Division by a constant as a multiplication: exact, and as wide as its operands only.

    t // 9,  0 <= t <= 2295      ->      (t * 7282) >> 16

For 0 <= n <= top and m = ceil(2**k / d), floor(n / d) == (n * m) >> k whenever
top * (m * d - 2**k) < 2**k: the excess of the multiplier never carries n past the next
multiple.  Source: H. S. Warren, "Hacker's Delight", 2nd edition, section 10-9.  A dividend
that can be negative is first moved up by a multiple of the divisor.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Multiplier:
    """floor(n / d) == (((n + shift * d) * factor) >> bits) - shift, done in `width` bits."""

    factor: int
    bits: int
    shift: int
    width: int


def multiplier(low: int, high: int, divisor: int) -> Multiplier | None:
    """Find a multiplication for low <= n <= high, the narrowest there is.

    The dividend fits in half of `width`; None if 64 bits do not do.
    """
    assert divisor > 1
    shift = -(low // divisor) if low < 0 else 0
    top = high + shift * divisor
    for width in (32, 64):
        half = width // 2
        if top >= 2**half:
            continue
        for bits in (half, *range(half + 1, width)):
            factor = -(-(2**bits) // divisor)
            if top * factor >= 2**width or factor >= 2**width:
                break
            if top * (factor * divisor - 2**bits) < 2**bits:
                return Multiplier(factor, bits, shift, width)
    return None
