"""Halos: what blocks need of the fields beyond their own points, one axis at a time.

    block k     |----[=====]--|      `before` of the block before it, `after` of the one after

Blocks are chunks, or groups of chunks where these are thin: each then needs the next ones only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...remembered import Remembered
from ..regions import Span, fields_span, reach, wraps
from .grid import Chunks, cuts_of

if TYPE_CHECKING:
    from .job import Work

# A block is at least so many times as long as the program looks far: shorter ones would be
# little but faces.
LONG = 4

# How far programs look along the axes, and along which they take the fields as a ring.
_looks: Remembered[Any, tuple[tuple[int, int, bool], ...]] = Remembered(64)


def looks(work: Work, ndim: int) -> tuple[tuple[int, int, bool], ...]:
    """From where to where a program looks along each axis, and whether as along a ring."""
    key = work.token, tuple(work.wanted), ndim
    found = _looks.get(key)
    if found is None:
        sources = range(len(work.field_dtypes))
        nodes, wanted = work.nodes, work.wanted
        found = _looks[key] = tuple(
            (*reach(nodes, wanted, sources, axis), wraps(nodes, axis)) for axis in range(-ndim, 0)
        )
    return found


def needed(work: Work, span: Span, n: int, axis: int) -> Span:
    """What of the fields is needed for some points of an axis, which is counted from the end."""
    return fields_span(work.nodes, work.wanted, len(work.field_dtypes), span, n, axis)


@dataclass(frozen=True, slots=True)
class Axis:
    """The blocks of an axis: where each is, and what it takes of the ones before and after."""

    cuts: Sequence[Span]
    before: Sequence[int]
    after: Sequence[int]
    ring: bool

    @property
    def spans(self) -> list[Span]:
        """What the blocks need of the fields."""
        pairs = zip(self.cuts, self.before, self.after, strict=True)
        return [(a - low, b + high) for (a, b), low, high in pairs]

    def near(self, k: int) -> list[tuple[int, int]]:
        """Which blocks a block takes from, itself first: where they stand, and their numbers."""
        found = [(0, k)]
        if self.before[k]:
            found.append((-1, (k - 1) % len(self.cuts)))
        if self.after[k]:
            found.append((1, (k + 1) % len(self.cuts)))
        return found

    def depths(self, k: int) -> tuple[int, int]:
        """How thick the faces are that a block gives, at its begin and at its end."""
        last = len(self.cuts) - 1
        first = self.after[k - 1] if k or self.ring else 0
        return first, self.before[k + 1 if k < last else 0] if k < last or self.ring else 0

    @property
    def fits(self) -> bool:
        """Whether no block takes more than the next ones have."""
        blocks = range(len(self.cuts))
        return all(max(self.depths(k)) <= self.cuts[k][1] - self.cuts[k][0] for k in blocks)


def axis_of(work: Work, sizes: Sequence[int], axis: int) -> Axis:
    """The blocks of these sizes along an axis, which is counted from the end."""
    low, high, ring = looks(work, -axis)[0]
    cuts, n = cuts_of(sizes), sum(sizes)
    found: list[Span] = []
    for a, b in cuts:
        if a == b or low == high == 0:
            # An empty block needs nothing.
            found.append((0, 0))
        elif (b - a + high - low < n) if ring else (a + low > 0 and b + high < n):
            # Far from the ends nothing is said anew for each block.
            found.append((-low, high))
        else:
            first, last = needed(work, (a, b), n, axis)
            found.append((a - first, last - b))
    return Axis(cuts, [low for low, _ in found], [high for _, high in found], ring)


def axes_of(work: Work, chunks: Chunks) -> list[Axis]:
    """The blocks along each axis."""
    return [axis_of(work, sizes, k) for k, sizes in enumerate(chunks, -len(chunks))]


def grouped(work: Work, chunks: Chunks) -> Chunks:
    """Cuts as near to the chunks as can be with which blocks need the next ones only."""
    return tuple(_grouped(work, sizes, axis) for axis, sizes in enumerate(chunks, -len(chunks)))


def _grouped(work: Work, sizes: tuple[int, ...], axis: int) -> tuple[int, ...]:
    one = axis_of(work, sizes, axis)
    far = max((*one.before, *one.after), default=0) if len(sizes) > 1 else 0
    if not far:
        return sizes
    least = LONG * far
    while True:
        groups = _filled(sizes, least)
        if axis_of(work, groups, axis).fits:
            return groups
        least *= 2


def _filled(sizes: Sequence[int], least: int) -> tuple[int, ...]:
    """Put chunks together, one after the other, until each group is long enough."""
    groups = [0]
    for size in sizes:
        if groups[-1] >= least:
            groups.append(0)
        groups[-1] += size
    if len(groups) > 1 and groups[-1] < least:
        last = groups.pop()
        groups[-1] += last
    return tuple(groups)
