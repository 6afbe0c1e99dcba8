"""Staging: the stages that windows are reduced by, axis by axis or in boxes.

3 elements from x[-1] on, weighed 1 2 1      ->      t0 = x[-1];  t1 = x[0];  t2 = x[1]
                                                     t3 = t0 + t2;  t4 = t1 * 2;  t5 = t3 + t4
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from ..analysis.rewrite import (
    Emit,
    Lines,
    along_rows,
    as_type,
    binary,
    copied,
    number,
    replayed,
    uncast,
)
from ..language.ir import (
    RANKED,
    Atom,
    BinaryOp,
    Body,
    Cast,
    Coefficient,
    Const,
    DType,
    Expr,
    Kernel,
    Offset,
    Read,
    Reduce,
    RunningSum,
    Stage,
    Tap,
    Values,
    added,
    named,
    operands,
)
from . import runs
from .cost import NEAR
from .recognising import Factors, factors
from .runs import ELEMENT, boxes
from .schedule import Refused, Schedule
from .windows import combined, most, small

# Boxes of a window that are named.
_LISTED = 6

# Makes a stage of its names, its body and its values.
Build: TypeAlias = Callable[[tuple[str, ...], Body, tuple[Atom, ...]], Stage]

# Of an element taken twice nothing changes, so pieces of a window may overlap.
IDEMPOTENT: frozenset[BinaryOp] = frozenset(("minimum", "maximum", "&", "|"))

# Weights of a line from which on it is added piece by piece, and those of a piece: of a Gaussian,
# whose weights are those of pairs, 16 elements.
WIDE = 48
PIECE = 8


@dataclass(frozen=True, slots=True)
class Fold:
    """An operation by which elements are combined, and the type in which that is done."""

    op: BinaryOp
    dtype: DType

    @property
    def idempotent(self) -> bool:
        """Whether elements may be taken twice."""
        return self.op in IDEMPOTENT

    @property
    def verb(self) -> str:
        """What is done with elements, as a user would say it."""
        return "compared" if self.idempotent else "added"


# The elements of a window are those of a tap: of a field, or of a stage.


def by(source: Tap, steps: Offset) -> Tap:
    """The same elements, so far away."""
    return replace(source, origin=added(source.origin, steps))


def moved(source: Tap, axis: int, step: int) -> Tap:
    """The same, `step` further along an axis."""
    return by(source, tuple(step * (k == axis) for k in range(len(source.origin))))


def ground(source: Tap) -> Tap:
    """The same at the point's own row and column."""
    return by(source, tuple(-o for o in along_rows(source.origin)))


def in_stage(source: Tap, name: str, dtype: DType) -> Tap:
    """What is kept of each element in a stage, which stands for rows of one plane."""
    return replace(source, field=name, dtype=dtype, origin=along_rows(source.origin))


def first(source: Tap, emit: Emit) -> Atom:
    """The first element."""
    return emit(Read(source.dtype, source.field, source.origin))


def planes(source: Tap, picked: Iterable[Offset]) -> dict[Offset, list[runs.Pair]]:
    """The rows and columns of elements of a window, in each plane of the last two axes."""
    found: dict[Offset, list[runs.Pair]] = {}
    for index in picked:
        place = [0] * max(2, len(source.origin))
        for axis, step in zip(source.axes, index, strict=True):
            place[axis - len(source.origin)] = step
        found.setdefault(tuple(place[:-2]), []).append((place[-2], place[-1]))
    return found


# A source, whose first element is read, and its weight if it has one.
Piece: TypeAlias = tuple[Tap, float | None]


def joined(pieces: Iterable[Piece], fold: Fold, emit: Emit) -> Atom:
    """Combine elements, each with its weight."""
    op, dtype = fold.op, fold.dtype
    groups: dict[float | None, list[Atom]] = {}
    for piece, weight in pieces:
        item = first(piece, emit)
        if piece.dtype is DType.BOOL and dtype is not DType.BOOL:
            item = as_type(item, DType.INT, emit)
        elif not piece.dtype.is_integer:
            item = as_type(item, dtype, emit)
        groups.setdefault(weight, []).append(item)
    totals: list[Atom] = []
    for weight, group in groups.items():
        # Equal weights are applied to the sum: fewer products, and no more rounding. Integers
        # are added as such, in narrow lanes, before they become floats.
        total = as_type(combined(group, op, emit), dtype, emit)
        if weight is not None and weight != 1:
            total = binary("*", total, number(dtype, weight), emit)
        totals.append(total)
    if len(totals) <= WIDE:
        return combined(totals, op, emit)
    # Some at a time, as rows are added.
    whole = combined(totals[:PIECE], op, emit)
    for k in range(PIECE, len(totals), PIECE):
        whole = binary(op, whole, combined(totals[k : k + PIECE], op, emit), emit)
    return whole


