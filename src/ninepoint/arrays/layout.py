"""Layout: which points are computed, which are only filled, and what stands outside.

For one shape of array and one border, everything that does not depend on the data:

    +---------------------+      W  an output's window: the points it is computed at
    | slab                |         (all of them, less those whose neighbours are absent)
    |    +-----------+    |      U  the smallest box that holds every output's window
    |end | interior  | end|      interior: its neighbours all lie inside
    |    +-----------+    |      slabs, ends: the rest of U
    | slab                |      zones: the rest of an output; "fill" and "keep" write it
    +---------------------+

Of a stencil that makes one of k points along an axis, all these count its results: result p is
made at point first + k * p of the fields, and what it depends on lies around that.  A layout is
made once per shape, reaches and border, and remembered.

What stands outside is copied from inside, by one formula per rule, exact for any reach (an axis of
length 3 may be asked for index -50):

    index         ... -4 -3 -2 -1 | 0  1  2 |  3  4  5  6 ...
    nearest            0  0  0  0 | 0  1  2 |  2  2  2  2
    reflect            2  2  1  0 | 0  1  2 |  2  1  0  0
    mirror             0  1  2  1 | 0  1  2 |  1  0  1  2
    wrap               2  0  1  2 | 0  1  2 |  0  1  2  0

`source_indices` is that formula, `along` the same as few runs of positions, and `Gather` says how
a block is filled that sticks out of its array: what is copied from there, or is the constant; and
ghosts that are made of what was copied, where a border has conditions.

Names hold for what conditions have extended: ghosts beside an element that stands outside are made
of that, with the values that the condition has beside the element itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np

from ..base import limits
from ..language.box import Box, joined

# Beyond a side that is a "ghost" are values of its own for each place, which no name says.
Rule: TypeAlias = Literal[
    "fill", "keep", "valid", "constant", "nearest", "reflect", "mirror", "wrap", "ghost"
]
Array: TypeAlias = np.ndarray[Any, Any]
# Whether an axis ends before, and after, with the whole array.
Sides: TypeAlias = tuple[bool, bool]

# Rules under which an output that has no neighbour is not computed at all.
ABSENT: frozenset[Rule] = frozenset(("fill", "keep", "valid"))

# The highest degree of a polynomial that an array goes on as.
HIGHEST = 3

Shape: TypeAlias = tuple[int, ...]

# Positions start <= p < stop along an axis.
Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Border:
    """The rule before and after the array along each core axis.

    Along the last one a column may be several `lanes`, elements that lie side by side: what
    stands outside are whole columns.  At a corner the first of the `deciding` axes says what is
    written where nothing is computed; by default that is the first of all.
    """

    rules: tuple[tuple[Rule, Rule], ...]
    lanes: int = 1
    deciding: tuple[int, ...] = ()

    @property
    def ndim(self) -> int:
        """How many core axes there are."""
        return len(self.rules)

    def uses(self, rule: Rule) -> bool:
        """Whether any side of any axis follows `rule`."""
        return any(rule in pair for pair in self.rules)

    def lanes_along(self, axis: int) -> int:
        """How many elements a column has, along this of the core axes."""
        return self.lanes if axis == len(self.rules) - 1 else 1

    def turned(self, how: int | tuple[int, ...]) -> Border:
        """The border of arrays that lie in another way (see `Compiled.turned`)."""
        if isinstance(how, tuple):
            rules = tuple(self.rules[axis] for axis in how)
            return replace(self, rules=rules, deciding=tuple(map(how.index, range(self.ndim))))
        if how:
            return replace(self, lanes=how)
        return replace(self, rules=(*self.rules, ("nearest", "nearest")))

    def __str__(self) -> str:
        """Give it as one would write the option."""
        sides = {side for pair in self.rules for side in pair}
        if len(sides) == 1:
            return repr(sides.pop())
        return repr(tuple(a if a == b else (a, b) for a, b in self.rules))


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

    The first of them is `first`, or -1 if the places hold the constant; step is 1, -1 or 0 (one
    element repeated).  Places beyond a `side` that has ghosts mirror these elements; ghosts are
    counted in the order of positions, and the first of these has this `number`.
    """

    start: int
    stop: int
    first: int
    step: int
    side: int | None = None
    number: int = 0

    @property
    def places(self) -> slice:
        """Where it is in the block."""
        return slice(self.start, self.stop)

    def elements(self, origin: int = 0) -> slice:
        """What it is made of, where element `origin` comes first; one may stand for all."""
        first = self.first - origin
        if not self.step:
            return slice(first, first + 1)
        end = first + self.step * (self.stop - self.start)
        return slice(first, end if end >= 0 else None, self.step)


