"""Box: the offsets, axis by axis, at which a stencil looks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

from ..base.frozen import frozen

Offset: TypeAlias = tuple[int, ...]
# The least and the greatest offset along each axis, as a user declares them.
Neighborhood: TypeAlias = tuple[tuple[int, int], ...]

# The farthest that a kernel may look: what is prepared for a border has a place for each step.
FAR = 2**31


@frozen
class Box:
    """All offsets o with lo[axis] <= o[axis] <= hi[axis]; it need not hold the point itself."""

    lo: Offset
    hi: Offset

    @property
    def ndim(self) -> int:
        """How many axes the offsets have."""
        return len(self.lo)

    @property
    def ends(self) -> tuple[Offset, Offset]:
        """The least and the greatest offsets."""
        return self.lo, self.hi

    @property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """How many neighbours it holds before the point and after it, axis by axis."""
        return tuple((max(0, -lo), max(0, hi)) for lo, hi in zip(*self.ends, strict=True))

    def shift(self, by: Offset) -> Box:
        """Move every offset by `by`."""
        return Box(
            tuple(a + b for a, b in zip(self.lo, by, strict=True)),
            tuple(a + b for a, b in zip(self.hi, by, strict=True)),
        )

    def __or__(self, other: Box) -> Box:
        """Join: the smallest box that holds both."""
        return Box(tuple(map(min, self.lo, other.lo)), tuple(map(max, self.hi, other.hi)))


def joined(boxes: Sequence[Box]) -> Box:
    """The smallest box that holds all of them; there is at least one."""
    return reduce(Box.__or__, boxes)
