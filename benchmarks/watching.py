"""What computations on Dask are watched with: graphs, memory held."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import psutil


def sent(array: Any) -> int:
    """Bytes that a client sends for an array, as `distributed` writes them."""
    from dask._expr import FinalizeCompute
    from dask.base import collections_to_expr
    from distributed.protocol import serialize, to_serialize
    from distributed.utils import nbytes

    expr = FinalizeCompute(collections_to_expr([array])).optimize()
    header, frames = serialize(to_serialize(expr), on_error="raise")
    return sum(map(nbytes, [*frames, *map(str, header.values())]))


def written(array: Any) -> dict[Any, Any]:
    """The tasks of an array, as a scheduler sees them."""
    from dask.base import collections_to_expr

    graph: dict[Any, Any] = collections_to_expr([array]).optimize().__dask_graph__()
    return graph


def made(shape: Any, chunks: Any, dtype: Any, value: float = 3) -> Any:
    """An array whose chunks are computed by tasks, each a memory of its own."""

    def fill(block: Any) -> Any:
        return np.full(block.shape, value, block.dtype)

    return _filled(fill, shape, chunks, dtype)


def varied(shape: Any, chunks: Any, dtype: Any) -> Any:
    """An array of other values at every point, computed by tasks, to check results with."""

    def fill(block: Any, block_info: Any = None) -> Any:
        places = block_info[None]["array-location"]
        grid = np.ogrid[tuple(slice(a, b) for a, b in places)]
        return sum((k * 7 + 3) * axis % 61 for k, axis in enumerate(grid)).astype(dtype)

    return _filled(fill, shape, chunks, dtype)


def _filled(fill: Callable[..., Any], shape: Any, chunks: Any, dtype: Any) -> Any:
    meta = np.empty((0,) * len(shape), dtype)
    return da.zeros(shape, chunks=chunks, dtype=dtype).map_blocks(fill, dtype=dtype, meta=meta)


def equal(lazy: Callable[[Any], Any], array: Any) -> None:
    """Raise unless a function gives of a Dask array what it gives of the same in NumPy."""
    np.testing.assert_array_equal(
        lazy(array).compute(scheduler="sync"), lazy(array.compute(scheduler="sync"))
    )


class Peak:
    """The most memory that this process holds beyond what it held at the start."""

    def __init__(self) -> None:
        self._process = psutil.Process(os.getpid())
        self._done = threading.Event()
        self.bytes = 0

    def __enter__(self) -> Peak:
        start = self._process.memory_info().rss

        def look() -> None:
            while not self._done.is_set():
                self.bytes = max(self.bytes, self._process.memory_info().rss - start)
                time.sleep(0.01)

        self._thread = threading.Thread(target=look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
