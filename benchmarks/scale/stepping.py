"""Iterations: the work of looks, a block's steps beside the padded block's, workers beside MPI."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import dask
import dask.array as da
import numpy as np
import xarray as xr
from dask.callbacks import Callback

import ninepoint as npt
from ninepoint.arrays.layout import Region
from ninepoint.arrays.regions import Block, Domain
from ninepoint.iteration.iterate import Scalars
from ninepoint.iteration.motion import Motion
from ninepoint.program.definition import Call
from ninepoint.program.program import Program

from ..report import ROOT
from .row import Row


@npt.stencil(boundary="nearest")
def heat(u, r=0.2):
    """One step of the heat equation."""
    return u[0, 0] + r * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0])


def measure(*, quick: bool) -> Iterator[Row]:
    """Give the rows."""
    small = np.random.default_rng(0).random((90, 80), dtype="f4")
    lazy = da.from_array(small, chunks=(31, 40))
    np.testing.assert_array_equal(
        heat.iterate(lazy, steps=48).compute(), heat.iterate(small, steps=48)
    )
    yield Row("until: tasks of 20 looks, beside twice those of 10", _looks(), 1.05)
    lazy = da.zeros((2000, 2000), chunks=500, dtype="f4")
    named = heat.iterate(xr.DataArray(lazy, dims=("y", "x")), steps=48).data
    tasks = len(named.dask) / len(heat.iterate(lazy, steps=48).dask)
    yield Row("xarray over Dask, 48 steps: tasks", tasks, 1.0)
    for n in (500,) if quick else (2000, 4000):
        yield Row(f"8 steps of a block of {n}x{n}, beside the padded one", _block(n), 1.15)
    if shutil.which("mpiexec") and find_spec("mpi4py"):
        rows, steps = (400, 480) if quick else (4000, 960)
        yield Row(
            f"heat on 2 workers, {2 * rows}x4000, {steps} steps: speed beside 2 of MPI",
            _speed("workers", rows, steps) / _speed("mpi", rows, steps),
            0.7,
            more_is_better=True,
        )


def _looks() -> float:
    """The tasks of twice as many looks at the state, beside twice as many tasks."""
    array = np.random.default_rng(0).random((200, 200), dtype="f4")

    def tasks(steps: int) -> int:
        done: list[Any] = []
        with dask.config.set(scheduler="sync"), Callback(posttask=lambda *a: done.append(a[0])):
            lazy = da.from_array(array, chunks=100)
            heat.iterate(lazy, steps=steps, every=8, until=1e-12).compute()
        return len(done)

    return tasks(160) / (2 * tasks(80))


def _block(n: int) -> float:
    """Eight steps of a block with open sides, beside as many of the padded block as an array."""
    types = (np.dtype("f4"),)
    call = Call.of(heat.definition, {"r": 0.2})
    schedule = heat.definition.schedule_for(types)
    graph, wanted = Motion(call, types, schedule, Scalars(call.scalars)).repeated([{"r": 0.2}] * 8)
    program, _ = Program.of_calls(graph, graph.needed(wanted), wanted, schedule)
    padded = np.random.default_rng(0).random((n + 16, n + 16), dtype="f4")
    region = Region(((n, 2 * n), (n, 2 * n)))
    has = Region(((n - 8, 2 * n + 8), (n - 8, 2 * n + 8)))
    block = Block((padded,), Domain((3 * n, 3 * n), has, region))
    # As long an iteration as it takes for steps to be done in one pass.
    ways = {
        "block": (8, lambda: program.run(block, threads=1)),
        "padded": (48, lambda: heat.iterate(padded, steps=48, threads=1)),
    }
    took = _times(ways, 9)
    return took["block"] / took["padded"]


def _times(ways: dict[str, tuple[int, Callable[[], Any]]], rounds: int) -> dict[str, float]:
    """The median time of a step in turn; the first round is none."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, (steps, work) in ways.items():
            begin = time.perf_counter()
            work()
            if number:
                found[name].append((time.perf_counter() - begin) / steps)
    return {name: statistics.median(times) for name, times in found.items()}


def _speed(what: str, rows: int, steps: int) -> float:
    """Point-steps in a second of two processes that have so many rows each."""
    command = [sys.executable, "-m", "benchmarks.scale.stepping", what, str(rows), str(steps)]
    if what == "mpi":
        command = ["mpiexec", "-n", "2", *command]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    took: float = json.loads(done.stdout.split()[-1])
    return 2 * rows * 4000 * steps / took


def _on_mpi(rows: int, steps: int) -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    local = np.random.default_rng(comm.rank).random((rows, 4000), dtype="f4")
    times = []
    for _ in range(4):
        comm.Barrier()
        begin = time.perf_counter()
        heat.iterate(local, steps=steps, comm=comm)
        comm.Barrier()
        times.append(time.perf_counter() - begin)
    if not comm.rank:
        print(json.dumps(statistics.median(times[1:])))


def _on_workers(rows: int, steps: int) -> None:
    from distributed import Client, LocalCluster, wait

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        lazy = da.random.default_rng(0).random((2 * rows, 4000), dtype="f4", chunks=(rows, 4000))
        lazy = lazy.persist()
        wait(lazy)
        times = []
        for _ in range(4):
            begin = time.perf_counter()
            wait(heat.iterate(lazy, steps=steps))
            times.append(time.perf_counter() - begin)
    print(json.dumps(statistics.median(times[1:])))


if __name__ == "__main__":
    {"mpi": _on_mpi, "workers": _on_workers}[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
