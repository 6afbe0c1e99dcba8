"""Algorithms: large windows in few operations, by stages that neighbours share.

    mean of x over 3 x 3      ->      v = x[-1, 0] + x[0, 0] + x[1, 0]      (kept for a row)
                                      out = (v[0, -1] + v[0, 0] + v[0, 1]) / 9

    max of x over 1 x 31      ->      m4 = max of x over 4;   m16 = max of m4[0 4 8 12]
                                      out = max(m16[0], m16[15])

A reduction whose elements look the same from every point (they use nothing but the field, and
weights that are a product of one factor for each axis) is done axis by axis; each axis by
doubling once it is long.  Every value is still a fresh combination of its own elements, so
that floats do not drift: a sum of n elements is a tree of depth log2(n) or little more.  Sums
of integers, which are exact, run down the rows instead: one row in, one row out.

Quantiles of small windows are found in columns that are sorted once for all the neighbours, those
of large ones slide along the row, by their places in order.  Those of some bytes
in a window of another shape are counted, bit by bit:

    median of 81 bytes:   v = 0, bit = 128
                          n = how many elements are less than v + bit      (8 times, each in rows)
                          v = v + bit if n <= 40 else v;  bit = bit / 2

All points of a row are then done at once in narrow lanes, and the function for one bit serves all
of them, so that little is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from ..analysis.rewrite import Emit, along_rows, as_type, binary, number, replayed
from ..language.dtypes import kind_of
from ..language.ir import (
    Atom,
    Cast,
    DType,
    Expr,
    Histogram,
    Kernel,
    Offset,
    Read,
    Reduce,
    Ref,
    Select,
    Tap,
    added,
    window_indices,
)
from ..language.networks import sort
from .parts import runs
from .schedule import Refused, Request, Schedule
from .staging import ELEMENT_KEPT, Fold, Staging, first, ground, in_stage, moved, planes
from .windows import (
    OPERATIONS,
    Valid,
    combined,
    divided,
    interpolated,
    is_picked,
    not_nan,
    of_sorted,
    quantile_position,
)

# Bytes up to which those of some rank are counted bit by bit: discs of 81, 113 and 149 took 0.23,
# 0.28 and 0.31 of the time of a histogram that slid, of 197 0.36, one of 253 15 times as long.
# (Places that slide take up to twice as long as that did.)  Of 16 bits they took 0.9 to 1.8 times
# as long as places that slide (512 x 512, Zen 5).
COUNTED = 200

_INT = DType.INT

# Puts elements in order, and may add what else is wanted of them.
Order: TypeAlias = Callable[[Sequence[Atom], Emit], list[Atom]]


def staged(kernel: Kernel, request: Request) -> Kernel:
    """Do every reduction that allows it axis by axis, or where it `slides` along the rows."""
    staging = Staging(kernel, request.schedule, request.slides)

    def emit(_: str, expr: Expr) -> Atom:
        if isinstance(expr, Reduce):
            with suppress(Refused):
                return _reduction(staging, expr)
        return staging.emit(expr)

    outputs = replayed(kernel.body, kernel.outputs, emit)
    stages, body = tuple(staging.stages.values()), tuple(staging.main.body)
    return replace(kernel, body=body, outputs=outputs, stages=stages)


def ways(kernel: Kernel, reduce: Reduce, schedule: Schedule) -> list[tuple[str, str]]:
    """How `staged` does a window of a kernel, part by part, and why in no other way.

    Raises `Refused` where it leaves it.
    """
    staging = Staging(kernel, schedule)
    _reduction(staging, reduce)
    return staging.notes


def _reduction(staging: Staging, reduce: Reduce) -> Atom:
    """The value of a window in the main body, unless stages do not fit."""
    if math.prod(reduce.shape) < 3:
        raise Refused("fewer than 3 elements have nothing to share")
    if is_picked(reduce):
        staging.check_scattered(reduce)
    match reduce.kind:
        case "sum" | "mean":
            return _sum(staging, reduce)
        case "min" | "max" | "any" | "all":
            source = staging.weightless(reduce)
            fold = Fold(OPERATIONS[reduce.kind], reduce.result.dtype)
            return staging.over_axes(source, reduce.shape, fold)
        case "var":
            return _variance(staging, reduce)
        case "quantile" | "nanquantile" | "nanrank":
            return _quantile(staging, reduce)
        case _:
            raise Refused(f"no part of its {reduce.kind} serves the neighbours")


def _sum(staging: Staging, reduce: Reduce) -> Atom:
    source, weights = staging.element(reduce)
    dtype = reduce.result.dtype
    storage = staging.types.get(source.field)
    short = storage is not None and storage.itemsize < 8
    if source.dtype.is_integer and dtype.is_float and not short:
        # Sums of such elements might wrap before they become floats.
        if min(source.axes) < staging.kernel.ndim - 2:
            raise Refused("sums of its elements might wrap before they become floats")
        own = ground(source)
        source = staging.kept(
            source, dtype, lambda e: as_type(first(own, e), dtype, e), ELEMENT_KEPT
        )
    total = staging.over_axes(source, reduce.shape, Fold("+", dtype), weights)
    if reduce.kind == "sum":
        return as_type(total, reduce.dtype, staging.emit)
    return divided(total, reduce.dtype, math.prod(reduce.shape), staging.emit)


def _variance(staging: Staging, reduce: Reduce) -> Atom:
    """Integers only: n * sum of squares - (sum) ** 2 is exact.

    For floats that difference loses all digits where the mean is large.
    """
    source = staging.weightless(reduce)
    count = math.prod(reduce.shape)
    storage = staging.types.get(source.field, np.dtype("float64"))
    whole = storage.kind in "biu" and source.dtype is not DType.UINT
    if not whole or (2 ** (8 * storage.itemsize) * count) ** 2 >= 2**63:
        raise Refused("sums of squares are exact for small integers of a field only")
    if min(source.axes) < staging.kernel.ndim - 2:
        raise Refused("squares are kept for the rows of one plane only")

    def square(emit: Emit) -> Atom:
        item = as_type(first(ground(source), emit), DType.INT, emit)
        return binary("*", item, item, emit)

    exact = f"{reduce.kind}: from sums and sums of squares, exact for these integers"
    of_squares = staging.kept(source, DType.INT, square, exact)
    fold, emit = Fold("+", DType.INT), staging.emit
    total = staging.over_axes(source, reduce.shape, fold)
    squares = staging.over_axes(of_squares, reduce.shape, fold)
    scaled = binary("*", squares, number(DType.INT, count), emit)
    mean_square = binary("*", total, total, emit)
    apart = binary("-", scaled, mean_square, emit)
    return divided(apart, reduce.dtype, count * max(0.0, count - reduce.quantile), emit)


def _quantile(staging: Staging, reduce: Reduce) -> Atom:
    """Small windows by sorted columns, large ones by what slides along."""
    count, tap = math.prod(reduce.shape), ordered_by(reduce)
    if is_picked(reduce):
        if count <= staging.schedule.network:
            raise Refused("its elements are no box")
        if tap is not None and count <= COUNTED:
            storage = staging.types[tap.field]
            if storage.itemsize == 1 and storage.kind in "biu":
                return _by_counting(staging, reduce, tap, storage)
        return _by_histogram(staging, reduce, tap)
    if count <= staging.schedule.sorted_columns:
        return _by_columns(staging, reduce)
    if count <= staging.schedule.network:
        raise Refused("the schedule leaves it to a network of its own")
    return _by_histogram(staging, reduce, tap)


def _by_histogram(staging: Staging, reduce: Reduce, tap: Tap | None) -> Atom:
    ndim = staging.kernel.ndim
    if not staging.slides:
        raise Refused("nothing slides along the row")
    if reduce.kind != "quantile":
        raise Refused("what slides along the row has no place for what is left out")
    if tap is None:
        raise Refused("its elements are computed, and only those of a field slide")
    storage = staging.types[tap.field]
    if kind_of(storage) not in "iuf":
        raise Refused(f"elements of {storage} have too few values to slide")
    if len(set(tap.picked)) < len(tap.picked):
        raise Refused("elements are picked twice")
    count = math.prod(reduce.shape)
    low, fraction = quantile_position(count, reduce.quantile)
    element, lines = _runs_of(tap, reduce.shape)

    def ranked(rank: int) -> Atom:
        (name,) = staging.stage(
            lambda emit: [emit(Read(tap.dtype, tap.field, element))],
            lambda names, body, _: Histogram(names, body[0], rank, lines),
        )
        return staging.emit(Read(tap.dtype, name, (0,) * ndim))

    found = [ranked(rank) for rank in (low, low + 1)[: 2 if fraction else 1]]
    staging.note(f"axis {ndim - 1}: the places of {count} elements in order slide along")
    return interpolated(found, fraction, reduce.dtype, staging.emit)


def _by_counting(staging: Staging, reduce: Reduce, tap: Tap, storage: np.dtype) -> Atom:
    """Bit by bit, whichever elements these are; for a fraction the next rank as well."""
    count, here = math.prod(reduce.shape), (0,) * len(tap.origin)
    low, fraction = quantile_position(count, reduce.quantile)
    first_bit = 2 ** (0 if storage.kind == "b" else 7)
    least = -first_bit if storage.kind == "i" else 0

    def one_bit(names: Sequence[str], rank: int, emit: Emit) -> tuple[Atom, Atom]:
        """The value with another bit of it known, and the next bit."""
        known, bit = (emit(Read(_INT, name, here)) for name in names)
        above = binary("+", known, bit, emit)
        own = ground(tap)
        reads = (emit(Read(tap.dtype, tap.field, own.offset((k,)))) for k in range(count))
        truths = [binary("<", as_type(item, _INT, emit), above, emit) for item in reads]
        less = combined([emit(Cast(_INT, truth)) for truth in truths], "+", emit)
        below = binary("<=", less, number(_INT, rank), emit)
        halved = binary(">>", bit, number(_INT, 1), emit)
        return emit(Select(_INT, below, above, known)), halved

    found: list[Atom] = []
    for rank in (low, low + 1)[: 2 if fraction else 1]:
        names = staging.stage(lambda _: [number(_INT, least), number(_INT, first_bit)])
        for _ in range(first_bit.bit_length()):
            names = staging.stage(partial(one_bit, names, rank))
        found.append(staging.emit(Read(_INT, names[0], along_rows(tap.origin))))
    staging.note(f"{count} elements counted below each bit of the result, row by row")
    return interpolated(found, fraction, reduce.dtype, staging.emit)


def _by_columns(staging: Staging, reduce: Reduce) -> Atom:
    """Columns in order, each sorted once for all the windows it is in."""
    if len(reduce.shape) != 2 or min(reduce.shape) < 2:
        raise Refused("columns to sort once for all need a window of two axes")
    source = staging.weightless(reduce)
    if source.axes != (staging.kernel.ndim - 2, staging.kernel.ndim - 1):
        raise Refused("columns are sorted once for all along the last two axes only")
    count, emit = math.prod(reduce.shape), staging.emit
    if reduce.kind == "quantile":
        low, fraction = quantile_position(count, reduce.quantile)
        rows = staging.schedule.rows > 1 and staging.by_rows(reduce.shape, source.axes)
        lists = _sorted(staging, source, reduce, rows, _ordered)
        found = of_sorted(lists, low, 1 if fraction == 0 else 2, emit)
        value = interpolated(found, fraction, reduce.dtype, emit)
        return not_nan(value, [one[-1] for one in lists], emit)
    # The same for what is no NaN: a column ends with how many these are.
    height, wanted = reduce.shape[0], Valid.of(reduce)

    def ordered(items: Sequence[Atom], emit: Emit) -> list[Atom]:
        filled, valid = wanted.split(items, emit)
        return [*sort(filled, emit), valid]

    lists = _sorted(staging, source, reduce, False, ordered)
    found = of_sorted([one[:height] for one in lists], wanted.first, wanted.count, emit)
    return wanted.chosen(found, combined([one[height] for one in lists], "+", emit), emit)


def _ordered(items: Sequence[Atom], emit: Emit) -> list[Atom]:
    """The elements in order; the last one is NaN if there is any."""
    ordered = sort(items, emit)
    # Comparisons leave a NaN anywhere: the last element says that there is one.
    return [*ordered[:-1], not_nan(ordered[-1], items, emit)]


def _sorted(
    staging: Staging, source: Tap, reduce: Reduce, rows: bool, order: Order
) -> list[list[Atom]]:
    """Columns in order, which are kept for the neighbours; or the `rows`."""
    dtype, emit = reduce.result.dtype, staging.emit
    lines = [*zip(source.axes, reduce.shape, strict=True)]
    (along, length), (across, count) = reversed(lines) if rows else lines
    word = "row" if rows else "column"
    staging.note(
        f"axis {along}: {word}s of {length} sorted once for all windows",
        f"not a network of its own: a {word} serves all the windows it is in",
    )
    staging.note(f"axis {across}: {count} of them merged as far as the rank needs")

    def line(emit: Emit) -> list[Atom]:
        items = (first(moved(ground(source), along, k), emit) for k in range(length))
        return order([as_type(item, dtype, emit) for item in items], emit)

    kept = [in_stage(source, name, dtype) for name in staging.stage(line)]
    return [[first(moved(one, across, k), emit) for one in kept] for k in range(count)]


def ordered_by(reduce: Reduce) -> Tap | None:
    """The first values of a window, which are a field's, if its elements are in their order."""
    match [assign.value for assign in reduce.body]:
        case [Tap() as tap]:
            return tap
        case [Tap(dtype=dtype) as tap, Cast(storage=storage) as cast]:
            # To round integers keeps their order.
            rounded = dtype.is_integer and cast.dtype.is_float and not storage
            last = reduce.body[-1]
            return tap if rounded and reduce.result == Ref(cast.dtype, last.name) else None
        case _:
            return None


def _runs_of(tap: Tap, shape: Offset) -> tuple[Offset, tuple[Offset, ...]]:
    """The first element of a window, and its runs along the last axis, counted from there.

    Each is the steps to it along the axes before, its first column and its length.
    """
    found = planes(tap, tap.picked or window_indices(shape))
    lines = [
        (*plane, *place, length)
        for plane, places in sorted(found.items())
        for place, length in runs(places, 1)
    ]
    *first, _ = min(lines)
    steps = [
        (*(a - b for a, b in zip(line, first, strict=False)), length) for *line, length in lines
    ]
    # In one plane these are the rows.
    depth = -3 if len(found) == 1 else 0
    element = added(tap.origin, tuple(first[-len(tap.origin) :]))
    return element, tuple(line[depth:] for line in steps)
