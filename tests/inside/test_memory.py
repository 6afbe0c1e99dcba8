"""Memory that arrays leave behind is used again, never too early, and goes back to the system."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import ninepoint as npt
from ninepoint.backends import memory
from ninepoint.backends.memory import LEAST, Pool

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measures on Linux")
posix = pytest.mark.skipif(sys.platform == "win32", reason="NumPy's own memory is used there")

MB = 1 << 20


@pytest.fixture
def pool():
    made = Pool(most=64 * MB, kept=60.0)
    yield made
    made.before_fork()


def place(array):
    return array.__array_interface__["data"][0]


def new(pool, size=2 * MB):
    return pool.empty((size,), np.dtype("u1"), size)


def run(script, **variables):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@posix
def test_memory_is_used_again_once_nothing_refers_to_it(pool):
    one = new(pool)
    at = place(one)
    view = one[10:].reshape(-1, 2)[::3].T
    raw = memoryview(one)
    del one
    assert place(new(pool)) != at
    del view
    assert place(new(pool)) != at
    raw.release()
    del raw
    gc.collect()
    both = [new(pool, 2 * MB - 100_000) for _ in range(2)]
    assert at in map(place, both)


@posix
def test_much_smaller_arrays_do_not_take_it(pool):
    at = place(new(pool, 8 * MB))
    assert place(new(pool, 4 * MB)) != at
    assert place(new(pool, 9 * MB)) != at
    assert place(new(pool, 7 * MB)) == at


@posix
def test_arrays_are_plain_ones(pool):
    array = new(pool)
    array[:] = 7
    assert type(array) is np.ndarray
    assert array.base is None
    assert array.flags.owndata
    assert array.flags.writeable
    assert place(array) % 64 == 0
    other = np.empty(3)
    assert sys.getrefcount(array) == sys.getrefcount(other)
    for other in (copy.deepcopy(array), pickle.loads(pickle.dumps(array)), array.copy()):
        np.testing.assert_array_equal(other, array)
        assert not np.shares_memory(other, array)
    array.flags.writeable = False
    array.flags.writeable = True


@posix
def test_arrays_can_be_resized(pool):
    array = new(pool)
    array[:] = np.arange(len(array)) % 251
    expected = array.copy()
    for size in (3 * MB, 10, 5 * MB, 2 * MB):
        before = min(size, len(expected))
        array.resize(size, refcheck=False)
        np.testing.assert_array_equal(array[:before], expected[:before])
        assert not array[before:].any()
        expected = array.copy()
    new(pool)[:] = 1
    np.testing.assert_array_equal(array, expected)


@posix
def test_no_more_than_the_limit_is_held(pool):
    kept = [new(pool, 10 * MB) for _ in range(20)]
    for k, array in enumerate(kept):
        array[:] = k
    assert all((array == k).all() for k, array in enumerate(kept))
    del kept, array
    large = new(pool, 100 * MB)
    assert len(large) == 100 * MB
    many = [new(pool, MB // 2) for _ in range(200)]
    assert len({place(array) for array in many}) == 200


@pytest.mark.nightly
@posix
@linux
def test_idle_memory_goes_back_to_the_system():
    pool = Pool(most=512 * MB, kept=0.2)
    before = resident()
    dropped, held = new(pool, 100 * MB), new(pool, 50 * MB)
    dropped[:], held[:] = 1, 2
    assert resident() > before + 120 * MB
    del dropped
    wait_until(lambda: resident() < before + 70 * MB)
    # What was held for long is as NumPy's: it goes with its array.
    time.sleep(0.5)
    assert (held == 2).all()
    del held
    assert resident() < before + 20 * MB


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_until(happens):
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.05)


@posix
def test_many_threads_get_memory_of_their_own(pool):
    wrong = []

    def work(number):
        draw = np.random.default_rng(number)
        mine = []
        for turn in range(200):
            array = new(pool, int(draw.integers(MB, 2 * MB)))
            array[::4096] = number
            mine.append(array)
            if len(mine) > 3:
                del mine[int(draw.integers(len(mine)))]
            if turn % 20 == 0 and not all((a[::4096] == number).all() for a in mine):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@posix
def test_allocations_of_others_stay_numpys(pool):
    new(pool)
    name = np._core.multiarray.get_handler_name
    assert name(new(pool)) == "ninepoint"
    assert name() == "default_allocator"
    assert name(np.empty(2 * MB, "u1")) == "default_allocator"


@pytest.mark.nightly
@posix
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_children_have_their_own():
    assert run(
        """
        import os, threading, time, warnings
        warnings.simplefilter("ignore")
        import numpy as np
        from ninepoint.backends import memory

        def new(value):
            array = memory.empty((3_000_000,), "u1")
            array[:] = value
            return array

        enough = threading.Event()
        def busy():
            while not enough.is_set():
                new(9)

        threading.Thread(target=busy).start()
        held, freed = new(1), new(2)
        del freed
        for k in range(10):
            child = os.fork()
            if not child:
                arrays = [new(k) for k in range(5)]
                right = all((a == k).all() for k, a in enumerate(arrays)) and (held == 1).all()
                del held, arrays
                os._exit(0 if right and (new(4) == 4).all() else 1)
            end = time.monotonic() + 60
            while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
                assert time.monotonic() < end, "a child hangs"
            assert ended[1] == 0
            assert (held == 1).all() and (new(5) == 5).all()
        enough.set()
        print("well")
        """
    ) == ["well"]


@posix
def test_forks_warn_of_no_thread_of_ours():
    assert run(
        """
        import multiprocessing, os
        from ninepoint.backends import memory

        memory.empty((3_000_000,), "u1")[:] = 1
        if hasattr(os, "fork"):
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
        print("well")
        """
    ) == ["well"]


@posix
def test_arrays_outlive_the_interpreter():
    assert run(
        """
        import os, sys
        import numpy as np
        from ninepoint.backends import memory

        class Late:
            def __del__(self, write=os.write):
                del self.array
                write(1, b"late")

        late = Late()
        late.array = memory.empty((3_000_000,), "u1")
        sys.late = late
        del late
        kept = [memory.empty((3_000_000,), "u1") for _ in range(3)]
        del kept[1]
        np.kept = kept
        """
    ) == ["late"]


@posix
def test_the_variable_sets_how_much_is_kept():
    script = """
        import numpy as np
        from ninepoint.backends import memory

        array = memory.empty((3_000_000,), "u1")
        at = array.ctypes.data
        array[:] = 1
        print(memory.limit(), np._core.multiarray.get_handler_name(array))
        """
    assert run(script, NINEPOINT_MEMORY="0") == ["0", "default_allocator"]
    assert run(script, NINEPOINT_MEMORY=" 2") == ["2000000", "default_allocator"]
    assert run(script, NINEPOINT_MEMORY="4") == ["4000000", "ninepoint"]


def test_a_limit_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv(memory.VARIABLE, "1GB")
    with pytest.raises(ValueError, match=r"NINEPOINT_MEMORY='1GB' is no number of MB"):
        memory.limit()


@linux
def test_memory_that_cannot_be_had_is_refused_as_numpy_does():
    assert run(
        """
        import resource
        from ninepoint.backends import memory

        kept = memory.empty((50_000_000,), "u1")
        del kept
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        try:
            memory.empty((2_000_000_000,), "u1")
        except MemoryError:
            print("refused")
        """,
        NINEPOINT_MEMORY="4000",
    ) == ["refused"]


@posix
def test_results_never_share_memory_with_one_another_or_the_fields():
    @npt.stencil(boundary="nearest")
    def edge(x):
        return x[-1, 0] - x[1, 0]

    draw = np.random.default_rng(0)
    x = draw.integers(-9, 9, (1100, 1000)).astype("float64")
    assert x.nbytes > LEAST
    expected = np.pad(x, ((1, 1), (0, 0)), "edge")
    expected = expected[:-2] - expected[2:]
    results = [edge(x) for _ in range(3)]
    second = edge(results[0])
    for result in results:
        np.testing.assert_array_equal(result, expected)
    # As its own out, an array is read before it is written.
    given = edge(x)
    assert edge(given, out=given) is given
    np.testing.assert_array_equal(given, second)
    part = edge(x)
    edge(part[:-1], out=part[1:])
    np.testing.assert_array_equal(part[1:], edge(expected[:-1]))


@posix
def test_iterations_use_it_and_give_arrays_of_their_own():
    @npt.stencil(boundary="wrap")
    def move(x):
        return x[0, 1]

    x = np.arange(1100 * 1000, dtype="float64").reshape(1100, 1000)
    one = move.iterate(x, steps=3)
    kept = []
    two = move.iterate(x, steps=4, every=1, callback=lambda step, state: kept.append(state))
    np.testing.assert_array_equal(one, np.roll(x, -3, 1))
    np.testing.assert_array_equal(two, np.roll(x, -4, 1))
    for step, state in enumerate(kept, 1):
        np.testing.assert_array_equal(state, np.roll(x, -step, 1))


@linux
def test_smaller_arrays_are_kept_where_malloc_keeps_none():
    script = """
        import resource
        import numpy as np
        from ninepoint.backends.memory import empty
        def faults():
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(3):
            empty((300_000,), "u1").fill(1)
        before = faults()
        for _ in range(50):
            empty((300_000,), "u1").fill(1)
        print(faults() - before)
    """
    assert int(run(script, MALLOC_TRIM_THRESHOLD_="65536")[0]) < 50
