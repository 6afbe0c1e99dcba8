"""In which chunks Dask reads an array that is stored in pieces of its own.

pieces     100 x 100, each decoded as a whole        (in shards of 400 x 400)
chunks     whole pieces, or whole shards, up to some size; those of the user, if told
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..undisturbed import imported

# Chunks of Dask hold whole pieces up to this size [bytes]: a thread holds two of them or a few,
# and the neighbours of a block are then a small part of it.
CHUNK_BYTES = 2**25
# An array is cut into at least so many chunks, so that every core has work until the end, unless
# they would be smaller than this [bytes].
LEAST_CHUNKS = 16
LEAST_BYTES = 2**20
# A shard is read whole up to this size [bytes].
SHARD_BYTES = 2**28
# A shard of this size is a chunk of its own [bytes]: a task that writes whole shards, too, then
# needs no other one.
SHARD_ENOUGH = 2**22


def natural(
    shape: Sequence[int], itemsize: int, pieces: Sequence[int], shards: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Choose lengths of chunks.

    Axes of which a piece has more than one element grow first, the shortest block first; then the
    others, from the last to the first.

    >>> natural((4000, 4000), 4, (500, 500))
    (1000, 1000)
    >>> natural((4000, 4000), 4, (100, 100), (2000, 2000))
    (2000, 2000)
    """
    if not math.prod(shape):
        return tuple(max(1, n) for n in shape)
    sizes = [max(1, min(n, piece)) for n, piece in zip(shape, pieces, strict=True)]
    most = max(LEAST_BYTES, min(CHUNK_BYTES, math.prod(shape) * itemsize // LEAST_CHUNKS))
    if shards is not None:
        whole = [max(1, min(n, shard)) for n, shard in zip(shape, shards, strict=True)]
        if math.prod(whole) * itemsize <= SHARD_BYTES:
            sizes = whole
        if math.prod(sizes) * itemsize >= SHARD_ENOUGH:
            return tuple(sizes)
    while True:
        step = _grown(sizes, shape, pieces, most / itemsize)
        if step is None:
            return tuple(sizes)
        sizes = step


def _grown(
    sizes: list[int], shape: Sequence[int], pieces: Sequence[int], most: float
) -> list[int] | None:
    """The next larger block, or None where there is none that is small enough."""
    wide = [k for k, piece in enumerate(pieces) if piece > 1]
    if not wide:
        # Stored without pieces: images, most likely, which lie along the last two axes.
        wide = list(range(len(shape)))[-2:]
    left = [k for k in wide if sizes[k] < shape[k]]
    others = [k for k in reversed(range(len(shape))) if k not in wide and sizes[k] < shape[k]]
    order = sorted(left, key=lambda k: sizes[k]) if left else others[:1]
    for axis in order:
        longer = min(2 * sizes[axis], shape[axis])
        if math.prod(sizes) // sizes[axis] * longer <= most:
            return [longer if k == axis else n for k, n in enumerate(sizes)]
    return None


def chosen(
    chunks: Any,
    shape: Sequence[int],
    dtype: np.dtype[Any],
    own: Sequence[int],
    dims: Sequence[Hashable] = (),
) -> tuple[tuple[int, ...], ...]:
    """Give the chunks that a user wrote, as Dask has them; `own` are those of nobody's choice.

    Raises
    ------
    ValueError
        If a dimension is not there, or they do not fit the shape.
    """
    normalize: Any = imported("dask.array").core.normalize_chunks
    if chunks is None:
        chunks = tuple(own)
    elif isinstance(chunks, Mapping):
        axes = {name: k for k, name in enumerate(dims)} | {k: k for k in range(len(shape))}
        unknown = [name for name in chunks if name not in axes]
        if unknown:
            raise ValueError(
                f"chunks names {unknown[0]!r}, which is no dimension of this array: "
                + ", ".join(map(repr, dims or range(len(shape))))
            )
        told = {axes[name]: size for name, size in chunks.items()}
        chunks = tuple(told.get(k, n) for k, n in enumerate(own))
    for one in chunks if isinstance(chunks, tuple | list) else (chunks,):
        # Dask divides by zero, and takes True for a length.
        if isinstance(one, bool) or (isinstance(one, int) and one < 1 and one != -1):
            raise ValueError(f"chunks holds {one}; a length is at least 1, and -1 the whole axis")
    found: tuple[tuple[int, ...], ...] = normalize(
        chunks, tuple(shape), dtype=dtype, previous_chunks=tuple(own)
    )
    return found
