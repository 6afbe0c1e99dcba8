"""Staging: the stages that windows are reduced by, axis by axis or in boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from ..language.dtypes import DType, kind_of
from ..language.ir import (
    RANKED,
    Assign,
    Atom,
    BinaryOp,
    Cast,
    Coefficient,
    Const,
    Kernel,
    Offset,
    Reduce,
    Ref,
    RunningSum,
    Stage,
    Tap,
    Values,
    atoms,
    renamed,
    renamed_atom,
)
from . import runs
from .choices import Method, Refused, Way
from .doubling import SEARCHED, fewest, powers
from .elements import (
    WIDE,
    Elements,
    Piece,
    added,
    along_rows,
    computed,
    grounded,
    joined,
    moved,
    read,
    relative_to,
    weighed,
)
from .lines import Lines
from .runs import ELEMENT, boxes
from .schedule import Schedule
from .separable import factors
from .windows import most, small

# Truths in a row from which on they are counted in lanes of their own, four times as many as of
# floats, before these are made of their number: nanmean of 7 x 7 float32, 512 x 512, took 0.92 of
# the time (Zen 5).
COUNTED_APART = 4

# Of an element taken twice nothing changes, so pieces of a window may overlap.
IDEMPOTENT: frozenset[BinaryOp] = frozenset(("minimum", "maximum", "&", "|"))

# The order in which floats of a window are added follows from its shape: along its rows first up
# to so many elements along each axis, so that several rows that are made at once share the sums,
# and else down its columns first, which loads less.  (3 x 3: a mean of float64, 512 x 512, took
# 0.83 of the time so, nanmean of 2048 x 2048 0.57.  5 x 5: a mean of float32 1.15, weights 1.56,
# Sapphire Rapids.)
NEAR = 3

# Reductions whose elements are added, or multiplied, one after the other.
_ADDING = frozenset({"sum", "mean", "prod", "var"})

# Makes a stage of its names, its body and its values.
Build: TypeAlias = Callable[[tuple[str, ...], tuple[Assign, ...], tuple[Atom, ...]], Stage]


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


class Staging:
    """The stages made so far for the windows of a kernel; equal stages are made once."""

    def __init__(self, kernel: Kernel, schedule: Schedule, in_place: bool) -> None:
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

    def scattered(self, reduce: Reduce) -> Refused | None:
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
        extents = extents_of(reduce)
        near = max(extents) <= self.schedule.direct and small(reduce, self.schedule)
        if near and (
            self.in_place or (adds_floats(reduce) and self.is_near(extents, taps[0].axes))
        ):
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

    def element(self, reduce: Reduce) -> tuple[Elements, tuple[tuple[float, ...], ...]] | Refused:
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
        if self.short_enough(reduce.shape) and not first.picked:
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

    def weightless(
        self, reduce: Reduce
    ) -> tuple[Elements, tuple[tuple[float, ...], ...]] | Refused:
        """The elements of a window that is no weighted sum."""
        element = self.element(reduce)
        if not isinstance(element, Refused) and any(element[1]):
            return Refused("its elements have weights")
        return element

    def short_enough(self, shape: Offset) -> bool:
        """Whether a window is done in place."""
        return self.in_place and max(shape) <= self.schedule.direct

    def over_axes(
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
        if self.short_enough(shape):
            for axis, length, factor in reversed(work):
                self._note(axis, length, length, factor, dtype, op, kept=False)
            return self._nested(source, work, dtype, op)
        if op == "+" and not dtype.is_integer and self.is_near(shape, source.axes):
            work.reverse()
        *_, (_, last, factor) = work
        if (apart and last >= COUNTED_APART) or len(set(factor)) > WIDE:
            work.append((work[-1][0], 1, ()))
        for axis, length, factor in work[:-1]:
            source = self._along(source, axis, length, factor, dtype, op)
        axis, length, factor = work[-1]
        return self._combined(self.main, source, axis, length, factor, dtype, op)

    def is_near(self, extents: Sequence[int], axes: Sequence[int]) -> bool:
        """Whether floats of a window are added along its rows first."""
        return is_near(extents, axes, self.kernel.ndim)

    def beside_floats(self) -> bool:
        """Whether the lanes of the result are those of floats."""
        return any(kind_of(storage) == "f" for _, storage in self.kernel.fields)

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
