"""Ranks: medians and percentiles of small windows, with columns sorted once for all.

    median of 3 x 3:   sort each column (kept for the neighbours)     l0 l1 l2
                       sort each row as far as needed                 m0 m1 m2
                       what can be the median is left                 h0 h1 h2
                       -> median(max(l), median(m), min(h))

A table sorted along both axes tells much about ranks: the element in row i and column j is not
below (i + 1) * (j + 1) elements, itself included, and not above (rows - i) * (columns - j).
Whatever cannot have the wanted rank is dropped, the rest is merged row by row, and the
comparators that nothing depends on disappear with the dead code.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..language.dtypes import DType
from ..language.ir import Atom, Binary, BinaryOp, Cast, Const, Select
from ..language.networks import Emit, merge, sort


def quantile_position(count: int, quantile: float) -> tuple[int, float]:
    """The element below a quantile of sorted elements, and the fraction towards the next.

    NumPy's "linear" rule: the elements lie at 0, 1/(n-1), ..., 1.
    """
    where = quantile * (count - 1)
    low = min(int(where), count - 1)
    fraction = where - low
    return (low, 0.0) if low == count - 1 else (low, fraction)


def combined(items: Sequence[Atom], op: BinaryOp, emit: Emit) -> Atom:
    """All items by one operation, in pairs of pairs: short chains, and little rounding.

    Among floats the least and the greatest are found by bare comparisons, one instruction
    each, which lose a NaN on their left; whether there was one is asked once for all.
    """
    left = list(items)
    floats = items[0].dtype.is_float and op in ("minimum", "maximum") and len(items) > 2
    while len(left) > 1 and not floats:
        paired: list[Atom] = [
            emit(Binary(a.dtype, op, a, b)) for a, b in zip(left[::2], left[1::2], strict=False)
        ]
        left = paired + left[len(left) // 2 * 2 :]
    if not floats:
        return left[0]
    better: BinaryOp = "<" if op == "minimum" else ">"
    best = left[0]
    for k, item in enumerate(left[1:]):
        # The second item is taken where a comparison fails, and then stays: only it is safe.
        a, b = (best, item) if k == 0 else (item, best)
        test = emit(Binary(DType.BOOL, better, a, b, loose=True))
        best = emit(Select(a.dtype, test, a, b))
    return not_nan(best, [left[0], *left[2:]], emit)


def of_sorted(columns: Sequence[Sequence[Atom]], low: int, wanted: int, emit: Emit) -> list[Atom]:
    """The `wanted` elements from rank `low` on, of columns (or rows) that are in order each."""
    height, width = len(columns[0]), len(columns)
    count = height * width
    below = 0
    lists: list[list[Atom]] = []
    for i in range(height):
        places: list[int] = []
        for j in range(width):
            if (height - i) * (width - j) > count - low:
                below += 1  # too many are not less: it comes before the wanted ones
            elif (i + 1) * (j + 1) <= low + wanted:
                places.append(j)
        row = [column[i] for column in columns]
        # The least or the greatest alone takes half as many steps as a network for it.
        if places in ([0], [width - 1]):
            lists.append([_extreme(row, "<" if places == [0] else ">", emit)])
        else:
            ordered = sort(row, emit)
            lists.append([ordered[j] for j in places])
    rank, remaining = low - below, sum(map(len, lists))
    merged: list[Atom] = []
    for one in sorted(lists, key=len):
        merged = merge(merged, one, emit)
        # An element at place p of `merged` has p to p + (what is still to come) before it.
        outside = remaining - len(merged)
        first = max(0, rank - outside)
        merged = merged[first : rank + wanted]
        rank, remaining = rank - first, len(merged) + outside
    return merged[rank : rank + wanted]


def _extreme(items: Sequence[Atom], better: BinaryOp, emit: Emit) -> Atom:
    best = items[0]
    for item in items[1:]:
        test = emit(Binary(DType.BOOL, better, item, best, loose=True))
        best = emit(Select(best.dtype, test, item, best))
    return best


def interpolated(elements: Sequence[Atom], fraction: float, dtype: DType, emit: Emit) -> Atom:
    """The quantile from the element below it and, unless it is met exactly, the one above."""

    def number(item: Atom) -> Atom:
        return item if item.dtype is dtype else emit(Cast(dtype, item))

    if fraction == 0:
        return number(elements[0])
    if fraction == 0.5:
        # Their sum as integers might wrap.
        both = emit(Binary(dtype, "+", number(elements[0]), number(elements[1])))
        return emit(Binary(dtype, "/", both, Const(dtype, "2.0")))
    first, last = number(elements[0]), number(elements[1])
    apart = emit(Binary(dtype, "-", last, first))
    # As NumPy's: from the nearer end, so that both ends are met exactly.
    near, op = (fraction, "+") if fraction < 0.5 else (1 - fraction, "-")
    step = emit(Binary(dtype, "*", apart, Const(dtype, repr(near))))
    if op == "+":
        return emit(Binary(dtype, "+", first, step))
    return emit(Binary(dtype, "-", last, step))


def not_nan(value: Atom, items: Sequence[Atom], emit: Emit) -> Atom:
    """The value, or NaN where an item is."""
    if not items[0].dtype.is_float:
        return value
    truths = [emit(Binary(DType.BOOL, "!=", item, item)) for item in items]
    while len(truths) > 1:
        paired = [
            emit(Binary(DType.BOOL, "|", a, b))
            for a, b in zip(truths[::2], truths[1::2], strict=False)
        ]
        truths = paired + truths[len(truths) // 2 * 2 :]
    return emit(Select(value.dtype, truths[0], Const(value.dtype, "nan"), value))
