"""Workers of a Dask cluster that are killed, just before a call or in it: what is left to say.

python lost_workers.py midway all_before source
"""

import faulthandler
import os
import signal
import socket
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.array as da
import distributed
import numpy as np
import pytest

import ninepoint as npt

drift = npt.stencil(lambda u: u[0, 0] + 0.1 * (u[-1, 0] - 2 * u[0, 0] + u[0, 1]), boundary="wrap")


@npt.stencil(boundary="wrap")
def wave(u, before, speed):
    around = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]
    return 2 * u[0, 0] - before[0, 0] + speed[0, 0] * (around - 4 * u[0, 0]), u[0, 0]


U = np.random.default_rng(0).random((60, 20))
SOON = {"ninepoint.cluster-timeout": "3s"}


@contextmanager
def clients(workers=2, **options):
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=50,
            **options,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def kill(client, count):
    for one in sorted(client.run(os.getpid).values())[:count]:
        os.kill(one, signal.SIGKILL)


def midway():
    """One of two is killed while they hold the state: that costs some steps."""
    wanted = wave.iterate(U, U, U / 8, steps=3000)
    with clients() as client:
        mine = sorted(client.run(os.getpid).values())
        told = []

        def progress(done, steps):
            told.append(done)
            if len(told) == 2:
                os.kill(mine[0], signal.SIGKILL)

        x = da.from_array(U, chunks=30)
        made = wave.iterate(x, x, x / 8, steps=3000, snapshots=100, progress=progress)
        assert sorted(set(told)) == told
        assert told[-1] == 3000
        assert len(told) > 2
        for one, other in zip(made, wanted, strict=True):
            np.testing.assert_array_equal(one.compute(), other)


# What workers do first: those that Dask starts in the place of killed ones wait for a file to go.
WAITS = """
import os, time
while os.path.exists({file!r}):
    time.sleep(0.05)
"""


def all_before():
    """All are killed: an iteration, and files, wait for others no longer than they may."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "wait")
        with clients(preload=[WAITS.format(file=str(file))]) as client, dask.config.set(SOON):
            x = da.from_array(U, chunks=30)
            file.touch()
            kill(client, 2)
            with pytest.raises(ConnectionError, match="no workers"):
                drift.iterate(x, steps=300)
            with pytest.raises(ConnectionError, match="no workers"):
                npt.save(x, os.path.join(folder, "x.zarr"))
            file.unlink()


# What a worker does first that Dask starts in the place of a killed one, and then gives up.
ENDS = """
import os
if os.path.exists({file!r}):
    raise RuntimeError("no")
"""


def given_up():
    """None comes in the place of those that are killed while a state in chunks is looked at."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "end")
        # In chunks, and not on actors.
        soon = SOON | {"ninepoint.actors": False}
        with clients(preload=[ENDS.format(file=str(file))]) as client, dask.config.set(soon):

            def look(step, state):
                if step == 20:
                    file.touch()
                    kill(client, 2)

            with pytest.raises(ConnectionError, match="no workers"):
                drift.iterate(da.from_array(U, chunks=30), steps=3000, every=10, callback=look)


def same_address():
    """One is killed while somebody looks, and then another one has its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with clients(1, worker_port=str(port)) as client:

        def look(step, state):
            if step == 200:
                kill(client, 1)
                while client.nthreads():
                    time.sleep(0.1)
                client.wait_for_workers(1, timeout=100)

        x = da.from_array(U, chunks=30)
        made = drift.iterate(x, steps=600, every=200, callback=look)
        np.testing.assert_array_equal(made.compute(), drift.iterate(U, steps=600))


def left():
    """One is killed that has a part of what an iteration left, which nobody can make anew."""
    for use in (lambda made: made.compute(), lambda made: drift.iterate(made, steps=300)):
        with clients() as client:
            made = drift.iterate(da.from_array(U, chunks=30), steps=300)
            kill(client, 1)
            with pytest.raises(OSError, match="lay on a worker that is gone"):
                use(made)


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
        with (
            tempfile.TemporaryDirectory() as folder,
            pytest.raises(ConnectionError, match="a worker is lost that alone had what they need"),
        ):
            npt.save(drift(x), os.path.join(folder, "x.zarr"))


if __name__ == "__main__":
    faulthandler.dump_traceback_later(float(os.environ.get("LIMIT", 300)), exit=True)
    for name in sys.argv[1:]:
        globals()[name]()
        print("right", name, flush=True)
