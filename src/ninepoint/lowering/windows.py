"""Windows as straight lines: a small reduction becomes its operations, one by one.

    t0 = sum of x over -1..1      ->      t0 = read x -1;  t1 = read x 0;  t2 = t0 + t1; ...

Medians and percentiles become sorting networks, of which only the comparators that the wanted
elements depend on survive.  A window of more elements than
the schedule allows stays as it is, and the text loops over it: which of its elements matter then,
what they can be, and which type holds their sum, every back end asks here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..analysis.ranges import Interval, machine_type
from ..analysis.rewrite import Emit, Lines, as_type, binary, number, replayed, simplify
from ..language.ir import (
    RANKED,
    Atom,
    BinaryOp,
    Cast,
    Coefficient,
    Const,
    DType,
    Expr,
    Kernel,
    Offset,
    Reduce,
    Select,
    Tap,
    at_index,
    named,
    window_indices,
    zero_product,
)
from ..language.networks import sort
from .ranks import Valid, combined, divided, interpolated, not_nan, quantile_position
from .schedule import Request, Schedule

# How many times larger a window of picked elements may be that is still written out: an extreme
# of 197 float32 took 4 s to compile, and was 300 times as fast as the loop at each point.
_PICKED = 3


# Elements of a line that are added one to the other, where a line is longer than two such pieces.
PIECE = 16

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
    return simplify(replace(kernel, body=tuple(lines.body), outputs=outputs))


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
    return any(isinstance(a.value, Tap | Coefficient) and a.value.picked for a in reduce.body)


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
            squares: list[Atom] = []
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
            wanted = Valid.of(reduce)
            filled, counts = wanted.split(items, emit)
            found = sort(filled, emit)[wanted.first :][: wanted.count]
            return wanted.chosen(found, counts, emit)


def _elements(reduce: Reduce, emit: Emit) -> list[Atom]:
    """The value at every index of a window."""
    values = named(reduce.body)
    found: list[Atom] = []
    for position, index in enumerate(window_indices(reduce.shape)):

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


def total_type(reduce: Reduce, item: Interval, least: int = 8) -> str:
    """The type of the sum that a mean is made of, for elements that lie in `item`."""
    if not reduce.result.dtype.is_integer:
        return str(reduce.dtype.value)
    count = math.prod(reduce.shape)
    dtype = DType.UINT if reduce.result.dtype is DType.UINT else DType.INT
    total = Interval(min(0, item.low * count), max(0, item.high * count))
    if total.low < -(2**63) or total.high >= 2**63:
        return "uint64" if dtype is DType.UINT else "int64"
    return machine_type(dtype, total, least)
