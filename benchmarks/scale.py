"""The measures of `groups/scale.py`: functions of an order, `quick` if it is a rehearsal, which
give rows: what it is, a figure, the most that it should be, and the unit."""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import zarr
from dask.base import collections_to_expr
from dask.utils import key_split
from distributed import Client, LocalCluster

import ninepoint as npt

from . import kernels
from .measure import turns

OURS, THEIRS = "ninepoint", "map_overlap"

Order = dict[str, Any]
Row = tuple[str, float, float, str]

TWO = {"scheduler": "threads", "num_workers": 2}

mean9 = npt.stencil(boundary="nearest")(kernels.box(np.mean, 1))
mean27 = npt.stencil(lambda x: x[-1:2, -1:2, -1:2].mean(), boundary="nearest")
three = npt.stencil(lambda x: mean27(mean27(x))[-1:2, -1:2, -1:2].mean(), boundary="nearest")


@npt.stencil(boundary="nearest")
def blur(x):
    return (x[-1, 0] + 2 * x[0, 0] + x[1, 0] + x[0, -1] + x[0, 1]) * (1 / 6)


@npt.stencil(boundary="nearest")
def blur4(x):
    c = blur(blur(blur(x)))
    return (c[-1, 0] + 2 * c[0, 0] + c[1, 0] + c[0, -1] + c[0, 1]) * (1 / 6)


def overlapped(stencil: Any, x: Any, depth: int) -> Any:
    """The same by `map_overlap`, each block of which is one call."""
    own = {"depth": depth, "boundary": "nearest", "dtype": x.dtype, "meta": x._meta}
    return x.map_overlap(lambda block: stencil(block, threads=1), **own)


def equal(lazy: Callable[[Any], Any], shape: tuple[int, ...] = (60, 50)) -> None:
    """Raise unless a function gives of a Dask array what it gives of the same in NumPy."""
    x = np.random.default_rng(0).random(shape, dtype="f4")
    found = lazy(da.from_array(x, chunks=17)).compute(scheduler="sync")
    np.testing.assert_array_equal(found, lazy(x))


def sent(array: Any) -> int:
    """Bytes that a client sends for an array, as `distributed` writes them."""
    from dask._expr import FinalizeCompute
    from distributed.protocol import serialize, to_serialize
    from distributed.utils import nbytes

    expr = FinalizeCompute(collections_to_expr([array])).optimize()
    header, frames = serialize(to_serialize(expr), on_error="raise")
    return sum(map(nbytes, [*frames, *map(str, header.values())]))


def tasks(order: Order) -> Iterator[Row]:
    """What a task costs beside its kernel, as in a worker, and what it takes to send."""
    for n in (100,) if order["quick"] else (500, 2000):
        own = np.random.default_rng(0).random((n, n), dtype="f4")
        run, _ = _task(mean9, own)
        padded, out = np.pad(own, 1, mode="wrap"), np.empty_like(own)
        np.testing.assert_array_equal(run(), mean9(padded, boundary="valid", threads=1))
        alone = partial(mean9, padded, boundary="valid", threads=1, out=out)
        ways = {"task": run, "alone": alone}
        took = turns({k: lambda f=f: [f() for _ in range(8)] for k, f in ways.items()}, 15)
        ratio = took["task"] / took["alone"]
        yield f"a task over its kernel, mean 3x3 of float32 {n}x{n}", ratio, 2.4, "x"
    run, size = _task(mean9, np.ones((20, 20), "f4"))
    took = turns({"begun": lambda: [run() for _ in range(50)]}, 20)["begun"] / 50
    yield "block of 20x20: time of a task", took * 1e6, 60, "µs"
    yield "block of 20x20: a task as it is sent", size, 2000, "bytes"


