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

`source_indices` is that formula, and `Gather` says how a block is filled that sticks out of its
array: what is copied from there, or is the constant; and ghosts that are made of what was copied,
where a border has conditions.

Names hold for what conditions have extended: ghosts beside an element that stands outside are made
of that, with the values that the condition has beside the element itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np

from ..base import limits
from ..base.frozen import frozen
from ..language.ir import Box, joined

# Beyond a side that is a "ghost" are values of its own for each place, which no name says.
Rule: TypeAlias = Literal[
    "fill", "keep", "valid", "constant", "nearest", "reflect", "mirror", "wrap", "ghost"
]
Array: TypeAlias = np.ndarray[Any, Any]
# Arrays of NumPy.
PlainArrays: TypeAlias = Sequence[Array]
# Whether an axis ends before, and after, with the whole array.
Sides: TypeAlias = tuple[bool, bool]

# Rules under which an output that has no neighbour is not computed at all.
ABSENT: frozenset[Rule] = frozenset(("fill", "keep", "valid"))

# The highest degree of a polynomial that an array goes on as.
HIGHEST = 3

Shape: TypeAlias = tuple[int, ...]
# Axes of an array, in an order.
Axes: TypeAlias = tuple[int, ...]

# Positions start <= p < stop along an axis.
Span: TypeAlias = tuple[int, int]


@frozen
class Border:
    """The rule before and after the array along each core axis.

    Along the last one a column may be several `lanes`, elements that lie side by side: what
    stands outside are whole columns.
    """

    rules: tuple[tuple[Rule, Rule], ...]
    lanes: int = 1

    def uses(self, rule: Rule) -> bool:
        """Whether any side of any axis follows `rule`."""
        return any(rule in pair for pair in self.rules)

    def turned(self, how: int | Axes) -> Border:
        """The border of arrays that lie in another way (see `Compiled.turned`)."""
        if isinstance(how, tuple):
            return replace(self, rules=tuple(self.rules[axis] for axis in how))
        return replace(self, lanes=how)


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
    # Positions inside are their own source under either rule.
    low, high = _mapped(position, n, before), _mapped(position, n, after)
    found: Array = np.where(position < 0, low, high)
    return found


def _mapped(position: Array, n: int, rule: Rule) -> Any:
    match rule:
        case "constant":
            return np.where((position >= 0) & (position < n), position, -1)
        case "wrap":
            return position % n
        case "reflect" | "ghost":
            folded = position % (2 * n)
            return np.minimum(folded, 2 * n - 1 - folded)
        case "mirror":
            period = max(1, 2 * n - 2)  # n == 1 has one element, at index 0, and period 1
            folded = position % period
            return np.minimum(folded, period - folded)
        case _:
            return np.clip(position, 0, n - 1)


# Places in an array, axis by axis.
Index: TypeAlias = tuple[Any, ...]


@frozen
class Ghosts:
    """The ghosts of a block beyond one side of an axis; copied there is what they mirror.

    Attributes
    ----------
    axis, side : int
        The axis; 0 for the side before it, 1 for that after it.
    places : tuple of slice
        The places of the ghosts in the block, axis by axis, and of what is beside them.
    end : int
        The place of the last element before them, along the axis.
    edge : tuple of arrays
        For each of these places along an axis, which of the values along the edge is beside it;
        along their own, which of all ghosts beyond that side is there.
    """

    axis: int
    side: int
    places: tuple[slice, ...]
    end: int
    edge: tuple[Array, ...]


