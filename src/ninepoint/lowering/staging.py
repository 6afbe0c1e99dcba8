"""Staging: large windows in few operations, by stages that neighbours share.

    mean of x over 3 x 3      ->      v = x[-1, 0] + x[0, 0] + x[1, 0]      (kept for a row)
                                      out = (v[0, -1] + v[0, 0] + v[0, 1]) / 9

    max of x over 1 x 31      ->      m4 = max of x over 4;   m16 = max of m4[0 4 8 12]
                                      out = max(m16[0], m16[15])

    3 elements from x[-1] on, weighed 1 2 1      ->      t0 = x[-1];  t1 = x[0];  t2 = x[1]
                                                         t3 = t0 + t2;  t4 = t1 * 2;  t5 = t3 + t4

A reduction whose elements look the same from every point (they use nothing but the field, and
weights that are a product of one factor for each axis) is done axis by axis; each axis by
doubling once it is long.  Other windows are done in runs.  Every value is still a fresh
combination of its own elements, so that floats do not drift: a sum of n elements is a tree of
depth log2(n) or little more.  Sums of integers, which are exact, run down the rows instead: one
row in, one row out.

Quantiles of small windows are found in columns that are sorted once for all the neighbours, those
of large ones slide along the row, by their places in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from ..analysis.rewrite import (
    along_rows,
    as_type,
    binary,
    copied,
    number,
    uncast,
)
from ..base.frozen import frozen
from ..language.dtypes import kind_of
from ..language.ir import (
    RANKED,
    Atom,
    Atoms,
    BinaryOp,
    Body,
    Const,
    DType,
    Element,
    Emit,
    Expr,
    Histogram,
    Kernel,
    Lines,
    Offset,
    Read,
    Reduce,
    Stage,
    Values,
    added,
    named,
    needed,
    operands,
    replayed,
    sort,
)
from .parts import Factors, Place, Runs, cut, factors, levels, runs, runs_of
from .schedule import NEAR, Refused, Request, Schedule
from .windows import (
    OPERATIONS,
    combined,
    divided,
    interpolated,
    is_picked,
    most,
    not_nan,
    of_sorted,
    ordered_by,
    quantile_position,
    small,
)

# Makes a stage of its names, its body and its values.
Build: TypeAlias = Callable[[tuple[str, ...], Body, Atoms], Stage]

# Weights of a line from which on it is added piece by piece, and those of a piece: of a Gaussian,
# whose weights are those of pairs, 16 elements.
WIDE = 48
PIECE = 8


@frozen
class Fold:
    """An operation by which elements are combined, and the type in which that is done."""

    op: BinaryOp
    dtype: DType

    @property
    def idempotent(self) -> bool:
        """Whether nothing changes of an element taken twice, so that pieces may overlap."""
        return self.op in ("minimum", "maximum", "&", "|")


# The elements of a window are those of a tap: of a field, or of a stage.


def by(source: Read, steps: Offset) -> Read:
    """The same elements, so far away."""
    return replace(source, offset=added(source.offset, steps))


def moved(source: Read, axis: int, step: int) -> Read:
    """The same, `step` further along an axis."""
    return by(source, tuple(step * (k == axis) for k in range(len(source.offset))))


def ground(source: Read) -> Read:
    """The same at the point's own row and column."""
    return by(source, tuple(-o for o in along_rows(source.offset)))


def in_stage(source: Read, name: str, dtype: DType) -> Read:
    """What is kept of each element in a stage, which stands for rows of one plane."""
    return replace(source, field=name, dtype=dtype, offset=along_rows(source.offset))


def first(source: Read, emit: Emit) -> Atom:
    """The first element."""
    return emit(Read(source.dtype, source.field, source.offset))


def planes(source: Read, picked: Iterable[Offset]) -> dict[Offset, list[Place]]:
    """The rows and columns of elements of a window, in each plane of the last two axes."""
    found = dict[Offset, list[Place]]()
    for index in picked:
        place = [0] * max(2, len(source.offset))
        for axis, step in zip(source.axes, index, strict=True):
            place[axis - len(source.offset)] = step
        found.setdefault(tuple(place[:-2]), []).append((place[-2], place[-1]))
    return found


def _runs(source: Read, idempotent: bool) -> Iterable[tuple[Offset, Runs]]:
    """The runs of the elements that are picked, in each plane."""
    for plane, places in planes(source, source.picked).items():
        yield plane, runs_of(tuple(places), idempotent)


# A source, whose first element is read, and its weight if it has one.
Piece: TypeAlias = tuple[Read, float | None]