def _task(stencil: Any, own: np.ndarray) -> tuple[Callable[[], Any], int]:
    """The task of a block whose neighbours are all equal to it; and how long its pickle is."""
    from distributed.protocol.pickle import dumps

    source = da.zeros([3 * n for n in own.shape], chunks=own.shape, dtype=own.dtype)
    lazy = stencil(source)
    graph = dict(lazy.dask)

    def value(key: Any) -> Any:
        if key[0] == source.name:
            return own
        return graph[key]({one: value(one) for one in graph[key].dependencies})

    task = graph[(lazy.name, *(1 for _ in own.shape))]
    given = {key: value(key) for key in task.dependencies}
    return lambda: task(given), len(dumps(task))


def graphs(order: Order) -> Iterator[Row]:
    """What is sent, how long graphs take to build and to begin, and their tasks a chunk."""
    equal(mean9)
    side = 50 if order["quick"] else 500
    x = da.zeros((side * 64, side * 64), chunks=64, dtype="f4")
    name = f"{side * side} chunks"
    yield f"{name}: build", turns({"build": lambda: mean9(x)}, 3)["build"], 0.3, "s"
    yield f"{name}: sent, of what zeros sends", sent(mean9(x)) / sent(x), 1.3, "x"
    cut = da.zeros((1024, 1024), chunks=64, dtype="f4")
    four = collections_to_expr([blur(blur(blur(blur(cut))))]).optimize().__dask_graph__()
    yield "pipeline of four: tasks a chunk with source", len(four) / 256, 3, ""


@dataclass(frozen=True, slots=True)
class Job:
    """A stencil from Zarr to Zarr, in chunks, or shards of such chunks."""

    stencil: Any
    reach: int
    shape: tuple[int, ...]
    chunk: int
    shard: int | None = None

    @property
    def size(self) -> int:
        """Bytes of the array."""
        return 4 * int(np.prod(self.shape))

    @property
    def cut(self) -> dict[str, Any]:
        """How the stores are cut."""
        cut = {"chunks": (self.chunk,) * len(self.shape)}
        return cut if self.shard is None else cut | {"shards": (self.shard,) * len(self.shape)}

    def fill(self, path: Path) -> None:
        """Write whole numbers, whose sums are exact."""
        random = da.random.default_rng(0)
        x = random.integers(0, 64, self.shape, chunks=self.shard or self.chunk).astype("f4")
        npt.save(x, path, progress=False, **self.cut)

    def run(self, way: str, source: Path, target: Path) -> float:
        """Do it, and give the seconds."""
        begin = time.perf_counter()
        if way == OURS:
            npt.save(self.stencil(npt.open(source)), target, progress=False, **self.cut)
        else:
            # Into an array that is laid out before, as other ways lose values in shards.
            laid = zarr.create_array(target, shape=self.shape, dtype="f4", **self.cut)
            read = da.from_zarr(source, chunks=self.shard or self.chunk)
            da.to_zarr(overlapped(self.stencil, read, self.reach), laid)
        return time.perf_counter() - begin

    def beside(self, function: Callable[..., dict[str, float]]) -> list[dict[str, float]]:
        """What a function finds of each way, in a new process that need not compile any more."""
        found = []
        equal(self.stencil, (30,) * len(self.shape))
        with tempfile.TemporaryDirectory() as name:
            source, *targets = (Path(name) / f"{one}.zarr" for one in ("source", OURS, THEIRS))
            self.fill(source)
            for way, target in zip((OURS, THEIRS), targets, strict=True):
                with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                    found.append(pool.submit(function, self, way, source, target).result())
            # Past the border map_overlap repeats the array, a pipeline what each stage made.
            inner = kernels.inner((self.reach,) * len(self.shape))
            ours, theirs = (da.from_zarr(target)[inner] for target in targets)
            assert (ours == theirs).all().compute(**TWO)
        return found


def memory(what: str) -> float:
    """What Linux says of this process [MB]: VmRSS is that of now, VmHWM the most ever."""
    found = re.findall(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[0]) * 1.024e-3


