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
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ninepoint.arrays.borders import Border
from ninepoint.arrays.gathering import runs
from ninepoint.arrays.layout import Layout, Region, Shape

# Strips begin at lines of the cache.
_LINE = 64


@dataclass(frozen=True, slots=True)
class Strip:
    """The ghosts beyond one side of an axis, by their positions."""

    axis: int
    side: int
    region: Region


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
    """The strips of fields of some sizes of an element, for a stack of so many of them.

    `begins` are the bytes at which they begin, field by field; they end before `length`.
    """

    shape: Shape
    border: Border
    strips: tuple[Strip, ...]
    sizes: tuple[int, ...]
    stack: int
    begins: tuple[tuple[int, ...], ...]
    length: int

    @staticmethod
    def of(plan: Layout, sizes: tuple[int, ...], stack: int) -> Shell:
        """Those that the calls of a layout look at."""
        strips = strips_of(plan.shape, plan.reach.lo, plan.reach.hi, plan.border)
        begins, at = [], 0
        for size in sizes:
            own = []
            for strip in strips:
                own.append(at)
                at += -(-stack * strip.region.points * size // _LINE) * _LINE
            begins.append(tuple(own))
        return Shell(plan.shape, plan.border, strips, sizes, stack, tuple(begins), at)

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


def strides_of(shape: Sequence[int], size: int) -> Shape:
    """The strides of an array of a shape whose elements lie one after the other."""
    return tuple(size * math.prod(shape[k + 1 :]) for k in range(len(shape)))
