"""What computations on Dask are watched with: graphs, bytes between workers, memory held."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def cluster(workers: int, *, processes: bool, **options: Any) -> Iterator[Any]:
    """A client of workers, of one thread each if nothing else is said."""
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None, **options}
    with (
        LocalCluster(n_workers=workers, processes=processes, **options) as local,
        Client(local) as client,
    ):
        yield client


def moved(client: Any) -> int:
    """Bytes that went from one worker to another since this was asked last."""

    def count(dask_worker: Any) -> int:
        total = sum(entry["total"] for entry in dask_worker.transfer_incoming_log)
        dask_worker.transfer_incoming_log.clear()
        return total

    return sum(client.run(count).values())


def helpers() -> int:
    """How many threads compute for ninepoint, the callers' not counted."""
    names = [thread.name for thread in threading.enumerate()]
    return sum(n.startswith("ninepoint") and n != "ninepoint-memory" for n in names)


class _Counted(np.ndarray):
    """An array that can be referred to weakly."""


class Held:
    """How many chunks of an array are alive at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.RLock()

    def watch(self, array: Any) -> Any:
        """The same array, of which every chunk that is alive is counted."""
        meta = np.empty((0,) * array.ndim, array.dtype)
        return array.map_blocks(self._counted, dtype=array.dtype, meta=meta)

    def _counted(self, block: Any) -> Any:
        one = block.copy().view(_Counted)
        self._add(1)
        weakref.finalize(one, self._add, -1)
        return one

    def _add(self, n: int) -> None:
        with self._lock:
            self.now += n
            self.most = max(self.most, self.now)


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
