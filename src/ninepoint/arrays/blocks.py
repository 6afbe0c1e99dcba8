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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ninepoint.arrays.borders import Array
from ninepoint.arrays.gathering import Run, runs
from ninepoint.arrays.recognise import is_cupy
from ninepoint.arrays.regions import Span
from ninepoint.backends.memory import empty


@dataclass(frozen=True, slots=True)
class Strip:
    """Positions of a block that come from one chunk; `chunk` counts within those of the part."""

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


def parts(chunks: Sequence[int], spans: Sequence[Span], n: int) -> list[Part]:
    """Give the part for every span of an axis of length `n`, along which a field has `chunks`.

    Beyond the ends of the axis it begins again.  A field of length 1 stays so.
    """
    if sum(chunks) == 1 != n:
        return [_part(runs(0, 1, 1, "wrap", "wrap"), 1, chunks)] * len(spans)
    return [_part(runs(a, b, n, "wrap", "wrap"), b - a, chunks) for a, b in spans]


def _part(found: tuple[Run, ...], length: int, chunks: Sequence[int]) -> Part:
    starts = list(itertools.accumulate(chunks, initial=0))[:-1]
    pieces = [piece for run in found if length for piece in _at_chunks(run, starts, chunks)]
    needed = sorted({chunk for _, chunk, _ in pieces})
    place = {chunk: k for k, chunk in enumerate(needed)}
    strips = tuple(Strip(target, place[chunk], source) for target, chunk, source in pieces)
    whole = (
        len(pieces) == 1
        and strips[0].source == slice(0, chunks[needed[0]], 1)
        and length == chunks[needed[0]]
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


def _empty(blocks: Sequence[Array], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Give an array where the chunks lie."""
    if not any(map(is_cupy, blocks)):
        return empty(shape, dtype)
    # Imported here: CuPy is optional, and the caller has it.
    from ninepoint.backends.cuda import driver

    found: Array = driver.empty(shape, dtype)
    return found


def gathered(parts: Sequence[Part], blocks: Iterable[Array], dtype: np.dtype[Any]) -> Array:
    """Put a block together from chunks that come one after the other, each held only for a while.

    They may lack the first axes of the block.
    """
    if all(part.whole for part in parts):
        (block,) = blocks
        return block[(None,) * (len(parts) - block.ndim)]
    result = empty(tuple(part.length for part in parts), dtype)
    places = itertools.product(*(range(len(part.chunks)) for part in parts))
    for place, block in zip(places, blocks, strict=True):
        chunk = block[(None,) * (len(parts) - block.ndim)]
        for strips in itertools.product(
            *(
                [s for s in part.strips if s.chunk == k]
                for part, k in zip(parts, place, strict=True)
            )
        ):
            target = tuple(strip.target for strip in strips)
            result[target] = chunk[tuple(strip.source for strip in strips)]
    return result


def assemble(parts: Sequence[Part], blocks: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """Put a block together from the chunks that its parts need, in C order of their places."""
    if len(blocks) == 1 and all(part.whole for part in parts):
        return blocks[0]
    result: Array = _empty(blocks, tuple(part.length for part in parts), dtype)
    counts = [len(part.chunks) for part in parts]
    for strips in itertools.product(*(part.strips for part in parts)):
        place = 0
        for strip, count in zip(strips, counts, strict=True):
            place = place * count + strip.chunk
        target = tuple(strip.target for strip in strips)
        result[target] = blocks[place][tuple(strip.source for strip in strips)]
    return result
