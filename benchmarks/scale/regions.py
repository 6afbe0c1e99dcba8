"""Sources that tasks read by regions: tasks, graphs, memory, and sharded Zarr to Zarr."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np

import ninepoint as npt

from .kernels import blur4, mean9
from .row import Row
from .watching import Peak, sent, written


def measure(*, quick: bool) -> Iterator[Row]:
    """Give the rows."""
    # As nannies of workers have it: memory that is let go goes back to the system.
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", "65536")
    with tempfile.TemporaryDirectory() as folder:
        yield from _graphs(Path(folder))
        yield from _zarr_to_zarr(Path(folder), 4000 if quick else 12000)


def _graphs(folder: Path) -> Iterator[Row]:
    path = str(folder / "flat.npy")
    flat = np.lib.format.open_memmap(path, "w+", "f4", (10000, 10000))
    flat[:50, :50] = np.arange(2500).reshape(50, 50)
    x = npt.open(path, chunks=20)
    tile = mean9(x)[:40, :40].compute(scheduler="sync")
    np.testing.assert_array_equal(tile, mean9(np.asarray(flat))[:40, :40])
    begin = time.perf_counter()
    y = mean9(x)
    yield Row("regions: graph built, 250,000 chunks", time.perf_counter() - begin, 0.3, "s")
    zeros = da.zeros((10000, 10000), chunks=20, dtype="f4")
    yield Row(
        "regions: graph sent, 250,000 chunks, over that of zeros", sent(y) / sent(zeros), 1.3
    )
    x = npt.open(path, chunks=100)
    tasks = len(written(blur4(x))) / x.npartitions
    yield Row("regions: tasks a chunk with source, pipeline of four", tasks, 1.01)


def _zarr_to_zarr(folder: Path, n: int) -> Iterator[Row]:
    zarr = _zarr()
    source, target = str(folder / "source.zarr"), str(folder / "target.zarr")
    made = _create(zarr, source, n)
    rng = np.random.default_rng(0)
    for first in range(0, n, 2000):
        made[first : first + 2000] = rng.integers(0, 255, (min(2000, n - first), n)).astype("f4")
    small = blur4(made[:3000, :3000])
    x = npt.open(source)
    block = x.blocks[0, 0].nbytes
    np.testing.assert_array_equal(blur4(x)[:500, :500].compute(), small[:500, :500])
    with dask.config.set(scheduler="threads", num_workers=2), Peak() as reduced:
        blur4(x).max().compute()
    # What is compressed is held, too, while it is decoded.
    yield Row("regions: memory of blocks a thread", reduced.bytes / block / 2, 2.5, "")
    # What is done without a source that can be sliced: every chunk is a task.
    apart = x.map_blocks(np.positive, dtype=x.dtype, meta=np.empty((0, 0), x.dtype))
    for name, one, most in (("regions", x, 100.0), ("chunks", apart, None)):
        peak, seconds = _stored(zarr, blur4(one), target, n)
        if most is not None:
            yield Row(f"{name}: sharded Zarr to Zarr, four blurs: peak", peak / 1e6, most, "MB")
            first = seconds
        else:
            yield Row(
                "regions: sharded Zarr to Zarr, time over that by chunks", first / seconds, 1.05
            )
    whole = zarr.open_array(target, mode="r")
    np.testing.assert_array_equal(whole[:500, :500], small[:500, :500])


def _zarr() -> Any:
    import zarr

    return zarr


def _create(zarr: Any, path: str, n: int) -> Any:
    return zarr.create_array(
        path, shape=(n, n), chunks=(250, 250), shards=(2000, 2000), dtype="f4", overwrite=True
    )


def _stored(zarr: Any, array: Any, target: str, n: int) -> tuple[int, float]:
    out = _create(zarr, target, n)
    with dask.config.set(scheduler="threads", num_workers=2), Peak() as peak:
        begin = time.perf_counter()
        da.store(array, out, lock=False)
        seconds = time.perf_counter() - begin
    return peak.bytes, seconds