def _added(before: Tap | None, pieces: Sequence[Piece], fold: Fold, emit: Emit) -> Atom:
    """Elements, added to what was made before of some others."""
    own = joined(pieces, fold, emit)
    return own if before is None else binary(fold.op, first(before, emit), own, emit)


@dataclass(frozen=True, slots=True)
class _Line:
    """One axis of a window, and the weights along it, if there are any."""

    axis: int
    length: int
    weights: tuple[float, ...] = ()

    @property
    def places(self) -> list[tuple[int, float | None]]:
        """The elements that count, and their weights."""
        weights = self.weights or (None,) * self.length
        return [(k, weight) for k, weight in enumerate(weights) if weight != 0]

    def pieces(self, source: Tap) -> list[Piece]:
        """Its elements, one by one."""
        return [(moved(source, self.axis, k), weight) for k, weight in self.places]


def _boxes(kept: Sequence[runs.Pair]) -> str:
    """Which boxes of a window of any shape are kept, in words."""
    named = [" x ".join(map(str, box)) for box in dict.fromkeys(kept)]
    more = f" and {len(named) - _LISTED} more" if len(named) > _LISTED else ""
    return f", {KEPT}: {', '.join(named[:_LISTED])}{more}" if named else ""


# What is said of what is kept in rows, and of elements that are computed.
KEPT = "kept for the neighbours"
ELEMENT_KEPT = f"elements: computed once, {KEPT}"


