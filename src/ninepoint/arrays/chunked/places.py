"""Where the chunks of a Dask array lie, and arrays that lie there too."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...backends.memory import empty
from ..layout import Shape
from ..recognise import is_cupy


def check_places(fields: Sequence[Any]) -> None:
    """Raise where some chunks lie on a GPU and others do not."""
    there = [is_cupy(getattr(field, "_meta", field)) for field in fields]
    if any(there) and not all(there):
        raise TypeError(
            "some of these arrays lie on a GPU and others in the memory of the CPU, and a stencil "
            "takes neither to the other: give x.map_blocks(cupy.asarray) of the latter."
        )


def refuse_unknown(field: Any, along: Collection[int] | None = None) -> None:
    """Raise where nobody knows how long chunks are, along these axes, counted from the end."""
    for axis, sizes in enumerate(field.chunks, -field.ndim):
        if (along is None or axis in along) and any(map(math.isnan, sizes)):
            raise ValueError(
                f"a Dask array has chunks of unknown size along its axis {axis + field.ndim}, so "
                "its borders cannot be found; call .compute_chunk_sizes() on it first."
            )


def meta_of(like: Any, ndim: int, dtype: np.dtype[Any]) -> Any:
    """Give an array without elements, of the kind that chunks like this one make."""
    return nothing(like._meta, (0,) * ndim, dtype)


def nothing(like: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    """Give an array of this shape where another one lies."""
    if not is_cupy(like):
        return empty(shape, dtype)
    # Imported here: CuPy is optional, and the caller has it.
    from ninepoint.backends.cuda import driver

    return driver.empty(shape, dtype)


def uploaded(block: Any) -> Any:
    """Give a chunk on the GPU."""
    # Imported here: CuPy is optional, and the caller has it.
    from ninepoint.backends.cuda import driver

    return driver.uploaded(np.asarray(block))


def in_memory(block: Any) -> Any:
    """Give a chunk as an array that can be computed with where it is."""
    return block if is_cupy(block) else np.asarray(block)
