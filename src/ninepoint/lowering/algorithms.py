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
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..language.dtypes import DType
from ..language.ir import (
    RANKED,
    Assign,
    Atom,
    Binary,
    BinaryOp,
    Cast,
    Coefficient,
    Const,
    Histogram,
    Kernel,
    Offset,
    Read,
    Reduce,
    Ref,
    RunningSum,
    Stage,
    Tap,
    Values,
    atoms,
    renamed,
    renamed_atom,
    window_indices,
)
from . import runs
from .choices import Method, Refused, Way
from .counting import begun, bits, following, one_bit
from .doubling import SEARCHED, fewest, powers
from .elements import (
    Elements,
    Piece,
    added,
    along_rows,
    computed,
    grounded,
    joined,
    moved,
    ordered,
    read,
    relative_to,
    squared,
    weighed,
)
from .floating import truths
from .kept import full
from .lines import Lines
from .ranks import interpolated, not_nan, of_sorted, quantile_position, sort
from .runs import ELEMENT, boxes
from .schedule import Schedule
from .separable import factors
from .valid import Valid
from .windows import is_picked, most, small

# Elements up to which those of some rank are counted bit by bit.
COUNTED = 400

# Truths in a row from which on they are counted in lanes of their own, four times as many as of
# floats, before these are made of their number: nanmean of 7 x 7 float32, 512 x 512, took 0.92 of
# the time (Zen 5).
COUNTED_APART = 4

# Of an element taken twice nothing changes, so pieces of a window may overlap.
IDEMPOTENT: frozenset[BinaryOp] = frozenset(("minimum", "maximum", "&", "|"))

# Puts elements in order, and may add what else is wanted of them.
Order: TypeAlias = Callable[[Sequence[Atom], Lines], list[Atom]]

# Makes a stage of its names, its body and its values.
Build: TypeAlias = Callable[[tuple[str, ...], tuple[Assign, ...], tuple[Atom, ...]], Stage]


def staged(
    kernel: Kernel, schedule: Schedule, *, in_place: bool = False, as_in_place: bool = False
) -> Kernel:
    """Do every reduction that allows it axis by axis.

    Small windows that are done `in_place` need no stage: see `lowering.abreast`.  Those done
    `as_in_place` have stages, but round in the same order.
    """
    plan = _Plan(kernel, schedule, in_place, as_in_place)
    alias: dict[str, Atom] = {}
    for assign in kernel.body:
        expr = renamed(assign.value, alias)
        made = plan.reduction(expr) if isinstance(expr, Reduce) else None
        if made is None or isinstance(made, Refused):
            made = plan.main.emit(expr)
        alias[assign.name] = made
    outputs = tuple(renamed_atom(output, alias) for output in kernel.outputs)
    return replace(kernel, body=tuple(plan.main.body), outputs=outputs, stages=tuple(plan.stages))


def ways(
    kernel: Kernel, reduce: Reduce, schedule: Schedule, *, in_place: bool = False
) -> tuple[Way, ...] | Refused:
    """How `staged` does a window of a kernel, or why it leaves it."""
    plan = _Plan(kernel, schedule, in_place)
    made = plan.reduction(reduce)
    return made if isinstance(made, Refused) else tuple(plan.ways)


