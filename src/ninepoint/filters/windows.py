"""Windows: which neighbours a filter takes, of a box or of a shape.

size=(3, 4)                        ->      Window((3, 4)):  x[-1:2, -2:2], all of it
footprint=[[0, 1, 0], [1, 1, 1]]   ->      Window((2, 3), b"..."):  x[-1:1, -1:2][mask]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Size: TypeAlias = tuple[int, ...]

# The most points of a window: of one axis a million, of two a thousand each.
MOST_POINTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """A box of neighbours around a point, or those of them that a footprint names, as bytes."""

    size: Size
    footprint: bytes = b""

    @property
    def count(self) -> int:
        """How many neighbours are taken."""
        return sum(self.footprint) if self.footprint else math.prod(self.size)

    def offsets(self, mirrored: bool = False) -> tuple[slice, ...]:
        """Give the offsets of the box, maybe mirrored at the point."""
        return offsets(self.size, mirrored)

    def taken(self, mirrored: bool = False) -> Any:
        """Give an index of the box: of all of it, or of what the footprint names."""
        if not self.footprint:
            return (slice(None),) * len(self.size)
        mask = np.frombuffer(self.footprint, bool)
        return mask[:: -1 if mirrored else 1].reshape(self.size)


def footprint_window(footprint: Any) -> Window:
    """Check a footprint, and give its window.

    Raises
    ------
    TypeError
        If it holds anything else than truths, or 0 and 1 in their place.
    ValueError
        If it takes nothing, or is not regular.
    """
    try:
        array = np.asarray(footprint)
    except ValueError as error:
        raise ValueError("footprint is not regular: its rows differ in length.") from error
    if array.dtype.kind not in "biuf":
        raise TypeError(f"footprint of dtype {array.dtype} holds no truths; use one of bool.")
    mask = array.astype(bool)
    if array.dtype != bool and (strange := array[array != mask]).size:
        raise TypeError(
            f"footprint holds {strange[0]}, which is neither true nor false; compare, "
            "as in weights > 0, or weigh neighbours with correlate."
        )
    check_points(mask.shape)
    if not mask.any():
        raise ValueError(
            f"footprint of shape {mask.shape} takes no neighbour; at least one must be true."
        )
    return Window(mask.shape, b"" if mask.all() else mask.tobytes())


def check_points(lengths: Size) -> None:
    """Refuse a window so large that it would take minutes to compile, or all of the memory."""
    if math.prod(lengths) > MOST_POINTS:
        raise ValueError(
            f"a window of {' x '.join(map(str, lengths))} points is more than a filter takes "
            f"({MOST_POINTS}); filter one axis after the other with axes=, or a smaller image."
        )


def offsets(size: Size, mirrored: bool = False) -> tuple[slice, ...]:
    """Give the offsets around 0; where a size is even, one more before it than after."""
    before = [(n - 1) // 2 if mirrored else n // 2 for n in size]
    return tuple(slice(-b, n - b) for b, n in zip(before, size, strict=True))
