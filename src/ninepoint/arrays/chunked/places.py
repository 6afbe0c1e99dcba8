"""Where the chunks of a Dask array lie, and arrays that lie there too."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.memory import empty
from ..layout import Shape
from ..recognise import is_cupy


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