def joined(pieces: Iterable[Piece], fold: Fold, emit: Emit) -> Atom:
    """Combine elements, each with its weight."""
    op, dtype = fold.op, fold.dtype
    groups = dict[float | None, list[Atom]]()
    for piece, weight in pieces:
        item = first(piece, emit)
        if piece.dtype is DType.BOOL and dtype is not DType.BOOL:
            item = as_type(item, DType.INT, emit)
        elif not piece.dtype.is_integer:
            item = as_type(item, dtype, emit)
        groups.setdefault(weight, []).append(item)
    totals = list[Atom]()
    for weight, group in groups.items():
        # Equal weights are applied to the sum: fewer products, and no more rounding. Integers
        # are added as such, in narrow lanes, before they become floats.
        total = as_type(combined(group, op, emit), dtype, emit)
        if weight is not None and weight != 1:
            total = binary("*", total, number(dtype, weight), emit)
        totals.append(total)
    return combined(totals, op, emit)


def _added(before: Read | None, pieces: Sequence[Piece], fold: Fold, emit: Emit) -> Atom:
    """Elements, added to what was made before of some others."""
    own = joined(pieces, fold, emit)
    return own if before is None else binary(fold.op, first(before, emit), own, emit)


# An axis of a window, and the weight of each element along it, if it has one.
_Line: TypeAlias = tuple[int, Sequence[float | None]]


