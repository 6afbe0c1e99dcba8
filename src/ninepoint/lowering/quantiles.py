"""Quantiles: by sorted columns that neighbours share, by counting, or by places that slide."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..language.dtypes import DType, kind_of
from ..language.ir import (
    Atom,
    Cast,
    Histogram,
    Offset,
    Read,
    Reduce,
    Ref,
    Tap,
    window_indices,
)
from ..language.networks import sort
from . import runs
from .choices import Method, Refused, Way
from .counting import begun, bits, following, one_bit
from .elements import (
    Elements,
    along_rows,
    grounded,
    moved,
    ordered,
    read,
)
from .kept import full
from .lines import Lines
from .ranks import interpolated, not_nan, of_sorted, quantile_position
from .staging import Staging
from .valid import Valid
from .windows import is_picked

# Elements up to which those of some rank are counted bit by bit.
COUNTED = 400

# Puts elements in order, and may add what else is wanted of them.
Order: TypeAlias = Callable[[Sequence[Atom], Lines], list[Atom]]


def quantile(staging: Staging, reduce: Reduce) -> Atom | Refused:
    """Small windows by sorted columns, large ones of short integers by histograms."""
    count = math.prod(reduce.shape)
    if is_picked(reduce):
        if count <= staging.schedule.network:
            return Refused("its elements are no box")
        counted = _by_counting(staging, reduce) if count <= COUNTED else Refused("")
        return _by_histogram(staging, reduce) if isinstance(counted, Refused) else counted
    if count <= staging.schedule.sorted_columns:
        return _by_columns(staging, reduce)
    if count <= staging.schedule.network:
        return Refused("the schedule leaves it to a network of its own")
    return _by_histogram(staging, reduce)


def _by_histogram(staging: Staging, reduce: Reduce) -> Atom | Refused:
    tap, ndim = _ordered_by(reduce), staging.kernel.ndim
    if reduce.kind != "quantile":
        return Refused("what slides along the row has no place for what is left out")
    if tap is None:
        return Refused("its elements are computed, and only those of a field slide")
    storage = dict(staging.kernel.fields)[tap.field]
    if kind_of(storage) not in "iuf":
        return Refused(f"elements of {storage} have too few values to slide")
    if len(set(tap.picked)) < len(tap.picked):
        return Refused("elements are picked twice")
    shape = reduce.shape if len(reduce.shape) == 2 else (1, *reduce.shape)
    low, fraction = quantile_position(math.prod(shape), reduce.quantile)
    wanted = 1 if fraction == 0 else 2
    element = tap.origin
    lines_of: tuple[Offset, ...] = ()
    if tap.axes not in ((ndim - 2, ndim - 1), (ndim - 1,)) or tap.picked:
        element, lines_of = _runs_of(tap, reduce.shape)

    def make(lines: Lines) -> list[Atom]:
        return [lines.emit(Read(tap.dtype, tap.field, element))] * wanted

    names = staging.stage(
        make, lambda names, body, _: Histogram(names, body[0], shape, low, lines_of)
    )
    short = kind_of(storage) != "f" and storage.itemsize <= 2
    in_plane = not lines_of or len(lines_of[0]) == 3
    method: Method = "histogram" if short and in_plane else "placed"
    staging.ways.append(Way(method, ndim - 1, math.prod(shape), False, tap.dtype))
    here = (0,) * ndim
    found = [staging.main.emit(Read(tap.dtype, name, here)) for name in names]
    return interpolated(found, fraction, reduce.dtype, staging.main.emit)


def _by_counting(staging: Staging, reduce: Reduce) -> Atom | Refused:
    """Bit by bit, whichever elements these are."""
    tap = reduce.body[0].value
    if len(reduce.body) != 1 or not isinstance(tap, Tap):
        return Refused("its elements are computed, and only those of a field are counted")
    storage = dict(staging.kernel.fields)[tap.field]
    if storage.kind not in "biu" or storage.itemsize > 2:
        return Refused(f"elements of {storage} have too many bits to count by")
    count = math.prod(reduce.shape)
    low, fraction = quantile_position(count, reduce.quantile)
    last = along_rows(tap.origin)
    outer = tuple(o - a for o, a in zip(tap.origin, last, strict=True))
    ground = replace(tap, origin=outer)
    reads = [Read(tap.dtype, tap.field, ground.offset((k,))) for k in range(count)]
    value, bit = staging.stage(lambda _: begun(storage))
    for _ in range(bits(storage)):
        value, bit = _next_bit(staging, reads, value, bit, low)
    staging.ways.append(Way("counted", -1, count, False, DType.INT))
    here = (0,) * staging.kernel.ndim
    found: list[Atom] = [staging.main.emit(Read(DType.INT, value, last))]
    if fraction:

        def next_one(lines: Lines) -> list[Atom]:
            known = lines.emit(Read(DType.INT, value, here))
            return [following(lines, reads, known, low)]

        (above,) = staging.stage(next_one)
        found.append(staging.main.emit(Read(DType.INT, above, last)))
    return interpolated(found, fraction, reduce.dtype, staging.main.emit)


def _next_bit(
    staging: Staging, reads: Sequence[Read], value: str, bit: str, rank: int
) -> tuple[str, ...]:
    """A stage that knows a bit more of the element of some rank."""
    here = (0,) * staging.kernel.ndim

    def make(lines: Lines) -> Sequence[Atom]:
        known, next_bit = (lines.emit(Read(DType.INT, name, here)) for name in (value, bit))
        return one_bit(lines, reads, known, next_bit, rank)

    return staging.stage(make)


def _by_columns(staging: Staging, reduce: Reduce) -> Atom | Refused:
    """Columns in order, each sorted once for all the windows it is in."""
    count = math.prod(reduce.shape)
    if len(reduce.shape) != 2 or min(reduce.shape) < 2:
        return Refused("columns to sort once for all need a window of two axes")
    element = staging.weightless(reduce)
    if isinstance(element, Refused):
        return element
    source, dtype = element[0], reduce.result.dtype
    if source.axes != (staging.kernel.ndim - 2, staging.kernel.ndim - 1):
        return Refused("columns are sorted once for all along the last two axes only")
    if reduce.kind != "quantile":
        return _valid_by_columns(staging, source, reduce, dtype)
    low, fraction = quantile_position(count, reduce.quantile)
    wanted = 1 if fraction == 0 else 2
    if staging.short_enough(reduce.shape):
        lists = _sorted_rows(staging, source, reduce.shape, dtype)
    else:
        lists = _sorted_columns(staging, source, reduce.shape, dtype)
    found = of_sorted(lists, low, wanted, staging.main.emit)
    value = interpolated(found, fraction, reduce.dtype, staging.main.emit)
    return not_nan(value, [one[-1] for one in lists], staging.main.emit)


def _valid_by_columns(staging: Staging, source: Elements, reduce: Reduce, dtype: DType) -> Atom:
    """The same for what is no NaN: a column ends with what is to be counted of it."""
    (height, width), rows = reduce.shape, staging.short_enough(reduce.shape)
    wanted = Valid.of(reduce, height if rows else width)

    def ordered(items: Sequence[Atom], lines: Lines) -> list[Atom]:
        filled, counts = wanted.split(items, lines.emit)
        return [*sort(filled, lines.emit), *counts]

    if rows:
        lists = _sorted_rows(staging, source, reduce.shape, dtype, ordered)
    else:
        lists = _sorted_columns(staging, source, reduce.shape, dtype, ordered)
    items = width if rows else height
    emit = staging.main.emit
    found = of_sorted([one[:items] for one in lists], wanted.first, wanted.count, emit)
    return wanted.chosen(found, wanted.total([one[items:] for one in lists], emit), emit)


def _sorted_columns(
    staging: Staging, source: Elements, shape: Offset, dtype: DType, ordered: Order = ordered
) -> list[list[Atom]]:
    """Columns in order, which are kept for the neighbours."""
    ground, (height, width) = grounded(source), shape

    def make(lines: Lines) -> list[Atom]:
        items = [read(lines, ground, source.axes[0], k, dtype) for k in range(height)]
        return ordered(items, lines)

    names = staging.stage(make)
    staging.ways += [
        Way("sorted", source.axes[0], height, True, dtype),
        Way("merged", source.axes[1], width, False, dtype),
    ]
    kept = replace(source, dtype=dtype, origin=along_rows(source.origin))
    return [
        [read(staging.main, replace(kept, name=name), source.axes[1], k, dtype) for name in names]
        for k in range(width)
    ]


def _sorted_rows(
    staging: Staging, source: Elements, shape: Offset, dtype: DType, ordered: Order = ordered
) -> list[list[Atom]]:
    """Rows of the window in order, which the rows of the result below need as well."""
    height, width = shape
    staging.ways += [
        Way("sorted", source.axes[1], width, False, dtype),
        Way("merged", source.axes[0], height, False, dtype),
    ]
    lists: list[list[Atom]] = []
    for k in range(height):
        row = moved(source, source.axes[0], k)
        items = [read(staging.main, row, source.axes[1], j, dtype) for j in range(width)]
        lists.append(ordered(items, staging.main))
    return lists


def _ordered_by(reduce: Reduce) -> Tap | None:
    """The elements of a field by which those of a window are in order, if they are."""
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
