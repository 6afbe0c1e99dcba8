"""Threads: each part of a call is done once, whoever asks, and calls in tasks keep to one."""

import gc
import os
import sys
import threading
import time

import numpy as np
import pytest

import ninepoint as npt
from ninepoint.backends.threads import thread_count
from ninepoint.language.definitions import parsed
from own_process import FORKS, at_once, output, start

scaled = npt.stencil(lambda x, r: x[0] * r + x[1], boundary="wrap")


def expected(field):
    return field * 2.5 + np.roll(field, -1)


def test_each_part_is_done_by_any_number_of_threads():
    for length in (1, 2, 1000, 300_001):
        field = np.random.default_rng(length).random(length)
        for threads in (1, 2, 3, 9):
            np.testing.assert_array_equal(scaled(field, 2.5, threads=threads), expected(field))


def test_nobody_works_while_there_is_no_work():
    scaled(np.ones(1_000_000), 2.5, threads=2)
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def test_many_callers_at_once():
    def work(seed):
        field = np.random.default_rng(seed).random(200_000 + seed)
        out, wanted = np.empty_like(field), expected(field)
        right = True
        for _ in range(30):
            out[:] = np.nan
            scaled(field, 2.5, out=out, threads=3)
            right &= (out == wanted).all()
        return right

    assert at_once(work, 5) == [True] * 5


def test_arrays_are_neither_kept_nor_lost():
    field, out = np.arange(6.0), np.empty(6)
    scaled(field, 2.5, out=out)
    before = sys.getrefcount(field), sys.getrefcount(out)
    for _ in range(100):
        scaled(field, 2.5, out=out)
    assert (sys.getrefcount(field), sys.getrefcount(out)) == before


def test_python_goes_on_while_machine_code_runs():
    far = npt.ufunc(lambda x: np.arctan(np.sin(x)))
    field = np.ones((1500, 1500))
    far(field[:2])
    running = threading.Thread(target=far, args=(field,), kwargs={"threads": 1})
    steps = 0
    running.start()
    while running.is_alive():
        steps += 1
    assert steps > 2


WORKS = """
    import threading, time, warnings
    import numpy as np
    import ninepoint as npt

    warnings.simplefilter("ignore")

    @npt.stencil(boundary="wrap")
    def edge(x):
        return np.sqrt(abs(x[-1, 0] - x[1, 1])) + x[0, -1]

    x = np.random.default_rng(0).random((900, 700))
    alone = edge(x, threads=1)

    def right():
        return all((edge(x, threads=2) == alone).all() for _ in range(8))

    def work():
        while not enough.is_set():
            right()

    assert right()
    enough = threading.Event()
    threading.Thread(target=work, daemon=True).start()
"""


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_children_have_a_crew_of_their_own(tmp_path):
    script = """
        for k in range(6):
            time.sleep(0.01 * k)
            assert child_is(right)
        enough.set()
        assert right()
    """
    output(start(tmp_path, FORKS, WORKS, script))


def test_the_process_ends_while_others_wait_or_work(tmp_path):
    """Also where an interrupt found a thread starting, which Python then forgets."""
    script = """
        from concurrent.futures import thread
        from ninepoint.backends import threads

        threads._threads.submit(lambda: None, 1)[0].result()
        for one in list(thread._threads_queues):
            del thread._threads_queues[one]
        time.sleep(0.2)
        print("well")
    """
    assert output(start(tmp_path, WORKS, script)) == "well"


def asked(*beside):
    return thread_count(), thread_count(3)


@pytest.mark.filterwarnings("ignore:.*unclosed.*:ResourceWarning")
def test_calls_in_tasks_keep_to_their_thread_and_others_do_not(monkeypatch, dask_client):
    dask = pytest.importorskip("dask")
    monkeypatch.setenv("NINEPOINT_THREADS", "7")
    for scheduler in ("threads", "processes"):
        some = [dask.delayed(asked)(k) for k in range(3)]
        assert set(dask.compute(*some, scheduler=scheduler, num_workers=1)) == {(1, 3)}
        assert asked() == (7, 3)
    assert dask_client.submit(asked, pure=False).result() == (1, 3)
    assert at_once(asked, 1) == [(7, 3)]


# Texts are parsed by several threads at once, whatever is collected as garbage meanwhile.
LINE = "x{0} = (a + b * c - f({0})) if d else [i for i in range(9)]"
TEXT = "\n".join(map(LINE.format, range(60)))


class Cycle:
    def __init__(self):
        self.own = self

    def __del__(self):
        # Another thread runs.
        time.sleep(0)


def test_threads_that_parse_at_once():
    def work(_):
        try:
            for _ in range(8):
                _ = [Cycle() for _ in range(20)]
                parsed(TEXT)
        except SystemError as error:
            return error

    before = gc.get_threshold()
    gc.set_threshold(50)
    assert at_once(work, 4) == [None] * 4
    gc.set_threshold(*before)