# What there is along an axis of a block, in order; or one run along each axis.
Runs: TypeAlias = tuple[Run, ...]


@lru_cache(maxsize=4096)
def along(span: Span, n: int, rules: tuple[Rule, Rule], lanes: int, far: tuple[int, int]) -> Runs:
    """Say how a block is filled that has some positions of an axis of length `n`.

    Beyond sides that are a "ghost" there are so many.  It costs time in proportion to what lies
    outside the array, not to its length.
    """
    start, stop = span
    first, last = min(max(start, 0), stop), max(min(stop, n), start)
    found, outside = list[Run](), [(start, stop)]
    if first < last:
        outside = [(start, first), (last, stop)]
        found.append(Run(first - start, last - start, first, 1))
    for a, b in outside:
        for run in _split(source_indices(a, b, n, *rules, lanes), a - start):
            position = start + run.start
            side = 0 if position < 0 else 1
            if run.first >= 0 or rules[side] != "ghost":
                found.append(run)
                continue
            low, high = max(position, -far[0]), min(start + run.stop, n + far[1])
            mirrored = source_indices(low, high, n, "reflect", "reflect")
            nearest = -far[0] if side == 0 else n
            for one in _split(mirrored, low - start):
                found.append(replace(one, side=side, number=start + one.start - nearest))
    return tuple(sorted(found, key=lambda run: run.start))


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


