"""Units: what one task of `save` writes whole, and nobody else touches.

shape (5, 7), size (2, 4):      0 | 1        each number is a unit; those at the far ends
                               ---+---       are as short as the array is
                                2 | 3
                               ---+---
                                4 | 5

Two tasks that write into one shard or chunk each read it, change their part and write it back:
one of the two is lost, without an error.  So units are made of whole shards or chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Shape = tuple[int, ...]
Region = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class Units:
    """A grid over an array, whose cells have one size and are numbered as they lie in memory."""

    shape: Shape
    size: Shape

    @property
    def counts(self) -> Shape:
        """How many units lie along each axis."""
        return tuple(-(-n // one) for n, one in zip(self.shape, self.size, strict=True))

    @property
    def count(self) -> int:
        """How many units there are."""
        return math.prod(self.counts)

    @property
    def chunks(self) -> tuple[Shape, ...]:
        """The grid as Dask writes it: the lengths along each axis."""
        return tuple(
            tuple(min(one, n - start) for start in range(0, n, one))
            for n, one in zip(self.shape, self.size, strict=True)
        )

    def number(self, place: Shape) -> int:
        """The number of the unit at a place of the grid."""
        number = 0
        for at, count in zip(place, self.counts, strict=True):
            number = number * count + at
        return number

    def place(self, number: int) -> Shape:
        """Where in the grid the unit of that number lies."""
        place = []
        for count in reversed(self.counts):
            number, at = divmod(number, count)
            place.append(at)
        return tuple(reversed(place))

    def region(self, place: Shape) -> Region:
        """The elements of the unit at a place."""
        return tuple(
            slice(at * one, min(n, (at + 1) * one))
            for at, one, n in zip(place, self.size, self.shape, strict=True)
        )


def share(count: int, part: tuple[int, int] | None) -> range:
    """The units of one part: neighbours, so that parts read little beside their own."""
    if part is None:
        return range(count)
    number, parts = part
    return range(count * number // parts, count * (number + 1) // parts)


def check_part(part: object) -> tuple[int, int] | None:
    """Raise unless `part` is None or (i, n) with 0 <= i < n."""
    if part is None:
        return None
    if not isinstance(part, tuple | list) or len(part) != 2:
        raise TypeError(f"part is a pair (i, n), the part of number i of n, not {part!r}")
    if not all(hasattr(one, "__index__") and not isinstance(one, bool) for one in part):
        raise TypeError(f"part is a pair of whole numbers (i, n), not {part!r}")
    number, parts = map(int, part)
    if not 0 <= number < parts:
        raise ValueError(
            f"part={part!r}: there are parts (0, {parts}) to ({parts - 1}, {parts})"
            if parts > 0
            else f"part={part!r}: there is at least one part, (0, 1)"
        )
    return number, parts
