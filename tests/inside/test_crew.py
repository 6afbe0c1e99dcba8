"""Threads do each part of a call once; interrupts and forks leave nothing half done."""

import gc
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import ninepoint as npt
from compared import refuses
from ninepoint.backends.threads import thread_count
from ninepoint.base.undisturbed import undisturbed
from ninepoint.language.definitions import parsed
from own_process import FORKS, at_once, output, start

scaled = npt.stencil(lambda x, r: x[0] * r + x[1], boundary="wrap")


def expected(field):
    return field * 2.5 + np.roll(field, -1)


def test_each_part_is_done_for_many_callers_and_no_array_is_kept_or_lost():
    for length in (1, 2, 1000, 300_001):
        field = np.random.default_rng(length).random(length)
        for threads in (1, 2, 3, 9):
            np.testing.assert_array_equal(scaled(field, 2.5, threads=threads), expected(field))

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
    field, out = np.arange(6.0), np.empty(6)
    scaled(field, 2.5, out=out)
    before = sys.getrefcount(field), sys.getrefcount(out)
    for _ in range(100):
        scaled(field, 2.5, out=out)
    assert (sys.getrefcount(field), sys.getrefcount(out)) == before


def test_nobody_works_while_there_is_no_work_and_python_goes_on_beside_it():
    scaled(np.ones(1_000_000), 2.5, threads=2)
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1
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


posix = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")

# Calls again and again, each interrupted a little later, until one comes to its end.
UNTIL_DONE = r"""
    import random, signal, time, warnings

    warnings.filterwarnings("ignore", r"(?s).*\[slow-kernel\]")
    signal.signal(signal.SIGALRM, signal.default_int_handler)

    def until_done(call, seed):
        draw = random.Random(seed)
        hits, longest = 0, 0.005
        while True:
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.001, longest))
                    return call(), hits
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                hits += 1
                longest *= 1.1
"""


def interrupted(folder, script):
    return output(start(folder, UNTIL_DONE, script))


@pytest.mark.nightly
@posix
@pytest.mark.parametrize("seed", [0, 1])
def test_interrupted_first_calls(tmp_path, seed):
    """While packages are imported, while Numba compiles, and while files are written and read."""
    script = f"""
        import sys
        import ninepoint as npt
        stencil, hits = until_done(lambda: npt.stencil, {seed})
        import numpy as np

        @stencil(boundary="wrap")
        def edge(x):
            return x[-1, 0] * 2 - x[1, 1]

        @stencil(boundary="wrap", neighborhood=((-1, 1), (-1, 1)))
        def first(x):
            near = x[-1:2, 0]
            return near[near < 99][0] * 2 - x[1, 1]

        x = np.arange(42, dtype="int16").reshape(6, 7)
        expected = 2 * np.roll(x, 1, 0) - np.roll(x, (-1, -1), (0, 1))
        for kernel in [(edge, first), (first, edge)][{seed}]:
            result, more = until_done(lambda: kernel(x), {seed})
            np.testing.assert_array_equal(result, expected)
            np.testing.assert_array_equal(kernel(x), expected)
            hits += more
        frames = np.arange(2 * 5 * 6, dtype="uint8").reshape(2, 5, 6)
        for pattern in ("a/{{}}.png", "b/{{}}.tif"):
            written = sys.argv[0] + pattern
            until_done(lambda: npt.imsave(frames, written, overwrite=True), 1)
            read, _ = until_done(lambda: npt.imread(written.replace("{{}}", "*")), 2)
            np.testing.assert_array_equal(read.compute(scheduler="sync"), frames)
        print(hits)
    """
    assert int(interrupted(tmp_path, script)) > 5
    assert interrupted(tmp_path, script).isdecimal()


