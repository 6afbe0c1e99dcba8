"""Graphs of cut arrays: what is sent, how long they take to build, tasks a chunk."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import dask.array as da
import numpy as np
from dask._task_spec import Task
from distributed.protocol.pickle import dumps

from .kernels import blur, laplace, weighed
from .row import Row
from .watching import equal, sent, varied, written


def measure(*, quick: bool) -> Iterator[Row]:
    """Give the rows."""
    equal(laplace, varied((40, 50), 9, "f4"))
    side = 50 if quick else 500
    x = da.zeros((side * 64, side * 64), chunks=64, dtype="f4")
    laplace(da.zeros((8, 8), chunks=4, dtype="f4"))
    builds = []
    for _ in range(3):
        begin = time.perf_counter()
        y = laplace(x)
        builds.append(time.perf_counter() - begin)
    name = f"{side * side} chunks"
    yield Row(f"{name}: build", statistics.median(builds), 0.3, "s")
    yield Row(f"{name}: sent, of what zeros sends", sent(y) / sent(x), 1.3)
    cut = da.zeros((6400, 6400), chunks=64, dtype="f4")
    equal(lambda x: blur(blur(blur(blur(x)))), varied((60, 50), 17, "f4"))
    many = cut
    for _ in range(4):
        many = blur(many)
    yield Row("pipeline of four: tasks a chunk with source", len(written(many)) / 10_000, 3, "")
    table = np.random.default_rng(0).random(15_000)
    equal(lambda x: weighed(x, table), varied((60, 50), 17, "f4"))
    for what, x in (
        ("cut", da.zeros((6400, 6400), chunks=640, dtype="f4")),
        ("stack", da.zeros((1000, 64, 64), chunks=(10, -1, -1), dtype="f4")),
    ):
        tasks = written(weighed(x, table))
        sizes = [len(dumps(task)) for task in tasks.values() if isinstance(task, Task)]
        yield Row(f"120 kB of coefficients, {what}: a task pickles to", max(sizes) / 1e3, 3, "kB")
