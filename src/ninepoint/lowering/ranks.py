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

from ..analysis.rewrite import Emit, as_type
from ..language.dtypes import DType
from ..language.ir import Atom, Binary, BinaryOp, Const, Select
from ..language.networks import merge, sort


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
    if not (items[0].dtype.is_float and op in ("minimum", "maximum") and len(items) > 2):
        while len(left) > 1:
            paired: list[Atom] = [
                emit(Binary(a.dtype, op, a, b))
                for a, b in zip(left[::2], left[1::2], strict=False)
            ]
            left = paired + left[len(left) // 2 * 2 :]
        return left[0]
    better: BinaryOp = "<" if op == "minimum" else ">"
    # The second item is taken where a comparison fails, and then stays: only it is safe.
    best = _chosen(left[0], left[1], better, emit)
    for item in left[2:]:
        best = _chosen(item, best, better, emit)
    return not_nan(best, [left[0], *left[2:]], emit)


def _chosen(a: Atom, b: Atom, better: BinaryOp, emit: Emit) -> Atom:
    """The first of two if it is better, else the second."""
    return emit(Select(a.dtype, emit(Binary(DType.BOOL, better, a, b, loose=True)), a, b))


def divided(total: Atom, dtype: DType, count: float, emit: Emit) -> Atom:
    """A quotient by a number, of some type."""
    return emit(Binary(dtype, "/", as_type(total, dtype, emit), Const(dtype, repr(float(count)))))


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
            best = row[0]
            for item in row[1:]:
                best = _chosen(item, best, "<" if places == [0] else ">", emit)
            lists.append([best])
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


def interpolated(elements: Sequence[Atom], fraction: float, dtype: DType, emit: Emit) -> Atom:
    """The quantile from the element below it and, unless it is met exactly, the one above."""
    first = as_type(elements[0], dtype, emit)
    if fraction == 0:
        return first
    last = as_type(elements[1], dtype, emit)
    if fraction == 0.5:
        # Their sum as integers might wrap.
        return divided(emit(Binary(dtype, "+", first, last)), dtype, 2, emit)
    apart = emit(Binary(dtype, "-", last, first))
    # As NumPy's: from the nearer end, so that both ends are met exactly.
    near = fraction < 0.5
    share = Const(dtype, repr(fraction if near else 1 - fraction))
    step = emit(Binary(dtype, "*", apart, share))
    return emit(Binary(dtype, "+", first, step) if near else Binary(dtype, "-", last, step))


def not_nan(value: Atom, items: Sequence[Atom], emit: Emit) -> Atom:
    """The value, or NaN where an item is."""
    if not items[0].dtype.is_float:
        return value
    truths = [emit(Binary(DType.BOOL, "!=", item, item)) for item in items]
    return emit(Select(value.dtype, combined(truths, "|", emit), Const(value.dtype, "nan"), value))
