"""A store with shards through four blurs into another one: memory held, and time."""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import zarr

import ninepoint as npt

from .kernels import blur4
from .row import Row
from .watching import Peak

SHARD, CHUNK = 2000, 250


def measure(*, quick: bool) -> Iterator[Row]:
    """Give the rows."""
    n = 3 * SHARD if quick else 6 * SHARD
    with tempfile.TemporaryDirectory() as name, dask.config.set(
        scheduler="threads", num_workers=2
    ):  # fmt: skip
        folder = Path(name)
        source = _array(folder / "source.zarr", n)
        rng = np.random.default_rng(0)
        for row in range(0, n, SHARD):
            source[row : row + SHARD] = rng.integers(0, 255, (SHARD, n)).astype("f4")
        # What is imported and compiled at first is no memory of a store.
        small = _array(folder / "small.zarr", 2 * SHARD)
        npt.save(blur4(npt.open(small.store.root)), folder / "warm.zarr", progress=False)

        def ours() -> None:
            opened = npt.open(folder / "source.zarr")
            npt.save(
                blur4(opened), folder / "ours.zarr", chunks=CHUNK, shards=SHARD,
                overwrite=True, progress=False,
            )  # fmt: skip

        def theirs() -> None:
            # Of an array that is laid out by hand, for the other ways lose values in shards.
            array = da.from_zarr(folder / "source.zarr", chunks=SHARD)
            blurred = array.map_overlap(blur4, depth=4, boundary="nearest", dtype="f4")
            da.to_zarr(blurred, _array(folder / "theirs.zarr", n))

        peaks, times = [], {ours: [], theirs: []}
        for _ in range(2 if quick else 4):
            for way in times:
                gc.collect()
                with Peak() as peak:
                    begin = time.perf_counter()
                    way()
                    times[way].append(time.perf_counter() - begin)
                if way is ours:
                    peaks.append(peak.bytes)
        _check(folder, n)
    yield Row("sharded Zarr to Zarr, four blurs: peak", max(peaks) / 1e6, 100, "MB")
    ratio = statistics.median(times[ours][1:]) / statistics.median(times[theirs][1:])
    yield Row("sharded Zarr to Zarr, four blurs: time against to_zarr", ratio, 1.05)


def _array(path: Path, n: int) -> zarr.Array:
    return zarr.create_array(
        path, shape=(n, n), chunks=(CHUNK, CHUNK), shards=(SHARD, SHARD), dtype="f4",
        overwrite=True,
    )  # fmt: skip


def _check(folder: Path, n: int) -> None:
    """Raise unless the store holds what NumPy gives, on a band across the shards."""
    made = zarr.open_array(folder / "ours.zarr", mode="r")
    first = SHARD - 20
    band = zarr.open_array(folder / "source.zarr", mode="r")[first - 4 : first + 44]
    np.testing.assert_array_equal(made[first : first + 40], blur4(band)[4:-4])
