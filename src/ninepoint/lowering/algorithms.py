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
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

from ..analysis.rewrite import Emit, as_type, binary, made_as, named, number, replayed
from ..language.dtypes import DType
from ..language.ir import Assign, Atom, Cast, Const, Expr, Kernel, Reduce, Ref, Select, needed
from .cost import NEAR
from .quantiles import quantile
from .ranks import divided
from .schedule import Refused, Schedule
from .staging import ELEMENT_KEPT, Elements, Fold, Staging
from .windows import OPERATIONS, is_picked


def staged(kernel: Kernel, schedule: Schedule, *, slides: bool = True) -> Kernel:
    """Do every reduction that allows it axis by axis, or where it `slides` along the rows."""
    staging = Staging(kernel, schedule, slides)

    def emit(_: str, expr: Expr) -> Atom:
        if isinstance(expr, Reduce):
            with suppress(Refused):
                return _reduction(staging, expr)
        if isinstance(expr, Cast) and not expr.storage:
            total = staging.counts.get(expr.arg)
            if total is not None and total.dtype is expr.dtype:
                # A number of none is 0.0 again, by which others are divided.
                return binary("+", total, Const(total.dtype, "0.0"), staging.emit)
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
            return _extreme(staging, reduce)
        case "var":
            return _variance(staging, reduce)
        case "quantile" | "nanquantile" | "nanrank":
            return quantile(staging, reduce)
        case _:
            raise Refused(f"no part of its {reduce.kind} serves the neighbours")


def _sum(staging: Staging, reduce: Reduce) -> Atom:
    counted, lanes = truths(reduce), staging.lanes
    if counted is not None and lanes is not None and max(reduce.shape) <= NEAR:
        total = _sum(staging, _of_floats(reduce, counted, lanes))
        number_of = staging.emit(Cast(DType.INT, total))
        staging.counts[number_of] = total
        return number_of
    source, weights = staging.element(reduce)
    dtype = reduce.result.dtype
    if source.dtype.is_integer and dtype.is_float and not _short(staging, source):
        # Sums of such elements might wrap before they become floats.
        if min(source.axes) < staging.kernel.ndim - 2:
            raise Refused("sums of its elements might wrap before they become floats")
        first = source.ground.first
        source = staging.kept(source, dtype, lambda e: as_type(first(e), dtype, e), ELEMENT_KEPT)
    apart = counted is not None and lanes is not None
    total = staging.over_axes(source, reduce.shape, Fold("+", dtype), weights, apart=apart)
    if reduce.kind == "sum":
        return as_type(total, reduce.dtype, staging.emit)
    return divided(total, reduce.dtype, math.prod(reduce.shape), staging.emit)


def truths(reduce: Reduce) -> Ref | None:
    """The truths that a window's sum counts, if it does."""
    value = made_as(reduce.result, named(reduce.body))
    if reduce.kind != "sum" or reduce.dtype is not DType.INT or not isinstance(value, Cast):
        return None
    counted = value.arg
    return counted if isinstance(counted, Ref) and counted.dtype is DType.BOOL else None


def _of_floats(reduce: Reduce, counted: Ref, lanes: DType) -> Reduce:
    """The number of truths as a sum of floats.

    A byte for each truth is four times as narrow; but beside floats no more of them are counted at
    once, and each must be packed and unpacked.  To add -0.0 changes no float, so that LLVM adds
    under a mask instead of choosing first.  (nanmean of 3 x 3 float32, 512 x 512, three rows at
    once: bytes and 0.0 took 44 us, floats 41 us, with -0.0 37 us; Zen 5.)
    """
    result = Ref(lanes, "counted")
    one = Select(lanes, counted, Const(lanes, "1.0"), Const(lanes, "-0.0"))
    body = (*reduce.body, Assign(result.name, one))
    return replace(reduce, dtype=lanes, body=needed(body, [result]), result=result)


def _short(staging: Staging, source: Elements) -> bool:
    """Whether sums of a window's elements surely fit in 64 bits."""
    storage = dict(staging.kernel.fields).get(source.name)
    return storage is not None and storage.itemsize < 8


def _extreme(staging: Staging, reduce: Reduce) -> Atom:
    source = staging.weightless(reduce)
    fold = Fold(OPERATIONS[reduce.kind], reduce.result.dtype)
    return staging.over_axes(source, reduce.shape, fold)


def _variance(staging: Staging, reduce: Reduce) -> Atom:
    """Integers only: n * sum of squares - (sum) ** 2 is exact.

    For floats that difference loses all digits where the mean is large.
    """
    source = staging.weightless(reduce)
    count = math.prod(reduce.shape)
    if not _exact_squares(staging, source, count):
        raise Refused("sums of squares are exact for small integers of a field only")
    if min(source.axes) < staging.kernel.ndim - 2:
        raise Refused("squares are kept for the rows of one plane only")
    first = source.ground.first

    def square(emit: Emit) -> Atom:
        item = as_type(first(emit), DType.INT, emit)
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


def _exact_squares(staging: Staging, source: Elements, count: int) -> bool:
    storage = dict(staging.kernel.fields).get(source.name)
    if storage is None or storage.kind not in "biu" or source.dtype is DType.UINT:
        return False
    largest = 1 if storage.kind == "b" else 2 ** (8 * storage.itemsize)
    return (largest * count) ** 2 < 2**63
