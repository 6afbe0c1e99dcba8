"""The same array in other chunks, by other reads of what it is made from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dask.base import tokenize

from ... import limits
from .computation import Computation
from .grid import Chunks
from .job import Work
from .layer import origin_of
from .sources import Source, costs, source_of, sources_of


def recut(array: Any, chunks: Chunks) -> Any:
    """Give the same values in other chunks, without moving any; None where that cannot be.

    It can be for what is a plain view of a source, and for what a program made of such views: its
    tasks then read other regions.  It is not where these would decode twice what there is.

    Parameters
    ----------
    array : dask.array.Array
    chunks : tuple of tuple of int
        Sizes along each axis, which add up to those of the array.
    """
    chunks = tuple(tuple(map(int, sizes)) for sizes in chunks)
    assert tuple(map(sum, chunks)) == array.shape, (chunks, array.shape)
    if array.chunks == chunks:
        return array
    source = source_of(array)
    if source is not None:
        return (
            None
            if _is_dear(None, [source], chunks)
            else source.view(chunks, f"{source.name}-{tokenize(chunks)}")
        )
    found = origin_of(array)
    if found is None:
        return None
    origin, position = found
    for one in (origin.further, origin):
        sources = sources_of(one.fields) if one else None
        if one and sources:
            return _read_so(one, sources, position, chunks)
    return None


def _read_so(one: Computation, sources: Sequence[Source], position: int, chunks: Chunks) -> Any:
    """A result of a computation on sources in these chunks."""
    output = one.outputs[position]
    ends = zip(chunks, output.extent.start, output.extent.stop, one.shape, strict=True)
    fields = tuple(_around(sizes, a, n - b) for sizes, a, b, n in ends)
    # What stands in a chunk of a finer result need be no whole number of elements.
    if output.factors or _is_dear(one.work, sources, fields):
        return None
    other = Computation(one.work, one.shape, fields, one.fields, one.arrays)
    return other.results(other.rules(sources))[position]


def _is_dear(work: Work | None, sources: Sequence[Source], chunks: Chunks) -> bool:
    """Whether much more is decoded than there is."""
    bytes_ = sum(s.dtype.itemsize * math.prod(s.shape) for s in sources)
    return costs(work, sources, chunks)[1] > limits.current.recut_ratio * bytes_


def _around(sizes: tuple[int, ...], before: int, after: int) -> tuple[int, ...]:
    """The chunks of fields of which a result has so much less at its ends."""
    return (*([before] if before else []), *sizes, *([after] if after else []))
