"""Workers of a Dask cluster that are killed, just before a call or in it: what is left to say.

python lost_workers.py before all source
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import tempfile
import time
from contextlib import contextmanager

import dask
import dask.array as da
import distributed
import numpy as np
import pytest

import ninepoint as npt


@npt.stencil(boundary="wrap")
def drift(u):
    return u[0, 0] + 0.1 * (u[-1, 0] - 2 * u[0, 0] + u[0, 1])


U = np.random.default_rng(0).random((60, 20))


@contextmanager
def clients(workers=2):
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def kill(client, count):
    for one in sorted(client.run(os.getpid).values())[:count]:
        os.kill(one, signal.SIGKILL)


def before():
    """One is killed, and at once an iteration begins; and again a moment after."""
    wanted = drift.iterate(U, steps=300)
    with clients(3) as client:
        for wait in (0.0, 0.02):
            kill(client, 1)
            time.sleep(wait)
            made = drift.iterate(da.from_array(U, chunks=30), steps=300)
            np.testing.assert_array_equal(made.compute(), wanted)


def all_before():
    """All are killed: an iteration, and files, wait for others no longer than they may."""
    with clients() as client, dask.config.set({"ninepoint.cluster-timeout": "3s"}):
        x = da.from_array(U, chunks=30)
        kill(client, 2)
        with pytest.raises(ConnectionError, match="no workers"):
            drift.iterate(x, steps=300)
        with (
            tempfile.TemporaryDirectory() as folder,
            pytest.raises(ConnectionError, match="no workers"),
        ):
            npt.save(x, os.path.join(folder, "x.zarr"))


def source():
    """The only worker that had the source is killed, and there are no copies."""
    with clients() as client:
        address, mine = next(iter(client.run(os.getpid).items()))
        x = da.from_delayed(client.scatter(U, workers=[address]), U.shape, U.dtype).rechunk(30)
        told = []

        def progress(done, steps):
            told.append(done)
            if len(told) == 2:
                os.kill(mine, signal.SIGKILL)

        with pytest.raises(ConnectionError, match="had what the iteration began") as caught:
            drift.iterate(x, steps=3000, snapshots=0, progress=progress)
        words = str(caught.value)
        assert f"{told[-1]} of 3000 steps were done" in words, words
        assert "snapshots=" in words, words


if __name__ == "__main__":
    faulthandler.dump_traceback_later(float(os.environ.get("LIMIT", 300)), exit=True)
    for name in sys.argv[1:]:
        globals()[name]()
        print("right", name, flush=True)
