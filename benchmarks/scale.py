"""The measures of `groups/dask.py`: functions of `quick`, small arrays for a rehearsal, that give
rows: what it is, a figure, the most that it should be, and the unit."""

from __future__ import annotations

import gc
import pickle
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.callbacks import Callback

import ninepoint as npt

from . import kernels
from .measure import turns
from .watching import Held, Peak, cluster, equal, helpers, made, moved, sent, varied, written

Row = tuple[str, float, float, str]

_TIMES = "x"


@npt.stencil(boundary="nearest")
def mean9(x):
    return x[-1:2, -1:2].mean()


@npt.stencil(boundary="constant")
def mean9_of_zeros(x):
    return x[-1:2, -1:2].mean()


@npt.stencil(boundary="nearest")
def smooth(x):
    return x[-1:2, -1:2].sum() // 9


@npt.stencil(boundary="nearest")
def mean27(x):
    return x[-1:2, -1:2, -1:2].mean()


laplace = npt.stencil(boundary="reflect")(kernels.laplace)
corners = kernels.harris(npt.stencil(boundary="nearest"))
heat = npt.stencil(boundary="nearest")(kernels.heat)


@npt.stencil(boundary="nearest")
def blur(x):
    return (x[-1, 0] + 2 * x[0, 0] + x[1, 0] + x[0, -1] + x[0, 1]) * (1 / 6)


@npt.stencil(boundary="nearest")
def blur4(x):
    c = blur(blur(blur(x)))
    return (c[-1, 0] + 2 * c[0, 0] + c[1, 0] + c[0, -1] + c[0, 1]) * (1 / 6)


@npt.stencil(standard_indexing=("w",))
def weighed(x, w):
    return w[0] * x[-1, 0] + w[1] * x[1, 0]


def _chain(x: Any) -> Any:
    return blur(blur(blur(blur(x))))


def _overlapped(stencil: Any, x: Any, depth: int) -> Any:
    """The same by `map_overlap`, each block of which is one call."""
    meta = np.empty((0,) * x.ndim, x.dtype)
    return x.map_overlap(
        lambda block: stencil(block, threads=1),
        depth=depth,
        boundary="nearest",
        dtype=x.dtype,
        meta=meta,
    )


def _ratio(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int = 5) -> float:
    """What one takes over what the other takes, in turns."""
    took = turns({"ours": ours, "theirs": theirs}, rounds)
    return took["ours"] / took["theirs"]


def _greatest(lazy: Callable[[], Any], **options: Any) -> Callable[[], Any]:
    return lambda: lazy().max().compute(**options)


_TWO = {"scheduler": "threads", "num_workers": 2}


