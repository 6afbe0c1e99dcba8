"""The measures of `groups/dask.py`: functions of `quick`, small arrays for a rehearsal, that give
rows: what it is, a figure, the most that it should be, and the unit."""

from __future__ import annotations

import gc
import tempfile
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
from .watching import Peak, equal, made, sent, varied, written

Row = tuple[str, float, float, str]

_TIMES = "x"


@npt.stencil(boundary="nearest")
def mean9(x):
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
