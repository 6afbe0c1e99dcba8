"""What a call with ghosts is cut into: its interior, and thin pieces beside it.

+ - - - - - - - +
| 0 0 0 0 0 0 0 |      0    pieces of the first axis, with the ghosts of all axes
| 1           1 |      1    those of the second, inside of the first
| 1           1 |           the interior reads no ghost
| 0 0 0 0 0 0 0 |
+ - - - - - - - +
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..arrays.borders import Border
from ..language.box import Box
from .sides import Geometry


@dataclass(frozen=True)
class Piece:
    """A part of what a call gives: what is read for it, which sides are open, and where it is.

    `result` is, for each output, the part of the whole result, and of what is made.
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]
    border: Border
    result: tuple[tuple[tuple[slice, ...], tuple[slice, ...]], ...]


def is_thin(geometry: Geometry) -> bool:
    """Whether there is too little between some sides for an interior and pieces beside it."""
    every = zip(geometry.made, geometry.core, geometry.reach, strict=True)
    return any(any(pair) and n <= 2 * sum(reach) for pair, n, reach in every)


@lru_cache(maxsize=256)
def piece_of(geometry: Geometry, own: int, side: int | None) -> Piece:
    """What is near one side of the axis `own`, inside of the earlier ones; or all of it."""
    start, stop, opened = [], [], []
    results: list[tuple[list[slice], list[slice]]] = [([], []) for _ in geometry.reaches]
    for k, (n, pair, (low, high)) in enumerate(
        zip(geometry.core, geometry.made, geometry.reach, strict=True)
    ):
        a, b = (-low if pair[0] else 0), (n + high if pair[1] else n)
        if k == own:
            a, b = (-low, low + high) if side == 0 else (n - low - high, n + high)
            pair = (True, True)
        elif k < own:
            a, b = 0, n
        start.append(a)
        stop.append(b)
        opened.append(pair)
        for box, (target, source) in zip(geometry.reaches, results, strict=True):
            before, after = max(0, -box.lo[k]), max(0, box.hi[k])
            if k == own:
                length = before if side == 0 else after
                # Where the other side is "valid", results do not begin with the array.
                target.append(slice(0, length) if side == 0 else slice(-length or n, None))
                at = low - before if side == 0 else low + high - before - after
                source.append(slice(at, at + length))
            elif k < own:
                target.append(_between(before if pair[0] else 0, after if pair[1] else 0))
                source.append(slice(None))
            else:
                target.append(slice(None))
                at = low - before if pair[0] else 0
                # What is made ends so far beyond the end of the result.
                past = high - after if pair[1] else 0
                source.append(slice(at, -past if past else None))
    return Piece(
        tuple(start),
        tuple(stop),
        geometry.border(opened),
        tuple((tuple(target), tuple(source)) for target, source in results),
    )


def interior(box: Box, geometry: Geometry) -> tuple[slice, ...]:
    """Where in a result what needs no ghosts is."""
    found = []
    for k, (first, last) in enumerate(geometry.made):
        before, after = max(0, -box.lo[k]), max(0, box.hi[k])
        found.append(_between(before if first else 0, after if last else 0))
    return tuple(found)


def last(cut: Sequence[slice]) -> Any:
    """An index of the last axes."""
    return (..., *cut)


def _between(before: int, after: int) -> slice:
    """All but so many at both ends."""
    return slice(before or None, -after or None)
