"""How the axes of results are cut, and which blocks of the fields they come from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from ..layout import Region, Shape
from ..numpy import broadcast_shape
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


def grid_of(fields: Sequence[Any]) -> tuple[Shape, Chunks]:
    """The shape that arrays have together, some of which are cut, and how it is cut."""
    shape = broadcast_shape([field.shape for field in fields])
    return shape, grid([getattr(field, "chunks", None) for field in fields], shape)


def _covers(sizes: Sequence[int], n: int) -> bool:
    return sum(sizes) == n or (math.isnan(n) and any(map(math.isnan, sizes)))


def cuts_of(sizes: Sequence[int]) -> list[Span]:
    """From where to where each chunk of an axis is."""
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))


def cut_as(shape: Sequence[int], chunks: Chunks) -> Chunks:
    """The chunks of an array that is cut as the whole is, along the axes that it has of it."""
    own = chunks[len(chunks) - len(shape) :]
    return tuple(sizes if n == sum(sizes) else (n,) for n, sizes in zip(shape, own, strict=True))


def aligned(entries: Sequence[Any], ndim: int, missing: Any) -> tuple[Any, ...]:
    """Give one entry per axis of the result: NumPy aligns shapes at the last axis."""
    return (missing,) * (ndim - len(entries)) + tuple(entries)


def cut_to(
    extent: Region, chunks: Chunks, factors: Sequence[int] = (), *, empty: bool = False
) -> Chunks:
    """The chunks of an output that has these points, or so many times as many.

    Those that it has nothing of are left out, unless `empty` ones are wanted.
    """
    axes: list[tuple[int, ...]] = []
    ends = zip(extent.start, extent.stop, factors or (1,) * len(chunks), strict=True)
    for sizes, (first, last, factor) in zip(chunks, ends, strict=True):
        if (first, last) == (0, sum(sizes)) or math.isnan(last):
            axes.append(tuple(size * factor for size in sizes))
            continue
        inside = [max(0, min(b, last) - max(a, first)) * factor for a, b in cuts_of(sizes)]
        axes.append(tuple(size for size in inside if size or empty) or (0,))
    return tuple(axes)
