"""Iterations on a Dask cluster, whose workers hold the state and may be killed."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest

import ninepoint as npt
from nightly import only

distributed = pytest.importorskip("distributed")

LOST = Path(__file__).parents[1] / "lost_workers.py"


@npt.stencil(boundary="wrap")
def wave(u, before, speed):
    around = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]
    return 2 * u[0, 0] - before[0, 0] + speed[0, 0] * (around - 4 * u[0, 0]), u[0, 0]


@npt.stencil(boundary="nearest")
def driven(u, amplitude=0.0):
    return (u[-1] + u[0] + u[2]) / 3 + amplitude


def lies_there(lazy):
    """Whether an array is done, and lies on workers."""
    return all(isinstance(one, distributed.Future) for one in dict(lazy.dask).values())


def test_several_states_in_any_chunks(dask_client):
    rng = np.random.default_rng(0)
    u, speed = rng.random((40, 13)), rng.random((40, 13)) / 8
    wanted = wave.iterate(u, u, speed, steps=100)
    x, y = da.from_array(u, chunks=(15, 8)), da.from_array(speed, chunks=20)
    text = wave.iterate.explain(x, x, y, steps=100, snapshots=30)
    assert text.startswith("Give each worker 22.9 kB for its part of the state.\n")
    # Eight steps need as many points beyond both ends of two parts, of two states.
    assert "13 exchanges, of up to 8 steps each" in text
    assert "6.66 kB in all, between 2 parts" in text
    assert "lost worker up to 30 steps" in text
    assert not any(dask_client.run(actors_here).values())
    made = wave.iterate(x, x, y, steps=100)
    for one, other in zip(made, wanted, strict=True):
        assert one.chunks == x.chunks
        assert lies_there(one)
        np.testing.assert_array_equal(one.compute(), other)


def test_callback_until_and_scalars(dask_client):
    u = np.random.default_rng(1).random(60)
    looks, made = ([], []), []
    for state, seen in zip((u, da.from_array(u, chunks=25)), looks, strict=True):

        def look(step, now, seen=seen):
            seen.append((step, np.asarray(now)))

        options = {"steps": 5000, "every": 150, "until": 1e-4, "callback": look}
        made.append(driven.iterate(state, lambda step: 1 / (step + 1) ** 2, **options))
    np.testing.assert_array_equal(np.asarray(made[1]), made[0])
    for (step, one), (other_step, other) in zip(*looks, strict=True):
        assert step == other_step
        np.testing.assert_array_equal(one, other)
    assert len(looks[0]) < 30


def test_a_state_in_chunks_where_that_is_asked_for_and_in_tasks(dask_client):
    x = da.zeros(60, chunks=30)
    for asked in ({"ninepoint.actors": False}, {"scheduler": "sync"}):
        with dask.config.set(asked):
            assert not lies_there(driven.iterate(x, steps=20))

    def inside():
        return lies_there(driven.iterate(da.zeros(60, chunks=30), steps=20))

    assert dask_client.submit(inside).result() is False


def test_workers_with_too_little_memory_are_refused(dask_client):
    x = da.zeros((1 << 20, 1 << 17), chunks=(1 << 14, 1 << 14))
    with pytest.raises(MemoryError, match=r"would hold .* GB of the state, and may have"):
        wave.iterate(x, x, x, steps=1000)


def test_workers_may_share_a_process():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", processes=False
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        u = np.random.default_rng(3).random(60)
        made = driven.iterate(da.from_array(u, chunks=7), steps=100)
        np.testing.assert_array_equal(made.compute(), driven.iterate(u, steps=100))
        del made
        until = time.monotonic() + 20
        while any(client.run(actors_here).values()):
            assert time.monotonic() < until, "actors are kept"
            gc.collect()
            time.sleep(0.05)


def actors_here(dask_worker):
    return len(dask_worker.state.actors)


CASES = ["midway", "before", "all_before", "source", "given_up", "same_address", "left"]


@pytest.mark.parametrize("case", only(1, CASES))
def test_workers_that_are_killed(case):
    done = subprocess.run(
        [sys.executable, LOST, case], capture_output=True, text=True, timeout=400
    )
    assert done.stdout.split() == ["right", case], done.stderr
