"""Gathering: a block of an array with what stands outside, copied from inside.

One formula per rule, exact for any reach (an axis of length 3 may be asked for index -50):

    index         ... -4 -3 -2 -1 | 0  1  2 |  3  4  5  6 ...
    nearest            0  0  0  0 | 0  1  2 |  2  2  2  2
    reflect            2  2  1  0 | 0  1  2 |  2  1  0  0
    mirror             0  1  2  1 | 0  1  2 |  1  0  1  2
    wrap               2  0  1  2 | 0  1  2 |  0  1  2  0

`source_indices` is that formula, `along` the same as few runs of positions, and `Gather` says how
a block is filled that sticks out of its array:

    taken      copied from the array
    ghosts     made of what was taken, axis by axis, where a border has conditions
    patches    copied from what is in the block by now, or the constant

Names hold for what conditions have extended, so their patches come last.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np

from .borders import Array, Rule

# Positions start <= p < stop along an axis.
Span: TypeAlias = tuple[int, int]


def source_indices(
    start: int, stop: int, n: int, before: Rule, after: Rule, lanes: int = 1
) -> Array:
    """For every position in [start, stop) of an axis of length `n`, the element that stands there.

    A rule takes `lanes` elements as one; `n` is a multiple of them.  -1 means that nothing does
    ("constant", or n == 0). The rules without neighbours ("fill", "keep", "valid") are mapped to
    the nearest element: what is computed from it is discarded.
    """
    position = np.arange(start, stop, dtype=np.int64)
    if n == 0:
        return np.full_like(position, -1)
    if lanes > 1:
        column, lane = np.divmod(position, lanes)
        first, last = start // lanes, -(-stop // lanes)
        columns = source_indices(first, last, n // lanes, before, after)[column - first]
        return np.where(columns < 0, -1, columns * lanes + lane)
    low = _mapped(position, n, before)
    if before == after:
        return low
    # Positions inside are their own source under either rule.
    return np.where(position < 0, low, _mapped(position, n, after))


def _mapped(position: Array, n: int, rule: Rule) -> Array:
    match rule:
        case "constant" | "ghost":
            return np.where((position >= 0) & (position < n), position, -1)
        case "wrap":
            return position % n
        case "reflect":
            folded = position % (2 * n)
            return np.where(folded < n, folded, 2 * n - 1 - folded)
        case "mirror":
            period = max(1, 2 * n - 2)  # n == 1 has one element, at index 0, and period 1
            folded = position % period
            return np.minimum(folded, period - folded) if n > 1 else np.zeros_like(folded)
        case _:
            return np.clip(position, 0, n - 1)


@dataclass(frozen=True, slots=True)
class Run:
    """Places start <= i < stop of a block, made of elements that are `step` apart.

    The first of them is `first`; step is 1, -1 or 0 (one element repeated).
    """

    start: int
    stop: int
    first: int
    step: int

    @property
    def length(self) -> int:
        """How many places these are."""
        return self.stop - self.start

    def within(self, other: Run) -> Run | None:
        """The same elements where they stand among those of another run, if all of them do."""
        last = self.first + self.step * (self.length - 1)
        if not other.step:
            one = not self.step or self.length == 1
            alike = one and self.first == other.first
            return Run(self.start, self.stop, other.start, 0) if alike else None
        places = [(at - other.first) * other.step for at in (self.first, last)]
        if not all(0 <= place < other.length for place in places):
            return None
        return Run(self.start, self.stop, other.start + places[0], self.step * other.step)


@dataclass(frozen=True, slots=True)
class Ghosts:
    """Places of a block beyond one side of its array, and the elements that they mirror.

    The first of them has this number, by which ghosts are counted in the order of positions.
    """

    side: int
    number: int
    run: Run


@dataclass(frozen=True)
class Along:
    """How the places of a block along an axis of so many elements are filled.

    Runs that are `taken` are elements of the array.  What is patched afterwards are places of the
    block, or the constant.
    """

    elements: int
    length: int
    taken: tuple[Run, ...]
    patches: tuple[tuple[Run, bool], ...]
    ghosts: tuple[Ghosts, ...]

    @cached_property
    def filled(self) -> tuple[Run, ...]:
        """The places that are taken, or ghosts, as runs of themselves."""
        runs = (*self.taken, *(one.run for one in self.ghosts))
        return tuple(replace(run, first=run.start, step=1) for run in runs)

    def mirrored(self, ghosts: Ghosts, from_end: bool) -> Run:
        """The places of what ghosts mirror, or of the last element for all."""
        one = ghosts.run
        if from_end:
            one = replace(one, first=self.elements - 1 if ghosts.side else 0, step=0)
        return next(filter(None, map(one.within, self.taken)))


@lru_cache(maxsize=4096)
def along(span: Span, n: int, rules: tuple[Rule, Rule], lanes: int, far: tuple[int, int]) -> Along:
    """Say how a block is filled that has some positions of an axis of length `n`.

    Beyond sides that are a "ghost" there are so many.  It costs time in proportion to what lies
    outside the array, not to its length.
    """
    start, stop = span
    taken: list[Run] = []
    patches: list[tuple[Run, bool]] = []
    made: list[Ghosts] = []
    inside: list[Run] = []
    for run in _runs(start, stop, n, rules, lanes):
        position = start + run.start
        side = 0 if position < 0 else 1
        if run.first >= 0:
            inside.append(run)
        elif rules[side] == "ghost":
            low, high = max(position, -far[0]), min(position + run.length, n + far[1])
            mirrored = source_indices(low, high, n, "reflect", "reflect")
            first = -far[0] if side == 0 else n
            for one in _split(mirrored, run.start - position + low):
                made.append(Ghosts(side, position + one.start - run.start - first, one))
        else:
            patches.append((run, True))
    # Columns of an array lie far apart, and all their lines may fall into one set of a cache: so
    # each is taken from there once, if that can be.  Of equal runs the one inside is taken, of
    # whose last elements ghosts may be made.
    for run in sorted(inside, key=lambda run: (-run.length, start + run.start != run.first)):
        found = next(filter(None, map(run.within, taken)), None)
        if found is None:
            taken.append(run)
        else:
            patches.append((found, False))
    return Along(n, stop - start, tuple(taken), tuple(patches), tuple(made))


def _runs(start: int, stop: int, n: int, rules: tuple[Rule, Rule], lanes: int) -> Iterator[Run]:
    """`source_indices` as few runs; -1 is first where nothing does."""
    first, last = min(max(start, 0), stop), max(min(stop, n), start)
    if first >= last:
        yield from _split(source_indices(start, stop, n, *rules, lanes), 0)
        return
    yield from _split(source_indices(start, first, n, *rules, lanes), 0)
    yield Run(first - start, last - start, first, 1)
    yield from _split(source_indices(last, stop, n, *rules, lanes), last - start)


def _split(sources: Array, at: int) -> Iterator[Run]:
    """Sources as runs, whose places begin at `at`."""
    values = sources.tolist()
    start = 0
    while start < len(values):
        first, stop = values[start], start + 1
        step = values[stop] - first if stop < len(values) else 0
        # "No source" is -1: it must never pass for the neighbour of element 0.
        if abs(step) > 1 or min(first, values[min(stop, len(values) - 1)]) < 0:
            step = 0
        while stop < len(values) and values[stop] == values[stop - 1] + step:
            if values[stop] < 0 <= first:
                break
            stop += 1
        yield Run(at + start, at + stop, first, step if stop - start > 1 else 0)
        start = stop


# One run along each axis.
Part: TypeAlias = tuple[Run, ...]


@dataclass(frozen=True)
class Gather:
    """How a block of arrays of one shape is filled, by what is along each axis."""

    axes: tuple[Along, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the block."""
        return tuple(axis.length for axis in self.axes)

    def line(self, axis: int) -> Gather:
        """The same of arrays that have one element along all other axes."""
        one = Run(0, 1, 0, 1)
        only = Along(1, 1, (one,), (), ())
        return Gather(tuple(own if k == axis else only for k, own in enumerate(self.axes)))

    @property
    def taken(self) -> Iterator[Part]:
        """What is copied from the array."""
        return itertools.product(*(axis.taken for axis in self.axes))

    def ghosts(self, sides: Extensions) -> Iterator[Beyond]:
        """The ghosts along each axis in turn, beside elements and the ghosts of those before."""
        for k, axis in enumerate(self.axes):
            for one in axis.ghosts:
                extension = sides[k][one.side]
                assert extension is not None
                beside: list[Sequence[Run]] = [other.taken for other in self.axes]
                beside[k] = [replace(one.run, first=one.number, step=1)]
                for j, other in enumerate(self.axes[:k]):
                    # Beyond the ends of an edge its last value stands.
                    ends = [replace(g.run, first=-g.side, step=0) for g in other.ghosts]
                    beside[j] = [*beside[j], *ends]
                run = axis.mirrored(one, extension.from_end)
                for part in itertools.product(*beside):
                    mirrored = [Run(own.start, own.stop, own.start, 1) for own in part]
                    mirrored[k] = run
                    yield Beyond(extension, k, one.side, part, tuple(mirrored))

    @property
    def patches(self) -> Iterator[tuple[Part, bool]]:
        """What is copied from the block itself, in this order, or is the constant."""
        whole = tuple(Run(0, axis.length, 0, 1) for axis in self.axes)
        for k, axis in enumerate(self.axes):
            rest = [other.filled for other in self.axes[k + 1 :]]
            for run, constant in axis.patches:
                for part in itertools.product((run,), *rest):
                    yield (*whole[:k], *part), constant


