"""Thousands of frames on a client with little memory, beside the source alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import dask.array as da

from .kernels import smooth
from .row import Row
from .watching import equal, varied


def measure(*, quick: bool) -> Iterator[Row]:
    """Give the rows."""
    from distributed import Client, LocalCluster

    equal(smooth, varied((9, 40, 50), (2, 40, 50), "i1"))
    frames = 500 if quick else 10_000
    source = da.random.randint(
        0, 127, size=(frames, 1000, 1000), chunks=("64 MB", None, None), dtype="int8"
    )
    ratios = []
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=4,
            processes=False,
            memory_limit="4GB",
            dashboard_address=None,
        ) as local,
        Client(local),
    ):
        for _ in range(3):
            took = []
            for lazy in (source, smooth(source)):
                begin = time.perf_counter()
                lazy.max().compute()
                took.append(time.perf_counter() - begin)
            ratios.append(took[1] / took[0])
    yield Row(
        f"{frames} frames, 4 GB: time over the source alone", statistics.median(ratios), 1.25
    )