class Staging:
    """The stages made so far for the windows of a kernel; equal stages are made once."""

    def __init__(self, kernel: Kernel, schedule: Schedule, slides: bool = True) -> None:
        self.kernel, self.types = kernel, dict(kernel.fields)
        self.schedule = schedule
        self.slides = slides
        self.main = Lines("t")
        self.emit = self.main.emit
        # By what they compute, whatever they are called.
        self.stages = dict[Stage, Stage]()

    def stage(
        self, make: Callable[[Emit], Iterable[Atom]], build: Build = Values
    ) -> tuple[str, ...]:
        """The names of a stage whose values `make` writes."""
        lines = Lines("u")
        values = tuple(make(lines.emit))
        key = build(("",) * len(values), lines.body, values)
        if key not in self.stages:
            before = sum(len(stage.names) for stage in self.stages.values())
            names = tuple(f"v{before + k}" for k in range(len(values)))
            own = copied(lines.body, values, lambda _, k: f"{names[0]}_{k}")
            self.stages[key] = build(names, *own)
        return self.stages[key].names

    def kept(self, source: Read, dtype: DType, make: Callable[[Emit], Atom]) -> Read:
        """A stage of what `make` writes for each element."""
        (name,) = self.stage(lambda emit: [make(emit)])
        return in_stage(source, name, dtype)

    def _joined(self, source: Read, pieces: Sequence[Piece], fold: Fold) -> Read:
        """A stage of some pieces for each element.

        Many are added to what a row holds, some at a time: a loop that reads hundreds of elements
        has more addresses and values than there are registers (Gaussians of 97 to 241 elements,
        512 x 512, took 0.6 to 0.75 of the time in float32 and float64, 0.9 of bytes; Zen 3).
        """
        weights = [*dict.fromkeys(weight for _, weight in pieces)]
        size = PIECE if len(weights) > WIDE else len(weights)
        made: Read | None = None
        for k in range(0, len(weights), size):
            part = [piece for piece in pieces if piece[1] in weights[k : k + size]]
            made = self.kept(source, fold.dtype, partial(_added, made, part, fold))
        assert made is not None
        return made

    def check_scattered(self, reduce: Reduce) -> None:
        """Raise where the elements that are picked share nothing with those of the neighbours."""
        taps = [a.value for a in reduce.body if isinstance(a.value, Read)]
        if len({(tap.picked, tap.axes) for tap in taps}) != 1:
            raise Refused("its elements are picked in several ways")
        source = taps[0]
        if reduce.kind in RANKED:
            return
        idempotent = reduce.kind in ("min", "max", "any", "all")
        if len(set(source.picked)) < len(source.picked) and not idempotent:
            raise Refused("elements are picked twice")
        extents = [max(axis) - min(axis) + 1 for axis in zip(*source.picked, strict=True)]
        if self.by_rows(extents, source) and small(reduce, self.schedule):
            raise Refused("its elements are no box, and few")
        cost = sum(one.cost for _, one in _runs(source, idempotent))
        if cost >= min(len(source.picked), most(reduce, self.schedule)):
            raise Refused("its elements stand in no runs that are worth keeping")

    def _over_runs(self, source: Read, fold: Fold) -> Atom:
        """Reduce a window of any shape, in runs that neighbours share."""
        last = len(source.offset) - 1
        parts = list[Piece]()
        for plane, found in _runs(source, fold.idempotent):
            base = by(replace(source, picked=()), (*plane, 0, 0)[-last - 1 :])
            axis = last - 1 + found.axis
            known = self._kept_runs(base, axis, found.sizes[1:], fold)
            for (down, right), length in found.found:
                for size, start in found.pieces(length):
                    at = moved(moved(known[size], last - 1, down), last, right)
                    parts.append((moved(at, axis, start), None))
        return joined(parts, fold, self.emit)

    def _kept_runs(
        self, source: Read, axis: int, sizes: Iterable[int], fold: Fold
    ) -> dict[int, Read]:
        """Runs of some sizes, each of which is kept, and made of shorter ones."""
        made = {1: source}
        for size in sizes:
            parts = cut(size, tuple(made), fold.idempotent)
            pieces = [(moved(ground(made[n]), axis, start), None) for n, start in parts]
            made[size] = self._joined(source, pieces, fold)
        return made

    def element(self, reduce: Reduce) -> tuple[Read, Factors]:
        """Where the window's elements can be read, and the weights of each axis."""
        values = named(reduce.body)
        taps = [value for value in values.values() if isinstance(value, Read)]
        outer = {name for name, _ in self.kernel.scalars}
        for value in values.values():
            if not values.keys() | outer >= set(operands(value)):
                raise Refused("its elements use a value of the point, which neighbours lack")
            if isinstance(value, Element):
                raise Refused("its weights are an argument, known only at the call")
        if not taps:
            raise Refused("its elements read no field")
        if len({tap.axes for tap in taps}) > 1:
            raise Refused("its elements run along different axes")
        result, weights = factors(reduce, values)
        if taps[0].picked and weights:
            raise Refused("its elements are no box, and have weights")
        tap = uncast(result, values)
        if isinstance(tap, Read):
            return tap, weights
        if isinstance(result, Const):
            raise Refused("its elements are one constant")
        # The element is computed: a stage of its own, at the first tap's origin.
        if min(taps[0].axes) < self.kernel.ndim - 2:
            raise Refused("computed elements are kept for the rows of one plane only")
        back = tuple(-o for o in along_rows(taps[0].offset))

        def make(emit: Emit) -> Atom:
            def place(_: str, expr: Expr) -> Atom:
                return first(by(expr, back), emit) if isinstance(expr, Read) else emit(expr)

            return replayed(needed(reduce.body, [result]), [result], place)[0]

        return self.kept(taps[0], result.dtype, make), weights

    def weightless(self, reduce: Reduce) -> Read:
        """The elements of a window that is no weighted sum."""
        source, weights = self.element(reduce)
        if weights:
            raise Refused("its elements have weights")
        return source

    def by_rows(self, extents: Sequence[int], source: Read) -> bool:
        """Whether a window is done along its rows first, which rows made at once share.

        Floats are added in this order, however many rows are made.
        """
        return max(extents) <= NEAR and min(source.axes) >= self.kernel.ndim - 2

    def over_axes(self, source: Read, shape: Offset, fold: Fold, weights: Factors = ()) -> Atom:
        """Reduce along each axis of the window in turn; the last in the main body."""
        if source.picked:
            return self._over_runs(source, fold)
        lines: list[_Line] = [
            *zip(source.axes, weights or [(None,) * n for n in shape], strict=True)
        ]
        work = [line for line in lines if line[1] != (None,)] or lines[-1:]
        if self.by_rows(shape, source):
            work.reverse()
        last, own = work[-1]
        if len(set(own)) > WIDE:
            work.append((last, (None,)))
        place, source = along_rows(source.offset), ground(source)
        for line in work[:-1]:
            source = self._joined(source, self._doubled(source, line, fold), fold)
        pieces = self._doubled(source, work[-1], fold)
        return joined([(by(one, place), weight) for one, weight in pieces], fold, self.emit)

    def _doubled(self, source: Read, line: _Line, fold: Fold) -> list[Piece]:
        """The pieces whose combination is the reduction of an axis."""
        (axis, weights), radix = line, self.schedule.radix
        length = len(weights)
        direct = max(self.schedule.direct, radix)
        if weights[0] is not None or length <= direct or axis < len(source.offset) - 2:
            places = enumerate(weights)
            return [(moved(source, axis, k), weight) for k, weight in places if weight != 0]
        sizes = levels(length, fold.idempotent, radix)
        made = self._kept_runs(source, axis, sizes[1:], fold)
        parts = cut(length, tuple(made), fold.idempotent)
        return [(moved(made[size], axis, start), None) for size, start in parts]


def staged(kernel: Kernel, request: Request) -> Kernel:
    """Do every reduction that allows it axis by axis, or where it `slides` along the rows."""
    staging = Staging(kernel, request.schedule, request.slides)

    def emit(_: str, expr: Expr) -> Atom:
        if isinstance(expr, Reduce):
            with suppress(Refused):
                return _reduction(staging, expr)
        return staging.emit(expr)

    outputs = replayed(kernel.body, kernel.outputs, emit)
    stages, body = tuple(staging.stages.values()), staging.main.body
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
