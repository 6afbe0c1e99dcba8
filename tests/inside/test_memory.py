"""Memory that arrays leave behind is used again, never too early, and goes back to the system."""

import copy
import gc
import os
import pickle
import sys
import time

import numpy as np
import pytest

import ninepoint as npt
from compared import refuses
from ninepoint.backends import memory
from ninepoint.backends.memory import LEAST, Pool
from own_process import FORKS, at_once, output, start

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measures on Linux")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="NumPy's own memory is used")

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
    # Much smaller arrays do not take it.
    at = place(new(pool, 8 * MB))
    assert place(new(pool, 4 * MB)) != at
    assert place(new(pool, 9 * MB)) != at
    assert place(new(pool, 7 * MB)) == at


def test_arrays_are_plain_ones_and_no_more_than_the_limit_is_held(pool):
    array = new(pool)
    array[:] = 7
    assert type(array) is np.ndarray
    assert array.flags.writeable
    assert array.flags.aligned
    assert array.flags.c_contiguous
    assert place(array) % 64 == 0
    assert sys.getrefcount(array) == sys.getrefcount(np.empty(3))
    for other in (copy.deepcopy(array), pickle.loads(pickle.dumps(array)), array.copy()):
        np.testing.assert_array_equal(other, array)
        assert not np.shares_memory(other, array)
    array.flags.writeable = False
    array.flags.writeable = True
    kept = [new(pool, 10 * MB) for _ in range(20)]
    for k, array in enumerate(kept):
        array[:] = k
    assert all((array == k).all() for k, array in enumerate(kept))
    del kept, array
    large = new(pool, 100 * MB)
    assert len(large) == 100 * MB
    many = [new(pool, MB // 2) for _ in range(200)]
    assert len({place(array) for array in many}) == 200


def test_a_signals_handler_gets_memory_of_its_own(pool):
    """Wherever it finds the thread."""
    found, depth = [], []

    def interrupt(frame, event, argument):
        if frame.f_code.co_filename == memory.__file__ and not depth:
            depth.append(1)
            found.append(new(pool))
            depth.clear()
        return interrupt

    sys.settrace(interrupt)
    try:
        mine = [new(pool) for _ in range(3)]
    finally:
        sys.settrace(None)
    assert len(found) > 30
    places = [place(one) for one in (*mine, *found)]
    assert len({*places}) == len(places)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.nightly
@linux
def test_idle_memory_goes_back_to_the_system():
    pool = Pool(most=512 * MB, kept=0.2)
    before = resident()
    dropped, held = new(pool, 100 * MB), new(pool, 50 * MB)
    dropped[:], held[:] = 1, 2
    assert resident() > before + 120 * MB
    del dropped
    end = time.monotonic() + 60
    while resident() > before + 70 * MB:
        assert time.monotonic() < end
        time.sleep(0.05)
    # What was held for long goes with its array.
    time.sleep(0.5)
    assert (held == 2).all()
    del held
    assert resident() < before + 20 * MB


def test_many_threads_get_memory_of_their_own(pool):
    def work(number):
        draw = np.random.default_rng(number)
        mine, right = [], True
        for turn in range(200):
            mine.append(new(pool, int(draw.integers(MB, 2 * MB))))
            mine[-1][::4096] = number
            if len(mine) > 3:
                del mine[int(draw.integers(len(mine)))]
            if turn % 20 == 0:
                right &= all((a[::4096] == number).all() for a in mine)
        return right

    assert at_once(work, 6) == [True] * 6


FORKED = """
    import threading, warnings
    warnings.simplefilter("ignore")
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
    held, freed = [new(1)], new(2)
    del freed

    def right():
        arrays = [new(k) for k in range(5)]
        well = all((a == k).all() for k, a in enumerate(arrays)) and (held[0] == 1).all()
        held.clear()
        del arrays
        return well and (new(4) == 4).all()

    for _ in range(10):
        assert child_is(right)
        assert (held[0] == 1).all() and (new(5) == 5).all()
    enough.set()
    print("well")
"""

# A fork warns of no thread of ours, and arrays outlive the interpreter.
LATE = """
    import os, sys
    import numpy as np
    from ninepoint.backends import memory

    class Late:
        def __del__(self, write=os.write):
            del self.array
            write(1, b"late")

    late = Late()
    late.array = memory.empty((3_000_000,), "u1")
    late.array[:] = 1
    if hasattr(os, "fork"):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    sys.late = late
    del late
    kept = [memory.empty((3_000_000,), "u1") for _ in range(3)]
    del kept[1]
    np.kept = kept
"""

LIMIT = """
    from ninepoint.backends import memory

    print(memory.empty((3_000_000,), "u1").flags.owndata)
"""

# What cannot be had is refused as NumPy does, and malloc keeps small arrays.
REFUSED = """
    import resource
    import ninepoint as npt
    from ninepoint.backends import memory

    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    npt.stencil(lambda x: x[0] + x[1])(memory.empty((9,), "u1"))
    for _ in range(3):
        memory.empty((300_000,), "u1").fill(1)
    before = faults()
    for _ in range(50):
        memory.empty((300_000,), "u1").fill(1)
    print(faults() - before < 50)
    kept = memory.empty((50_000_000,), "u1")
    del kept
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    try:
        memory.empty((2_000_000_000,), "u1")
    except MemoryError:
        print("refused")
"""
REFUSING = {"NINEPOINT_MEMORY": "4000", "MALLOC_TRIM_THRESHOLD_": "65536"}
FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.mark.parametrize(("script", "variables", "printed"), [
    pytest.param(FORKS + FORKED, {}, "well", marks=[pytest.mark.nightly, FORK]),
    (LATE, {}, "late"),
    (LIMIT, {"NINEPOINT_MEMORY": " 2"}, "True"),
    pytest.param(REFUSED, REFUSING, "True refused", marks=linux),
], ids="forked late little refused".split())  # fmt: skip
def test_a_process_of_its_own(tmp_path, script, variables, printed):
    assert output(start(tmp_path, script, **variables)).split() == printed.split()


def test_the_variable_is_a_number_of_mb(monkeypatch):
    for text, limit in (("0", 0), (" 2", 2_000_000), ("4", 4_000_000)):
        monkeypatch.setenv(memory.VARIABLE, text)
        assert memory.limit() == limit
    monkeypatch.setenv(memory.VARIABLE, "1GB")
    refuses(ValueError, r"NINEPOINT_MEMORY='1GB' is no number of MB", memory.limit)


def test_results_never_share_memory_with_one_another_or_the_fields():
    edge = npt.stencil(lambda x: x[-1, 0] - x[1, 0], boundary="wrap")
    x = np.random.default_rng(0).integers(-9, 9, (1100, 1000)).astype("float64")
    assert x.nbytes > LEAST
    wanted = [x]
    for _ in range(4):
        wanted.append(np.roll(wanted[-1], 1, 0) - np.roll(wanted[-1], -1, 0))
    results, second = [edge(x) for _ in range(3)], edge(edge(x))
    # As its own out, an array is read before it is written.
    given = edge(x)
    assert edge(given, out=given) is given
    # Steps use it as well, and give arrays of their own.
    kept = [x]
    kept.append(edge.iterate(x, steps=4, every=1, callback=lambda step, u: kept.append(u)))
    for found, right in ((results, wanted[1:2] * 3), ((second, given), wanted[2:3] * 2),
                         (kept, [*wanted, wanted[4]])):  # fmt: skip
        np.testing.assert_array_equal(found, right)
