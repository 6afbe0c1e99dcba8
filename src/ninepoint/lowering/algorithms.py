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
of large ones slide along the row, by their places in order.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ..analysis.rewrite import as_type, binary, number
from ..language.dtypes import kind_of
from ..language.ir import (
    Atom,
    DType,
    Emit,
    Expr,
    Histogram,
    Kernel,
    Read,
    Reduce,
    Stage,
    added,
    replayed,
    sort,
)
from .parts import runs
from .schedule import Refused, Request, Schedule
from .staging import Fold, Staging, first, ground, in_stage, moved, planes
from .windows import (
    OPERATIONS,
    divided,
    interpolated,
    is_picked,
    not_nan,
    of_sorted,
    ordered_by,
    quantile_position,
)


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


def stages_of(kernel: Kernel, reduce: Reduce, schedule: Schedule) -> tuple[Stage, ...]:
    """The stages that `staged` makes for a window of a kernel.

    Raises `Refused` where it leaves it.
    """
    staging = Staging(kernel, schedule)
    _reduction(staging, reduce)
    return tuple(staging.stages.values())


def _reduction(staging: Staging, reduce: Reduce) -> Atom:
    """The value of a window in the main body, unless stages do not fit."""
    count, picked = math.prod(reduce.shape), is_picked(reduce)
    if count < 3:
        raise Refused("fewer than 3 elements have nothing to share")
    if picked:
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
        # Small windows by sorted columns, large ones by what slides along.
        case "quantile" if count <= staging.schedule.sorted_columns and not picked:
            return _by_columns(staging, reduce)
        case "quantile" | "nanquantile" | "nanrank":
            if count <= staging.schedule.network:
                raise Refused("a network of its own sorts its elements")
            return _by_histogram(staging, reduce)
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
        source = staging.kept(source, dtype, lambda e: as_type(first(own, e), dtype, e))
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

    of_squares = staging.kept(source, DType.INT, square)
    fold, emit = Fold("+", DType.INT), staging.emit
    total = staging.over_axes(source, reduce.shape, fold)
    squares = staging.over_axes(of_squares, reduce.shape, fold)
    scaled = binary("*", squares, number(DType.INT, count), emit)
    mean_square = binary("*", total, total, emit)
    apart = binary("-", scaled, mean_square, emit)
    return divided(apart, reduce.dtype, count * max(0.0, count - reduce.quantile), emit)


def _by_histogram(staging: Staging, reduce: Reduce) -> Atom:
    ndim, tap = staging.kernel.ndim, ordered_by(reduce)
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
    low, fraction = quantile_position(math.prod(reduce.shape), reduce.quantile)
    # The runs along the last axis: the steps to each along the axes before, its first column and
    # its length, counted from the first of them.
    found = planes(tap, tap.picked or np.ndindex(reduce.shape))
    lines = [
        (*plane, *place, length)
        for plane, places in sorted(found.items())
        for place, length in runs(places, 1)
    ]
    *begin, _ = min(lines)
    steps = tuple(
        (*(a - b for a, b in zip(line, begin, strict=True)), length) for *line, length in lines
    )
    element = Read(tap.dtype, tap.field, added(tap.offset, tuple(begin[-ndim:])))

    def ranked(rank: int) -> Atom:
        (name,) = staging.stage(
            lambda emit: [emit(element)],
            lambda names, body, _: Histogram(names, body[0], rank, steps),
        )
        return staging.emit(Read(tap.dtype, name, (0,) * ndim))

    elements = [ranked(rank) for rank in (low, low + 1)[: 2 if fraction else 1]]
    return interpolated(elements, fraction, reduce.dtype, staging.emit)


def _by_columns(staging: Staging, reduce: Reduce) -> Atom:
    """Columns in order, each sorted once for all the windows it is in."""
    if len(reduce.shape) != 2 or min(reduce.shape) < 2:
        raise Refused("columns to sort once for all need a window of two axes")
    source = staging.weightless(reduce)
    if source.axes != (staging.kernel.ndim - 2, staging.kernel.ndim - 1):
        raise Refused("columns are sorted once for all along the last two axes only")
    dtype, emit = reduce.result.dtype, staging.emit
    lines = [*zip(source.axes, reduce.shape, strict=True)]
    if staging.schedule.rows > 1 and staging.by_rows(reduce.shape, source):
        # Rows, if several are made at once.
        lines.reverse()
    (along, length), (across, count) = lines

    def line(emit: Emit) -> list[Atom]:
        items = (first(moved(ground(source), along, k), emit) for k in range(length))
        typed = [as_type(item, dtype, emit) for item in items]
        ordered = sort(typed, emit)
        # Comparisons leave a NaN anywhere: the last element says that there is one.
        return [*ordered[:-1], not_nan(ordered[-1], typed, emit)]

    kept = [in_stage(source, name, dtype) for name in staging.stage(line)]
    lists = [[first(moved(one, across, k), emit) for one in kept] for k in range(count)]
    low, fraction = quantile_position(math.prod(reduce.shape), reduce.quantile)
    found = of_sorted(lists, low, 1 if fraction == 0 else 2, emit)
    value = interpolated(found, fraction, reduce.dtype, emit)
    return not_nan(value, [one[-1] for one in lists], emit)