@frozen
class Extension:
    """How the ghosts beyond a side are made, of the values of a condition of some kind.

    At the "cell" they are the value; to "extrapolate" values say by how much each element counts,
    from the end of the array on; else a ghost is made of what it mirrors, whose distance is the
    last value.  Values are numbers, or have an axis for the stack and for each axis of the kernel;
    along the one that ends there may be one for each ghost.
    """

    kind: str
    values: tuple[Any, ...]

    def fill(self, block: Array, one: Ghosts, images: slice) -> None:
        """Make ghosts of a block of some images, which holds all that they are made of."""
        wide = np.complex128 if block.dtype.kind == "c" else np.float64
        to = into(one.places)
        mirrored = np.asarray(block[to], wide)
        values = list[Any]()
        for value in self.values:
            if isinstance(value, np.ndarray):
                value = value[images] if len(value) > 1 else value
                # Those along the edge that are beside the ghosts.
                for k, n in enumerate(value.shape[1:]):
                    value = value.take(one.edge[k], k + 1) if n > 1 else value
            values.append(value)
        made = values[0]
        match self.kind:
            case "dirichlet":
                made = 2 * made - mirrored
            case "neumann":
                made = made * values[1] + mirrored
            case "robin":
                a, b, c, distance = values
                half = a * (distance / 2)
                made = (b - half) / (b + half) * mirrored + c * distance / (b + half)
            case "extrapolate":
                made = np.float64(0)
                for k, weight in enumerate(values):
                    last = one.end - k if one.side else one.end + k
                    at = (*to[: one.axis + 1], slice(last, last + 1), *to[one.axis + 2 :])
                    made = made + weight * np.asarray(block[at], wide)
        block[to] = made


# How ghosts are made before and after each axis; names where there are none.
Extensions: TypeAlias = Sequence[Sequence[Any]]


@frozen
class Gather:
    """How a block of arrays of one shape is filled, which begins at the point `start`.

    Along each axis there are elements from these `sources`, or the constant, which is beside
    ghosts too.  `told` says the same to machine code (see `ninepoint.backends.llvm.entries.pad`).
    """

    start: Shape
    shape: Shape
    sources: tuple[Array, ...]
    told: Array
    ghosts: tuple[Ghosts, ...]


def into(slices: Iterable[Any]) -> tuple[Any, ...]:
    """What takes these of the last axes of an array."""
    return (..., *slices)


