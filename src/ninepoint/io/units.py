"""Chunks, shards and units: how an array lies in a store, and what a task writes of it.

chunks    what is compressed, and read, as one piece
shards    files, each of many chunks; without them every chunk is a file
units     what a task computes and writes whole, and nobody else touches

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
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Shape: TypeAlias = tuple[int, ...]
Region: TypeAlias = tuple[slice, ...]
Cut: TypeAlias = "int | Sequence[int] | Mapping[Any, int] | None"

# What one piece of a store is where nobody says it [bytes]: small enough to look at a tile of it,
# and large enough to be compressed well and not to cost more than it holds.
CHUNK_BYTES = 2**20

# A unit is no longer than this where nobody asks for more [bytes]: each thread holds a few.
UNIT_BYTES = 2**26

# Lengths are divided by these.
_PRIMES = (2, 3, 5, 7)


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
        return int(np.ravel_multi_index(place, self.counts)) if place else 0

    def place(self, number: int) -> Shape:
        """Where in the grid the unit of that number lies."""
        return tuple(map(int, np.unravel_index(number, self.counts))) if self.counts else ()

    def region(self, place: Shape) -> Region:
        """The elements of the unit at a place."""
        return tuple(
            slice(at * one, min(n, (at + 1) * one))
            for at, one, n in zip(place, self.size, self.shape, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """How one array lies in a store; None where there are no shards."""

    chunks: Shape
    shards: Shape | None


# Nobody says how it lies, or divides it.
UNKNOWN = Layout((), None)
NONE = Units((), ())


def layout(
    array: Any,
    dims: Sequence[Hashable],
    chunks: Cut = None,
    shards: Cut = None,
    known: Layout = UNKNOWN,
) -> Layout:
    """Choose the chunks and shards of an array of Dask.

    `known` are those that it had in the store it was read from, which are kept.
    """
    pieces = None if chunks is None else _lengths("chunks", chunks, array.shape, dims)
    files = None if shards is None else _lengths("shards", shards, array.shape, dims)
    if pieces is None:
        if files is None and known is not UNKNOWN:
            return known
        if files is None:
            largest = tuple(max(sizes, default=1) or 1 for sizes in array.chunks)
            files = divided(largest, array.itemsize, UNIT_BYTES)
        pieces = divided(files, array.itemsize, CHUNK_BYTES)
        return Layout(pieces, None if pieces == files and shards is None else files)
    if files is None:
        return Layout(pieces, None)
    for axis, (file, piece, n) in enumerate(zip(files, pieces, array.shape, strict=True)):
        if file % piece and file < n:
            near = max(1, round(file / piece)) * piece
            raise ValueError(
                f"shards of {file} are not made of whole chunks of {piece} along axis {axis}; "
                f"{near} would be"
            )
    return Layout(pieces, tuple(-(-f // c) * c for f, c in zip(files, pieces, strict=True)))


def units(array: Any, lies: Layout) -> Units:
    """Choose what a task writes: a shard, or as many chunks as a chunk of Dask holds.

    A task for each piece of a store whose pieces are small would cost more than it does.
    """
    size = list(lies.chunks)
    for axis, (sizes, one) in enumerate(zip(array.chunks, lies.chunks, strict=True)):
        fit = UNIT_BYTES // max(1, math.prod(size) * array.itemsize)
        size[axis] = max(1, min(max(sizes, default=1) // one, fit)) * one
    return Units(array.shape, tuple(size) if lies.shards is None else lies.shards)


def divided(size: Shape, itemsize: int, most: int) -> Shape:
    """Divide lengths by small numbers, the longest first, until so many bytes hold them all."""
    lengths = list(size)
    while math.prod(lengths) * itemsize > most:
        for axis in sorted(range(len(lengths)), key=lambda axis: -lengths[axis]):
            prime = next((p for p in _PRIMES if lengths[axis] % p == 0), None)
            if prime is not None and lengths[axis] > prime:
                lengths[axis] //= prime
                break
        else:
            break
    return tuple(lengths)


def check_dims(dims: Collection[Hashable], **cuts: Cut) -> None:
    """Raise where a mapping names a dimension that there is not."""
    for name, cut in cuts.items():
        unknown = [dim for dim in cut if dim not in dims] if isinstance(cut, Mapping) else []
        if unknown:
            raise ValueError(
                f"{name} names the dimension {unknown[0]!r}, and there are "
                f"{', '.join(map(repr, dims)) or 'none that have names'}"
            )


def _lengths(name: str, cut: Cut, shape: Shape, dims: Sequence[Hashable]) -> Shape:
    """Read `chunks` or `shards`; -1 and None, and dimensions left out, are whole axes."""
    if isinstance(cut, Mapping):
        given: list[Any] = [cut.get(dim) for dim in dims]
    elif isinstance(cut, Sequence) and not isinstance(cut, str):
        given = list(cut)
        if len(given) != len(shape):
            raise ValueError(f"{name} has {len(given)} lengths, and the array {len(shape)} axes")
    else:
        given = [cut] * len(shape)
    lengths = []
    for one, n in zip(given, shape, strict=True):
        if one is None or one == -1:
            one = n
        if isinstance(one, bool) or not hasattr(one, "__index__"):
            raise TypeError(
                f"{name} is a length, one for each axis, or those of dimensions by name, "
                f"not {cut!r}"
            )
        if one < 1 and n:
            raise ValueError(f"{name} holds {one}; a length is at least 1, and -1 the whole axis")
        lengths.append(max(1, min(int(one), n)))
    return tuple(lengths)


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
