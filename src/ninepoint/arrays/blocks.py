"""Blocks: one block of a cut array, with its neighbours, put together from chunks.

    chunks of an axis      |  0  |  1  | 2 |    3    |
    output block 1               [-----]
    with neighbours -2..1      [---------]          needs chunks 0, 1, 2

Axes are independent of each other, so an axis has one `Part` per output block (a thousand for a
million blocks of a square), and a block is the product of its parts. Positions are global:
chunks may be of any size, also smaller than the reach, and a part may need chunks from the
far end ("wrap").
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ninepoint.arrays.borders import Array, Rule, Run, runs
from ninepoint.backends.memory import empty


@dataclass(frozen=True, slots=True)
class Strip:
    """Positions of a block that come from one chunk; `chunk` is -1 where there is no source.

    `chunk` counts within the chunks that the part needs.
    """

    target: slice
    chunk: int
    source: slice


@dataclass(frozen=True, slots=True)
class Part:
    """One axis of one block: its length and the strips that fill it."""

    length: int
    chunks: tuple[int, ...]
    strips: tuple[Strip, ...]
    # The block is exactly its only chunk: nothing has to be copied.
    whole: bool


def halo_parts(
    chunks: Sequence[int],
    cuts: Sequence[tuple[int, int]],
    n: int,
    low: int,
    high: int,
    rules: tuple[Rule, Rule],
) -> list[Part]:
    """Give the part for every output block [start, stop) of `cuts` along a core axis.

    The axis has length `n`, and a field along it `chunks`; a field of length 1 is broadcast.
    Blocks are longer than their cut by the reach from `low` to `high`.
    """
    repeated = sum(chunks) == 1 != n
    return [
        _part(runs(a + low, b + high, n, *rules), b + high - a - low, chunks, repeated)
        for a, b in cuts
    ]


def stack_parts(chunks: Sequence[int], cuts: Sequence[tuple[int, int]], n: int) -> list[Part]:
    """Give the part for every output block along an axis of the stack; length 1 stays 1."""
    if sum(chunks) == 1 != n:
        cuts = [(0, 1)] * len(cuts)
    return [_part((Run(0, b - a, a, 1),) if b > a else (), b - a, chunks, False) for a, b in cuts]


def _part(found: tuple[Run, ...], length: int, chunks: Sequence[int], repeated: bool) -> Part:
    starts = list(itertools.accumulate(chunks, initial=0))[:-1]
    pieces: list[tuple[slice, int, slice]] = []
    for run in found:
        target = slice(run.start, run.stop)
        if run.first < 0:
            pieces.append((target, -1, slice(0, 0)))
        elif repeated:
            # Its one element may lie behind chunks of length 0.
            pieces.append((target, bisect_right(starts, 0) - 1, slice(0, 1)))
        else:
            pieces.extend(_at_chunks(run, starts, chunks))
    needed = sorted({chunk for _, chunk, _ in pieces if chunk >= 0})
    place = {chunk: k for k, chunk in enumerate(needed)} | {-1: -1}
    strips = tuple(Strip(target, place[chunk], source) for target, chunk, source in pieces)
    whole = (
        len(pieces) == 1
        and len(needed) == 1
        and (strips[0].source == slice(0, chunks[needed[0]], 1) and length == chunks[needed[0]])
    )
    return Part(length, tuple(needed), strips, whole)


def _at_chunks(
    run: Run, starts: list[int], chunks: Sequence[int]
) -> list[tuple[slice, int, slice]]:
    """Cut a run where one chunk ends and the next begins."""
    pieces = []
    at = run.start
    element = run.first
    while at < run.stop:
        chunk = bisect_right(starts, element) - 1
        left = run.stop - at
        if run.step == 1:
            left = min(left, starts[chunk] + chunks[chunk] - element)
        elif run.step == -1:
            left = min(left, element - starts[chunk] + 1)
        local = Run(at, at + left, element - starts[chunk], run.step)
        pieces.append((slice(at, at + left), chunk, local.source))
        at += left
        element += run.step * left
    return pieces


def assemble(
    parts: Sequence[Part], blocks: Sequence[Array], cval: Any, dtype: np.dtype[Any]
) -> Array:
    """Put a block together from the chunks that its parts need, in C order of their places."""
    if len(blocks) == 1 and all(part.whole for part in parts):
        return blocks[0]
    result: Array = empty(tuple(part.length for part in parts), dtype)
    counts = [len(part.chunks) for part in parts]
    for strips in itertools.product(*(part.strips for part in parts)):
        place = 0
        for strip, count in zip(strips, counts, strict=True):
            if strip.chunk < 0:
                place = -1
                break
            place = place * count + strip.chunk
        target = tuple(strip.target for strip in strips)
        if place < 0:
            result[target] = cval
        else:
            result[target] = blocks[place][tuple(strip.source for strip in strips)]
    return result