def _on_threads(job: Job, way: str, source: Path, target: Path) -> dict[str, float]:
    """Seconds, and the most memory above what the process had at its start [MB]."""
    begin = memory("VmRSS")
    with dask.config.set(**TWO):
        seconds = job.run(way, source, target)
    return {"time": seconds, "memory above the start": memory("VmHWM") - begin}


def _on_workers(job: Job, way: str, source: Path, target: Path) -> dict[str, float]:
    """The same of one of two workers, and what went to the disk and moved, as parts of all."""
    with cluster(2, memory_limit="800MB") as client:
        seconds = job.run(way, source, target)
        peak = max(client.run(memory, "VmHWM").values())
        disk = client.run(lambda dask_worker: dask_worker.data.cumulative_metrics)
        spilled = sum(one["disk-write", "bytes"] for one in disk.values()) / job.size
        went = sum(sum(one.values()) for one in client.run(moved).values()) / job.size
    return {"time": seconds, "memory of a worker": peak, "spilled": spilled, "moved": went}


# What ours should have at most; of the volume, or MB.
_AIMS = {
    "memory above the start": (100.0, "MB"),
    "memory of a worker": (400.0, "MB"),
    "spilled": (0.0, "of all"),
    "moved": (0.05, "of all"),
}


def _rows(name: str, job: Job, function: Callable[..., dict[str, float]]) -> Iterator[Row]:
    """A row for each figure, and one for how it compares with map_overlap."""
    ours, theirs = job.beside(function)
    for figure, value in ours.items():
        what = f"{name}, {job.size / 1e9:.2f} GB: {figure}"
        if figure in _AIMS:
            yield what, value, *_AIMS[figure]
        if theirs[figure]:
            yield f"{what} over map_overlap", value / theirs[figure], 1.05, "x"


def threads(order: Order) -> Iterator[Row]:
    """Zarr to Zarr on two threads."""
    volume = Job(mean27, 1, (128 * order["side"],) * 3, 128)
    plane = Job(blur4, 4, (2000 * (order["side"] + 1),) * 2, 250, 2000)
    yield from _rows("volume, two threads", volume, _on_threads)
    yield from _rows("plane in shards, two threads", plane, _on_threads)


def workers(order: Order) -> Iterator[Row]:
    """The volume on two workers that cannot hold it where it is large, and a pipeline on it."""
    for name, stencil, reach in (("volume", mean27, 1), ("pipeline of three", three, 3)):
        volume = Job(stencil, reach, (128 * order["side"],) * 3, 128)
        yield from _rows(f"{name}, two workers of 800 MB", volume, _on_workers)


@contextmanager
def cluster(count: int, **options: Any) -> Iterator[Client]:
    """Workers of one thread, each a process."""
    own = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**own, **options) as started, Client(started) as client:
        yield client


def moved(dask_worker: Any) -> dict[str, int]:
    """Bytes that came from other workers since it was asked last, by the names of tasks."""
    found: Counter[str] = Counter()
    for one in dask_worker.transfer_incoming_log:
        for key, size in one["keys"].items():
            found[key_split(key)] += size
    dask_worker.transfer_incoming_log.clear()
    return dict(found)