@pytest.mark.nightly
@posix
def test_nothing_is_written_after_an_interrupt(tmp_path):
    """Wherever it comes, also while threads are started: who is interrupted waits for them."""
    script = """
        from concurrent.futures import ThreadPoolExecutor
        from ninepoint.io.run import follow

        written = 0

        def write():
            global written
            time.sleep(0.003)
            written += 1

        def work(tell):
            with ThreadPoolExecutor(2) as pool:
                futures = [pool.submit(write) for _ in range(4)]
                for future in futures:
                    future.result()
                    tell(1)

        draw = random.Random(0)
        for _ in range(60):
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.00002, 0.01))
                    follow(work, lambda number: None)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                before = written
                time.sleep(0.005)
                assert written == before
    """
    interrupted(tmp_path, script)


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_while_a_thread_compiles(tmp_path):
    """The child finds no lock that is held by a thread which it does not have."""
    script = """
        import threading, warnings
        warnings.simplefilter("ignore")
        import numpy as np
        import ninepoint as npt

        def make(step):
            @npt.stencil(boundary="wrap")
            def kernel(x):
                return x[0, step] * step - x[0, 0]
            return kernel

        x = np.ones((5, 7))
        began, enough = threading.Event(), threading.Event()

        def compile_others():
            for step in range(1, 1000):
                began.set()
                make(step % 6)(x.astype(["f4", "f8", "i2", "i4"][step // 6 % 4]))
                if enough.is_set():
                    return

        threading.Thread(target=compile_others).start()
        began.wait()
        for step in range(10, 15):
            time.sleep(0.1 * (step - 10))
            # One that nobody has compiled before.
            assert child_is(lambda: (make(step)(x, threads=2) == x * step - x).all())
        enough.set()
        print("right")
    """
    assert output(start(tmp_path, FORKS, script)) == "right"


ENDLESS = """
    import os, sys, threading, time
    import numpy as np
    import ninepoint as npt

    @npt.stencil(neighborhood=((0, 1), (0, 1)))
    def endless(x, end=0):
        k = 0
        while x[0, 0] >= 0:
            if k == end and k > 0:
                return k
            k += 1 - (k > 5)
        return k

    def count(x, n):
        found = 0
        for k in range(n):
            found ^= k
        return found + x[0, 0]

    @npt.stencil(neighborhood=((0, 1), (0, 1)))
    def long(x, n=2**62):
        return count(x, n)

    def stopped(call):
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        began = time.monotonic()
        try:
            call()
        except KeyboardInterrupt:
            print(time.monotonic() - began)
        else:
            sys.exit("it ended")

    x = np.ones((300, 200))
    small = np.ones((5, 6))
    assert endless(small, end=3)[0, 0] == 3
    assert long(small, n=3)[0, 0] == 4
"""


@posix
def test_kernels_that_never_end_are_interrupted(tmp_path):
    script = f"""{ENDLESS}
    stopped(lambda: endless(small))
    stopped(lambda: long(small))
    damped = npt.stencil(lambda u: u[0, 1] / 2)
    damped.iterate(small, steps=20)
    stopped(lambda: damped.iterate(small, steps=10**12))
    for threads in (1, 2, 3):
        stopped(lambda: endless(x, threads=threads))
    out = np.zeros(x.shape, int)
    np.testing.assert_array_equal(endless(x, end=2, out=out, threads=2)[:-1, :-1], 2)
    assert [t for t in threading.enumerate() if t.name.startswith("ninepoint-setup")] == []
    """
    seconds = interrupted(tmp_path, script).split()
    assert len(seconds) == 6
    assert max(map(float, seconds)) < 20


@pytest.mark.nightly
@posix
def test_a_program_that_computes_without_end_on_dask_is_ended(tmp_path):
    """Its threads are waited for when Python ends, but the machine code hears of it.

    The pool has its threads before: Python may lose one that an interrupt finds starting.
    """
    script = f"""{ENDLESS}
    from concurrent.futures import ThreadPoolExecutor
    import dask.array as da
    pool = ThreadPoolExecutor(2)
    list(pool.map(time.sleep, (0.2, 0.2)))
    lazy = endless(da.from_array(x, chunks=150))
    stopped(lambda: lazy.compute(scheduler="threads", pool=pool))
    frames = lazy[None].astype("uint8")
    stopped(lambda: npt.imsave(frames, os.path.dirname(sys.argv[0]) + "/{{}}.png"))
    print("over")
    """
    seconds = interrupted(tmp_path, script).split()
    assert len(seconds) == 3
    assert max(map(float, seconds[:2])) < 20


@pytest.mark.parametrize("collected", [True, False])
def test_cycles_are_collected_as_before_once_the_work_has_ended(collected):
    def fails():
        assert not gc.isenabled()
        raise KeyError

    before = gc.isenabled()
    try:
        (gc.enable if collected else gc.disable)()
        assert undisturbed(lambda: undisturbed(gc.isenabled)) is False
        assert gc.isenabled() is collected
        refuses(KeyError, "", undisturbed, fails)
        assert gc.isenabled() is collected
    finally:
        (gc.enable if before else gc.disable)()
