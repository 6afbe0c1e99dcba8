"""Lazy arrays of dask-array and of Cubed, against the `map_overlap` of each."""

from __future__ import annotations

import pickle
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ninepoint as npt

from .kernels import mean9
from .row import Row


@npt.stencil(boundary="constant")
def mean9_of_zeros(x):
    """The mean of three by three points, with zeros around the array."""
    return x[-1:2, -1:2].mean()


def measure(*, quick: bool) -> Iterator[Row]:
    """Give the rows of the libraries that are installed."""
    for rows in (_dask_array, _cubed):
        try:
            yield from rows(quick)
        except ImportError as error:
            yield Row(f"not installed: {error.name}", float("nan"), float("nan"), "")


def _dask_array(quick: bool) -> Iterator[Row]:
    import dask_array

    a = np.random.default_rng(0).random((90, 70), dtype="f4")
    x = dask_array.from_array(a, chunks=20)
    np.testing.assert_array_equal(mean9(x).compute(scheduler="sync"), mean9(a))
    side = 20 if quick else 100
    cut = dask_array.zeros((side * 64, side * 64), chunks=64, dtype="f4")
    yield Row(
        f"dask-array, {side * side} chunks: a call", len(pickle.dumps(mean9(cut).expr)), 1e4, "B"
    )
    yield Row("dask-array: tasks a chunk with source", _tasks(mean9(cut)) / side**2, 3, "")
    size = 2 if quick else 8
    plate = dask_array.ones((size * 1000,) * 2, chunks=1000, dtype="f4") * 3

    def overlap() -> Any:
        return plate.map_overlap(
            lambda block: mean9(block, threads=1), depth=1, boundary="nearest", dtype="f4",
            meta=np.empty((0, 0), "f4"),
        )  # fmt: skip

    ratio = _ratio(
        lambda: mean9(plate).max().compute(scheduler="threads"),
        lambda: overlap().max().compute(scheduler="threads"),
    )
    yield Row("dask-array: time against its map_overlap", ratio, 1.0)


def _tasks(array: Any) -> int:
    return len(array.optimize().__dask_graph__())


def _cubed(quick: bool) -> Iterator[Row]:
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
            )  # fmt: skip

        ratio = _ratio(lambda: mean9_of_zeros(x).compute(), lambda: overlap().compute())
    yield Row("Cubed: time against its map_overlap", ratio, 1.0)


def _ratio(ours: Callable[[], Any], theirs: Callable[[], Any]) -> float:
    """The middle of what one takes over what the other takes, in turns."""
    found: list[list[float]] = [[], []]
    for _ in range(4):
        for way, times in zip((ours, theirs), found, strict=True):
            begin = time.perf_counter()
            way()
            times.append(time.perf_counter() - begin)
    return statistics.median(found[0][1:]) / statistics.median(found[1][1:])
