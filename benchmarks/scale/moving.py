"""Bytes between workers, and a pipeline of four on two processes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import numpy as np

from .kernels import blur, blur4, mean9, mean27
from .row import Row
from .watching import cluster, equal, made, moved, varied


def measure(*, quick: bool) -> Iterator[Row]:
    """Give the rows."""
    equal(mean9, varied((40, 50), 9, "u1"))
    equal(mean27, varied((20, 22, 21), 7, "f4"))
    equal(_chain, varied((60, 50), 17, "f4"))
    side = 4 if quick else 10
    planes = made((side * 2000,) * 2, 2000, "u1")
    volume = made(((2 if quick else 4) * 128,) * 3, 128, "f4")
    with cluster(8, processes=False, memory_limit=0) as client:
        yield Row("moved, 8 workers: 2-D", _moved(client, mean9, planes), 0.6, "arrays")
        yield Row("moved, 8 workers: 3-D", _moved(client, mean27, volume), 0.8, "arrays")
    side = 3 if quick else 6
    plate = made((side * 2000,) * 2, 2000, "f4")
    meta = np.empty((0, 0), "f4")
    ways = {
        "ours": lambda: _chain(plate),
        "overlap": lambda: plate.map_overlap(
            blur4, depth=4, boundary="nearest", dtype="f4", meta=meta
        ),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    moves: list[float] = []
    with cluster(2, processes=True) as client:
        for _ in range(2 if quick else 6):
            for way, lazy in ways.items():
                moved(client)
                begin = time.perf_counter()
                lazy().max().compute()
                times[way].append(time.perf_counter() - begin)
                if way == "ours":
                    moves.append(moved(client) / plate.nbytes)
    ratio = statistics.median(times["ours"][1:]) / statistics.median(times["overlap"][1:])
    yield Row("pipeline of four, 2 processes: moved", statistics.median(moves), 0.3, "arrays")
    yield Row("pipeline of four, 2 processes: time against one map_overlap", ratio, 1.0)


def _chain(x):
    return blur(blur(blur(blur(x))))


def _moved(client, stencil, array) -> float:
    """The middle of three computations, in arrays."""
    found = []
    for _ in range(3):
        moved(client)
        stencil(array).max().compute()
        found.append(moved(client) / array.nbytes)
    return statistics.median(found)
