"""Staging: the stages that windows are reduced by, axis by axis or in runs.

3 elements from x[-1] on, weighed 1 2 1      ->      t0 = x[-1];  t1 = x[0];  t2 = x[1]
                                                     t3 = t0 + t2;  t4 = t1 * 2;  t5 = t3 + t4
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from ..analysis.rewrite import (
    Lines,
    along_rows,
    as_type,
    binary,
    copied,
    number,
    uncast,
)
from ..base.frozen import frozen
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
    Kernel,
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
)
from .parts import Factors, Place, Runs, cut, factors, levels, runs_of
from .schedule import NEAR, Refused, Schedule
from .windows import combined, most, small

# Makes a stage of its names, its body and its values.
Build: TypeAlias = Callable[[tuple[str, ...], Body, Atoms], Stage]

# Of an element taken twice nothing changes, so pieces of a window may overlap.
IDEMPOTENT: frozenset[BinaryOp] = frozenset(("minimum", "maximum", "&", "|"))

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
        """Whether elements may be taken twice."""
        return self.op in IDEMPOTENT


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
        key = build(("",) * len(values), tuple(lines.body), values)
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