class Staging:
    """The stages made so far for the windows of a kernel; equal stages are made once."""

    def __init__(self, kernel: Kernel, schedule: Schedule, slides: bool = True) -> None:
        self.kernel, self.types = kernel, dict(kernel.fields)
        self.schedule = schedule
        self.slides = slides
        self.main = Lines("t")
        self.emit = self.main.emit
        # By what they compute, whatever they are called.
        self.stages: dict[Stage, Stage] = {}
        # What was done, and why it was done in no other way.
        self.notes: list[tuple[str, str]] = []
        # Of numbers of truths the floats that they were counted as.
        self.counts: dict[Atom, Atom] = {}

    def note(self, done: str, why: str = "") -> None:
        """Tell what was done, and why it was done in no other way."""
        self.notes.append((done, why))

    def stage(
        self, make: Callable[[Emit], Iterable[Atom]], build: Build = Values
    ) -> tuple[str, ...]:
        """The names of a stage whose values `make` writes."""
        lines = Lines("u")
        values = tuple(make(lines.emit))
        key = build(("",) * len(values), tuple(lines.body), values)
        if key not in self.stages:
            before = sum(len(stage.names) for stage in self.stages.values())
            names = tuple(f"v{before + k}" for k in range(len(values)))
            own = copied(lines.body, values, lambda _, k: f"{names[0]}_{k}")
            self.stages[key] = build(names, *own)
        return self.stages[key].names

    def kept(
        self,
        source: Tap,
        dtype: DType,
        make: Callable[[Emit], Atom],
        note: str = "",
    ) -> Tap:
        """A stage of what `make` writes for each element."""
        (name,) = self.stage(lambda emit: [make(emit)])
        if note:
            self.note(note)
        return in_stage(source, name, dtype)

    def _joined(self, source: Tap, pieces: Sequence[Piece], fold: Fold) -> Tap:
        """A stage of some pieces for each element.

        Many are added to what a row holds, some at a time: a loop that reads hundreds of elements
        has more addresses and values than there are registers (Gaussians of 97 to 241 elements,
        512 x 512, took 0.6 to 0.75 of the time in float32 and float64, 0.9 of bytes; Zen 3).
        """
        weights = [*dict.fromkeys(weight for _, weight in pieces)]
        size = PIECE if self.slides and len(weights) > WIDE else len(weights)
        made: Tap | None = None
        for k in range(0, len(weights), size):
            part = [piece for piece in pieces if piece[1] in weights[k : k + size]]
            made = self.kept(source, fold.dtype, partial(_added, made, part, fold))
        assert made is not None
        return made

    def check_scattered(self, reduce: Reduce) -> None:
        """Raise where the elements that are picked share nothing with those of the neighbours."""
        taps = [a.value for a in reduce.body if isinstance(a.value, Tap)]
        if len({(tap.picked, tap.axes) for tap in taps}) != 1:
            raise Refused("its elements are picked in several ways")
        source = taps[0]
        twice = len(set(source.picked)) < len(source.picked)
        if reduce.kind in RANKED:
            return
        idempotent = reduce.kind in ("min", "max", "any", "all")
        if twice and not idempotent:
            raise Refused("elements are picked twice")
        extents = [max(axis) - min(axis) + 1 for axis in zip(*source.picked, strict=True)]
        if self.by_rows(extents, source.axes) and small(reduce, self.schedule):
            raise Refused("its elements are no box, and few")
        found = [
            boxes(tuple(places), idempotent) for places in planes(source, source.picked).values()
        ]
        if sum(one.cost for one in found) >= ELEMENT * len(source.picked):
            raise Refused("its elements stand in no runs that are worth keeping")
        if sum(one.reads for one in found) > most(reduce, self.schedule):
            raise Refused("its elements stand in too many runs")

    def _over_boxes(self, source: Tap, fold: Fold) -> Atom:
        """Reduce a window of any shape, in boxes that neighbours share."""
        if source.dtype.is_integer and fold.dtype.is_float:
            # As integers, in narrow lanes, before they become floats.
            own = DType.INT if source.dtype is DType.BOOL else source.dtype
            return self.emit(Cast(fold.dtype, self._over_boxes(source, Fold(fold.op, own))))
        last = len(source.origin) - 1
        parts: list[Piece] = []
        kept: list[runs.Pair] = []

        def at(box: Tap, place: runs.Pair) -> Piece:
            down, right = place
            return moved(moved(box, last - 1, down), last, right), None

        for plane, places in planes(source, source.picked).items():
            base = by(replace(source, picked=()), (*plane, 0, 0)[-last - 1 :])
            made = boxes(tuple(places), fold.idempotent)
            known = {(1, 1): base}
            for box, pieces in made.kept:
                inside = [at(ground(known[one.box]), one.place) for one in pieces]
                known[box] = self._joined(base, inside, fold)
            parts += [at(known[one.box], one.place) for one in made.pieces]
            kept += [box for box, _ in made.kept]
        done = f"{len(parts)} runs and boxes of elements {fold.verb} at each point"
        self.note(f"{done}{_boxes(kept)}")
        return joined(parts, fold, self.emit)

    def element(self, reduce: Reduce) -> tuple[Tap, Factors]:
        """Where the window's elements can be read, and the weights of each axis."""
        values = named(reduce.body)
        taps = [value for value in values.values() if isinstance(value, Tap)]
        outer = {name for name, _ in self.kernel.scalars}
        for value in values.values():
            if not values.keys() | outer >= set(operands(value)):
                raise Refused("its elements use a value of the point, which neighbours lack")
            if isinstance(value, Coefficient):
                raise Refused("its weights are an argument, known only at the call")
        if not taps:
            raise Refused("its elements read no field")
        if len({tap.axes for tap in taps}) > 1:
            raise Refused("its elements run along different axes")
        result, weights, weightless = factors(reduce, values)
        body = tuple(a for a in reduce.body if a.name in weightless)
        if taps[0].picked and any(weights):
            raise Refused("its elements are no box, and have weights")
        tap = uncast(result, values)
        if isinstance(tap, Tap):
            return tap, weights
        if isinstance(result, Const):
            raise Refused("its elements are one constant")
        # The element is computed: a stage of its own, at the first tap's origin.
        if min(taps[0].axes) < self.kernel.ndim - 2:
            raise Refused("computed elements are kept for the rows of one plane only")
        back = tuple(-o for o in along_rows(taps[0].origin))

        def make(emit: Emit) -> Atom:
            def place(_: str, expr: Expr) -> Atom:
                return first(by(expr, back), emit) if isinstance(expr, Tap) else emit(expr)

            return replayed(body, [result], place)[0]

        return self.kept(taps[0], result.dtype, make, ELEMENT_KEPT), weights

    def weightless(self, reduce: Reduce) -> Tap:
        """The elements of a window that is no weighted sum."""
        source, weights = self.element(reduce)
        if any(weights):
            raise Refused("its elements have weights")
        return source

    def by_rows(self, extents: Sequence[int], axes: Sequence[int]) -> bool:
        """Whether a window is done along its rows first, which rows made at once share.

        Floats are added in this order, however many rows are made.
        """
        return max(extents) <= NEAR and min(axes) >= self.kernel.ndim - 2

    def over_axes(
        self,
        source: Tap,
        shape: Offset,
        fold: Fold,
        weights: Factors = (),
    ) -> Atom:
        """Reduce along each axis of the window in turn; the last in the main body."""
        if source.picked:
            return self._over_boxes(source, fold)
        weights = weights or ((),) * len(shape)
        lines = map(_Line, source.axes, shape, weights)
        work = [line for line in lines if line.length > 1 or line.weights]
        work = work or [_Line(source.axes[-1], 1)]
        if self.by_rows(shape, source.axes):
            work.reverse()
        if len(set(work[-1].weights)) > WIDE:
            work.append(_Line(work[-1].axis, 1))
        place, source = along_rows(source.origin), ground(source)
        for line in work[:-1]:
            source = self._along(source, line, fold)
        pieces = self._doubled(source, work[-1], fold)
        self._note_line(work[-1], len(pieces), fold, "at each point")
        return joined([(by(one, place), weight) for one, weight in pieces], fold, self.emit)

    def _along(self, source: Tap, line: _Line, fold: Fold) -> Tap:
        dtype = fold.dtype
        long = line.length > self.schedule.direct and not (line.weights or fold.idempotent)
        rows = line.axis == len(source.origin) - 2
        if rows and long and dtype.is_integer and self.schedule.running:
            self.note(
                f"axis {line.axis}: running sum of {line.length}, one row in and one row out",
                "running, not doubling: sums of integers are exact in any order",
            )
            (name,) = self.stage(
                lambda emit: [as_type(first(source, emit), dtype, emit)],
                lambda names, body, values: RunningSum(names[0], body, values[0], line.length),
            )
            return in_stage(source, name, dtype)
        pieces = self._doubled(source, line, fold)
        self._note_line(line, len(pieces), fold, KEPT)
        return self._joined(source, pieces, fold)

    def _note_line(self, line: _Line, pieces: int, fold: Fold, where: str) -> None:
        """Tell how an axis was done: where pieces hold many elements, by doubling."""
        if line.length == 1:
            return
        axis, rows = line.axis, self.kernel.ndim - 2
        how = "at once"
        if pieces != len(line.places):
            how = "by doubling"
            if fold.idempotent:
                why = "not running: what left the window cannot be taken back"
            elif not fold.dtype.is_integer:
                why = "not running: a running sum of floats would drift"
            elif axis != rows:
                why = f"axis {axis}: not running: running sums go down the rows"
            else:
                why = "not running: the schedule has running=False"
        elif line.weights:
            why = "neither running nor doubling: the elements have weights"
        elif axis < rows:
            why = f"axis {axis}: stages are kept along the last two axes only"
        else:
            most = max(self.schedule.direct, self.schedule.radix)
            why = f"neither running nor doubling: up to {most} are taken at once"
        verb = "weighted and added" if line.weights else fold.verb
        self.note(f"axis {axis}: {line.length} {verb} {how}, {where}", why)

    def _doubled(self, source: Tap, line: _Line, fold: Fold) -> list[Piece]:
        """The pieces whose combination is the reduction of an axis."""
        axis, length, radix = line.axis, line.length, self.schedule.radix
        direct = max(self.schedule.direct, radix)
        if line.weights or length <= direct or axis < len(source.origin) - 2:
            return line.pieces(source)
        levels = runs.levels(length, fold.idempotent, radix)
        made = {1: source}

        def pieces(length: int) -> list[Piece]:
            cut = runs.cut(length, tuple(made), fold.idempotent)
            return [(moved(made[size], axis, start), None) for size, start in cut]

        for size in levels[1:]:
            made[size] = self._joined(source, pieces(size), fold)
        return pieces(length)
