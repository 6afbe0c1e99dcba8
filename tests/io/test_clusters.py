"""imsave on Dask clusters that are gone, go away or have nobody who works."""

import threading
import time
from contextlib import contextmanager

import dask
import dask.array as da
import distributed
import numpy as np
import pytest

from nightly import only
from ninepoint import imread, imsave

STACK = np.arange(20 * 6 * 5, dtype="uint8").reshape(20, 6, 5)
SOON = {"ninepoint.cluster-timeout": "1s"}


def slowly(block):
    time.sleep(0.05)
    return block


def film():
    return da.from_array(STACK, chunks=(1, 6, 5)).map_blocks(slowly, dtype="uint8")


def goes_on(folder):
    imsave(film(), folder / "{}.png", resume=True)
    np.testing.assert_array_equal(imread(folder).compute(), STACK)


@contextmanager
def clients(workers=1):
    """Give a client that is not Dask's own choice: what is left of that outlives the client."""
    cluster = distributed.LocalCluster(
        n_workers=workers, threads_per_worker=2, processes=False, dashboard_address=":0"
    )
    with cluster:
        client = distributed.Client(cluster, set_as_default=False)
        try:
            yield client
        finally:
            client.close()


@pytest.mark.parametrize("what", only(1, ["client", "cluster"]))
def test_a_client_without_a_scheduler_is_an_error(tmp_path, what):
    with clients() as client:
        (client if what == "client" else client.cluster).close()
        began = time.monotonic()
        with (
            dask.config.set(SOON, scheduler=client),
            pytest.raises(ConnectionError, match=r"resume=True .* dask\.config\.set"),
        ):
            imsave(film(), tmp_path / "{}.png")
        assert time.monotonic() - began < 20
    goes_on(tmp_path)


@pytest.mark.parametrize("what", only(1, ["cluster", "client", "workers"]))
def test_a_cluster_that_goes_away_midway_is_an_error(tmp_path, what):
    stop = {
        "client": lambda client: client.close(),
        "cluster": lambda client: client.cluster.close(),
        "workers": lambda client: client.cluster.scale(0),
    }
    with clients() as client:
        enough = threading.Event()
        closer = threading.Thread(target=lambda: enough.wait(60) and stop[what](client))
        closer.start()
        try:
            with dask.config.set(SOON, scheduler=client), pytest.raises(ConnectionError):
                imsave(film(), tmp_path / "{}.png", progress=lambda done, _: enough.set())
        finally:
            enough.set()
            closer.join()
    goes_on(tmp_path)


def test_workers_that_come_late_are_waited_for(tmp_path):
    with clients(workers=0) as client:
        late = threading.Timer(0.3, lambda: client.cluster.scale(1))
        late.start()
        with dask.config.set(scheduler=client):
            imsave(film(), tmp_path / "{}.png")
        late.join()
    np.testing.assert_array_equal(imread(tmp_path).compute(), STACK)


def test_an_interrupt_ends_the_tasks(tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    with clients() as client, dask.config.set(scheduler=client):
        with pytest.raises(KeyboardInterrupt):
            imsave(film(), tmp_path / "{}.png", progress=interrupt)
        until = time.monotonic() + 20
        while any(client.processing().values()):
            assert time.monotonic() < until
            time.sleep(0.01)
    assert len(list(tmp_path.iterdir())) < len(STACK)
    assert not list(tmp_path.glob(".*"))
