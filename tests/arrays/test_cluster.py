"""Dask clusters: workers hold the state of an iteration, may be killed, or are gone."""

import gc
import threading
import time
from contextlib import contextmanager

import dask
import dask.array as da
import distributed
import numpy as np
import pytest
from chunked import image, mean, near

import lost_workers
import ninepoint as npt
from compared import only, refuses
from lost_workers import wave
from ninepoint import imread, imsave
from own_process import printed


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


def test_a_state_in_chunks_where_that_is_asked_for_and_none_that_is_too_large(dask_client):
    x = da.zeros(60, chunks=30)
    for asked in ({"ninepoint.actors": False}, {"scheduler": "sync"}):
        with dask.config.set(asked):
            assert not lies_there(driven.iterate(x, steps=20))

    def inside():
        return lies_there(driven.iterate(da.zeros(60, chunks=30), steps=20))

    assert dask_client.submit(inside).result() is False
    x = da.zeros((1 << 20, 1 << 17), chunks=(1 << 14, 1 << 14))
    with pytest.raises(MemoryError, match=r"would hold .* GB of the state, and may have"):
        wave.iterate(x, x, x, steps=1000)


def test_workers_may_share_a_process():
    with lost_workers.clients(processes=False) as client:
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


CASES = ["midway", "all_before", "source", "given_up", "same_address", "left"]


@pytest.mark.parametrize("case", only(1, CASES))
def test_workers_that_are_killed(case):
    assert printed(lost_workers.__file__, case) == f"right {case}"


# Graphs: blocks run where their chunks are.
def made(block, block_id):
    """A chunk, which any worker may make."""
    rows, columns = np.indices(block.shape)
    return (7 * rows + columns) * (1 + block_id[0]) % (5 + block_id[1])


def cut(shape, chunks):
    return da.zeros(shape, chunks=chunks).map_blocks(made, dtype="int64")


def moved(dask_worker):
    """The keys that a worker was sent since one asked last."""
    log = list(dask_worker.transfer_incoming_log)
    dask_worker.transfer_incoming_log.clear()
    return [key for one in log for key in one["keys"]]


def places(name, of, dask_scheduler):
    """What the scheduler knows of the blocks of an array, by their places."""
    tasks = dask_scheduler.tasks.items()
    return {key[1:]: of(task) for key, task in tasks if key[0] == name}


def bound(task):
    return task.worker_restrictions


def holders(task):
    return {worker.address for worker in task.who_has}


def test_chunks_stay_and_each_face_comes_once(dask_client):
    x = cut((1600, 1600), 200)
    lazy, a = mean(mean(x)), x.compute(scheduler="sync")
    dask_client.run(moved)
    # Every two seconds it drops copies for which there is no task just then.
    dask_client.amm.stop()
    np.testing.assert_array_equal(lazy.compute(), mean(mean(a)))
    dask_client.amm.start()
    keys = [key for own in dask_client.run(moved).values() for key in own]
    faces = [key for key in keys if key[0].startswith("faces-")]
    assert len(set(faces)) == len(faces)
    assert not any(key[0].startswith("made") for key in keys)


def test_what_is_placed_and_who_has_the_last_word(dask_client):
    x = cut((60, 40), 20).persist()
    a = x.compute()
    there = dask_client.run_on_scheduler(places, x.name, holders)
    for kernel, asked in ((mean, True), (near, False)):
        with dask.config.set({"ninepoint.placement": asked}):
            lazy = kernel(x)
        held = lazy.persist()
        np.testing.assert_array_equal(held.compute(), kernel(a))
        found = dask_client.run_on_scheduler(places, held.name, bound)
        # A chunk may have come to a second worker meanwhile.
        assert found.keys() == there.keys()
        assert all(found[at] & there[at] if asked else found[at] is None for at in there)
    (first, *_) = dask_client.scheduler_info()["workers"]
    held = dask_client.persist(mean(x, boundary="wrap"), workers=first)
    np.testing.assert_array_equal(held.compute(), mean(a, boundary="wrap"))
    found = dask_client.run_on_scheduler(places, held.name, holders)
    assert found == {place: {first} for place in there}


def test_workers_that_come_and_go():
    a = image(400, 400)

    def slow(block):
        time.sleep(0.02)
        return block

    with lost_workers.clients(processes=False) as client:
        x = da.from_array(a, chunks=40).map_blocks(slow).persist()
        made = mean(x).map_blocks(slow).persist()
        done = distributed.as_completed(distributed.futures_of(made))
        next(done)
        client.cluster.scale(4)
        client.wait_for_workers(4)
        client.sync(client.cluster.workers[0].close)
        np.testing.assert_array_equal(made.compute(), mean(a))


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
    stop = {"client": lambda one: one.close(), "cluster": lambda one: one.cluster.close()}
    stop["workers"] = lambda one: one.cluster.scale(0)
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
        refuses(KeyboardInterrupt, "", imsave, film(), tmp_path / "{}.png", progress=interrupt)
        until = time.monotonic() + 20
        while any(client.processing().values()):
            assert time.monotonic() < until
            time.sleep(0.01)
    assert len(list(tmp_path.iterdir())) < len(STACK)
    assert not list(tmp_path.glob(".*"))