def tasks(quick: bool) -> Iterator[Row]:
    """What a task costs beside its kernel, as in a worker, and what it takes to send."""
    cases = (
        ("9 points, uint8, 2000x2000", smooth, (2000, 2000), "u1"),
        ("9 points, float32, 500x500", mean9, (500, 500), "f4"),
        ("9 points, float32, 2000x2000", mean9, (2000, 2000), "f4"),
        ("27 points, float32, 128x128x128", mean27, (128,) * 3, "f4"),
    )
    for name, stencil, shape, dtype in cases:
        own = np.random.default_rng(0).integers(0, 99, [n // 4 if quick else n for n in shape])
        own = own.astype(dtype)
        run, _ = _task(stencil, own)
        padded, out = np.pad(own, 1, mode="wrap"), np.empty_like(own)
        np.testing.assert_array_equal(run(), stencil(padded, boundary="valid", threads=1))
        alone = _many(lambda s=stencil, p=padded, o=out: s(p, boundary="valid", threads=1, out=o))
        yield f"task over its kernel: {name}", _ratio(_many(run), alone, 15), 2.4, _TIMES
    run, size = _task(mean9, np.ones((20, 20), "f4"))
    took = turns({"begun": _many(run, 50)}, 20)["begun"] / 50
    yield "block of 20x20: time of a task", took * 1e6, 60, "µs"
    yield "block of 20x20: a task as it is sent", size, 2000, "bytes"


def _many(run: Callable[[], Any], count: int = 4) -> Callable[[], Any]:
    return lambda: [run() for _ in range(count)] and None


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


def graphs(quick: bool) -> Iterator[Row]:
    """What is sent, how long graphs take to build and to begin, and their tasks a chunk."""
    from dask._task_spec import Task
    from distributed.protocol.pickle import dumps

    equal(laplace, varied((40, 50), 9, "f4"))
    side = 50 if quick else 500
    x = da.zeros((side * 64, side * 64), chunks=64, dtype="f4")
    laplace(da.zeros((8, 8), chunks=4, dtype="f4"))
    name = f"{side * side} chunks"
    yield f"{name}: build", turns({"build": lambda: laplace(x)}, 3)["build"], 0.3, "s"
    yield f"{name}: sent, of what zeros sends", sent(laplace(x)) / sent(x), 1.3, _TIMES
    cut = da.zeros((6400, 6400), chunks=64, dtype="f4")
    equal(_chain, varied((60, 50), 17, "f4"))
    begun = _ratio(
        lambda: _first_task(mean9(cut)), lambda: _first_task(_overlapped(mean9, cut, 1))
    )
    yield "10000 chunks: build and first task over map_overlap", begun, 1.0, _TIMES
    most = len(written(_chain(cut))) / 10_000
    yield "pipeline of four: tasks a chunk with source", most, 3, ""
    table = np.random.default_rng(0).random(15_000)
    equal(lambda x: weighed(x, table), varied((60, 50), 17, "f4"))
    for what, x in (
        ("cut", da.zeros((6400, 6400), chunks=640, dtype="f4")),
        ("stack", da.zeros((1000, 64, 64), chunks=(10, -1, -1), dtype="f4")),
    ):
        found = written(weighed(x, table)).values()
        sizes = [len(dumps(task)) for task in found if isinstance(task, Task)]
        yield f"120 kB of coefficients, {what}: a task pickles to", max(sizes) / 1e3, 3, "kB"


class _BegunError(Exception):
    """The first task is about to run."""


def _first_task(array: Any) -> None:
    """Do all that comes before the first task, and break off."""

    def stop(*_: Any) -> None:
        raise _BegunError

    try:
        with Callback(pretask=stop):
            array.compute(scheduler="sync")
    except _BegunError:
        return
    raise AssertionError("no task was begun")


def beside(quick: bool) -> Iterator[Row]:
    """Stencils on Dask arrays beside the same ones given to map_blocks and map_overlap."""
    for stencil in (corners, blur4):
        equal(stencil, varied((60, 50), 17, "f4"))
    side = 2000 if quick else 8000
    plate = made((side, side), side // 4, "f4")
    stack = made((16 if quick else 64, 1000, 1000), (4, -1, -1), "f4")
    for name, stencil, far in (("corners", corners, 2), ("four blurs", blur4, 4)):
        cut = _ratio(
            _greatest(lambda s=stencil: s(plate), **_TWO),
            _greatest(lambda s=stencil, d=far: _overlapped(s, plate, d), **_TWO),
        )
        yield f"{name}, cut: time over map_overlap", cut, 1.0, _TIMES
        whole = _ratio(
            _greatest(lambda s=stencil: s(stack), **_TWO),
            _greatest(lambda s=stencil: stack.map_blocks(s, dtype="f4", meta=stack._meta), **_TWO),
        )
        yield f"{name}, a stack: time over map_blocks", whole, 1.0, _TIMES


@npt.stencil(boundary="nearest")
def sharpened_heat(u):
    """A step of a pipeline: heat that flows by what is left of a blur."""
    soft = blur(u)
    return u[0, 0] + 0.2 * (soft[-1, 0] + soft[1, 0] + soft[0, -1] + soft[0, 1] - 4 * soft[0, 0])


def stepping(quick: bool) -> Iterator[Row]:
    """Steps on chunks of 1024x1024: eight at once, beside one call after another; and looks."""
    small = varied((90, 80), (31, 40), "f4")
    equal(lambda x: heat.iterate(x, steps=48), small)
    equal(lambda x: sharpened_heat.iterate(x, steps=8), small)
    plate = made([1024 * (2 if quick else 6)] * 2, 1024, "f4")

    def one_by_one() -> Any:
        state = plate
        for _ in range(8):
            state = sharpened_heat(state).persist(**_TWO)
        return state

    together = _ratio(
        _greatest(lambda: sharpened_heat.iterate(plate, steps=8), **_TWO),
        _greatest(one_by_one, **_TWO),
    )
    yield "eight steps of a pipeline over step by step", together, 1.0, _TIMES
    array = np.random.default_rng(0).random((200, 200), dtype="f4")

    def looked(steps: int) -> int:
        done: list[Any] = []
        with dask.config.set(scheduler="sync"), Callback(posttask=lambda *a: done.append(a[0])):
            lazy = da.from_array(array, chunks=100)
            heat.iterate(lazy, steps=steps, every=8, until=1e-12).compute()
        return len(done)

    yield (
        "until: tasks of 20 looks over twice those of 10",
        looked(160) / (2 * looked(80)),
        1.05,
        _TIMES,
    )


def frames(quick: bool) -> Iterator[Row]:
    """Thousands of frames on a client with little memory, beside the source alone."""
    equal(smooth, varied((9, 40, 50), (2, 40, 50), "i1"))
    count = 500 if quick else 3000
    source = da.random.randint(
        0, 127, size=(count, 1000, 1000), chunks=("64 MB", None, None), dtype="int8"
    )
    with cluster(1, processes=False, threads_per_worker=4, memory_limit="4GB"):
        ratio = _ratio(_greatest(lambda: smooth(source)), _greatest(lambda: source), 2)
    yield f"{count} frames, 4 GB: time over the source alone", ratio, 1.25, _TIMES


def moving(quick: bool) -> Iterator[Row]:
    """Bytes between workers, and a pipeline of four on two processes."""
    equal(mean27, varied((20, 22, 21), 7, "f4"))
    equal(_chain, varied((60, 50), 17, "f4"))
    planes = made(((4 if quick else 10) * 2000,) * 2, 2000, "u1")
    volume = made(((2 if quick else 4) * 128,) * 3, 128, "f4")
    with cluster(8, processes=False, memory_limit=0) as client:
        for name, stencil, array, aim in (
            ("2-D", mean9, planes, 0.6),
            ("3-D", mean27, volume, 0.8),
        ):
            found = []
            for _ in range(3):
                moved(client)
                stencil(array).max().compute()
                found.append(moved(client) / array.nbytes)
            yield f"moved, 8 workers: {name}", statistics.median(found), aim, "arrays"
    plate = made(((3 if quick else 6) * 2000,) * 2, 2000, "f4")
    with cluster(2, processes=True) as client:
        ours, theirs = lambda: _chain(plate), lambda: _overlapped(blur4, plate, 4)
        ratio = _ratio(_greatest(ours), _greatest(theirs), 2 if quick else 4)
        yield "four blurs, 2 processes: time over one map_overlap", ratio, 1.0, _TIMES
        moved(client)
        _greatest(ours)()
        yield "four blurs, 2 processes: moved", moved(client) / plate.nbytes, 0.3, "arrays"


def holding(quick: bool) -> Iterator[Row]:
    """Chunks of the source that are alive at once, and threads of ours beside Dask's."""
    equal(mean9, varied((40, 50), 9, "u1"))
    for grid, stencil, aim in (((40, 40), mean9, 125), ((12, 12, 12), mean27, 310)):
        counts = [n // 4 for n in grid] if quick else grid
        size = 64 if len(grid) == 2 else 16
        held = Held()
        array = held.watch(made([n * size for n in counts], size, "f4"))
        stencil(array).max().compute(scheduler="sync")
        yield f"chunks held: {'x'.join(map(str, counts))}", held.most, aim, ""
    side = 500 if quick else 2000
    stack = da.ones((16, side, side), chunks=(1, -1, -1), dtype="u1")
    image = np.ones((side, side), "u1")
    ways: dict[str, Callable[[], Any]] = {
        "mean9(x)": lambda: mean9(stack),
        "x.map_blocks(mean9)": lambda: stack.map_blocks(mean9, dtype="u1", meta=stack._meta),
        "dask.delayed(mean9)": lambda: [dask.delayed(mean9)(image) for _ in range(8)],
    }
    for way, lazy in ways.items():
        dask.compute(lazy(), scheduler="threads", num_workers=4)
        yield f"threads of ours beside 4 of Dask's: {way}", helpers(), 0, ""


SHARD, CHUNK = 2000, 250


def _stored_plate(path: Path, n: int) -> None:
    """Shards of whole numbers in a new store."""
    array, random = _created(path, n), np.random.default_rng(0)
    for row in range(0, n, SHARD):
        array[row : row + SHARD] = random.integers(0, 255, (SHARD, n)).astype("f4")


def _created(path: Path, n: int) -> Any:
    import zarr

    chunks, shards = (CHUNK, CHUNK), (SHARD, SHARD)
    return zarr.create_array(
        path, shape=(n, n), chunks=chunks, shards=shards, dtype="f4", overwrite=True
    )


def regions(quick: bool) -> Iterator[Row]:
    """Sources that tasks read by regions: graphs, tasks, and memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = str(folder / "flat.npy")
        flat = np.lib.format.open_memmap(path, "w+", "f4", (10000, 10000))
        flat[:50, :50] = np.arange(2500).reshape(50, 50)
        x = npt.open(path, chunks=20)
        tile = mean9(x)[:40, :40].compute(scheduler="sync")
        np.testing.assert_array_equal(tile, mean9(np.asarray(flat))[:40, :40])
        took = turns({"build": lambda: mean9(x)}, 3)["build"]
        yield "regions: graph built, 250,000 chunks", took, 0.3, "s"
        zeros = da.zeros((10000, 10000), chunks=20, dtype="f4")
        yield "regions: sent, of what zeros sends", sent(mean9(x)) / sent(zeros), 1.3, _TIMES
        x = npt.open(path, chunks=100)
        most = len(written(blur4(x))) / x.npartitions
        yield "regions: tasks a chunk with source, pipeline of four", most, 1.01, ""
        n = (2 if quick else 6) * SHARD
        _stored_plate(folder / "source.zarr", n)
        x = npt.open(folder / "source.zarr")
        blur4(x)[:500, :500].compute()
        with dask.config.set(**_TWO), Peak() as peak:
            blur4(x).max().compute()
        # What is compressed is held, too, while it is decoded.
        held = peak.bytes / x.blocks[0, 0].nbytes / 2
        yield "regions: memory of blocks a thread", held, 2.5, ""


def storing(quick: bool) -> Iterator[Row]:
    """A store with shards through four blurs into another one: memory held, and time."""
    import zarr

    n = (3 if quick else 6) * SHARD
    with tempfile.TemporaryDirectory() as name, dask.config.set(**_TWO):
        folder = Path(name)
        _stored_plate(folder / "source.zarr", n)
        # What is imported and compiled at first is no memory of a store.
        _created(folder / "small.zarr", 2 * SHARD)
        npt.save(blur4(npt.open(folder / "small.zarr")), folder / "warm.zarr", progress=False)
        peaks = []

        def ours() -> None:
            gc.collect()
            options = {"chunks": CHUNK, "shards": SHARD, "overwrite": True, "progress": False}
            with Peak() as peak:
                opened = npt.open(folder / "source.zarr")
                npt.save(blur4(opened), folder / "ours.zarr", **options)
            peaks.append(peak.bytes)

        def theirs() -> None:
            # Of an array that is laid out by hand, for the other ways lose values in shards.
            array = da.from_zarr(folder / "source.zarr", chunks=SHARD)
            da.to_zarr(_overlapped(blur4, array, 4), _created(folder / "theirs.zarr", n))

        ratio = _ratio(ours, theirs, 1 if quick else 3)
        first = SHARD - 20
        band = zarr.open_array(folder / "source.zarr", mode="r")[first - 4 : first + 44]
        stored = zarr.open_array(folder / "ours.zarr", mode="r")[first : first + 40]
        np.testing.assert_array_equal(stored, blur4(band)[4:-4])
    yield "sharded Zarr to Zarr, four blurs: peak", max(peaks) / 1e6, 100, "MB"
    yield "sharded Zarr to Zarr, four blurs: time over to_zarr", ratio, 1.05, _TIMES


def dask_arrays(quick: bool) -> Iterator[Row]:
    """Lazy arrays of dask-array, beside its own `map_overlap`."""
    import dask_array

    a = np.random.default_rng(0).random((90, 70), dtype="f4")
    x = dask_array.from_array(a, chunks=20)
    np.testing.assert_array_equal(mean9(x).compute(scheduler="sync"), mean9(a))
    side = 20 if quick else 100
    cut = dask_array.zeros((side * 64, side * 64), chunks=64, dtype="f4")
    size = len(pickle.dumps(mean9(cut).expr))
    yield f"dask-array, {side * side} chunks: a call", size, 1e4, "bytes"
    most = len(mean9(cut).optimize().__dask_graph__()) / side**2
    yield "dask-array: tasks a chunk with source", most, 3, ""
    plate = dask_array.ones(((2 if quick else 8) * 1000,) * 2, chunks=1000, dtype="f4") * 3
    ratio = _ratio(
        _greatest(lambda: mean9(plate), **_TWO),
        _greatest(lambda: _overlapped(mean9, plate, 1), **_TWO),
    )
    yield "dask-array: time over its map_overlap", ratio, 1.0, _TIMES


def cubed_arrays(quick: bool) -> Iterator[Row]:
    """Lazy arrays of Cubed, beside its own `map_overlap`."""
    import cubed

    warnings.simplefilter("ignore")
    size = 2 if quick else 6
    with tempfile.TemporaryDirectory() as folder:
        spec = cubed.Spec(work_dir=folder, allowed_mem="200MB")
        a = np.random.default_rng(0).random((size * 500, size * 500), dtype="f4")
        cubed.to_zarr(cubed.from_array(a, chunks=(500, 500), spec=spec), f"{folder}/in.zarr")
        x = cubed.from_zarr(f"{folder}/in.zarr", spec=spec)
        np.testing.assert_array_equal(mean9_of_zeros(x).compute(), mean9_of_zeros(a))

        def overlap() -> Any:
            return cubed.map_overlap(
                lambda block: mean9_of_zeros(block, boundary="valid", threads=1), x, dtype="f4",
                chunks=x.chunks, depth=1, boundary=0.0, trim=False,
            ).compute()  # fmt: skip

        ratio = _ratio(lambda: mean9_of_zeros(x).compute(), overlap, 3)
    yield "Cubed: time over its map_overlap", ratio, 1.0, _TIMES
