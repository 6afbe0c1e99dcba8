"""Networks: numbers put in order by comparators, the same whatever the numbers are.

    three numbers:   l, h = exchange(a, b);  m, c = exchange(h, c);  a, b = exchange(l, m)

Where a number is NaN the order is any.  What is wanted of it asks for NaN by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from .ir import Atom, Binary, Emit


def sort(items: Sequence[Atom], emit: Emit) -> list[Atom]:
    """The elements in order: two halves in order, merged."""
    if len(items) < 2:
        return list(items)
    half = (len(items) + 1) // 2
    return merge(sort(items[:half], emit), sort(items[half:], emit), emit)


def exchange(a: Atom, b: Atom, emit: Emit) -> tuple[Atom, Atom]:
    """The lesser and the greater; LLVM makes one instruction of each."""
    low = emit(Binary(a.dtype, "minimum", b, a, loose=True))
    return low, emit(Binary(a.dtype, "maximum", a, b, loose=True))


def merge(a: Sequence[Atom], b: Sequence[Atom], emit: Emit) -> list[Atom]:
    """Two ordered lists as one: Batcher's odd-even merge, for any lengths.

    Source: D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.3.4.
    """
    if not a or not b:
        return [*a, *b]
    if len(a) == 1 and len(b) == 1:
        return list(exchange(a[0], b[0], emit))
    even, odd = merge(a[::2], b[::2], emit), merge(a[1::2], b[1::2], emit)
    merged = [even[0]]
    for k, low in enumerate(odd):
        if k + 1 < len(even):
            merged += exchange(low, even[k + 1], emit)
        else:
            merged.append(low)
    merged += even[len(odd) + 1 :]
    return merged
