"""Windows as straight lines: a small reduction becomes its operations, one by one.

    t0 = sum of x over -1..1      ->      t0 = read x -1;  t1 = read x 0;  t2 = t0 + t1; ...

Medians and percentiles become sorting networks, of which only the comparators that the wanted
elements depend on survive.  A window of more elements than the schedule allows stays as it is, and
the text loops over it: which of its elements matter then, what they can be, and which type holds
their sum, every back end asks here.

Ranks: medians and percentiles of small windows, with columns sorted once for all.

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

How many there are differs from point to point, so all that may be wanted is put in order, and the
count chooses.  What stands for a NaN is infinite: it comes after all others (before, where the
rank is counted from above), and beside elements that are infinite themselves it makes no
difference which is which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..analysis.rewrite import as_type, binary, number, simplify
from ..language.ir import (
    RANKED,
    Atom,
    Binary,
    BinaryOp,
    Cast,
    Const,
    DType,
    Element,
    Emit,
    Expr,
    Kernel,
    Lines,
    Offset,
    Read,
    Reduce,
    Ref,
    Select,
    at_index,
    merge,
    named,
    replayed,
    sort,
    zero_product,
)
from .schedule import Request, Schedule

# How many times larger a window of picked elements may be that is still written out: an extreme
# of 197 float32 took 4 s to compile, and was 300 times as fast as the loop at each point.
_PICKED = 3


# The operation that makes one value of a window's elements.
OPERATIONS: dict[str, BinaryOp] = {
    "prod": "*", "min": "minimum", "max": "maximum", "any": "|", "all": "&",
}  # fmt: skip


def unrolled(kernel: Kernel, request: Request) -> Kernel:
    """Write out every window that is small enough."""
    lines = Lines("t")

    def emit(_: str, expr: Expr) -> Atom:
        if isinstance(expr, Reduce) and small(expr, request.schedule):
            return _written(expr, lines.emit)
        return lines.emit(expr)

    outputs = replayed(kernel.body, kernel.outputs, emit)
    return simplify(replace(kernel, body=lines.body, outputs=outputs))


def small(reduce: Reduce, schedule: Schedule) -> bool:
    """Whether a window is written out, rather than looped over at each point."""
    return math.prod(reduce.shape) <= most(reduce, schedule)


def most(reduce: Reduce, schedule: Schedule) -> int:
    """Up to how many elements a window is written out."""
    if reduce.kind in RANKED:
        return schedule.network
    # Nothing else than a loop at each point is left to elements that are picked.
    return _PICKED * schedule.unrolled if is_picked(reduce) else schedule.unrolled


def is_picked(reduce: Reduce) -> bool:
    """Whether a window is not a box, but some elements of one."""
    return any(isinstance(a.value, Read | Element) and a.value.picked for a in reduce.body)


def ordered_by(reduce: Reduce) -> Read | None:
    """The first values of a window, which are a field's, if its elements are in their order."""
    match [assign.value for assign in reduce.body]:
        case [Read() as tap]:
            return tap
        case [Read(dtype=dtype) as tap, Cast(storage=storage) as cast]:
            # To round integers keeps their order.
            rounded = dtype.is_integer and cast.dtype.is_float and not storage
            last = reduce.body[-1]
            return tap if rounded and reduce.result == Ref(cast.dtype, last.name) else None
        case _:
            return None


