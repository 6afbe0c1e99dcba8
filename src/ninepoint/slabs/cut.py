"""How a state is cut along one axis, and which parts have the points that another one needs.

    owned     |-- 0 --|-- 1 --|-- 2 --|
    part 1 needs    |=============|          pieces: (0, end of 0), (1, all of 1), (2, begin of 2)

Along a ring positions count on beyond the ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..arrays.layout import Shape
from ..arrays.regions import Span


@dataclass(frozen=True)
class Cut:
    """The shape of the whole state, the axis, counted from the end, and what each part has."""

    shape: Shape
    axis: int
    owned: tuple[Span, ...]

    @staticmethod
    def of(shape: Shape, axis: int, lengths: Sequence[int]) -> Cut:
        """Parts of these lengths one after the other, of a state of `shape` save for the axis."""
        ends = list(itertools.accumulate(lengths, initial=0))
        whole = list(shape)
        whole[axis] = ends[-1]
        return Cut(tuple(whole), axis, tuple(itertools.pairwise(ends)))

    @property
    def length(self) -> int:
        """How long the axis is."""
        return self.shape[self.axis]

    def pieces(self, span: Span) -> Iterator[tuple[int, Span]]:
        """Who has which points of a span, from its first to its last."""
        n = max(1, self.length)
        for turn in range(span[0] // n, -(-span[1] // n)):
            for part, (first, last) in enumerate(self.owned):
                a, b = max(span[0], first + turn * n), min(span[1], last + turn * n)
                if a < b:
                    yield part, (a, b)

    def region(self, span: Span) -> tuple[Span, ...]:
        """All points of the state with these along the axis."""
        spans = [(0, n) for n in self.shape]
        spans[self.axis] = span
        return tuple(spans)
