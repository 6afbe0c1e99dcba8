"""The measures of `groups/dask.py`: functions of `quick`, small arrays for a rehearsal, that give
rows: what it is, a figure, the most that it should be, and the unit."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.base import collections_to_expr
from dask.callbacks import Callback

import ninepoint as npt

from . import kernels
from .measure import turns

Row = tuple[str, float, float, str]

_TIMES = "x"
_TWO = {"scheduler": "threads", "num_workers": 2}

mean9 = npt.stencil(boundary="nearest")(kernels.box(np.mean, 1))
corners = kernels.harris(npt.stencil(boundary="nearest"))


@npt.stencil(boundary="nearest")
def blur(x):
    return (x[-1, 0] + 2 * x[0, 0] + x[1, 0] + x[0, -1] + x[0, 1]) * (1 / 6)


@npt.stencil(boundary="nearest")
def blur4(x):
    c = blur(blur(blur(x)))
    return (c[-1, 0] + 2 * c[0, 0] + c[1, 0] + c[0, -1] + c[0, 1]) * (1 / 6)


def equal(lazy: Callable[[Any], Any]) -> None:
    """Raise unless a function gives of a Dask array what it gives of the same in NumPy."""
    x = np.random.default_rng(0).random((60, 50), dtype="f4")
    found = lazy(da.from_array(x, chunks=17)).compute(scheduler="sync")
    np.testing.assert_array_equal(found, lazy(x))


def made(side: int, chunk: int) -> Any:
    """An array whose chunks are computed by tasks, each a memory of its own."""
    zeros = da.zeros((side, side), chunks=chunk, dtype="f4")
    return zeros.map_blocks(lambda block: np.full(block.shape, 3, block.dtype), dtype="f4")


def sent(array: Any) -> int:
    """Bytes that a client sends for an array, as `distributed` writes them."""
    from dask._expr import FinalizeCompute
    from distributed.protocol import serialize, to_serialize
    from distributed.utils import nbytes

    expr = FinalizeCompute(collections_to_expr([array])).optimize()
    header, frames = serialize(to_serialize(expr), on_error="raise")
    return sum(map(nbytes, [*frames, *map(str, header.values())]))


def _overlapped(stencil: Any, x: Any, depth: int) -> Any:
    """The same by `map_overlap`, each block of which is one call."""
    own = {"depth": depth, "boundary": "nearest", "dtype": x.dtype, "meta": x._meta}
    return x.map_overlap(lambda block: stencil(block, threads=1), **own)


def _ratio(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int = 5) -> float:
    """What one takes over what the other takes, in turns."""
    took = turns({"ours": ours, "theirs": theirs}, rounds)
    return took["ours"] / took["theirs"]


def _greatest(lazy: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: lazy().max().compute(**_TWO)


def tasks(quick: bool) -> Iterator[Row]:
    """What a task costs beside its kernel, as in a worker, and what it takes to send."""
    for n in (100,) if quick else (500, 2000):
        own = np.random.default_rng(0).random((n, n), dtype="f4")
        run, _ = _task(mean9, own)
        padded, out = np.pad(own, 1, mode="wrap"), np.empty_like(own)
        np.testing.assert_array_equal(run(), mean9(padded, boundary="valid", threads=1))
        alone = partial(mean9, padded, boundary="valid", threads=1, out=out)
        ratio = _ratio(*(lambda f=f: [f() for _ in range(8)] for f in (run, alone)), 15)
        yield f"a task over its kernel, mean 3x3 of float32 {n}x{n}", ratio, 2.4, _TIMES
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


def graphs(quick: bool) -> Iterator[Row]:
    """What is sent, how long graphs take to build and to begin, and their tasks a chunk."""
    equal(mean9)
    side = 50 if quick else 500
    x = da.zeros((side * 64, side * 64), chunks=64, dtype="f4")
    name = f"{side * side} chunks"
    yield f"{name}: build", turns({"build": lambda: mean9(x)}, 3)["build"], 0.3, "s"
    yield f"{name}: sent, of what zeros sends", sent(mean9(x)) / sent(x), 1.3, _TIMES
    n = 16 if quick else 100
    cut = da.zeros((n * 64, n * 64), chunks=64, dtype="f4")
    ways = (lambda: mean9(cut), lambda: _overlapped(mean9, cut, 1))
    begun = _ratio(*(lambda way=way: _first_task(way()) for way in ways), 2)
    yield f"{n * n} chunks: build and first task over map_overlap", begun, 1.0, _TIMES
    four = collections_to_expr([blur(blur(blur(blur(cut))))]).optimize().__dask_graph__()
    yield "pipeline of four: tasks a chunk with source", len(four) / n**2, 3, ""


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
    """Pipelines on Dask arrays beside the same ones given to map_overlap."""
    side = 2000 if quick else 8000
    plate = made(side, side // 4)
    for name, stencil, far in (("corners", corners, 2), ("four blurs", blur4, 4)):
        equal(stencil)
        ratio = _ratio(
            _greatest(lambda s=stencil: s(plate)),
            _greatest(lambda s=stencil, d=far: _overlapped(s, plate, d)),
        )
        yield f"{name}: time over map_overlap", ratio, 1.0, _TIMES


@npt.stencil(boundary="nearest")
def sharpened_heat(u):
    """A step of a pipeline: heat that flows by what is left of a blur."""
    soft = blur(u)
    return u[0, 0] + 0.2 * (soft[-1, 0] + soft[1, 0] + soft[0, -1] + soft[0, 1] - 4 * soft[0, 0])


def stepping(quick: bool) -> Iterator[Row]:
    """Steps on chunks of 1024x1024: eight at once, beside one call after another."""
    equal(lambda x: sharpened_heat.iterate(x, steps=8))
    plate = made(1024 * (2 if quick else 6), 1024)

    def one_by_one() -> Any:
        state = plate
        for _ in range(8):
            state = sharpened_heat(state).persist(**_TWO)
        return state

    ratio = _ratio(
        _greatest(lambda: sharpened_heat.iterate(plate, steps=8)), _greatest(one_by_one)
    )
    yield "eight steps of a pipeline over step by step", ratio, 1.0, _TIMES


def storing(quick: bool) -> Iterator[Row]:
    """Four blurs of a store with shards, into another one."""
    import zarr

    shard, n = (500, 1000) if quick else (2000, 12000)
    with tempfile.TemporaryDirectory() as name, dask.config.set(**_TWO):
        source, target, other = (Path(name) / f"{k}.zarr" for k in range(3))
        cut = {"chunks": (250, 250), "shards": (shard, shard)}

        def create(path: Path) -> Any:
            return zarr.create_array(path, shape=(n, n), dtype="f4", overwrite=True, **cut)

        given, random = create(source), np.random.default_rng(0)
        for row in range(0, n, shard):
            given[row : row + shard] = random.integers(0, 255, (shard, n)).astype("f4")

        def ours() -> None:
            blurred = blur4(npt.open(source))
            npt.save(blurred, target, overwrite=True, progress=False, **cut)

        def theirs() -> None:
            # Into an array that is laid out before, as other ways lose values in shards.
            read = da.from_zarr(source, chunks=shard)
            da.to_zarr(_overlapped(blur4, read, 4), create(other))

        ratio = _ratio(ours, theirs, 3)
        made, band = zarr.open_array(target, mode="r"), given[shard - 24 : shard + 24]
        np.testing.assert_array_equal(made[shard - 20 : shard + 20], blur4(band)[4:-4])
    yield "four blurs, Zarr to Zarr in shards: time over to_zarr", ratio, 1.05, _TIMES
