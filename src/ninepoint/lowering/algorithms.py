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
from dataclasses import replace

from ..language.dtypes import DType
from ..language.ir import (
    Atom,
    Binary,
    BinaryOp,
    Cast,
    Const,
    Kernel,
    Reduce,
    renamed,
    renamed_atom,
)
from .choices import Refused, Way
from .elements import (
    Elements,
    along_rows,
    grounded,
    read,
    squared,
)
from .floating import truths
from .quantiles import quantile
from .schedule import Schedule
from .staging import Staging, adds_floats, axes_of, extents_of, is_near
from .windows import is_picked


def is_ordered(kernel: Kernel) -> bool:
    """Whether windows have to be done as stages: in place, floats would have another order."""
    windows = [a.value for a in kernel.body if isinstance(a.value, Reduce)]
    return any(
        adds_floats(one) and not is_near(extents_of(one), axes_of(one), kernel.ndim)
        for one in windows
    )


def staged(kernel: Kernel, schedule: Schedule, *, in_place: bool = False) -> Kernel:
    """Do every reduction that allows it axis by axis.

    Small windows that are done `in_place` need no stage: see `lowering.abreast`.
    """
    staging = Staging(kernel, schedule, in_place)
    alias: dict[str, Atom] = {}
    for assign in kernel.body:
        expr = renamed(assign.value, alias)
        made = _reduction(staging, expr) if isinstance(expr, Reduce) else None
        if made is None or isinstance(made, Refused):
            made = staging.main.emit(expr)
        alias[assign.name] = made
    outputs = tuple(renamed_atom(output, alias) for output in kernel.outputs)
    stages, body = tuple(staging.stages), tuple(staging.main.body)
    return replace(kernel, body=body, outputs=outputs, stages=stages)


def ways(
    kernel: Kernel, reduce: Reduce, schedule: Schedule, *, in_place: bool = False
) -> tuple[Way, ...] | Refused:
    """How `staged` does a window of a kernel, or why it leaves it."""
    staging = Staging(kernel, schedule, in_place)
    made = _reduction(staging, reduce)
    return made if isinstance(made, Refused) else tuple(staging.ways)


def _reduction(staging: Staging, reduce: Reduce) -> Atom | Refused:
    """The value of a window in the main body, unless stages do not fit."""
    if math.prod(reduce.shape) < 3:
        return Refused("fewer than 3 elements have nothing to share")
    if is_picked(reduce) and (why := staging.scattered(reduce)):
        return why
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
            return Refused(f"no part of its {reduce.kind} serves the neighbours")


def _sum(staging: Staging, reduce: Reduce) -> Atom | Refused:
    element = staging.element(reduce)
    if isinstance(element, Refused):
        return element
    source, weights = element
    dtype = reduce.result.dtype
    if source.dtype.is_integer and dtype.is_float and not _short(staging, source):
        # Sums of such elements might wrap before they become floats.
        if min(source.axes) < staging.kernel.ndim - 2:
            return Refused("sums of its elements might wrap before they become floats")
        ground, first = grounded(source), source.axes[-1]
        (name,) = staging.stage(lambda lines: [read(lines, ground, first, 0, dtype)])
        staging.ways.append(Way("element", -1, 1, True, dtype))
        source = replace(source, name=name, dtype=dtype, origin=along_rows(source.origin))
    apart = truths(reduce) is not None and staging.beside_floats()
    total = staging.over_axes(source, reduce.shape, weights, dtype, "+", apart=apart)
    if reduce.kind == "sum":
        same = total.dtype is reduce.dtype
        return total if same else staging.main.emit(Cast(reduce.dtype, total))
    return _divided(staging, total, reduce.dtype, float(math.prod(reduce.shape)))


def _short(staging: Staging, source: Elements) -> bool:
    """Whether sums of a window's elements surely fit in 64 bits."""
    storage = dict(staging.kernel.fields).get(source.name)
    return storage is not None and storage.itemsize < 8


def _divided(staging: Staging, total: Atom, dtype: DType, count: float) -> Atom:
    top = total if total.dtype is dtype else staging.main.emit(Cast(dtype, total))
    return staging.main.emit(Binary(dtype, "/", top, Const(dtype, repr(count))))


def _extreme(staging: Staging, reduce: Reduce) -> Atom | Refused:
    element = staging.weightless(reduce)
    if isinstance(element, Refused):
        return element
    dtype = reduce.result.dtype
    ops: dict[str, BinaryOp] = {"min": "minimum", "max": "maximum", "any": "|", "all": "&"}
    return staging.over_axes(element[0], reduce.shape, element[1], dtype, ops[reduce.kind])


def _variance(staging: Staging, reduce: Reduce) -> Atom | Refused:
    """Integers only: n * sum of squares - (sum) ** 2 is exact.

    For floats that difference loses all digits where the mean is large.
    """
    element = staging.weightless(reduce)
    if isinstance(element, Refused):
        return element
    source, count = element[0], math.prod(reduce.shape)
    if not _exact_squares(staging, source, count):
        return Refused("sums of squares are exact for small integers of a field only")
    if min(source.axes) < staging.kernel.ndim - 2:
        return Refused("squares are kept for the rows of one plane only")
    ground, last = grounded(source), along_rows(source.origin)
    (square,) = staging.stage(lambda lines: [squared(lines, ground)])
    staging.ways.append(Way("squared", -1, 1, True, DType.INT))
    plain = tuple(() for _ in reduce.shape)
    total = staging.over_axes(source, reduce.shape, plain, DType.INT, "+")
    of_squares = replace(source, name=square, dtype=DType.INT, origin=last)
    squares = staging.over_axes(of_squares, reduce.shape, plain, DType.INT, "+")
    emit = staging.main.emit
    scaled = emit(Binary(DType.INT, "*", squares, Const(DType.INT, str(count))))
    mean_square = emit(Binary(DType.INT, "*", total, total))
    apart = emit(Binary(DType.INT, "-", scaled, mean_square))
    divisor = count * max(0.0, count - reduce.quantile)
    return _divided(staging, apart, reduce.dtype, divisor)


def _exact_squares(staging: Staging, source: Elements, count: int) -> bool:
    storage = dict(staging.kernel.fields).get(source.name)
    if storage is None or storage.kind not in "biu" or source.dtype is DType.UINT:
        return False
    largest = 1 if storage.kind == "b" else 2 ** (8 * storage.itemsize)
    return (largest * count) ** 2 < 2**63
