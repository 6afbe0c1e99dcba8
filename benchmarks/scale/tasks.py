"""What a task costs beside its kernel, as in a worker, and what it takes to send and to begin."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import dask.array as da
import numpy as np

from ..report import ROOT
from .kernels import mean9, mean27, smooth
from .row import Row
from .watching import equal, varied

CASES: tuple[tuple[str, Any, tuple[int, ...], str], ...] = (
    ("9 points, uint8, 2000x2000", smooth, (2000, 2000), "u1"),
    ("9 points, uint8, 4000x4000", smooth, (4000, 4000), "u1"),
    ("9 points, float32, 2000x2000", mean9, (2000, 2000), "f4"),
    ("27 points, float32, 128x128x128", mean27, (128,) * 3, "f4"),
    ("27 points, float32, 256x256x256", mean27, (256,) * 3, "f4"),
)


def measure(*, quick: bool) -> Iterator[Row]:
    """Give the rows: by a process whose `malloc` was told what workers' are."""
    equal(smooth, varied((40, 50), 9, "u1"))
    equal(mean9, varied((40, 50), 9, "f4"))
    equal(mean27, varied((20, 22, 21), 7, "f4"))
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-m", "benchmarks.scale.tasks", *(["quick"] if quick else [])]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    for row in json.loads(done.stdout):
        yield Row(*row)


def _rows(quick: bool) -> Iterator[tuple[Any, ...]]:
    for name, stencil, shape, dtype in CASES:
        size = tuple(n // 4 for n in shape) if quick else shape
        yield f"task over its kernel: {name}", _over_kernel(stencil, size, dtype), 2.2
    run, size = _task(mean9, np.ones((20, 20), "f4"))
    took = _times({"begun": lambda: [run() for _ in range(50)]}, 20)["begun"] / 50
    yield "block of 20x20: time of a task", took * 1e6, 60, "us"
    yield "block of 20x20: a task as it is sent", size, 2000, "bytes"


def _over_kernel(stencil: Any, shape: tuple[int, ...], dtype: str) -> float:
    """A block's task beside the kernel alone, on an array that has all neighbours."""
    own = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    run, _ = _task(stencil, own)
    padded, out = np.pad(own, 1, mode="wrap"), np.empty_like(own)
    wanted = stencil(padded, boundary="valid", threads=1)
    np.testing.assert_array_equal(run(), wanted)
    ways = {
        "task": run,
        "kernel": lambda: stencil(padded, boundary="valid", threads=1, out=out),
    }
    took = _times(ways, 15)
    return took["task"] / took["kernel"]


def _task(stencil: Any, own: np.ndarray) -> tuple[Callable[[], Any], int]:
    """The task of a block whose neighbours are all equal to it; and how long its pickle is."""
    from distributed.protocol.pickle import dumps

    whole = tuple(3 * n for n in own.shape)
    source = da.zeros(whole, chunks=own.shape, dtype=own.dtype)
    lazy = stencil(source)
    graph = dict(lazy.dask)

    def value(key: Any) -> Any:
        if key[0] == source.name:
            return own
        return graph[key]({one: value(one) for one in graph[key].dependencies})

    task = graph[(lazy.name, *(1 for _ in whole))]
    given = {key: value(key) for key in task.dependencies}
    return lambda: task(given), len(dumps(task))


def _times(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median time that each took of a core, in turns."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, run in ways.items():
            begin = time.thread_time()
            run()
            times[way].append(time.thread_time() - begin)
    return {way: statistics.median(found) for way, found in times.items()}


if __name__ == "__main__":
    print(json.dumps(list(_rows("quick" in sys.argv))))