def halos(order: Order) -> Iterator[Row]:
    """What moves between workers, of all faces between chunks and of the array."""
    n = 1 if order["quick"] else 10
    cases = (("volume", mean27, 1, 3, 10 * n), ("four blurs", blur4, 4, 2, 100 * n))
    for count in (2,) if order["quick"] else (2, 8):
        for name, stencil, reach, ndim, chunk in cases:
            equal(stencil, (30,) * ndim)
            zeros = da.zeros(((10 - 2 * ndim) * chunk,) * ndim, chunks=chunk, dtype="f4")
            # Chunks that are computed by tasks, each a memory of its own.
            x = zeros.map_blocks(lambda block: np.full(block.shape, 3, block.dtype), dtype="f4")
            faces = 2 * reach * sum((len(cut) - 1) * x.nbytes // sum(cut) for cut in x.chunks)
            with cluster(count) as client:
                ours = _in_later_runs(client, stencil(x))
                theirs = _in_later_runs(client, overlapped(stencil, x, reach))
            what = f"{name}, {count} workers: moved"
            yield f"{what}, of all faces", ours[0] / faces, 1, "x"
            yield f"{what} beside faces, of the array", ours[1] / x.nbytes, 0.01, "x"
            yield f"{what}, over map_overlap", sum(ours) / max(sum(theirs), 1), 1, "x"


def _in_later_runs(client: Client, lazy: Any) -> tuple[float, float]:
    """Bytes of faces, and of all else, that move in the middle one of three runs after one."""
    faces, others = [], []
    for _ in range(4):
        client.run(moved)
        lazy.max().compute()
        told = [one for worker in client.run(moved).values() for one in worker.items()]
        faces.append(sum(size for name, size in told if name.startswith("faces")))
        others.append(sum(size for _, size in told) - faces[-1])
    return statistics.median(faces[1:]), statistics.median(others[1:])


def parts(order: Order) -> Iterator[Row]:
    """How often chunks are read where each of eight jobs writes its part."""
    side = 4 if order["quick"] else 8
    job, read, counts = Job(mean27, 1, (32 * side,) * 3, 32), [], []
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name) / "source.zarr", Path(name) / "target.zarr"
        job.fill(source)

        def notice(event: str, given: tuple[Any, ...]) -> None:
            if event == "open" and str(given[0]).startswith(f"{source}/c/"):
                read.append(given[0])

        sys.addaudithook(notice)
        for number in range(8):
            lazy = mean27(npt.open(source))
            npt.save(lazy, target, part=(number, 8), progress=False, **job.cut)
            counts.append(len(read) - sum(counts))
        want = mean27(zarr.open_array(source, mode="r")[:])
        np.testing.assert_array_equal(zarr.open_array(target, mode="r")[:], want)
    what = f"{side**3} chunks, eight parts: read, of what is written"
    yield f"{what}, part (3, 8)", counts[3] / (side**3 / 8), 2.03, "x"
    yield f"{what}, all parts", sum(counts) / side**3, 2.03, "x"


def units(order: Order) -> Iterator[Row]:
    """Many units on a client: when the first is written, and what the scheduler holds by then."""
    equal(mean9)
    side, took = 20 if order["quick"] else 316, []
    lazy = mean9(da.zeros((20 * side, 20 * side), chunks=20, dtype="f4"))
    with tempfile.TemporaryDirectory() as name, cluster(2):
        npt.save(lazy[:40, :40], f"{name}/small.zarr", chunks=20, progress=False)
        begin, start = memory("VmRSS"), time.perf_counter()

        def written(done: int, total: int) -> None:
            if done:
                took.append(time.perf_counter() - start)
                raise KeyboardInterrupt  # as a person who has seen enough

        with suppress(KeyboardInterrupt):
            npt.save(lazy, f"{name}/units.zarr", chunks=20, progress=written)
    yield f"{side**2} units on a client: the first is written", took[0], 5, "s"
    yield f"{side**2} units: client and scheduler grow", memory("VmHWM") - begin, 200, "MB"


def odd_steps(order: Order) -> Iterator[Row]:
    """Steps that are left over at the end of a run on actors, done for the first time."""
    heat = npt.stencil(boundary="nearest")(kernels.heat)
    n, steps, more = (400, 96, 51) if order["quick"] else (3000, 480, 51)
    plate, took = np.random.default_rng(0).random((n, n), dtype="f4"), {}
    with cluster(2) as client:
        x = client.persist(da.from_array(plate, chunks=n // 4))
        for count in (steps, steps, steps + more):
            begin = time.perf_counter()
            later = heat.iterate(x, steps=count)
            took[count] = time.perf_counter() - begin
        np.testing.assert_array_equal(later, heat.iterate(plate, steps=steps + more))
    ratio = (took[steps + more] - took[steps]) / more / (took[steps] / steps)
    yield f"actors: a step of {more} left over, of one of {steps}", ratio, 2, "x"
