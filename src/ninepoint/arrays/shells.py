"""Shells: the ghosts around an array, as strips that lie in memory one after the other.

    . 0 0 0 0 .      0    beyond the sides of the first axis
    1 a b c d 1      1    beyond those of the second one, beside the ghosts of the first as well
    1 e f g h 1
    . 0 0 0 0 .

What stands outside is looked up there where a border has ghosts, as it is looked up in the array
where its rules have names.  Names hold for what is extended so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from ninepoint.arrays.borders import Border
from ninepoint.arrays.gathering import runs
from ninepoint.arrays.layout import Layout, Region, Shape

# How ghosts follow from what they mirror, as `ninepoint.backends.llvm.commands` has it; or that
# they are the values themselves; or that a strip is there as it lies in memory.
FACE, SLOPE, MIX, VALUE, COPY, GIVEN = range(6)


@dataclass(frozen=True, slots=True)
class Strip:
    """The ghosts beyond one side of an axis, by their positions."""

    axis: int
    side: int
    region: Region


@dataclass(frozen=True, slots=True)
class Laid:
    """How the ghosts of a strip are made: values that lie in memory, with strides for all axes.

    Each is an address and strides, the stack's first.  Along the axis of the strip there may be
    one for each ghost.  A mix may have several terms, so many and alpha of the next so many bytes
    on: of the elements from the end of the array on, where `from_end`, else of what is mirrored.
    """

    how: int
    alpha: tuple[int, Shape]
    beta: tuple[int, Shape]
    terms: tuple[int, int] = (1, 0)
    from_end: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a strip, by its positions, and what it mirrors: of the array, -1, or of a strip.

    `places` are for each axis the first element there and how far the next is, and `values` the
    same for values along the edge: beyond its ends the last ones stand.
    """

    start: Shape
    shape: Shape
    source: int
    places: tuple[tuple[int, int], ...]
    values: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some positions along each axis, and where what stands there is found.

    `strip` is the number of a strip, -1 for the array itself and None for the constant.  Along
    each axis `first` is the place there of the first position, and `step` how far the next is.
    """

    start: Shape
    shape: Shape
    strip: int | None
    first: Shape
    step: Shape


@dataclass(frozen=True, slots=True)
class Shell:
    """The strips of fields, and how the ghosts of each are made: `laid`, field by field.

    `memory` is where values lie.
    """

    shape: Shape
    border: Border
    strips: tuple[Strip, ...]
    laid: tuple[tuple[Laid, ...], ...] = ()
    memory: Any = field(default=None, compare=False, repr=False)

    @staticmethod
    def of(plan: Layout) -> Shell:
        """Those that the calls of a layout look at."""
        strips = strips_of(plan.shape, plan.reach.lo, plan.reach.hi, plan.border)
        return Shell(plan.shape, plan.border, strips)

    def parts(self, number: int) -> list[Part]:
        """The parts of a strip: beside the array, and beside each strip of the axes before."""
        strip, from_end = self.strips[number], self.laid[0][number].from_end
        boxes = [(-1, Region((0,) * len(self.shape), self.shape))]
        boxes += [
            (k, other.region)
            for k, other in enumerate(self.strips[:number])
            if other.axis < strip.axis
        ]
        return [
            part
            for source, box in boxes
            for runs_ in itertools.product(*self._runs_along(strip, box, from_end))
            for part in [_part(source, runs_)]
        ]

    def _runs_along(self, strip: Strip, box: Region, from_end: bool) -> Iterator[list[_Along]]:
        """Runs along each axis: position, length, place and step of elements, and of values."""
        for axis, (a, b) in enumerate(zip(box.start, box.stop, strict=True)):
            n = self.shape[axis]
            if axis == strip.axis:
                first, last = strip.region.start[axis], strip.region.stop[axis]
                # As far inside as the ghost is outside.
                at, step = (-1 - first if first < 0 else 2 * n - 1 - first), -1
                if from_end:
                    at, step = (0 if first < 0 else n - 1), 0
                yield [(first, last - first, at - a, step, 0, 1)]
                continue
            inside = max(a, 0), min(b, n), max(a, 0), 1
            ends = (a, min(b, 0), 0, 0), inside, (max(a, n), b, n - 1, 0)
            yield [
                (low, high - low, low - a, 1, value, step)
                for low, high, value, step in ends
                if low < high
            ]

    def pieces(self, start: Sequence[int], stop: Sequence[int]) -> Iterator[Piece]:
        """Where what stands at the positions from `start` to `stop` along each axis is found."""
        axes = [self._along(k, a, b) for k, (a, b) in enumerate(zip(start, stop, strict=True))]
        for parts in itertools.product(*axes):
            places = tuple(begin for begin, *_ in parts)
            shape = tuple(length for _, length, *_ in parts)
            first = tuple(at for _, _, at, _, _ in parts)
            step = tuple(step for *_, step, _ in parts)
            sides = [side for *_, side in parts]
            beyond = [(k, side) for k, side in enumerate(sides) if side is not None]
            if any(side < 0 for _, side in beyond):
                yield Piece(places, shape, None, first, step)
            elif not beyond:
                yield Piece(places, shape, -1, first, step)
            else:
                # What the last axis has extended holds the ghosts of those before.
                number = self._number(*beyond[-1])
                origin = self.strips[number].region.start
                first = tuple(a - o for a, o in zip(first, origin, strict=True))
                yield Piece(places, shape, number, first, step)

    def _number(self, axis: int, side: int) -> int:
        return next(
            k for k, strip in enumerate(self.strips) if (strip.axis, strip.side) == (axis, side)
        )

    def _along(
        self, axis: int, start: int, stop: int
    ) -> list[tuple[int, int, int, int, int | None]]:
        """Runs along an axis: first position, length, first place, step, and the side of ghosts.

        The side is -1 where the constant stands.
        """
        found: list[tuple[int, int, int, int, int | None]] = []
        for run in runs(start, stop, self.shape[axis], *self.border.rules[axis]):
            at, length = start + run.start, run.stop - run.start
            if run.first >= 0:
                found.append((at, length, run.first, run.step, None))
                continue
            side = 0 if at < 0 else 1
            if self.border.ghosts[axis][side]:
                found.append((at, length, at, 1, side))
            else:
                found.append((at, length, 0, 0, -1))
        return found


@lru_cache(maxsize=256)
def strips_of(shape: Shape, low: Shape, high: Shape, border: Border) -> tuple[Strip, ...]:
    """The strips that are looked at from `low` to `high`, those of the first axis first."""
    found = []
    for axis, n in enumerate(shape):
        for side, reach in enumerate((max(0, -low[axis]), max(0, high[axis]))):
            if not border.ghosts[axis][side] or not reach:
                continue
            start, stop = [0] * len(shape), list(shape)
            for other in range(axis):
                before, after = border.ghosts[other]
                start[other] -= max(0, -low[other]) if before else 0
                stop[other] += max(0, high[other]) if after else 0
            start[axis], stop[axis] = (-reach, 0) if side == 0 else (n, n + reach)
            found.append(Strip(axis, side, Region(tuple(start), tuple(stop))))
    return tuple(found)


# A run along an axis: position, length, and the place and the step of elements and of values.
_Along: TypeAlias = tuple[int, int, int, int, int, int]


def _part(source: int, along: Sequence[_Along]) -> Part:
    return Part(
        tuple(start for start, *_ in along),
        tuple(length for _, length, *_ in along),
        source,
        tuple((place, step) for _, _, place, step, _, _ in along),
        tuple((value, step) for *_, value, step in along),
    )