# How ghosts follow from what they mirror, as `ninepoint.backends.llvm.commands` has it: `beta -
# mirrored`, `mirrored + beta`, `alpha * mirrored + beta`; or they are beta, or the last element.
FACE, SLOPE, MIX, VALUE, COPY = range(5)


@dataclass(frozen=True, slots=True, eq=False)
class Extension:
    """How the ghosts beyond a side are made: of values, with an axis for the stack and for each.

    Along the axis that ends there may be one for each ghost.  Where ghosts follow `from_end`, the
    first axis of alpha has one for each of the elements from the end of the array on.
    """

    how: int
    alpha: Array
    beta: Array
    from_end: bool


# What is laid before and after each axis; None where there are no ghosts.
Extensions: TypeAlias = tuple[tuple[Extension | None, Extension | None], ...]


@dataclass(frozen=True, slots=True)
class Beyond:
    """Ghosts beyond one side of an axis: their places in a block, and those of what they mirror.

    The runs of `part` have in the place of elements those of values: -1 for the last.
    """

    extension: Extension
    axis: int
    side: int
    part: Part
    mirrored: Part

    def values(self, array: Array) -> Part:
        """The places of values in an array of them, of which one may stand for all."""
        pairs = zip(self.part, array.shape[1:], strict=True)
        return tuple(
            Run(run.start, run.stop, run.first % n, run.step if n > 1 else 0) for run, n in pairs
        )
