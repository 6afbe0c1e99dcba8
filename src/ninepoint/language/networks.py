"""Networks: numbers put in order by comparators, the same whatever the numbers are.

    three numbers:   l, h = exchange(a, b);  m, c = exchange(h, c);  a, b = exchange(l, m)

Where a number is NaN the order is any.  What is wanted of it asks for NaN by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .ir import Atom, Binary, Expr

Emit = Callable[[Expr], Atom]


def sort_steps(count: int) -> Iterator[tuple[int, int]]:
    """The comparators of Batcher's odd-even merge sort, for any number of elements.

    Source: D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.2.2,
    algorithm M.
    """
    if count < 2:
        return
    top = 1 << ((count - 1).bit_length() - 1)
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while d > 0:
            for i in range(count - d):
                if i & p == r:
                    yield i, i + d
            d, q, r = q - p, q >> 1, p
        p >>= 1


def sort(items: Sequence[Atom], emit: Emit) -> list[Atom]:
    """The elements in order."""
    lanes = list(items)
    for a, b in sort_steps(len(lanes)):
        lanes[a], lanes[b] = exchange(lanes[a], lanes[b], emit)
    return lanes


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


def merged(lists: Sequence[Sequence[Atom]], emit: Emit) -> list[Atom]:
    """Lists in order as one: neighbours first, so that other points share what is merged."""
    left = [list(one) for one in lists]
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        left = [merge(a, b, emit) for a, b in pairs] + left[len(left) // 2 * 2 :]
    return left[0]
