"""Layout: which points are computed, which are only filled, and where neighbours are missing.

For one shape of array and one border, everything that does not depend on the data:

    +---------------------+      W  an output's window: the points it is computed at
    | slab                |         (all of them, less those whose neighbours are absent)
    |    +-----------+    |      U  the smallest box that holds every output's window
    |end | interior  | end|      interior: its neighbours all lie inside
    |    +-----------+    |      slabs, ends: the rest of U
    | slab                |      zones: the rest of an output; "fill" and "keep" write it
    +---------------------+

Of a stencil that makes one of k points along an axis, all these count its results: result p is
made at point first + k * p of the fields, and what it depends on lies around that.

A layout is made once per shape, reaches and border, and remembered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

from ..base import limits
from ..language.box import Box, joined
from .borders import ABSENT, Border
from .gathering import Extension, Extensions, Gather, Span, along

Shape: TypeAlias = tuple[int, ...]

# The same for a stencil that looks far: 1000x1000 uint8, maximum of 15x15, 247 us against 293 us;
# 2000x2000, 984 us against 821 us (Zen 4).
FAR_BYTES = 2_500_000
FAR = 14


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
        return (..., *(slice(a - o, max(a, b) - o) for (a, b), o in ends))


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


@dataclass(slots=True)
class Values:
    """`cval` as fields and outputs hold it, 0 where nobody asks; what is laid for `ghosts`."""

    fields: list[Any]
    outs: list[Any]
    ghosts: tuple[Extensions, ...] = ()


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
        self._itemsize = itemsize
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
        *spans, span = self.spans
        far = max(*spans, span // self.border.lanes) >= FAR if spans else span >= FAR
        sizes = limits.current.whole_bytes
        limit = FAR_BYTES if far else sizes[min(len(self.shape), len(sizes)) - 1]
        # To copy costs the same for fewer results.
        copied = math.prod(self.every) ** 2
        return self.points * copied * self._itemsize <= limit

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

    def with_ghosts(self, region: Region, ghosts: Sequence[Extensions]) -> tuple[Gather, Shape]:
        """Say how what a region depends on is copied, and where the block begins.

        The block has all that ghosts in it are made of.
        """
        border, axes = self.border, []
        pairs = zip(self.source(region).spans, self.shape, self.reach.sides, strict=True)
        for axis, (span, n, reach) in enumerate(pairs):
            if ghosts:
                span = _with_mirrored(span, n, reach, ghosts[0][axis])
            lanes = border.lanes_along(axis)
            axes.append((span, along(span, n, border.rules[axis], lanes, reach)))
        return Gather(tuple(one for _, one in axes)), tuple(start for (start, _), _ in axes)

    def bands(self, count: int) -> list[tuple[int, int]]:
        """Cut the first axis into about so many parts, the points before and after included."""
        first, last = self.computed.spans[0]
        # A part reads a halo of rows besides its own, and makes rows of stages for them: of thin
        # parts that is most of the work.
        count = max(1, min(count, (last - first) // min(4 * (self.spans[0] + 1), 256)))
        edges = [first + (last - first) * k // count for k in range(count + 1)]
        edges[0], edges[-1] = 0, max(self.shape[0], last)
        return list(pairwise(edges))


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


def _with_mirrored(
    span: Span, n: int, reach: tuple[int, int], sides: tuple[Extension | None, Extension | None]
) -> Span:
    """Positions along an axis, with those of the elements that ghosts there are made of."""
    start, stop = span
    before, after = (
        0 if one is None else len(one.alpha) if one.from_end else far
        for one, far in zip(sides, reach, strict=True)
    )
    return (
        max(0, min(start, n - after)) if start > 0 and stop > n else start,
        min(n, max(stop, before)) if start < 0 and stop < n else stop,
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