class _Plan:
    """The stages made so far; equal stages are made once."""

    def __init__(
        self, kernel: Kernel, schedule: Schedule, in_place: bool, as_in_place: bool = False
    ) -> None:
        self.as_in_place = as_in_place
        self.kernel = kernel
        self.schedule = schedule
        self.in_place = in_place
        self.main = Lines("t")
        self.stages: list[Stage] = []
        self.ways: list[Way] = []
        self.known: dict[Stage, tuple[str, ...]] = {}

    def stage(
        self, make: Callable[[Lines], Sequence[Atom]], build: Build = Values
    ) -> tuple[str, ...]:
        """The names of a stage whose values `make` writes."""
        lines = Lines("u")
        values = tuple(make(lines))
        key = build(("",) * len(values), tuple(lines.body), values)
        names = self.known.get(key)
        if names is None:
            first = sum(len(stage.names) for stage in self.stages)
            names = tuple(f"v{first + k}" for k in range(len(values)))
            self.known[key] = names
            self.stages.append(build(names, *_named(names[0], lines.body, values)))
        return names

    def reduction(self, reduce: Reduce) -> Atom | Refused:
        """The value of a window in the main body, unless stages do not fit."""
        if math.prod(reduce.shape) < 3:
            return Refused("fewer than 3 elements have nothing to share")
        if is_picked(reduce) and (why := self._scattered(reduce)):
            return why
        match reduce.kind:
            case "sum" | "mean":
                return self._sum(reduce)
            case "min" | "max" | "any" | "all":
                return self._extreme(reduce)
            case "var":
                return self._variance(reduce)
            case "quantile" | "nanquantile" | "nanrank":
                return self._quantile(reduce)
            case _:
                return Refused(f"no part of its {reduce.kind} serves the neighbours")

    # Windows of any shape.

    def _scattered(self, reduce: Reduce) -> Refused | None:
        """Why the elements that are picked share nothing with those of the neighbours."""
        taps = [a.value for a in reduce.body if isinstance(a.value, Tap)]
        if len({(tap.picked, tap.axes) for tap in taps}) != 1:
            return Refused("its elements are picked in several ways")
        source = Elements("", taps[0].dtype, taps[0].origin, taps[0].axes, taps[0].picked)
        twice = len(set(source.picked)) < len(source.picked)
        if reduce.kind in RANKED:
            return None
        idempotent = reduce.kind in ("min", "max", "any", "all")
        if twice and not idempotent:
            return Refused("elements are picked twice")
        extents = [max(axis) - min(axis) + 1 for axis in zip(*source.picked, strict=True)]
        near = max(extents) <= self.schedule.direct and small(reduce, self.schedule)
        floats = self.as_in_place and not reduce.result.dtype.is_integer
        if near and (self.in_place or floats):
            return Refused("its elements are no box, and few")
        found = [boxes(places, idempotent) for _, places in source.planes]
        if sum(one.cost for one in found) >= ELEMENT * len(source.picked):
            return Refused("its elements stand in no runs that are worth keeping")
        if sum(one.reads for one in found) > most(reduce, self.schedule):
            return Refused("its elements stand in too many runs")
        return None

    def _over_boxes(self, source: Elements, dtype: DType, op: BinaryOp) -> Atom:
        """Reduce a window of any shape, in boxes that neighbours share."""
        if source.dtype.is_integer and dtype.is_float:
            # As integers, in narrow lanes, before they become floats.
            own = DType.INT if source.dtype is DType.BOOL else source.dtype
            return self.main.emit(Cast(dtype, self._over_boxes(source, own, op)))
        last = len(source.origin) - 1
        parts: list[Piece] = []
        kept: list[tuple[int, int]] = []
        axes: set[int] = set()

        def at(known: dict[tuple[int, int], Elements], piece: runs.Piece) -> Piece:
            return moved(known[piece.box], last - 1, piece.place[0]), piece.place[1], None

        for plane, places in source.planes:
            offset = added(source.origin, (*plane, 0, 0)[-last - 1 :])
            base = replace(source, origin=offset, picked=())
            made = boxes(places, op in IDEMPOTENT)
            known = {(1, 1): base}
            ground = {(1, 1): grounded(base)}
            for box, pieces in made.kept:
                (name,) = self._box([at(ground, piece) for piece in pieces], dtype, op)
                known[box] = replace(base, name=name, dtype=dtype, origin=along_rows(offset))
                ground[box] = grounded(known[box])
            parts += [at(known, piece) for piece in made.pieces]
            kept += [box for box, _ in made.kept]
            axes.add(last - 1 + made.axis)
        axis = axes.pop() if len(axes) == 1 else -1
        idempotent = op in IDEMPOTENT
        self.ways.append(
            Way("boxes", axis, len(parts), True, dtype, idempotent=idempotent, boxes=tuple(kept))
        )
        return joined(self.main, last, parts, dtype, op)

    def _box(self, pieces: Sequence[Piece], dtype: DType, op: BinaryOp) -> tuple[str, ...]:
        """A stage of some pieces."""
        return self.stage(lambda lines: [joined(lines, self.kernel.ndim - 1, pieces, dtype, op)])

    # Elements.

    def _element(self, reduce: Reduce) -> tuple[Elements, tuple[tuple[float, ...], ...]] | Refused:
        """Where the window's elements can be read, and the weights of each axis."""
        values = {assign.name: assign.value for assign in reduce.body}
        taps = [value for value in values.values() if isinstance(value, Tap)]
        inner = {assign.name for assign in reduce.body}
        outer = {name for name, _ in self.kernel.scalars}
        for assign in reduce.body:
            for atom in atoms(assign.value):
                if isinstance(atom, Ref) and atom.name not in inner and atom.name not in outer:
                    return Refused("its elements use a value of the point, which neighbours lack")
            if isinstance(assign.value, Coefficient):
                return Refused("its weights are an argument, known only at the call")
        if not taps:
            return Refused("its elements read no field")
        if len({tap.axes for tap in taps}) > 1:
            return Refused("its elements run along different axes")
        found = factors(reduce, values)
        if isinstance(found, Refused):
            return found
        result, weights, weightless = found
        if taps[0].picked and any(weights):
            return Refused("its elements are no box, and have weights")
        tap = values.get(result.name) if isinstance(result, Ref) else None
        if isinstance(tap, Cast) and not tap.storage and isinstance(tap.arg, Ref):
            tap = values.get(tap.arg.name)
        if isinstance(tap, Tap):
            return Elements(tap.field, tap.dtype, tap.origin, tap.axes, tap.picked), weights
        if isinstance(result, Const):
            return Refused("its elements are one constant")
        first, body = taps[0], tuple(a for a in reduce.body if a.name in weightless)
        if self._short_enough(reduce.shape) and not first.picked:
            # Done in place, each is computed where it is read, once for several rows.
            relative = relative_to(first.origin, body)
            return Elements(
                "", result.dtype, first.origin, first.axes, body=relative, result=result
            ), weights
        # The element is computed: a stage of its own, at the first tap's origin.
        origin = along_rows(first.origin)
        if min(taps[0].axes) < self.kernel.ndim - 2:
            return Refused("computed elements are kept for the rows of one plane only")

        def make(lines: Lines) -> list[Atom]:
            return [computed(lines, relative_to(origin, body), result, (0,) * len(origin))]

        (name,) = self.stage(make)
        self.ways.append(Way("element", -1, 1, True, result.dtype))
        return Elements(name, result.dtype, origin, taps[0].axes, taps[0].picked), weights

    def _weightless(
        self, reduce: Reduce
    ) -> tuple[Elements, tuple[tuple[float, ...], ...]] | Refused:
        """The elements of a window that is no weighted sum."""
        element = self._element(reduce)
        if not isinstance(element, Refused) and any(element[1]):
            return Refused("its elements have weights")
        return element

    # Reductions.

    def _sum(self, reduce: Reduce) -> Atom | Refused:
        element = self._element(reduce)
        if isinstance(element, Refused):
            return element
        source, weights = element
        dtype = reduce.result.dtype
        if source.dtype.is_integer and dtype.is_float and not self._short(source):
            # Sums of such elements might wrap before they become floats.
            if min(source.axes) < self.kernel.ndim - 2:
                return Refused("sums of its elements might wrap before they become floats")
            ground, first = grounded(source), source.axes[-1]
            (name,) = self.stage(lambda lines: [read(lines, ground, first, 0, dtype)])
            self.ways.append(Way("element", -1, 1, True, dtype))
            source = replace(source, name=name, dtype=dtype, origin=along_rows(source.origin))
        apart = truths(reduce) is not None and self._beside_floats()
        total = self._over_axes(source, reduce.shape, weights, dtype, "+", apart=apart)
        if reduce.kind == "sum":
            same = total.dtype is reduce.dtype
            return total if same else self.main.emit(Cast(reduce.dtype, total))
        return self._divided(total, reduce.dtype, float(math.prod(reduce.shape)))

    def _short(self, source: Elements) -> bool:
        """Whether sums of a window's elements surely fit in 64 bits."""
        storage = dict(self.kernel.fields).get(source.name)
        return storage is not None and storage.itemsize < 8

    def _divided(self, total: Atom, dtype: DType, count: float) -> Atom:
        top = total if total.dtype is dtype else self.main.emit(Cast(dtype, total))
        return self.main.emit(Binary(dtype, "/", top, Const(dtype, repr(count))))

    def _extreme(self, reduce: Reduce) -> Atom | Refused:
        element = self._weightless(reduce)
        if isinstance(element, Refused):
            return element
        dtype = reduce.result.dtype
        ops: dict[str, BinaryOp] = {"min": "minimum", "max": "maximum", "any": "|", "all": "&"}
        return self._over_axes(element[0], reduce.shape, element[1], dtype, ops[reduce.kind])

    def _variance(self, reduce: Reduce) -> Atom | Refused:
        """Integers only: n * sum of squares - (sum) ** 2 is exact.

        For floats that difference loses all digits where the mean is large.
        """
        element = self._weightless(reduce)
        if isinstance(element, Refused):
            return element
        source, count = element[0], math.prod(reduce.shape)
        if not self._exact_squares(source, count):
            return Refused("sums of squares are exact for small integers of a field only")
        if min(source.axes) < self.kernel.ndim - 2:
            return Refused("squares are kept for the rows of one plane only")
        ground, last = grounded(source), along_rows(source.origin)
        (square,) = self.stage(lambda lines: [squared(lines, ground)])
        self.ways.append(Way("squared", -1, 1, True, DType.INT))
        plain = tuple(() for _ in reduce.shape)
        total = self._over_axes(source, reduce.shape, plain, DType.INT, "+")
        of_squares = replace(source, name=square, dtype=DType.INT, origin=last)
        squares = self._over_axes(of_squares, reduce.shape, plain, DType.INT, "+")
        emit = self.main.emit
        scaled = emit(Binary(DType.INT, "*", squares, Const(DType.INT, str(count))))
        mean_square = emit(Binary(DType.INT, "*", total, total))
        apart = emit(Binary(DType.INT, "-", scaled, mean_square))
        divisor = count * max(0.0, count - reduce.quantile)
        return self._divided(apart, reduce.dtype, divisor)

    def _exact_squares(self, source: Elements, count: int) -> bool:
        storage = dict(self.kernel.fields).get(source.name)
        if storage is None or storage.kind not in "biu" or source.dtype is DType.UINT:
            return False
        largest = 1 if storage.kind == "b" else 2 ** (8 * storage.itemsize)
        return (largest * count) ** 2 < 2**63

    def _quantile(self, reduce: Reduce) -> Atom | Refused:
        """Small windows by sorted columns, large ones of short integers by histograms."""
        count = math.prod(reduce.shape)
        if is_picked(reduce):
            if count <= self.schedule.network:
                return Refused("its elements are no box")
            counted = self._by_counting(reduce) if count <= COUNTED else Refused("")
            return self._by_histogram(reduce) if isinstance(counted, Refused) else counted
        if count <= self.schedule.sorted_columns:
            return self._by_columns(reduce)
        if count <= self.schedule.network:
            return Refused("the schedule leaves it to a network of its own")
        return self._by_histogram(reduce)

    def _by_histogram(self, reduce: Reduce) -> Atom | Refused:
        tap, ndim = _ordered_by(reduce), self.kernel.ndim
        if reduce.kind != "quantile":
            return Refused("what slides along the row has no place for what is left out")
        if tap is None:
            return Refused("its elements are computed, and only those of a field slide")
        storage = dict(self.kernel.fields)[tap.field]
        if storage.kind not in "iuf":
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

        names = self.stage(
            make, lambda names, body, _: Histogram(names, body[0], shape, low, lines_of)
        )
        short = storage.kind != "f" and storage.itemsize <= 2
        in_plane = not lines_of or len(lines_of[0]) == 3
        method: Method = "histogram" if short and in_plane else "placed"
        self.ways.append(Way(method, ndim - 1, math.prod(shape), False, tap.dtype))
        here = (0,) * ndim
        found = [self.main.emit(Read(tap.dtype, name, here)) for name in names]
        return interpolated(found, fraction, reduce.dtype, self.main.emit)

    def _by_counting(self, reduce: Reduce) -> Atom | Refused:
        """Bit by bit, whichever elements these are."""
        tap = reduce.body[0].value
        if len(reduce.body) != 1 or not isinstance(tap, Tap):
            return Refused("its elements are computed, and only those of a field are counted")
        storage = dict(self.kernel.fields)[tap.field]
        if storage.kind not in "biu" or storage.itemsize > 2:
            return Refused(f"elements of {storage} have too many bits to count by")
        count = math.prod(reduce.shape)
        low, fraction = quantile_position(count, reduce.quantile)
        last = along_rows(tap.origin)
        outer = tuple(o - a for o, a in zip(tap.origin, last, strict=True))
        ground = replace(tap, origin=outer)
        reads = [Read(tap.dtype, tap.field, ground.offset((k,))) for k in range(count)]
        value, bit = self.stage(lambda _: begun(storage))
        for _ in range(bits(storage)):
            value, bit = self._next_bit(reads, value, bit, low)
        self.ways.append(Way("counted", -1, count, False, DType.INT))
        here = (0,) * self.kernel.ndim
        found: list[Atom] = [self.main.emit(Read(DType.INT, value, last))]
        if fraction:

            def next_one(lines: Lines) -> list[Atom]:
                known = lines.emit(Read(DType.INT, value, here))
                return [following(lines, reads, known, low)]

            (above,) = self.stage(next_one)
            found.append(self.main.emit(Read(DType.INT, above, last)))
        return interpolated(found, fraction, reduce.dtype, self.main.emit)

    def _next_bit(self, reads: Sequence[Read], value: str, bit: str, rank: int) -> tuple[str, ...]:
        """A stage that knows a bit more of the element of some rank."""
        here = (0,) * self.kernel.ndim

        def make(lines: Lines) -> Sequence[Atom]:
            known, next_bit = (lines.emit(Read(DType.INT, name, here)) for name in (value, bit))
            return one_bit(lines, reads, known, next_bit, rank)

        return self.stage(make)

    def _by_columns(self, reduce: Reduce) -> Atom | Refused:
        """Columns in order, each sorted once for all the windows it is in."""
        count = math.prod(reduce.shape)
        if len(reduce.shape) != 2 or min(reduce.shape) < 2:
            return Refused("columns to sort once for all need a window of two axes")
        element = self._weightless(reduce)
        if isinstance(element, Refused):
            return element
        source, dtype = element[0], reduce.result.dtype
        if source.axes != (self.kernel.ndim - 2, self.kernel.ndim - 1):
            return Refused("columns are sorted once for all along the last two axes only")
        if reduce.kind != "quantile":
            return self._valid_by_columns(source, reduce, dtype)
        low, fraction = quantile_position(count, reduce.quantile)
        wanted = 1 if fraction == 0 else 2
        if self._short_enough(reduce.shape):
            lists = self._sorted_rows(source, reduce.shape, dtype)
        else:
            lists = self._sorted_columns(source, reduce.shape, dtype)
        found = of_sorted(lists, low, wanted, self.main.emit)
        value = interpolated(found, fraction, reduce.dtype, self.main.emit)
        return not_nan(value, [one[-1] for one in lists], self.main.emit)

    def _valid_by_columns(self, source: Elements, reduce: Reduce, dtype: DType) -> Atom:
        """The same for what is no NaN: a column ends with what is to be counted of it."""
        (height, width), rows = reduce.shape, self._short_enough(reduce.shape)
        wanted = Valid.of(reduce, height if rows else width)

        def ordered(items: Sequence[Atom], lines: Lines) -> list[Atom]:
            filled, counts = wanted.split(items, lines.emit)
            return [*sort(filled, lines.emit), *counts]

        if rows:
            lists = self._sorted_rows(source, reduce.shape, dtype, ordered)
        else:
            lists = self._sorted_columns(source, reduce.shape, dtype, ordered)
        items = width if rows else height
        emit = self.main.emit
        found = of_sorted([one[:items] for one in lists], wanted.first, wanted.count, emit)
        return wanted.chosen(found, wanted.total([one[items:] for one in lists], emit), emit)

    def _sorted_columns(
        self, source: Elements, shape: Offset, dtype: DType, ordered: Order = ordered
    ) -> list[list[Atom]]:
        """Columns in order, which are kept for the neighbours."""
        ground, (height, width) = grounded(source), shape

        def make(lines: Lines) -> list[Atom]:
            items = [read(lines, ground, source.axes[0], k, dtype) for k in range(height)]
            return ordered(items, lines)

        names = self.stage(make)
        self.ways += [
            Way("sorted", source.axes[0], height, True, dtype),
            Way("merged", source.axes[1], width, False, dtype),
        ]
        kept = replace(source, dtype=dtype, origin=along_rows(source.origin))
        return [
            [read(self.main, replace(kept, name=name), source.axes[1], k, dtype) for name in names]
            for k in range(width)
        ]

    def _sorted_rows(
        self, source: Elements, shape: Offset, dtype: DType, ordered: Order = ordered
    ) -> list[list[Atom]]:
        """Rows of the window in order, which the rows of the result below need as well."""
        height, width = shape
        self.ways += [
            Way("sorted", source.axes[1], width, False, dtype),
            Way("merged", source.axes[0], height, False, dtype),
        ]
        lists: list[list[Atom]] = []
        for k in range(height):
            row = moved(source, source.axes[0], k)
            items = [read(self.main, row, source.axes[1], j, dtype) for j in range(width)]
            lists.append(ordered(items, self.main))
        return lists

    def _short_enough(self, shape: Offset) -> bool:
        """Whether a window is done in place."""
        return self.in_place and max(shape) <= self.schedule.direct

    # Axis by axis.

    def _over_axes(
        self,
        source: Elements,
        shape: Offset,
        weights: tuple[tuple[float, ...], ...],
        dtype: DType,
        op: BinaryOp,
        *,
        apart: bool = False,
    ) -> Atom:
        """Reduce along each axis of the window in turn; the last in the main body, or `apart`."""
        if source.picked:
            return self._over_boxes(source, dtype, op)
        work = [
            (axis, length, weights[k])
            for k, (axis, length) in enumerate(zip(source.axes, shape, strict=True))
            if length > 1 or weights[k]
        ] or [(source.axes[-1], 1, ())]
        if self._short_enough(shape):
            for axis, length, factor in reversed(work):
                self._note(axis, length, length, factor, dtype, op, kept=False)
            return self._nested(source, work, dtype, op)
        near = min(source.axes) >= self.kernel.ndim - 2 and max(shape) <= self.schedule.direct
        if self.as_in_place and near and not dtype.is_integer:
            work.reverse()
        if apart and work[-1][1] >= COUNTED_APART:
            work.append((work[-1][0], 1, ()))
        for axis, length, factor in work[:-1]:
            source = self._along(source, axis, length, factor, dtype, op)
        axis, length, factor = work[-1]
        return self._combined(self.main, source, axis, length, factor, dtype, op)

    def _beside_floats(self) -> bool:
        """Whether the lanes of the result are those of floats."""
        return any(storage.kind == "f" for _, storage in self.kernel.fields)

    def _nested(
        self,
        source: Elements,
        work: Sequence[tuple[int, int, tuple[float, ...]]],
        dtype: DType,
        op: BinaryOp,
    ) -> Atom:
        """Reduce in place, along the last axis first: that much the next rows need as well."""
        axis, length, factor = work[0]
        weights = factor or (None,) * length
        places = [k for k in range(length) if weights[k] != 0]
        if len(work) == 1:
            pieces = [(source, k, weights[k]) for k in places]
            return joined(self.main, axis, pieces, dtype, op)
        items = [
            (self._nested(moved(source, axis, k), work[1:], dtype, op), weights[k]) for k in places
        ]
        return weighed(self.main, items, dtype, op)

    def _along(
        self,
        source: Elements,
        axis: int,
        length: int,
        factor: tuple[float, ...],
        dtype: DType,
        op: BinaryOp,
    ) -> Elements:
        long = length > self.schedule.direct and not (factor or op in IDEMPOTENT)
        rows = axis == len(source.origin) - 2
        if rows and long and dtype.is_integer and self.schedule.running:
            ground = grounded(source)
            self.ways.append(Way("running", axis, length, True, dtype))
            (name,) = self.stage(
                lambda lines: [read(lines, ground, axis, 0, dtype)],
                lambda names, body, values: RunningSum(names[0], body, values[0], length),
            )
            return replace(source, name=name, dtype=dtype, origin=along_rows(source.origin))
        pieces = self._doubled(grounded(source), axis, length, factor, dtype, op)
        self._note(axis, length, len(pieces), factor, dtype, op, kept=True)

        def make(lines: Lines) -> list[Atom]:
            return [joined(lines, axis, pieces, dtype, op)]

        (name,) = self.stage(make)
        return replace(source, name=name, dtype=dtype, origin=along_rows(source.origin))

    def _combined(
        self,
        lines: Lines,
        source: Elements,
        axis: int,
        length: int,
        factor: tuple[float, ...],
        dtype: DType,
        op: BinaryOp,
    ) -> Atom:
        pieces = self._doubled(grounded(source), axis, length, factor, dtype, op)
        self._note(axis, length, len(pieces), factor, dtype, op, kept=False)
        last = along_rows(source.origin)
        shifted = [
            (replace(one, origin=added(one.origin, last)), step, weight)
            for one, step, weight in pieces
        ]
        return joined(lines, axis, shifted, dtype, op)

    def _note(
        self,
        axis: int,
        length: int,
        pieces: int,
        factor: tuple[float, ...],
        dtype: DType,
        op: BinaryOp,
        *,
        kept: bool,
    ) -> None:
        """Remember how an axis was done: where pieces hold many elements, by doubling."""
        elements = sum(weight != 0 for weight in factor) if factor else length
        method: Method = "at once" if pieces == elements else "doubling"
        if length > 1:
            weighted, idempotent = bool(factor), op in IDEMPOTENT
            self.ways.append(Way(method, axis, length, kept, dtype, weighted, idempotent))

    def _doubled(
        self,
        source: Elements,
        axis: int,
        length: int,
        factor: tuple[float, ...],
        dtype: DType,
        op: BinaryOp,
    ) -> list[Piece]:
        """The pieces whose combination is the reduction of `length` elements along an axis."""
        radix = self.schedule.radix
        if factor or length <= max(self.schedule.direct, radix) or axis < len(source.origin) - 2:
            weights = factor or (None,) * length
            return [(source, k, weights[k]) for k in range(length) if weights[k] != 0]
        if radix or length > SEARCHED:
            sizes = powers(length, radix or 4)
        else:
            sizes = fewest(length, op in IDEMPOTENT)
        levels = [(1, source)]
        for size in sizes[1:]:
            step, below = levels[-1]

            def make(
                lines: Lines, size: int = size, step: int = step, below: Elements = below
            ) -> list[Atom]:
                parts = [(below, start, None) for start in range(0, size, step)]
                return [joined(lines, axis, parts, dtype, op)]

            (name,) = self.stage(make)
            level = replace(source, name=name, dtype=dtype, origin=along_rows(source.origin))
            levels.append((size, level))
        size, top = levels[-1]
        if op in IDEMPOTENT:
            starts = [*range(0, length - size, size), length - size]
            return [(top, start, None) for start in starts]
        pieces: list[Piece] = []
        start = 0
        for size, level in reversed(levels):
            while length - start >= size:
                pieces.append((level, start, None))
                start += size
        return pieces


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


def _named(
    name: str, body: list[Assign], values: tuple[Atom, ...]
) -> tuple[tuple[Assign, ...], tuple[Atom, ...]]:
    """The body and the values of a stage, with assignments that are named after it."""
    alias: dict[str, Atom] = {}
    renumbered: list[Assign] = []
    for k, assign in enumerate(body):
        renumbered.append(Assign(f"{name}_{k}", renamed(assign.value, alias)))
        alias[assign.name] = Ref(assign.value.dtype, f"{name}_{k}")
    return tuple(renumbered), tuple(renamed_atom(value, alias) for value in values)
