"""How the axes of results are cut, and which blocks of the fields they come from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from ..layout import Region, Shape
from ..regions import Span

Chunks: TypeAlias = tuple[tuple[int, ...], ...]


def grid(fields: Sequence[Chunks | None], shape: Shape) -> Chunks:
    """Cut each axis as the first field does that is cut, and as long as the result."""
    chunks: list[tuple[int, ...]] = []
    for back in range(-len(shape), 0):
        n = shape[back]
        cuts = [c[back] for c in fields if c and len(c) >= -back and _covers(c[back], n)]
        if math.isnan(n):
            # As dask names a length that it does not know, so that equal cuts are equal.
            unknown: Any = math.nan
            chunks.append((unknown,) * len(cuts[0]))
        else:
            chunks.append(tuple(map(int, cuts[0])) if cuts else (n,))
    return tuple(chunks)


def _covers(sizes: Sequence[int], n: int) -> bool:
    return sum(sizes) == n or (math.isnan(n) and any(map(math.isnan, sizes)))


def cuts_of(sizes: Sequence[int]) -> list[Span]:
    """From where to where each chunk of an axis is."""
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))


def aligned(entries: Sequence[Any], ndim: int, missing: Any) -> tuple[Any, ...]:
    """Give one entry per axis of the result: NumPy aligns shapes at the last axis."""
    return (missing,) * (ndim - len(entries)) + tuple(entries)


def kept_of(extent: Region, chunks: Chunks) -> list[list[tuple[int, int]]]:
    """For each axis, the blocks that an output has something of, each with its size there."""
    axes: list[list[tuple[int, int]]] = []
    for axis, sizes in enumerate(chunks):
        first, last = extent.start[axis], extent.stop[axis]
        if (first, last) == (0, sum(sizes)) or math.isnan(last):
            axes.append(list(enumerate(sizes)))
            continue
        inside = [max(0, min(b, last) - max(a, first)) for a, b in cuts_of(sizes)]
        axes.append([(i, size) for i, size in enumerate(inside) if size] or [(0, 0)])
    return axes


def cut_to(extent: Region, chunks: Chunks, factors: Sequence[int] = ()) -> Chunks:
    """The chunks of an output that has these points, or so many times as many."""
    return tuple(
        tuple(size * k for _, size in axis)
        for axis, k in zip(kept_of(extent, chunks), factors or (1,) * len(chunks), strict=True)
    )