def cut(span: Span, count: int) -> list[Span]:
    """A span in at most `count` parts of nearly one size, none of them empty."""
    first, last = span
    edges = [first + (last - first) * k // count for k in range(count + 1)]
    return [(a, b) for a, b in itertools.pairwise(edges) if a < b]


def hull(spans: Iterable[Span]) -> Span:
    """The least span that holds some."""
    starts, stops = zip(*spans, strict=True)
    return min(starts), max(stops)


class Region(tuple[Span, ...]):
    """The points first <= i < last, axis by axis."""

    __slots__ = ()

    @property
    def start(self) -> Shape:
        """Where it begins."""
        return tuple([a for a, _ in self])

    @property
    def shape(self) -> Shape:
        """Its lengths, never negative; that of an unknown one is not known."""
        return tuple([max(b - a, 0) for a, b in self])

    @property
    def points(self) -> int:
        """How many points it has."""
        return math.prod(self.shape)

    def clip(self, other: Region) -> Region:
        """Give the points in both."""
        pairs = zip(self, other, strict=True)
        return Region((max(a, c), min(b, d)) for (a, b), (c, d) in pairs)

    def inside(self, other: Region) -> bool:
        """Whether all of them are points of another region."""
        return self.clip(other) == self

    def along(self, axis: int, first: int, last: int) -> Region:
        """Give the same with other points along an axis."""
        spans = list(self)
        spans[axis] = first, last
        return Region(spans)

    def within(self, first: int, last: int) -> Region:
        """Give the points from `first` on and before `last` along the first axis."""
        a, b = self[0]
        return self.along(0, max(a, first), min(b, last))

    def slices(self, origin: Shape) -> tuple[Any, ...]:
        """Slices into the last axes of an array whose element 0 is point `origin`."""
        ends = zip(self, origin, strict=True)
        return into(slice(a - o, max(a, b) - o) for (a, b), o in ends)


@frozen
class Piece:
    """Points that are computed in one run, of what is `read` of fields, or of blocks of them.

    For each output it says where they are written; and which of them are, if not all.
    """

    region: Region
    read: Index
    block: Gather | None
    written: tuple[tuple[Index, Index | None], ...]


# What is written of an output without being computed: its number, where, and the elements of a
# field that it keeps, if it keeps any.
Zone: TypeAlias = tuple[int, Index, Index | None]


class Layout:
    """The geometry of a stencil on fields of one core shape.

    Each output has an `extent`, the points that its array covers, whose start is the point that
    element 0 stands for (not 0 only under "valid"); and those of its `windows` are computed.
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
        extents, windows = zip(*(_points(shape, one, border) for one in reaches), strict=True)
        # The point of the fields at which the first result is made.
        (self.first,) = {one.start for one in extents} if every else {(0,) * len(shape)}
        self.extents = list(map(self._made, extents))
        self.windows = list(map(self._made, windows))
        computed = [window for window in self.windows if window.points]
        # The least region that holds all of them.
        hulls = list(map(hull, zip(*computed, strict=True)))
        self.computed = Region(hulls or [(0, 0)] * len(shape))
        self.points = self.computed.points
        self.interior = self._made(_inside(shape, self.reach)).clip(self.computed)

    def _made(self, region: Region) -> Region:
        """The results that are made at points of a region of the fields."""
        axes = zip(region, self.first, self.every, strict=True)
        return Region(
            (-((first - a) // step), -((first - b) // step)) for (a, b), first, step in axes
        )

    def done(self, first: int, last: int) -> tuple[Sequence[Piece], Sequence[Zone]]:
        """What is run, and then written, for some points along the first axis."""
        zones: list[Zone] = []
        for k, (extent, window) in enumerate(zip(self.extents, self.windows, strict=True)):
            # At a corner the first axis decides, and the rule before it is written last.
            for slab, axis, side in reversed(around(window, extent)):
                zone = slab.within(first, last)
                axes = zip(zone, self.first, self.every, strict=True)
                kept = into(slice(n + s * a, n + s * b, s) for (a, b), n, s in axes)
                keeps = self.border.rules[axis][side] == "keep"
                if zone.points:
                    zones.append((k, zone.slices(extent.start), kept if keeps else None))
        box = self.computed.within(first, last)
        interior = self.interior.clip(box)
        regions = [interior, *(slab for slab, _, _ in around(interior, box))]
        sizes = limits.current.whole_bytes
        limit = sizes[min(len(self.shape), len(sizes)) - 1]
        # To copy all of the fields, with what lies outside, costs the same for fewer results.
        small = self.points * math.prod(self.every) ** 2 * self.itemsize <= limit
        if interior != box and (not interior.points or small):
            regions = [box]
        return [self.piece(one) for one in regions if box.points], zones

    def piece(self, region: Region) -> Piece:
        """What some points are made of, and where they are written."""
        axes = zip(region, self.first, self.every, *self.reach.ends, strict=True)
        spans = Region(
            (first + step * a + low, first + step * (b - 1) + high + 1)
            for (a, b), first, step, low, high in axes
        )
        inside = spans.inside(Region((0, n) for n in self.shape))
        gather = None if inside else self._gather(spans)
        written = []
        for extent in self.extents:
            part = region.clip(extent)
            some = None if part == region else part.slices(region.start)
            written.append((part.slices(extent.start), some))
        read = spans.slices(gather.start if gather else (0,) * len(self.shape))
        return Piece(region, read, gather, tuple(written))

    def _gather(self, spans: Sequence[Span]) -> Gather:
        """Say how a block is filled; it has all that ghosts in it are made of."""
        border = self.border
        if border.uses("ghost"):
            found = list[Span]()
            for (start, stop), n, reach in zip(spans, self.shape, self.reach.sides, strict=True):
                # With all elements that ghosts may be made of.
                far = min(n, max(*reach, 1 + HIGHEST))
                first = min(start, n - far) if stop > n else start
                found.append((first, max(stop, far) if start < 0 else stop))
            spans = found
        each = list(zip(spans, self.shape, border.rules, strict=True))
        lanes = (*(1,) * (len(spans) - 1), border.lanes)
        sources = tuple(
            source_indices(*span, n, *rules, own)
            for (span, n, rules), own in zip(each, lanes, strict=True)
        )
        # Those of a row that follow each other.
        (start, stop), n = spans[-1], self.shape[-1]
        low = min(max(0, -start), stop - start)
        head = 1 + len(sources), low, max(low, min(n, stop) - start)
        told = np.concatenate([head, *reversed(sources), [0]]).astype(np.int64)
        starts, shape = tuple(a for a, _ in spans), tuple(map(len, sources))
        return Gather(starts, shape, sources, told, tuple(_ghosts(each, sources)))

    def bands(self, count: int) -> list[Span]:
        """Cut the first axis into about so many parts, the points before and after included.

        A part reads a halo of rows besides its own, and makes rows of stages for them: of thin
        parts that is most of the work.
        """
        span, rows = self.computed[0], 1 + self.reach.hi[0] - self.reach.lo[0]
        most = (span[1] - span[0]) // min(4 * rows, 256)
        found = cut(span, max(1, min(count, most))) or [span]
        found[0] = 0, found[0][1]
        found[-1] = found[-1][0], max(self.shape[0], span[1])
        return found


# The layout, from memory if it was asked for before.
layout = lru_cache(maxsize=512)(Layout)


def _inside(shape: Shape, reach: Box) -> Region:
    """The points whose neighbours all lie inside an array of a shape."""
    axes = zip(shape, reach.sides, strict=True)
    return Region((low, n - high) for n, (low, high) in axes)


def _points(shape: Shape, reach: Box, border: Border) -> tuple[Region, Region]:
    """The points that the array of an output covers, and those that are computed."""
    extent, window = [], []
    axes = zip(shape, _inside(shape, reach), border.rules, strict=True)
    for n, (low, high), (before, after) in axes:
        # A stencil that does not fit leaves nothing, at the place where its window would begin.
        first = low if before == "valid" else 0
        extent.append((first, max(first, high if after == "valid" else n)))
        window.append((low if before in ABSENT else 0, high if after in ABSENT else n))
    return Region(extent), Region(window)


def _ghosts(
    axes: Sequence[tuple[Span, int, tuple[Rule, Rule]]], sources: Sequence[Array]
) -> Iterator[Ghosts]:
    """The ghosts along each axis of a block in turn.

    Beside them are those along later axes, where the block has what these mirror; and those along
    earlier ones, which are made: beyond the ends of an edge its last value stands.
    """
    whole, edge = list[slice](), list(sources)
    for (start, stop), n, (before, after) in axes:
        low = max(0, -start) if before == "constant" else 0
        whole.append(slice(low, (min(n, stop) if after == "constant" else stop) - start))
    for axis, ((start, stop), n, pair) in enumerate(axes):
        for side, first, last in ((0, start, 0), (1, n, stop)):
            if pair[side] == "ghost" and first < last:
                own = slice(first - start, last - start)
                places = (*whole[:axis], own, *whole[axis + 1 :])
                # Of the ghosts before an axis the last is beside it, of those after it the first.
                edge[axis] = np.arange(start, stop) - n * side
                end = (n - 1 if side else 0) - start
                beside = tuple(one[at] for one, at in zip(edge, places, strict=True))
                yield Ghosts(axis, side, places, end, beside)
        before, after = ("nearest" if rule == "ghost" else rule for rule in pair)
        edge[axis] = source_indices(start, stop, n, before, after)


def around(inner: Region, outer: Region) -> list[tuple[Region, int, int]]:
    """Cut `outer` less `inner` into disjoint slabs, each before or after an axis.

    The first axis, the thickest in memory, comes first.
    """
    slabs: list[tuple[Region, int, int]] = []
    rest = outer
    for axis, ((a, b), (first, last)) in enumerate(zip(inner, outer, strict=True)):
        a, b = min(a, last), max(b, first)
        slabs += [(rest.along(axis, first, a), axis, 0), (rest.along(axis, b, last), axis, 1)]
        rest = rest.along(axis, a, b)
    return [slab for slab in slabs if slab[0].points]
