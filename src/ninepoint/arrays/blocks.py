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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ninepoint.arrays.borders import Array
from ninepoint.arrays.regions import Span


@dataclass(frozen=True, slots=True)
class Part:
    """One axis of one block: its length, and of each chunk that it needs where pieces go.

    Of a piece there are the positions in the block, and those in the chunk.
    """

    length: int
    pieces: Mapping[int, Sequence[tuple[slice, slice]]]


def spans_of(sizes: Sequence[int]) -> list[Span]:
    """From where to where each chunk of an axis is."""
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))


def parts(chunks: Sequence[int], spans: Sequence[Span]) -> list[Part]:
    """Give the part for every span of an axis, along which a field has `chunks`.

    Beyond the ends of the axis it begins again.
    """
    ends = list(itertools.accumulate(chunks))
    return [_part(a, b, ends) for a, b in spans]


@lru_cache(maxsize=512)
def part_of(chunks: tuple[int, ...], span: Span) -> Part:
    """The part for one span, from memory if it was asked for before."""
    return parts(chunks, [span])[0]


def _part(first: int, last: int, ends: Sequence[int]) -> Part:
    pieces: dict[int, list[tuple[slice, slice]]] = {}
    at, n = first, ends[-1]
    while at < last:
        # The chunk that has the element, which is not one without elements.
        chunk = bisect_right(ends, at % n)
        start = at % n - (ends[chunk - 1] if chunk else 0)
        stop = min(last, at + ends[chunk] - at % n)
        piece = slice(at - first, stop - first), slice(start, start + stop - at, 1)
        pieces.setdefault(chunk, []).append(piece)
        at = stop
    # A block without elements is a part of some chunk, so that it is of its kind.
    return Part(last - first, dict(sorted(pieces.items())) or {0: [(slice(0, 0), slice(0, 0))]})


def put_together(
    own: Sequence[Part], chunks: Iterable[Any], make: Callable[[tuple[int, ...]], Array]
) -> Array:
    """Give a block: a view where it is a part of one chunk, or filled into what `make` makes.

    The chunks that its parts need come in C order of their places, and each is held only for a
    while.  They are whatever can be sliced.
    """
    axes = [list(part.pieces.values()) for part in own]
    if all(len(pieces) == len(pieces[0]) == 1 for pieces in axes):
        (chunk,) = chunks
        found: Array = chunk[tuple(source for ((_, source),) in itertools.chain(*axes))]
        return found
    result = make(tuple(part.length for part in own))
    for within, chunk in zip(itertools.product(*axes), chunks, strict=True):
        for along in itertools.product(*within):
            target, source = zip(*along, strict=True)
            result[target] = chunk[source]
    return result
