"""Dask arrays with chunks of unknown size: functions of numbers are applied chunk by chunk.

    x[x > 0]     chunks ((nan, nan),)     ->     a call for each of them

No neighbour is looked at, so nothing has to be known of a chunk but to which others it belongs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ninepoint.arrays.recognise import is_dask
from ninepoint.backends.threads import serial


def has_unknown_chunks(value: Any) -> bool:
    """Whether it is a Dask array of which nobody knows how long some chunks are."""
    return is_dask(value) and any(math.isnan(size) for sizes in value.chunks for size in sizes)


def chunk_by_chunk(
    function: Callable[..., Any], fields: Sequence[Any], dtypes: Sequence[np.dtype[Any]], name: str
) -> Any:
    """The results of a function of arrays of NumPy, as lazy arrays.

    Raises
    ------
    ValueError
        If chunks of unknown size would have to be matched with others.
    """
    # Imported here, not above: who has no Dask array need not have Dask.
    from dask.array.core import elemwise

    # Partly typed: Any, or mypy finds the gaps.
    theirs: Any = elemwise
    several = len(dtypes) > 1
    try:
        made = theirs(
            _Chunk(function), *fields, dtype=np.dtype(object) if several else dtypes[0], name=None
        )
    except ValueError as error:
        raise ValueError(
            f"the chunks of the fields of '{name}' are of unknown size, so nobody knows which "
            "belong together; call .compute_chunk_sizes() on each such Dask array first."
        ) from error
    if not several:
        return made
    return tuple(
        made.map_blocks(
            operator.itemgetter(k), dtype=dtype, meta=np.empty((0,) * made.ndim, dtype)
        )
        for k, dtype in enumerate(dtypes)
    )


class _Chunk:
    """A call on some chunks, by one task."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __dask_tokenize__(self) -> Any:
        from dask.base import tokenize

        # Partly typed: Any, or mypy finds the gaps.
        theirs: Any = tokenize
        return "ninepoint", theirs(self.function)

    def __call__(self, *arrays: Any) -> Any:
        with serial():
            return self.function(*arrays)