def _written(reduce: Reduce, emit: Emit) -> Atom:
    """A window's reduction, operation by operation."""
    items, dtype = _elements(reduce, emit), reduce.dtype
    count = len(items)
    match reduce.kind:
        case "sum" | "mean":
            others = [i for i in items if not isinstance(i, Const) or i.text not in ("0", "0.0")]
            items = others or items[:1]
            total = combined(items, "+", emit)
            if reduce.kind == "mean":
                return divided(total, dtype, count, emit)
            return as_type(total, dtype, emit)
        case "prod" | "min" | "max" | "any" | "all":
            return combined(items, OPERATIONS[reduce.kind], emit)
        case "var":
            mean = divided(combined(items, "+", emit), dtype, count, emit)
            squares = list[Atom]()
            for item in items:
                apart = binary("-", as_type(item, dtype, emit), mean, emit)
                squares.append(binary("*", apart, apart, emit))
            total = combined(squares, "+", emit)
            return divided(total, dtype, max(0.0, count - reduce.quantile), emit)
        case "argmin" | "argmax":
            return _position(items, "<" if reduce.kind == "argmin" else ">", emit)
        case "quantile":
            low, fraction = quantile_position(count, reduce.quantile)
            lanes = sort(items, emit)
            value = interpolated(lanes[low : low + 2], fraction, dtype, emit)
            return not_nan(value, items, emit)
        case "nanquantile" | "nanrank":
            return _of_valid(reduce, items, emit)


def _elements(reduce: Reduce, emit: Emit) -> list[Atom]:
    """The value at every index of a window."""
    values = named(reduce.body)
    found = list[Atom]()
    for position, index in enumerate(np.ndindex(reduce.shape)):

        def element(
            name: str, expr: Expr, position: int = position, index: Offset = index
        ) -> Atom:
            zero = zero_product(values[name], values, position)
            there = zero or at_index(expr, index, position)
            match there:
                case Const():
                    return there
                case Select(test=Const() as test):
                    return there.then if test.text == "True" else there.other
                case Cast(arg=Const() as arg, storage="") if there.dtype.is_float:
                    value = arg.value
                    return emit(there) if isinstance(value, complex) else number(expr.dtype, value)
                case _:
                    return emit(there)

        found += replayed(reduce.body, [reduce.result], element)
    return found


def _position(items: Sequence[Atom], op: BinaryOp, emit: Emit) -> Atom:
    """Where the first of the least elements is, or of the greatest."""
    best: Atom = items[0]
    found: Atom = number(DType.INT, 0)
    for position, item in enumerate(items[1:], 1):
        better: Atom = binary(op, item, best, emit)
        if item.dtype.is_float:
            # As NumPy's: the first NaN wins, whatever follows.
            known = binary("==", best, best, emit)
            strange = binary("!=", item, item, emit)
            either = binary("|", better, strange, emit)
            better = binary("&", known, either, emit)
        found = emit(Select(DType.INT, better, number(DType.INT, position), found))
        best = emit(Select(item.dtype, better, item, best))
    return found


# Elements of some rank, and others that are made of all.


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
    lists = list[list[Atom]]()
    for i in range(height):
        places = list[int]()
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
    merged = list[Atom]()
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


def _of_valid(reduce: Reduce, items: Sequence[Atom], emit: Emit) -> Atom:
    """What is wanted of the elements that are no NaN, in whose place others come first or last."""
    size, dtype = len(items), items[0].dtype
    # For each number of such elements the place of one, and the fraction towards the next.
    counts = range(1, size + 1)
    if reduce.kind == "nanrank":
        places = [(min(int(k * reduce.quantile / 100), k - 1), 0.0) for k in counts]
    else:
        places = [quantile_position(k, reduce.quantile) for k in counts]
    above = places[-1][0] > (size - 1) // 2
    if above:
        places = [(place + size - k, part) for k, (place, part) in enumerate(places, 1)]
    fill = Const(dtype, "-inf" if above else "inf")
    truths = [binary("==", item, item, emit) for item in items]
    pairs = zip(truths, items, strict=True)
    ordered = sort([emit(Select(dtype, truth, item, fill)) for truth, item in pairs], emit)
    # Counted in lanes of the elements' own width.
    one, zero = number(dtype, 1), number(dtype, 0)
    valid = combined([emit(Select(dtype, truth, one, zero)) for truth in truths], "+", emit)
    result: Atom = Const(reduce.dtype, "nan")
    last: Atom = result
    for count, (place, fraction) in enumerate(places, 1):
        way = interpolated(ordered[place : place + 2], fraction, reduce.dtype, emit)
        if way != last:
            enough = binary(">=", valid, number(dtype, count), emit)
            result = emit(Select(reduce.dtype, enough, way, result))
        last = way
    return result
