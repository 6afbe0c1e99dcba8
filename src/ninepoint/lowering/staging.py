"""Staging: the stages that windows are reduced by, axis by axis or in boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..analysis.rewrite import (
    Body,
    Emit,
    Lines,
    along_rows,
    as_type,
    copied,
    named,
    operands,
    uncast,
)
from ..language.dtypes import DType, kind_of
from ..language.ir import (
    RANKED,
    Atom,
    Cast,
    Coefficient,
    Const,
    Kernel,
    Offset,
    Reduce,
    RunningSum,
    Stage,
    Tap,
    Values,
)
from . import runs
from .elements import WIDE, Elements, Fold, Piece, computed, joined, relative_to, weighed
from .linear import Factors, factors
from .runs import ELEMENT, boxes
from .schedule import Method, Refused, Schedule, Way
from .windows import most, small

# Truths in a row from which on they are counted in lanes of their own, four times as many as of
# floats, before these are made of their number: nanmean of 7 x 7 float32, 512 x 512, took 0.92 of
# the time (Zen 5).
COUNTED_APART = 4

# The order in which floats of a window are added follows from its shape: along its rows first up
# to so many elements along each axis, so that several rows that are made at once share the sums,
# and else down its columns first, which loads less.  (3 x 3: a mean of float64, 512 x 512, took
# 0.83 of the time so, nanmean of 2048 x 2048 0.57.  5 x 5: a mean of float32 1.15, weights 1.56,
# Sapphire Rapids.)
NEAR = 3

# Reductions whose elements are added, or multiplied, one after the other.
_ADDING = frozenset({"sum", "mean", "prod", "var"})

# Makes a stage of its names, its body and its values.
Build: TypeAlias = Callable[[tuple[str, ...], Body, tuple[Atom, ...]], Stage]


def adds_floats(reduce: Reduce) -> bool:
    """Whether the bits of a window depend on the order in which it is done."""
    return reduce.kind in _ADDING and not reduce.result.dtype.is_integer


def extents_of(reduce: Reduce) -> list[int]:
    """How long a window is along its axes, also of elements that are picked."""
    picked = next((a.value.picked for a in reduce.body if isinstance(a.value, Tap)), ())
    if not picked:
        return list(reduce.shape)
    return [max(axis) - min(axis) + 1 for axis in zip(*picked, strict=True)]


def axes_of(reduce: Reduce) -> Offset:
    """The axes along which a window lies."""
    return next((a.value.axes for a in reduce.body if isinstance(a.value, Tap)), ())


def is_near(extents: Sequence[int], axes: Sequence[int], ndim: int) -> bool:
    """Whether floats of a window along these axes are added along its rows first."""
    return max(extents, default=1) <= NEAR and min(axes, default=0) >= ndim - 2


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

    def pieces(self, source: Elements) -> list[Piece]:
        """Its elements, one by one."""
        return [(source.moved(self.axis, k), weight) for k, weight in self.places]


class Staging:
    """The stages made so far for the windows of a kernel; equal stages are made once."""

    def __init__(
        self, kernel: Kernel, schedule: Schedule, in_place: bool, slides: bool = True
    ) -> None:
        self.kernel = kernel
        self.schedule = schedule
        self.in_place = in_place
        self.slides = slides
        self.main = Lines("t")
        self.emit = self.main.emit
        self.stages: list[Stage] = []
        self.ways: list[Way] = []
        self.known: dict[Stage, tuple[str, ...]] = {}

    def stage(
        self, make: Callable[[Emit], Iterable[Atom]], build: Build = Values
    ) -> tuple[str, ...]:
        """The names of a stage whose values `make` writes."""
        lines = Lines("u")
        values = tuple(make(lines.emit))
        key = build(("",) * len(values), tuple(lines.body), values)
        names = self.known.get(key)
        if names is None:
            first = sum(len(stage.names) for stage in self.stages)
            names = tuple(f"v{first + k}" for k in range(len(values)))
            self.known[key] = names
            own = f"{names[0]}_"
            self.stages.append(build(names, *copied(lines.body, values, lambda _, k: f"{own}{k}")))
        return names

    def kept(
        self,
        source: Elements,
        dtype: DType,
        make: Callable[[Emit], Atom],
        method: Method | None = None,
    ) -> Elements:
        """A stage of what `make` writes for each element."""
        (name,) = self.stage(lambda emit: [make(emit)])
        if method is not None:
            self.ways.append(Way(method, -1, 1, True, dtype))
        return source.kept(name, dtype)

    def _joined(self, source: Elements, pieces: Sequence[Piece], fold: Fold) -> Elements:
        """A stage of some pieces for each element."""
        return self.kept(source, fold.dtype, lambda emit: joined(pieces, fold, emit))

    def check_scattered(self, reduce: Reduce) -> None:
        """Raise where the elements that are picked share nothing with those of the neighbours."""
        taps = [a.value for a in reduce.body if isinstance(a.value, Tap)]
        if len({(tap.picked, tap.axes) for tap in taps}) != 1:
            raise Refused("its elements are picked in several ways")
        source = Elements("", taps[0].dtype, taps[0].origin, taps[0].axes, taps[0].picked)
        twice = len(set(source.picked)) < len(source.picked)
        if reduce.kind in RANKED:
            return
        idempotent = reduce.kind in ("min", "max", "any", "all")
        if twice and not idempotent:
            raise Refused("elements are picked twice")
        extents = extents_of(reduce)
        if max(extents) <= self.schedule.direct and small(reduce, self.schedule):
            near = is_near(extents, source.axes, self.kernel.ndim)
            if self.in_place or (adds_floats(reduce) and near):
                raise Refused("its elements are no box, and few")
        found = [boxes(places, idempotent) for _, places in source.planes]
        if sum(one.cost for one in found) >= ELEMENT * len(source.picked):
            raise Refused("its elements stand in no runs that are worth keeping")
        if sum(one.reads for one in found) > most(reduce, self.schedule):
            raise Refused("its elements stand in too many runs")

    def _over_boxes(self, source: Elements, fold: Fold) -> Atom:
        """Reduce a window of any shape, in boxes that neighbours share."""
        if source.dtype.is_integer and fold.dtype.is_float:
            # As integers, in narrow lanes, before they become floats.
            own = DType.INT if source.dtype is DType.BOOL else source.dtype
            return self.emit(Cast(fold.dtype, self._over_boxes(source, Fold(fold.op, own))))
        last = len(source.origin) - 1
        parts: list[Piece] = []
        kept: list[runs.Pair] = []
        axes: set[int] = set()

        def at(known: dict[runs.Pair, Elements], piece: runs.Piece) -> Piece:
            down, right = piece.place
            return known[piece.box].moved(last - 1, down).moved(last, right), None

        for plane, places in source.planes:
            base = Elements(source.name, source.dtype, source.origin, source.axes)
            base = base.by((*plane, 0, 0)[-last - 1 :])
            made = boxes(places, fold.idempotent)
            known, ground = {(1, 1): base}, {(1, 1): base.ground}
            for box, pieces in made.kept:
                inside = [at(ground, piece) for piece in pieces]
                known[box] = self._joined(base, inside, fold)
                ground[box] = known[box].ground
            parts += [at(known, piece) for piece in made.pieces]
            kept += [box for box, _ in made.kept]
            axes.add(last - 1 + made.axis)
        axis = axes.pop() if len(axes) == 1 else -1
        self.ways.append(
            Way("boxes", axis, len(parts), True, fold.dtype, False, fold.idempotent, tuple(kept))
        )
        return joined(parts, fold, self.emit)

    def element(self, reduce: Reduce) -> tuple[Elements, Factors]:
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
        first, body = taps[0], tuple(a for a in reduce.body if a.name in weightless)
        if first.picked and any(weights):
            raise Refused("its elements are no box, and have weights")
        tap = uncast(result, values)
        if isinstance(tap, Tap):
            return Elements(tap.field, tap.dtype, tap.origin, tap.axes, tap.picked), weights
        if isinstance(result, Const):
            raise Refused("its elements are one constant")
        source = Elements("", result.dtype, first.origin, first.axes, first.picked)
        if self.short_enough(reduce.shape) and not first.picked:
            # Done in place, each is computed where it is read, once for several rows.
            relative = relative_to(first.origin, body)
            return replace(source, body=relative, result=result), weights
        # The element is computed: a stage of its own, at the first tap's origin.
        if min(first.axes) < self.kernel.ndim - 2:
            raise Refused("computed elements are kept for the rows of one plane only")
        relative, here = relative_to(along_rows(first.origin), body), (0,) * self.kernel.ndim

        def make(emit: Emit) -> Atom:
            return computed(relative, result, here, emit)

        return self.kept(source, result.dtype, make, "element"), weights

    def weightless(self, reduce: Reduce) -> Elements:
        """The elements of a window that is no weighted sum."""
        source, weights = self.element(reduce)
        if any(weights):
            raise Refused("its elements have weights")
        return source

    def short_enough(self, shape: Offset) -> bool:
        """Whether a window is done in place."""
        return self.in_place and max(shape) <= self.schedule.direct

    def over_axes(
        self,
        source: Elements,
        shape: Offset,
        fold: Fold,
        weights: Factors = (),
        *,
        apart: bool = False,
    ) -> Atom:
        """Reduce along each axis of the window in turn; the last in the main body, or `apart`."""
        if source.picked:
            return self._over_boxes(source, fold)
        weights = weights or ((),) * len(shape)
        lines = map(_Line, source.axes, shape, weights)
        work = [line for line in lines if line.length > 1 or line.weights]
        work = work or [_Line(source.axes[-1], 1)]
        if self.short_enough(shape):
            for line in reversed(work):
                self._note(line, line.length, fold, kept=False)
            return self._nested(source, work, fold)
        near = is_near(shape, source.axes, self.kernel.ndim)
        if near and fold.op == "+" and not fold.dtype.is_integer:
            work.reverse()
        if (apart and work[-1].length >= COUNTED_APART) or len(set(work[-1].weights)) > WIDE:
            work.append(_Line(work[-1].axis, 1))
        for line in work[:-1]:
            source = self._along(source, line, fold)
        pieces = self._doubled(source.ground, work[-1], fold)
        self._note(work[-1], len(pieces), fold, kept=False)
        last = along_rows(source.origin)
        return joined([(one.by(last), weight) for one, weight in pieces], fold, self.emit)

    def beside_floats(self) -> bool:
        """Whether the lanes of the result are those of floats."""
        return any(kind_of(storage) == "f" for _, storage in self.kernel.fields)

    def _nested(self, source: Elements, work: Sequence[_Line], fold: Fold) -> Atom:
        """Reduce in place, along the last axis first: that much the next rows need as well."""
        pieces = work[0].pieces(source)
        if len(work) == 1:
            return joined(pieces, fold, self.emit)
        items = [(self._nested(piece, work[1:], fold), weight) for piece, weight in pieces]
        return weighed(items, fold, self.emit)

    def _along(self, source: Elements, line: _Line, fold: Fold) -> Elements:
        ground, dtype = source.ground, fold.dtype
        long = line.length > self.schedule.direct and not (line.weights or fold.idempotent)
        rows = line.axis == len(source.origin) - 2
        if rows and long and dtype.is_integer and self.schedule.running:
            self.ways.append(Way("running", line.axis, line.length, True, dtype))
            (name,) = self.stage(
                lambda emit: [as_type(ground.first(emit), dtype, emit)],
                lambda names, body, values: RunningSum(names[0], body, values[0], line.length),
            )
            return source.kept(name, dtype)
        pieces = self._doubled(ground, line, fold)
        self._note(line, len(pieces), fold, kept=True)
        return self._joined(source, pieces, fold)

    def _note(self, line: _Line, pieces: int, fold: Fold, *, kept: bool) -> None:
        """Remember how an axis was done: where pieces hold many elements, by doubling."""
        method: Method = "at once" if pieces == len(line.places) else "doubling"
        if line.length > 1:
            weighted = bool(line.weights)
            self.ways.append(
                Way(method, line.axis, line.length, kept, fold.dtype, weighted, fold.idempotent)
            )

    def _doubled(self, source: Elements, line: _Line, fold: Fold) -> list[Piece]:
        """The pieces whose combination is the reduction of an axis."""
        axis, length, radix = line.axis, line.length, self.schedule.radix
        direct = max(self.schedule.direct, radix)
        if line.weights or length <= direct or axis < len(source.origin) - 2:
            return line.pieces(source)
        levels = runs.levels(length, fold.idempotent, radix)
        made = {1: source}

        def pieces(length: int) -> list[Piece]:
            cut = runs.cut(length, tuple(made), fold.idempotent)
            return [(made[size].moved(axis, start), None) for size, start in cut]

        for size in levels[1:]:
            made[size] = self._joined(source, pieces(size), fold)
        return pieces(length)
