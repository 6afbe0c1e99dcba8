"""Ranks: medians and percentiles of small windows, with columns sorted once for all.

    median of 3 x 3:   sort each column (kept for the neighbours)     l0 l1 l2
                       sort each row as far as needed                 m0 m1 m2
                       what can be the median is left                 h0 h1 h2
                       -> median(max(l), median(m), min(h))

A table sorted along both axes tells much about ranks: the element in row i and column j is not
below (i + 1) * (j + 1) elements, itself included, and not above (rows - i) * (columns - j).
Whatever cannot have the wanted rank is dropped, the rest is merged row by row, and the
comparators that nothing depends on disappear with the dead code.

Of elements that are no NaN:

    nanpercentile of 3, 20    ->      f0 = x0 == x0 ? x0 : inf; ...      s0 <= s1 <= s2 of f
                                      n  = (x0 == x0) + (x1 == x1) + (x2 == x2)
                                      n == 0 ? nan : n == 1 ? s0 : s0 + (s1 - s0) * (n - 1) / 5

    nanmedian of 3            ->      f0 = x0 == x0 ? x0 : inf;    e1 = x0 == x0 ? inf : -inf
                                      f1 = x1 == x1 ? x1 : e1; ...       s0 <= s1 <= s2 of f
                                      e3 == inf ? s1 : (s0 + s1) / 2

How many there are differs from point to point, so all that may be wanted is put in order, and the
count chooses.  What stands for a NaN is infinite: it comes after all others (before, where the
rank is counted from above), and beside elements that are infinite themselves it makes no
difference which is which.

Of a median one comes after, the next before, so that the middle stays where it is: it moves by
half a place for each part of the window (a column, which neighbours share) whose NaN are odd in
number.  Of nothing but NaN it is between -inf and inf, and their mean is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..analysis.rewrite import Body, Emit, as_type, binary, in_bodies, replayed
from ..language.ir import (
    Assign,
    Atom,
    Binary,
    BinaryOp,
    Const,
    DType,
    Expr,
    Kernel,
    Reduce,
    Ref,
    Select,
    Unary,
    made_as,
    needed,
)
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
                binary(op, a, b, emit) for a, b in zip(left[::2], left[1::2], strict=False)
            ]
            left = paired + left[len(left) // 2 * 2 :]
        return left[0]
    # The second item is taken where a comparison fails, and then stays: only it is safe.
    best = _better(op, left[0], left[1], emit)
    for item in left[2:]:
        best = _better(op, item, best, emit)
    return not_nan(best, [left[0], *left[2:]], emit)


def _better(op: BinaryOp, a: Atom, b: Atom, emit: Emit) -> Atom:
    """The lesser of two, or the greater; the second where one is NaN."""
    return emit(Binary(a.dtype, op, a, b, loose=True))


def divided(total: Atom, dtype: DType, count: float, emit: Emit) -> Atom:
    """A quotient by a number, of some type."""
    return binary("/", as_type(total, dtype, emit), Const(dtype, repr(float(count))), emit)


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
                best = _better("minimum" if places == [0] else "maximum", item, best, emit)
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
        return divided(binary("+", first, last, emit), dtype, 2, emit)
    apart = binary("-", last, first, emit)
    # As NumPy's: from the nearer end, so that both ends are met exactly.
    near = fraction < 0.5
    share = Const(dtype, repr(fraction if near else 1 - fraction))
    step = binary("*", apart, share, emit)
    return emit(Binary(dtype, "+", first, step) if near else Binary(dtype, "-", last, step))


def not_nan(value: Atom, items: Sequence[Atom], emit: Emit) -> Atom:
    """The value, or NaN where an item is."""
    if not items[0].dtype.is_float:
        return value
    truths = [binary("!=", item, item, emit) for item in items]
    return emit(Select(value.dtype, combined(truths, "|", emit), Const(value.dtype, "nan"), value))


def valid_position(reduce: Reduce, count: int) -> tuple[int, float]:
    """The element below what is wanted of so many elements, and the fraction towards the next."""
    if reduce.kind == "nanrank":
        return min(int(count * reduce.quantile / 100), count - 1), 0.0
    return quantile_position(count, reduce.quantile)


@dataclass(frozen=True, slots=True)
class Valid:
    """What is wanted: `count` elements from rank `first` on, NaN having become `fill`.

    `places` has for each number of elements that are no NaN, from 1 on, the place of one among
    these, and the fraction towards the next; where `balanced`, for each number of parts, from 0
    on, whose NaN are odd in number.  `apart` tells that a window of NaN alone is to be asked for.
    """

    dtype: DType
    fill: str
    first: int
    count: int
    places: tuple[tuple[int, float], ...]
    balanced: bool
    apart: bool

    @classmethod
    def of(cls, reduce: Reduce, parts: int = 1) -> Valid:
        """What a window's reduction wants, whose elements are filled in so many equal parts."""
        size = math.prod(reduce.shape)
        rank = reduce.kind == "nanrank"
        balanced = reduce.quantile == (50.0 if rank else 0.5) and size >= 2 * parts
        found: list[tuple[int, float]] = []
        above = False
        if balanced:
            for odd in range(parts + 1):
                twice = size - odd - (0 if rank else 1)
                found.append((twice // 2, 0.0 if rank else twice % 2 / 2))
        else:
            above = valid_position(reduce, size)[0] > (size - 1) // 2
            for count in range(1, size + 1):
                place, fraction = valid_position(reduce, count)
                found.append((place + (size - count if above else 0), fraction))
        first = min(place for place, _ in found)
        last = max(place + (fraction > 0) for place, fraction in found)
        places = tuple((place - first, fraction) for place, fraction in found)
        fill = "-inf" if above else "inf"
        number, apart = last - first + 1, rank or not balanced
        return cls(reduce.dtype, fill, first, number, places, balanced, apart)

    def split(self, items: Sequence[Atom], emit: Emit) -> tuple[list[Atom], list[Atom]]:
        """The elements of a part with something for each NaN, and what is added of all parts."""
        filled: list[Atom] = []
        ones: list[Atom] = []
        dtype = items[0].dtype
        # Counted in lanes of the elements' own width.
        one, zero = Const(dtype, "1.0"), Const(dtype, "0.0")
        fill: Atom = Const(dtype, self.fill)
        other: Atom = Const(dtype, "-inf")
        for item in items:
            valid = binary("==", item, item, emit)
            filled.append(emit(Select(dtype, valid, item, fill)))
            if self.apart:
                ones.append(emit(Select(dtype, valid, one, zero)))
            if self.balanced:
                fill = emit(Select(dtype, valid, fill, other))
                other = emit(Unary(dtype, "-", fill))
        counts = [combined(ones, "+", emit)] if self.apart else []
        if self.balanced:
            odd = binary("<", fill, zero, emit)
            counts.append(emit(Select(dtype, odd, one, zero)))
        return filled, counts

    def chosen(self, found: Sequence[Atom], counts: Sequence[Atom], emit: Emit) -> Atom:
        """The result, of the elements that are wanted and what is added of all parts."""
        dtype, which = self.dtype, counts[-1]
        nan = Const(dtype, "nan")
        result: Atom = nan
        last: Atom = nan
        for number, (place, fraction) in enumerate(self.places, 0 if self.balanced else 1):
            way = interpolated(found[place : place + 2], fraction, dtype, emit)
            if number == 0:
                result = way
            elif way != last:
                enough = binary(">=", which, Const(which.dtype, repr(float(number))), emit)
                result = emit(Select(dtype, enough, way, result))
            last = way
        if self.balanced and self.apart:
            none = binary("<", counts[0], Const(counts[0].dtype, "1.0"), emit)
            result = emit(Select(dtype, none, nan, result))
        return result


def exchanged(kernel: Kernel) -> Kernel:
    """The kernel without questions for NaN that the minima and maxima of exchanges answer.

    low = minimum(a, b), loosely
    out = nan if a != a or b != b else low       ->     out = low

    What is `loose` may take either of two if one is NaN: whether there was a NaN is asked for
    elsewhere.  A minimum of float32 that lets every NaN through, as a GPU has it, answers that as
    well, so where all that is asked about was exchanged, the question goes.
    """

    def change(body: Body, values: tuple[Atom, ...]) -> tuple[Body, tuple[Atom, ...]]:
        known: dict[str, Expr] = {}

        def emit(name: str, expr: Expr) -> Atom:
            match expr:
                case Select(test=test, then=Const(text="nan"), other=other):
                    # A NaN is chosen where the other value is one by itself.
                    if _asked(test, known) <= _through(other, known):
                        return other
            known[name] = expr
            return Ref(expr.dtype, name)

        values = replayed(body, values, emit)
        return needed([Assign(*one) for one in known.items()], values), values

    return in_bodies(kernel, change)


def _asked(test: Atom, known: Mapping[str, Expr]) -> set[Atom]:
    """The values of which a test asks whether any is NaN; itself if it asks for anything else."""
    match made_as(test, known):
        case Binary(op="!=", left=left, right=right) if left == right:
            return {left}
        case Binary(op="|", left=left, right=right):
            return _asked(left, known) | _asked(right, known)
        case _:
            return {test}


def _through(value: Atom, known: Mapping[str, Expr]) -> set[Atom]:
    """The values of which a NaN comes through to this one."""
    found: set[Atom] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        made = None if one in found else made_as(one, known)
        if isinstance(made, Binary) and made.loose and made.dtype is DType.F32:
            waiting += [made.left, made.right]
        found.add(one)
    return found
