"""Quantiles: by sorted columns that neighbours share, by counting, or by places that slide.

    median of 81 bytes:   v = 0, bit = 128
                          n = how many elements are less than v + bit      (8 times, each in rows)
                          v = v + bit if n <= 40 else v;  bit = bit / 2

Where short integers are counted bit by bit, all points of a row are done at once in narrow lanes,
and the function for one bit serves all of them, so that little is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from ..analysis.rewrite import Emit, added, along_rows, as_type, binary, number
from ..language.dtypes import DType, kind_of
from ..language.ir import (
    Atom,
    Binary,
    BinaryOp,
    Cast,
    Histogram,
    Offset,
    Read,
    Reduce,
    Ref,
    Select,
    Tap,
    window_indices,
)
from ..language.networks import sort
from . import runs
from .kept import full
from .ranks import Valid, combined, interpolated, not_nan, of_sorted, quantile_position
from .schedule import Refused
from .staging import Elements, Staging
from .windows import is_picked

# Elements up to which those of some rank are counted bit by bit: discs of 113 and 197 bytes took
# 0.3 of the time of a histogram, of 16 bits 0.5 and 0.9, one of 253 bytes 15 times as long (512 x
# 512, Zen 5).
COUNTED = 200

_INT = DType.INT

# Puts elements in order, and may add what else is wanted of them.
Order: TypeAlias = Callable[[Sequence[Atom], Emit], list[Atom]]


def quantile(staging: Staging, reduce: Reduce) -> Atom:
    """Small windows by sorted columns, large ones by what slides along."""
    count = math.prod(reduce.shape)
    if is_picked(reduce):
        if count <= staging.schedule.network:
            raise Refused("its elements are no box")
        if count <= COUNTED:
            with suppress(Refused):
                return _by_counting(staging, reduce)
        return _by_histogram(staging, reduce)
    if count <= staging.schedule.sorted_columns:
        return _by_columns(staging, reduce)
    if count <= staging.schedule.network:
        raise Refused("the schedule leaves it to a network of its own")
    return _by_histogram(staging, reduce)


def _by_histogram(staging: Staging, reduce: Reduce) -> Atom:
    tap, ndim = ordered_by(reduce), staging.kernel.ndim
    if not staging.slides:
        raise Refused("nothing slides along the row")
    if reduce.kind != "quantile":
        raise Refused("what slides along the row has no place for what is left out")
    if tap is None:
        raise Refused("its elements are computed, and only those of a field slide")
    storage = dict(staging.kernel.fields)[tap.field]
    if kind_of(storage) not in "iuf":
        raise Refused(f"elements of {storage} have too few values to slide")
    if len(set(tap.picked)) < len(tap.picked):
        raise Refused("elements are picked twice")
    shape = reduce.shape if len(reduce.shape) == 2 else (1, *reduce.shape)
    low, fraction = quantile_position(math.prod(shape), reduce.quantile)
    wanted = 1 if fraction == 0 else 2
    element = tap.origin
    lines: tuple[Offset, ...] = ()
    if tap.axes not in ((ndim - 2, ndim - 1), (ndim - 1,)) or tap.picked:
        element, lines = _runs_of(tap, reduce.shape)
    names = staging.stage(
        lambda emit: [emit(Read(tap.dtype, tap.field, element))] * wanted,
        lambda names, body, _: Histogram(names, body[0], shape, low, lines),
    )
    short = storage.itemsize == 1
    in_plane = not lines or len(lines[0]) == 3
    count = math.prod(shape)
    how = f"a histogram of the {count} elements slides along"
    if not (short and in_plane):
        how = f"the places of {count} elements in order slide along"
    staging.note(f"axis {ndim - 1}: {how}")
    found = [staging.emit(Read(tap.dtype, name, (0,) * ndim)) for name in names]
    return interpolated(found, fraction, reduce.dtype, staging.emit)


def _by_counting(staging: Staging, reduce: Reduce) -> Atom:
    """Bit by bit, whichever elements these are."""
    tap = reduce.body[0].value
    if len(reduce.body) != 1 or not isinstance(tap, Tap):
        raise Refused("its elements are computed, and only those of a field are counted")
    storage = dict(staging.kernel.fields)[tap.field]
    if storage.kind not in "biu" or storage.itemsize > 2:
        raise Refused(f"elements of {storage} have too many bits to count by")
    count, last, here = math.prod(reduce.shape), along_rows(tap.origin), (0,) * len(tap.origin)
    low, fraction = quantile_position(count, reduce.quantile)
    back = tuple(-o for o in last)
    reads = [Read(tap.dtype, tap.field, added(tap.offset((k,)), back)) for k in range(count)]
    bits = 1 if storage.kind == "b" else 8 * storage.itemsize
    least, highest = -(2 ** (bits - 1)) if storage.kind == "i" else 0, 2 ** (bits - 1)
    value, bit = staging.stage(lambda _: [number(_INT, least), number(_INT, highest)])

    def one_bit(emit: Emit) -> tuple[Atom, Atom]:
        """The value with another bit of it known, and the next bit."""
        known, next_bit = (emit(Read(_INT, name, here)) for name in (value, bit))
        above = emit(Binary(_INT, "+", known, next_bit))
        less = _counted(reads, "<", above, emit)
        below = binary("<=", less, number(_INT, low), emit)
        found = emit(Select(_INT, below, above, known))
        return found, emit(Binary(_INT, ">>", next_bit, number(_INT, 1)))

    for _ in range(bits):
        value, bit = staging.stage(one_bit)
    staging.note(f"{count} elements counted below each bit of the result, row by row")
    found: list[Atom] = [staging.emit(Read(_INT, value, last))]
    if fraction:
        (above,) = staging.stage(
            lambda emit: [_following(reads, emit(Read(_INT, value, here)), low, emit)]
        )
        found.append(staging.emit(Read(_INT, above, last)))
    return interpolated(found, fraction, reduce.dtype, staging.emit)


def _counted(reads: Sequence[Read], op: BinaryOp, value: Atom, emit: Emit) -> Atom:
    """How many elements compare so with a value."""
    items = (as_type(emit(read), _INT, emit) for read in reads)
    truths = (binary(op, item, value, emit) for item in items)
    return combined([emit(Cast(_INT, truth)) for truth in truths], "+", emit)


def _following(reads: Sequence[Read], value: Atom, rank: int, emit: Emit) -> Atom:
    """The element after that of some rank, whose value is known."""
    items = [as_type(emit(read), _INT, emit) for read in reads]
    most = _counted(reads, "<=", value, emit)
    again = binary(">", most, number(_INT, rank + 1), emit)
    # Where there is none above it, the value itself is met again.
    top = combined(items, "maximum", emit)
    beyond: list[Atom] = [
        emit(Select(_INT, binary(">", item, value, emit), item, top)) for item in items
    ]
    return emit(Select(_INT, again, value, combined(beyond, "minimum", emit)))


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
        lists = _sorted(staging, source, reduce, _ordered)
        found = of_sorted(lists, low, 1 if fraction == 0 else 2, emit)
        value = interpolated(found, fraction, reduce.dtype, emit)
        return not_nan(value, [one[-1] for one in lists], emit)
    # The same for what is no NaN: a column ends with what is to be counted of it.
    rows = staging.by_rows(reduce.shape, source.axes)
    height, width = reduce.shape if rows else reduce.shape[::-1]
    wanted = Valid.of(reduce, height)

    def ordered(items: Sequence[Atom], emit: Emit) -> list[Atom]:
        filled, counts = wanted.split(items, emit)
        return [*sort(filled, emit), *counts]

    lists = _sorted(staging, source, reduce, ordered)
    found = of_sorted([one[:width] for one in lists], wanted.first, wanted.count, emit)
    return wanted.chosen(found, wanted.total([one[width:] for one in lists], emit), emit)


def _ordered(items: Sequence[Atom], emit: Emit) -> list[Atom]:
    """The elements in order; the last one is NaN if there is any."""
    ordered = sort(items, emit)
    # Comparisons leave a NaN anywhere: the last element says that there is one.
    return [*ordered[:-1], not_nan(ordered[-1], items, emit)]


def _sorted(staging: Staging, source: Elements, reduce: Reduce, order: Order) -> list[list[Atom]]:
    """Columns in order, which are kept for the neighbours; of small windows the rows."""
    dtype, emit = reduce.result.dtype, staging.emit
    along, across = [*zip(source.axes, reduce.shape, strict=True)]
    rows = staging.by_rows(reduce.shape, source.axes)
    if rows:
        along, across = across, along
    word = "row" if rows else "column"
    staging.note(
        f"axis {along[0]}: {word}s of {along[1]} sorted once for all windows",
        f"not a network of its own: a {word} serves all the windows it is in",
    )
    staging.note(f"axis {across[0]}: {across[1]} of them merged as far as the rank needs")

    def line(source: Elements, emit: Emit) -> list[Atom]:
        axis, length = along
        items = (source.moved(axis, k).first(emit) for k in range(length))
        return order([as_type(item, dtype, emit) for item in items], emit)

    axis, count = across
    names = staging.stage(lambda emit: line(source.ground, emit))
    kept = [source.kept(name, dtype) for name in names]
    return [[one.moved(axis, k).first(emit) for one in kept] for k in range(count)]


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
    offsets = sorted(full(tap.offset(index)) for index in window_indices(shape))
    first = offsets[0]
    depth = min(
        (k for k in range(len(first) - 2) if any(o[k] != first[k] for o in offsets)),
        default=len(first) - 2,
    )
    lines: dict[Offset, list[tuple[int, int]]] = {}
    for offset in offsets:
        steps = tuple(a - b for a, b in zip(offset, first, strict=True))
        lines.setdefault(steps[depth:-1], []).append((0, steps[-1]))
    found = [
        (*steps, place[1], length)
        for steps, places in lines.items()
        for place, length in runs.along_rows(places)
    ]
    return first[-len(tap.origin) :], tuple(found)
