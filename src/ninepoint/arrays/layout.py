"""Layout: which points are computed, which are only filled, and from which blocks.

For one shape of array and one border, everything that does not depend on the data:

    +---------------------+      W  an output's window: the points it is computed at
    | slab                |         (all of them, less those whose neighbours are absent)
    |    +-----------+    |      U  the smallest box that holds every output's window
    |end | interior  | end|      interior: its neighbours all lie inside, no copy is made
    |    +-----------+    |      slabs, ends: the rest of U; each gets a small padded copy
    | slab                |      zones: the rest of an output; "fill" and "keep" write it
    +---------------------+

A layout is made once per shape, reaches and border, and remembered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from ninepoint.arrays.borders import ABSENT, Border, Gather, Index, source_indices
from ninepoint.language.box import Box, joined

Shape: TypeAlias = tuple[int, ...]

# Below this many bytes of fields a stencil is run once on a padded copy: five calls (interior and
# four slabs) cost more than the copy. Equal at 300x300 float64 and 1000x1000 int8, 3x3 sum, one
# thread of a cloud Xeon.
WHOLE_BYTES = 720_000

# The same below this many bytes for a stencil that looks far: 1000x1000 uint8, maximum of 15x15,
# 247 us against 293 us; 2000x2000, 984 us against 821 us (Zen 4).
FAR_BYTES = 2_500_000
FAR = 14

# A part for a thread has at least as many points: cutting costs 10 us a part.
PART_POINTS = 32_768

# Cuts into more parts are made one by one, each time: they belong to calls that take long.
REMEMBERED_PARTS = 256


@dataclass(frozen=True, slots=True)
class Region:
    """The points start <= i < stop, axis by axis."""

    start: Shape
    stop: Shape

    @property
    def shape(self) -> Shape:
        """Its lengths, never negative."""
        return tuple(max(0, b - a) for a, b in zip(self.start, self.stop, strict=True))

    @property
    def points(self) -> int:
        """How many points it has."""
        return math.prod(self.shape)

    def clip(self, other: Region) -> Region:
        """Give the points in both."""
        return Region(
            tuple(map(max, self.start, other.start)), tuple(map(min, self.stop, other.stop))
        )

    def index(self, origin: Shape) -> Index:
        """Slices, after one for the stack, into an array whose element 0 is point `origin`."""
        cut = (
            slice(a - o, max(a, b) - o)
            for a, b, o in zip(self.start, self.stop, origin, strict=True)
        )
        return (slice(None), *cut)


@dataclass(frozen=True, slots=True)
class Target:
    """Where one output of a piece goes.

    `scratch` is None if the piece lies inside the output, and it is written in place; else it is
    computed apart and the part that is wanted is copied.
    """

    place: Index
    scratch: Shape | None
    part: Index


@dataclass(frozen=True, slots=True)
class Piece:
    """Points that one call computes, from a block inside the fields or from a padded copy.

    Where it has `ends`, it is only those parts of its region.
    """

    region: Region
    source: Index
    gather: Gather | None
    targets: tuple[Target, ...]
    points: int
    ends: Ends | None = None

    @property
    def padded(self) -> bool:
        """Whether it is computed from a copy, with neighbours that lie outside."""
        return self.gather is not None or self.ends is not None


@dataclass(frozen=True, slots=True)
class Ends:
    """The first and the last points of every row, computed together from one narrow block.

    The block has a column for each neighbour of the ends, low | high; `columns` says which
    column of the fields it is, -1 if none.  A move is (output, place in it, part of its
    result); what is computed between the ends, from neighbours that are none, is dropped.
    """

    columns: tuple[int, ...]
    index: np.ndarray[tuple[int], np.dtype[np.intp]]
    spans: Shape
    moves: tuple[tuple[int, Index, Index], ...]
    points: int


@dataclass(frozen=True, slots=True)
class Output:
    """One output: the points its array covers, those that are computed, those that are written.

    `extent.start` is the point that element 0 stands for (not 0 only under "valid"). A zone is
    an index into the output and, if it keeps what is there, the same points of the field; zones
    overlap, and are to be written in their order.
    """

    extent: Region
    window: Region
    zones: tuple[tuple[Index, Index | None], ...]


class Layout:
    """The geometry of a stencil on fields of one core shape."""

    def __init__(
        self,
        shape: Shape,
        reaches: tuple[Box, ...],
        border: Border,
        itemsize: int = 8,
        seams: bool = False,
        whole_bytes: int | None = None,
    ) -> None:
        self._itemsize = itemsize
        self._seams = seams
        self._whole_bytes = whole_bytes
        self.shape = shape
        self.border = border
        self.reach = joined(reaches)
        self.outputs = tuple(_output(shape, reach, border) for reach in reaches)
        windows = [output.window for output in self.outputs if output.window.points]
        nothing = Region((0,) * len(shape), (0,) * len(shape))
        self.computed = _join(windows) if windows else nothing
        self.points = self.computed.points
        self.out_shapes = tuple(output.extent.shape for output in self.outputs)
        self._rests: dict[tuple[Region, Region, bool], Piece] = {}
        self._cuts: dict[tuple[Region, bool, int, int], list[tuple[Piece, slice]]] = {}
        self.has_fill = border.uses("fill")
        self.has_keep = border.uses("keep")
        self.has_constant = border.uses("constant")
        # Made when they are asked for.  `cached_property` would hold a lock of all layouts
        # meanwhile (Python 3.11), which a child that is forked then finds locked for ever.
        self._pieces: tuple[Piece, ...] | None = None
        self._interior: Region | None = None

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The points to compute, as few calls as are fast; the interior comes first."""
        if self._pieces is None:
            self._pieces = self._cut_into_pieces()
        return self._pieces

    def _cut_into_pieces(self) -> tuple[Piece, ...]:
        if not self.points:
            return ()
        interior = self.interior
        if interior == self.computed:
            return (self.piece(interior),)
        if not interior.points or self.points * self._itemsize <= self._whole_limit():
            return (self.piece(self.computed),)
        slabs = _around(interior, self.computed)
        middle = [slab for slab in slabs if _inside(slab, interior)]
        if not self._seams or len(self.shape) == 1 or not middle:
            return tuple(map(self.piece, (interior, *slabs)))
        rows = Region(
            (*interior.start[:-1], self.computed.start[-1]),
            (*interior.stop[:-1], self.computed.stop[-1]),
        )
        others = [slab for slab in slabs if slab not in middle]
        return (*map(self.piece, (interior, *others)), self.ends(rows, interior))

    def _whole_limit(self) -> int:
        if self._whole_bytes is not None:
            return self._whole_bytes
        far = max(b - a for a, b in zip(self.reach.lo, self.reach.hi, strict=True)) >= FAR
        return FAR_BYTES if far else WHOLE_BYTES

    @property
    def interior(self) -> Region:
        """The points to compute whose neighbours all lie inside."""
        if self._interior is None:
            everywhere = Region((0,) * len(self.shape), self.shape)
            self._interior = _window(everywhere, self.shape, self.reach).clip(self.computed)
        return self._interior

    def piece(self, region: Region) -> Piece:
        """Say how `region` is computed."""
        start = tuple(a + r for a, r in zip(region.start, self.reach.lo, strict=True))
        stop = tuple(b + r for b, r in zip(region.stop, self.reach.hi, strict=True))
        inside = min(start) >= 0 and all(b <= n for b, n in zip(stop, self.shape, strict=True))
        return Piece(
            region,
            (slice(None), *map(slice, start, stop)),
            None if inside else Gather(self.shape, start, stop, self.border),
            tuple(_target(region, output.extent) for output in self.outputs),
            region.points,
        )

    def ends(self, rows: Region, interior: Region) -> Piece:
        """Say how the ends of `rows` are computed, the points before and after `interior`."""
        low, high = self.reach.lo[-1], self.reach.hi[-1]
        columns: list[int] = []
        moves: list[tuple[int, Index, Index]] = []
        points = 0
        for a, b in (
            (rows.start[-1], interior.start[-1]),
            (interior.stop[-1], rows.stop[-1]),
        ):
            if a >= b:
                continue
            first = len(columns)
            n, rules = self.shape[-1], self.border.rules[-1]
            columns += source_indices(a + low, b + high, n, *rules).tolist()
            part = Region((*rows.start[:-1], a), (*rows.stop[:-1], b))
            for k, output in enumerate(self.outputs):
                wanted = part.clip(output.extent)
                if wanted.points:
                    origin = (*rows.start[:-1], a - first)
                    move = (k, wanted.index(output.extent.start), wanted.index(origin))
                    moves.append(move)
            points += part.points
        whole = self.piece(Region(rows.start, rows.stop))
        source = (*whole.source[:-1], slice(0, self.shape[-1]))
        index = np.array(columns, np.intp)
        spans = tuple(b - a for a, b in zip(self.reach.lo, self.reach.hi, strict=True))
        ends = Ends(tuple(columns), index, spans, tuple(moves), points)
        return Piece(rows, source, None, (), points, ends)

    def cut(
        self, piece: Piece, stack: int, parts: int, limit: int | None
    ) -> Iterable[tuple[Piece, slice]]:
        """Cut a piece along the stack, else along its first axis.

        Gives about `parts` parts, and none with more than `limit` points if it is given, unless
        the first axis cannot be cut that fine.
        """
        points = stack * piece.points
        wanted = min(parts, max(1, points // PART_POINTS))
        if limit is not None:
            wanted = max(wanted, -(-points // limit))
        if wanted <= 1:
            return [(piece, slice(None))]
        if wanted > REMEMBERED_PARTS:
            return self._cut(piece, stack, wanted)
        key = (piece.region, piece.ends is None, stack, wanted)
        if key not in self._cuts:
            self._cuts[key] = list(self._cut(piece, stack, wanted))
        return self._cuts[key]

    def rest(
        self, piece: Piece, stack: int, parts: Iterable[tuple[Piece, slice]]
    ) -> tuple[Piece, slice] | None:
        """Give all parts of a remembered cut but the first as one, if they are one."""
        if not isinstance(parts, list) or len(parts) < 3:
            return None
        part, cut = parts[0]
        if part is piece:
            return piece, slice(cut.stop, stack)
        if stack > 1:
            return None
        key = (piece.region, part.region, piece.ends is None)
        if key not in self._rests:
            start = (part.region.stop[0], *piece.region.start[1:])
            self._rests[key] = self._like(piece, Region(start, piece.region.stop))
        return self._rests[key], slice(0, 1)

    def _cut(self, piece: Piece, stack: int, wanted: int) -> Iterator[tuple[Piece, slice]]:
        if stack >= wanted:
            for k in range(wanted):
                yield piece, slice(stack * k // wanted, stack * (k + 1) // wanted)
            return
        first, last = piece.region.start[0], piece.region.stop[0]
        # A part reads a halo of rows besides its own, and makes rows of stages for them: of thin
        # parts that is most of the work.
        halo = self.reach.hi[0] - self.reach.lo[0] + 1
        each = max(1, min(-(-wanted // stack), (last - first) // min(4 * halo, 256)))
        for k in range(each):
            a, b = (first + (last - first) * at // each for at in (k, k + 1))
            region = Region((a, *piece.region.start[1:]), (b, *piece.region.stop[1:]))
            part = piece if each == 1 else self._like(piece, region)
            for image in range(stack):
                yield part, slice(image, image + 1)

    def _like(self, piece: Piece, region: Region) -> Piece:
        return self.piece(region) if piece.ends is None else self.ends(region, self.interior)


@lru_cache(maxsize=512)
def layout(
    shape: Shape,
    reaches: tuple[Box, ...],
    border: Border,
    itemsize: int = 8,
    seams: bool = False,
    whole_bytes: int | None = None,
) -> Layout:
    """Give the layout, from memory if it was asked for before.

    `itemsize` is the bytes of one element of every field together; `seams` says whether the
    program may be run on neighbours that are none, its results being dropped.  `whole_bytes`
    takes the place of what was measured: 0 for slabs and ends on arrays of any size.
    """
    return Layout(shape, reaches, border, itemsize, seams, whole_bytes)


def _output(shape: Shape, reach: Box, border: Border) -> Output:
    whole = Region((0,) * len(shape), shape)
    fit = _window(whole, shape, reach)
    start, stop, low, high = [], [], [], []
    for axis, (before, after) in enumerate(border.rules):
        start.append(fit.start[axis] if before == "valid" else 0)
        stop.append(fit.stop[axis] if after == "valid" else shape[axis])
        low.append(fit.start[axis] if before in ABSENT else 0)
        high.append(fit.stop[axis] if after in ABSENT else shape[axis])
    # A stencil that does not fit leaves nothing, at the place where its window would begin.
    extent = Region(tuple(start), tuple(map(max, start, stop)))
    window = Region(tuple(low), tuple(high))
    zones: list[tuple[Index, Index | None]] = []
    for axis, side, points in absent(border, window, extent):
        zone = Region(_with(extent.start, axis, points[0]), _with(extent.stop, axis, points[1]))
        kept = zone.index(whole.start) if border.rules[axis][side] == "keep" else None
        zones.append((zone.index(extent.start), kept))
    return Output(extent, window, tuple(zones))


def absent(
    border: Border, window: Region, block: Region
) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Give the ends of a block that "fill" or "keep" writes: axis, side, (first, last) points.

    At a corner the first axis decides, and before decides over after: it is written last.
    """
    for axis in reversed(range(border.ndim)):
        a, b = block.start[axis], block.stop[axis]
        ends = (
            (1, max(a, window.stop[axis]), b),
            (0, a, min(b, window.start[axis])),
        )
        for side, first, last in ends:
            if first < last and border.rules[axis][side] in ("fill", "keep"):
                yield axis, side, (first, last)


def _window(whole: Region, shape: Shape, reach: Box) -> Region:
    """Give the points of `whole` whose neighbours all lie inside an array of `shape`."""
    return Region(
        tuple(max(a, -lo) for a, lo in zip(whole.start, reach.lo, strict=True)),
        tuple(min(b, n - hi) for b, n, hi in zip(whole.stop, shape, reach.hi, strict=True)),
    )


def _around(inner: Region, outer: Region) -> list[Region]:
    """Cut `outer` less `inner` into disjoint slabs, the thickest axis of memory first."""
    slabs: list[Region] = []
    rest = outer
    for axis, (a, b) in enumerate(zip(inner.start, inner.stop, strict=True)):
        slabs.append(Region(rest.start, _with(rest.stop, axis, a)))
        slabs.append(Region(_with(rest.start, axis, b), rest.stop))
        rest = Region(_with(rest.start, axis, a), _with(rest.stop, axis, b))
    return [slab for slab in slabs if slab.points]


def _inside(slab: Region, interior: Region) -> bool:
    """Whether a slab has the rows of the interior, so that it is one of its ends."""
    return slab.start[:-1] == interior.start[:-1] and slab.stop[:-1] == interior.stop[:-1]


def _target(region: Region, extent: Region) -> Target:
    part = region.clip(extent)
    return Target(
        part.index(extent.start) if part.points else (slice(0, 0),) * (len(part.start) + 1),
        None if part == region else region.shape,
        part.index(region.start) if part.points else (slice(0, 0),) * (len(part.start) + 1),
    )


def _join(regions: list[Region]) -> Region:
    starts = zip(*(region.start for region in regions), strict=True)
    stops = zip(*(region.stop for region in regions), strict=True)
    return Region(tuple(map(min, starts)), tuple(map(max, stops)))


def _with(shape: Shape, axis: int, value: int) -> Shape:
    return (*shape[:axis], value, *shape[axis + 1 :])
