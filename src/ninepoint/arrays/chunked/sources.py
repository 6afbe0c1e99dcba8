"""Sources: what an array is a plain view of, if it is one, and what reading it costs.

    ninepoint.open, arrays of NumPy     ->    what is sliced, and how much is decoded at once

Tasks that read from sources take of each what their block looks at, and depend on nothing: nothing
is moved.  What lies around a block is decoded again for each block that looks at it: that is the
price, and `costs` tells it.

The layers of such views are of our kind, and know their source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize

from ... import limits
from .. import accepted
from ..blocks import part_of
from ..grid import Chunks, Work, axis_of, cut_as, lazy
from ..regions import mixed, spans_of
from .layer import Source, known

# An array of NumPy is one node of the graph up to this size [bytes], which a worker fetches once
# and keeps; a larger one is cut, as Dask does it.
WHOLE = 2**26


def as_array(field: Any, chunks: Chunks) -> Any:
    """A field as an array of Dask, cut as the whole is; one of NumPy is a source, if not large."""
    if type(field) is not np.ndarray or field.nbytes > WHOLE:
        return lazy(field, chunks, da)
    # As it is now: elements may change before a task reads them.
    field = accepted.as_field(field).copy()
    name, own = f"array-{tokenize(field)}", cut_as(field.shape, chunks)
    source = Source(field, field.shape, field.dtype, (1,) * field.ndim, name)
    return source.view(own, f"{name}-{tokenize(own)}")


def sources_of(arrays: Sequence[Any]) -> list[Source] | None:
    """What arrays are plain views of; None if one is computed."""
    sources = [known(array).source for array in arrays]
    found = [source for source in sources if source is not None]
    return found if len(found) == len(sources) else None


def readable(work: Work, arrays: Sequence[Any], chunks: Chunks) -> list[Source] | None:
    """What blocks may read, where little is decoded twice; None where they may not."""
    axes = enumerate(chunks, -len(chunks))
    if any(len(sizes) > 1 and mixed(work.nodes, axis) for axis, sizes in axes):
        # No block of neighbours serves calls that take an axis as a ring and others.
        return None
    sources = sources_of(arrays)
    if sources is None or costs(work, sources, chunks)[0] > limits.current.decoded_ratio:
        return None
    return sources


def costs(work: Work | None, sources: Sequence[Source], chunks: Chunks) -> tuple[float, float]:
    """How many times as much is decoded as reading the blocks alone would decode, and in bytes.

    Without a program the blocks alone are read.
    """
    least = most = 0.0
    for source in sources:
        own = all_read = float(source.dtype.itemsize)
        axes = zip(source.pieces, cut_as(source.shape, chunks), strict=True)
        for axis, (piece, sizes) in enumerate(axes, -len(source.shape)):
            n = sum(sizes)
            if len(sizes) == 1:
                own, all_read = own * n, all_read * n
                continue
            spans = spans_of(sizes) if work is None else axis_of(work, sizes, axis).needs
            pieces = [one for span in spans for one in part_of((n,), span).pieces[0]]
            own *= decoded(piece, spans_of(sizes))
            all_read *= decoded(piece, [(read.start, read.stop) for _, read in pieces])
        least, most = least + own, most + all_read
    return most / least if least else 1.0, most


def decoded(piece: int, spans: Sequence[tuple[int, int]]) -> int:
    """How much is decoded for some spans of an axis, each on its own.

    >>> decoded(10, [(0, 10), (9, 21)])
    40
    """
    return sum((-(-b // piece) - a // piece) * piece for a, b in spans if b > a)