@dataclass(frozen=True)
class Gather:
    """How a block of arrays of one shape is filled, which begins at the point `start`."""

    start: tuple[int, ...]
    axes: tuple[Runs, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the block."""
        return tuple(runs[-1].stop for runs in self.axes)

    def line(self, axis: int) -> Gather:
        """The same of arrays that have one element along all other axes."""
        only = (Run(0, 1, 0, 1),)
        axes = (runs if k == axis else only for k, runs in enumerate(self.axes))
        return replace(self, axes=tuple(axes))

    @property
    def taken(self) -> Iterator[Runs]:
        """What is copied from the array, or is the constant, which stands beside ghosts too."""
        for part in itertools.product(*self.axes):
            if all(run.side is None for run in part) or any(run.first < 0 for run in part):
                yield part

    @property
    def ghosts(self) -> Iterator[tuple[int, int, Runs]]:
        """The ghosts along each axis in turn, and beyond which side of it they are.

        Beside them is what is copied, and the ghosts of the axes before.
        """
        for axis, runs in enumerate(self.axes):
            beside = [
                [one for one in others if one.first >= 0 and (k < axis or one.side is None)]
                for k, others in enumerate(self.axes)
            ]
            for run in runs:
                if run.side is not None:
                    beside[axis] = [run]
                    for part in itertools.product(*beside):
                        yield axis, run.side, part


# How ghosts follow from what they mirror, as `ninepoint.backends.llvm.entries` has it: `beta -
# mirrored`, `mirrored + beta`, `alpha * mirrored + beta`; or they are beta, or the last element.
FACE, SLOPE, MIX, VALUE, COPY = range(5)


@dataclass(frozen=True, slots=True, eq=False)
class Extension:
    """How the ghosts beyond a side are made: of values, with an axis for the stack and for each.

    Along the axis that ends there may be one for each ghost.  The first axis of alpha has one for
    each term: that of what a ghost mirrors, or those of all elements `from_end` of the array on.
    """

    how: int
    alpha: Array
    beta: Array
    from_end: bool


# What is laid before and after each axis; None where there are no ghosts.
Extensions: TypeAlias = tuple[tuple[Extension | None, Extension | None], ...]


def into(slices: Iterable[Any]) -> tuple[Any, ...]:
    """What takes these of the last axes of an array."""
    return (..., *slices)


def cut(span: Span, count: int) -> list[Span]:
    """A span in at most `count` parts of nearly one size, none of them empty."""
    first, last = span
    edges = [first + (last - first) * k // count for k in range(count + 1)]
    return [(a, b) for a, b in itertools.pairwise(edges) if a < b]


@dataclass(frozen=True, slots=True)
class Region:
    """The points first <= i < last, axis by axis."""

    spans: tuple[Span, ...]

    @property
    def start(self) -> Shape:
        """Where it begins."""
        return tuple([a for a, _ in self.spans])

    @property
    def shape(self) -> Shape:
        """Its lengths, never negative."""
        return tuple([max(0, b - a) for a, b in self.spans])

    @property
    def points(self) -> int:
        """How many points it has."""
        return math.prod(self.shape)

    def clip(self, other: Region) -> Region:
        """Give the points in both."""
        pairs = zip(self.spans, other.spans, strict=True)
        return Region(tuple([(max(a, c), min(b, d)) for (a, b), (c, d) in pairs]))

    def along(self, axis: int, first: int, last: int) -> Region:
        """Give the same with other points along an axis."""
        return Region((*self.spans[:axis], (first, last), *self.spans[axis + 1 :]))

    def within(self, first: int, last: int) -> Region:
        """Give the points from `first` on and before `last` along the first axis."""
        a, b = self.spans[0]
        return self.along(0, max(a, first), min(b, last))

    def index(self, origin: Shape) -> tuple[Any, ...]:
        """Slices into the last axes of an array whose element 0 is point `origin`."""
        ends = zip(self.spans, origin, strict=True)
        return into(slice(a - o, max(a, b) - o) for (a, b), o in ends)


@dataclass(frozen=True, slots=True)
class Output:
    """One output: the points its array covers, those that are computed, those that are written.

    `extent.start` is the point that element 0 stands for (not 0 only under "valid"). A zone is
    a region and whether it keeps what the field holds there; zones overlap, and are to be
    written in their order.
    """

    extent: Region
    window: Region
    zones: tuple[tuple[Region, bool], ...]


class Layout:
    """The geometry of a stencil on fields of one core shape.

    `itemsize` is the bytes of one element of every field together; `every` is the step along each
    axis, if some points are not made: all outputs have the same first point then.
    """

    def __init__(
        self,
        shape: Shape,
        reaches: tuple[Box, ...],
        border: Border,
        itemsize: int = 8,
        every: Shape = (),
    ) -> None:
        self.every = every or (1,) * len(shape)
        self.itemsize = itemsize
        self.shape = shape
        self.border = border
        self.reach = joined(reaches)
        self.spans = tuple(b - a for a, b in zip(self.reach.lo, self.reach.hi, strict=True))
        self.outputs = tuple(_output(shape, reach, border) for reach in reaches)
        # The point of the fields at which the first result is made.
        self.first = (0,) * len(shape)
        if every:
            (self.first,) = {output.extent.start for output in self.outputs}
            self.outputs = tuple(self._thinned(output) for output in self.outputs)
        windows = [output.window.spans for output in self.outputs if output.window.points]
        # The least region that holds all of them.
        self.computed = Region(
            tuple((min(a)[0], max(b for _, b in a)) for a in zip(*windows, strict=True))
            or ((0, 0),) * len(shape)
        )
        self.points = self.computed.points
        inside = _inside(shape, self.reach)
        self.interior = (self._made(inside) if every else inside).clip(self.computed)
        self.out_shapes = tuple(output.extent.shape for output in self.outputs)

    @property
    def inside(self) -> bool:
        """Whether all points to compute have all their neighbours."""
        return self.interior == self.computed

    @property
    def is_small(self) -> bool:
        """Whether to copy the fields as a whole, with all that lies outside."""
        sizes = limits.current.whole_bytes
        limit = sizes[min(len(self.shape), len(sizes)) - 1]
        # To copy costs the same for fewer results.
        copied = math.prod(self.every) ** 2
        return self.points * copied * self.itemsize <= limit

    def _thinned(self, output: Output) -> Output:
        """An output of whose points some are made."""
        return _with_zones(self.border, self._made(output.extent), self._made(output.window))

    def _made(self, region: Region) -> Region:
        """The results that are made at points of a region of the fields."""
        axes = zip(region.spans, self.first, self.every, strict=True)
        return Region(
            tuple((-((first - a) // step), -((first - b) // step)) for (a, b), first, step in axes)
        )

    def at(self, result: Shape) -> Shape:
        """Give the point of the fields at which a result is made."""
        places = zip(result, self.first, self.every, strict=True)
        return tuple(first + step * p for p, first, step in places)

    def source(self, region: Region) -> Region:
        """Give the points that a region depends on; some may lie outside."""
        axes = zip(region.spans, self.first, self.every, self.reach.lo, self.reach.hi, strict=True)
        return Region(
            tuple(
                (first + step * a + low, first + step * (b - 1) + high + 1)
                for (a, b), first, step, low, high in axes
            )
        )

    def has(self, region: Region) -> bool:
        """Whether points of the fields all lie inside."""
        return all(a >= 0 and b <= n for (a, b), n in zip(region.spans, self.shape, strict=True))

    def gather(self, region: Region, ghosts: bool) -> Gather:
        """Say how a block is filled that has what a region depends on.

        It has all that ghosts in it are made of.
        """
        border, starts, axes = self.border, [], []
        pairs = zip(self.source(region).spans, self.shape, self.reach.sides, strict=True)
        for axis, (span, n, reach) in enumerate(pairs):
            if ghosts:
                span = _with_mirrored(span, n, reach)
            starts.append(span[0])
            axes.append(along(span, n, border.rules[axis], border.lanes_along(axis), reach))
        return Gather(tuple(starts), tuple(axes))

    def bands(self, count: int) -> list[Span]:
        """Cut the first axis into about so many parts, the points before and after included."""
        first, last = self.computed.spans[0]
        # A part reads a halo of rows besides its own, and makes rows of stages for them: of thin
        # parts that is most of the work.
        count = max(1, min(count, (last - first) // min(4 * (self.spans[0] + 1), 256)))
        found = cut((first, last), count) or [(first, last)]
        found[0] = 0, found[0][1]
        found[-1] = found[-1][0], max(self.shape[0], last)
        return found


# The layout, from memory if it was asked for before.
layout = lru_cache(maxsize=512)(Layout)


def _inside(shape: Shape, reach: Box) -> Region:
    """The points whose neighbours all lie inside an array of a shape."""
    axes = zip(shape, reach.lo, reach.hi, strict=True)
    return Region(tuple((max(0, -low), min(n, n - high)) for n, low, high in axes))


def _output(shape: Shape, reach: Box, border: Border) -> Output:
    extent, window = [], []
    axes = zip(shape, _inside(shape, reach).spans, border.rules, strict=True)
    for n, (low, high), (before, after) in axes:
        # A stencil that does not fit leaves nothing, at the place where its window would begin.
        first = low if before == "valid" else 0
        extent.append((first, max(first, high if after == "valid" else n)))
        window.append((low if before in ABSENT else 0, high if after in ABSENT else n))
    return _with_zones(border, Region(tuple(extent)), Region(tuple(window)))


def _with_zones(border: Border, extent: Region, window: Region) -> Output:
    """An output, with what "fill" and "keep" write beside its window.

    At a corner the first axis decides, and before decides over after: it is written last.
    """
    zones: list[tuple[Region, bool]] = []
    for axis in reversed(border.deciding or range(border.ndim)):
        (a, b), (low, high), rules = extent.spans[axis], window.spans[axis], border.rules[axis]
        for rule, first, last in ((rules[1], max(a, high), b), (rules[0], a, min(b, low))):
            if first < last and rule in ("fill", "keep"):
                zones.append((extent.along(axis, first, last), rule == "keep"))
    return Output(extent, window, tuple(zones))


def _with_mirrored(span: Span, n: int, reach: tuple[int, int]) -> Span:
    """Positions along an axis, with those of all elements that ghosts there may be made of."""
    (start, stop), far = span, max(*reach, 1 + HIGHEST)
    return (
        max(0, min(start, n - far)) if start > 0 and stop > n else start,
        min(n, max(stop, far)) if start < 0 and stop < n else stop,
    )


def around(inner: Region, outer: Region) -> list[Region]:
    """Cut `outer` less `inner` into disjoint slabs, the thickest axis of memory first."""
    slabs: list[Region] = []
    rest = outer
    for axis, (a, b) in enumerate(inner.spans):
        first, last = rest.spans[axis]
        slabs += [rest.along(axis, first, a), rest.along(axis, b, last)]
        rest = rest.along(axis, a, b)
    return [slab for slab in slabs if slab.points]
