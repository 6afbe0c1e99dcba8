"""Threads of ours beside Dask's: a stencil in a task of Dask keeps to its thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np

from .kernels import mean9
from .row import Row
from .watching import cluster, equal, varied


def measure(*, quick: bool) -> Iterator[Row]:
    """Give the rows."""
    equal(mean9, varied((40, 50), 9, "u1"))
    side = 500 if quick else 2000
    image = np.ones((side, side), "u1")
    stack = da.ones((16, side, side), chunks=(1, -1, -1), dtype="u1")
    meta = np.empty((0, 0, 0), "u1")
    ways: dict[str, Callable[[], Any]] = {
        "mean9(x)": lambda: mean9(stack),
        "x.map_blocks(mean9)": lambda: stack.map_blocks(mean9, dtype="u1", meta=meta),
        "dask.delayed(mean9)": lambda: [dask.delayed(mean9)(image) for _ in range(8)],
    }
    for way, lazy in ways.items():
        dask.compute(lazy(), scheduler="threads", num_workers=4)
        yield Row(f"threads of ours beside 4 of Dask's: {way}", helpers(), 0, "")
    with cluster(1, processes=True) as client:
        client.gather([client.submit(mean9, image, pure=False) for _ in range(8)])
        found = max(client.run(helpers).values())
        yield Row("threads of ours in a worker: client.submit(mean9, x)", found, 0, "")


def helpers() -> int:
    """How many threads compute for ninepoint, the callers' not counted."""
    names = [thread.name for thread in threading.enumerate()]
    return sum(n.startswith("ninepoint") and n != "ninepoint-memory" for n in names)
