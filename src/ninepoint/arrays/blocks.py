"""Blocks: one block of a cut array, with its neighbours, put together from chunks.

    chunks of an axis      |  0  |  1  | 2 |    3    |
    output block 1               [-----]
    with neighbours -2..1      [---------]          needs chunks 0, 1, 2

Axes are independent of each other, so an axis has one `Part` per output block (a thousand for a
million blocks of a square), and a block is the product of its parts. Positions are global:
chunks may be of any size, also smaller than the reach, and a part may need chunks from the
far end, where an axis is a ring.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ninepoint.arrays.borders import Array
from ninepoint.arrays.regions import Span


@dataclass(frozen=True, slots=True)
class Strip:
    """Positions of a block that come from one chunk; `chunk` counts within those of the part."""

    target: slice
    chunk: int
    source: slice


@dataclass(frozen=True, slots=True)
class Part:
    """One axis of one block: its length, the chunks it needs, and the strips that fill it."""

    length: int
    chunks: tuple[int, ...]
    strips: tuple[Strip, ...]


def spans_of(sizes: Sequence[int]) -> list[Span]:
    """From where to where each chunk of an axis is."""
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))


def parts(chunks: Sequence[int], spans: Sequence[Span], n: int) -> list[Part]:
    """Give the part for every span of an axis of length `n`, along which a field has `chunks`.

    Beyond the ends of the axis it begins again.  A field of length 1 stays so.
    """
    if sum(chunks) == 1 != n:
        spans, n = [(0, 1)] * len(spans), 1
    ends = list(itertools.accumulate(chunks))
    return [_part(a, b, n, ends) for a, b in spans]


def _part(first: int, last: int, n: int, ends: Sequence[int]) -> Part:
    pieces: list[tuple[slice, int, slice]] = []
    at = first
    while at < last:
        # The chunk that has the element, which is not one without elements.
        chunk = bisect_right(ends, at % n)
        start = at % n - (ends[chunk - 1] if chunk else 0)
        stop = min(last, at + ends[chunk] - at % n)
        pieces.append((slice(at - first, stop - first), chunk, slice(start, start + stop - at, 1)))
        at = stop
    # A block without elements is a part of some chunk, so that it is of its kind.
    pieces = pieces or [(slice(0, 0), 0, slice(0, 0))]
    needed = sorted({chunk for _, chunk, _ in pieces})
    strips = tuple(Strip(target, needed.index(k), source) for target, k, source in pieces)
    return Part(last - first, tuple(needed), strips)


def put_together(
    own: Sequence[Part], chunks: Iterable[Any], make: Callable[[tuple[int, ...]], Array]
) -> Array:
    """Give a block: a view where it is a part of one chunk, or filled into what `make` makes.

    The chunks that its parts need come in C order of their places, and each is held only for a
    while.  They are whatever can be sliced.
    """
    if all(len(part.strips) == 1 for part in own):
        (chunk,) = chunks
        found: Array = chunk[tuple(part.strips[0].source for part in own)]
        return found
    result = make(tuple(part.length for part in own))
    places = itertools.product(*(range(len(part.chunks)) for part in own))
    for place, chunk in zip(places, chunks, strict=True):
        within = [
            [strip for strip in part.strips if strip.chunk == k]
            for part, k in zip(own, place, strict=True)
        ]
        for strips in itertools.product(*within):
            target = tuple(strip.target for strip in strips)
            result[target] = chunk[tuple(strip.source for strip in strips)]
    return result
