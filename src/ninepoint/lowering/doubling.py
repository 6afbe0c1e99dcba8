"""Doubling: which pieces of a long window are made once and for all its neighbours.

31 elements      ->      4 of x, 4 of those (16 of x); the window is two pieces of 16
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

# Elements up to which all sets of levels are tried: those of 1000 take 0.1 s.
SEARCHED = 500

# What it costs to write a level of doubling to a row of its own, in loads: so counted, what
# needs least was within 3 % of the fastest for 15, 31 and 51 elements of 8 and 32 bits (Zen 4).
LEVEL = 1


def powers(length: int, radix: int) -> tuple[int, ...]:
    """How many elements each level of doubling holds, each `radix` times as many."""
    sizes = [1]
    while sizes[-1] * radix <= length:
        sizes.append(sizes[-1] * radix)
    return tuple(sizes)


@cache
def fewest(length: int, idempotent: bool) -> tuple[int, ...]:
    """The levels of doubling that need the fewest loads, a level's own row counted as one."""

    def loads(sizes: tuple[int, ...]) -> int:
        total = sum(last // first + LEVEL for first, last in pairwise(sizes))
        if idempotent:
            return total - (-length // sizes[-1])
        rest = length
        for size in reversed(sizes):
            total, rest = total + rest // size, rest % size
        return total

    found: list[tuple[int, ...]] = [(1,)]
    for sizes in found:
        found += [(*sizes, sizes[-1] * k) for k in range(2, 9) if sizes[-1] * k <= length]
    return min(found, key=lambda sizes: (loads(sizes), -len(sizes), sizes))
