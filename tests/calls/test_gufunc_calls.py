"""Compiling, caching, pickling, threads and errors of gufuncs."""

from __future__ import annotations

import _thread
import math
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time

import numba
import numpy as np
import pytest

import ninepoint as npt


@npt.gufunc("(n)->()")
def total(x):
    result = 0.0
    for value in x:
        result += value
    return result


PROGRAM = """
import pickle, sys
import numpy as np
import ninepoint as npt

SCALE = 2.5

def helper(x):
    return x * SCALE

@npt.gufunc("(n)->(n)")
def scaled(x):
    out = np.empty(len(x))
    for k in range(len(x)):
        out[k] = helper(x[k])
    return out

print(scaled(np.arange(3.0)).tolist(), "numba" in sys.modules)
LOWERED = ("ninepoint.lowering", "ninepoint.analysis")
assert not any(name.startswith(LOWERED) for name in sys.modules)
sys.stdout.flush()
if len(sys.argv) > 1:
    open(sys.argv[1], "wb").write(pickle.dumps(scaled))
"""


def run(path, *arguments, cache):
    environment = os.environ | {"NINEPOINT_CACHE_DIR": str(cache)}
    command = [sys.executable, str(path), *map(str, arguments)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout.strip()


def test_a_warm_start_compiles_nothing_and_pickles_leave_main(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    kept, cache = tmp_path / "pickle", tmp_path / "cache"
    assert run(program, cache=cache) == "[0.0, 2.5, 5.0] True"
    made = {file: file.stat().st_mtime_ns for file in cache.iterdir()}
    # Lines above it are not its meaning.
    program.write_text("# a comment\n" + PROGRAM)
    assert run(program, kept, cache=cache) == "[0.0, 2.5, 5.0] True"
    assert {file: file.stat().st_mtime_ns for file in cache.iterdir()} == made
    scaled = pickle.loads(kept.read_bytes())
    np.testing.assert_array_equal(scaled(np.arange(3)), [0, 2.5, 5])
    assert pickle.loads(pickle.dumps(scaled)) is scaled


def test_dtypes_that_the_text_proves_are_those_of_debug():
    bits, size = np.uint8, 3

    @npt.gufunc("(n),(m)->(n),(n,m),(n),(3)")
    def proved(x, y):
        like = np.zeros_like(x)
        table = np.ones((len(x), y.shape[0] + 0), dtype=np.complex64)
        narrow = np.empty(x.shape[0], bits)
        fixed = np.zeros(3)
        return like, table, narrow, fixed

    @npt.gufunc("(n)->(n)")
    def unproved(x):
        out = np.zeros(x.shape)
        return out

    @npt.gufunc("(n)->(3)")
    def also_unproved(x):
        out = np.full(size, x[0])
        return out

    x = np.arange(4, dtype="int16")
    for one in (unproved, also_unproved):
        assert one(x).dtype == one.debug(x).dtype
    assert [one.dtype.name for one in proved(x, x[:2])] == [
        "int16", "complex64", "uint8", "float64"
    ]  # fmt: skip


def test_a_mistake_beside_proved_dtypes_is_told_as_the_users():
    @npt.gufunc("(n)->(n)")
    def wrong(x):
        out = np.zeros(len(x))
        out[0] = x.no_such_thing
        return out

    with pytest.raises(npt.StencilError, match="no_such_thing") as caught:
        wrong(np.arange(3.0))
    assert caught.value.diagnostic.span.text.strip() == "out[0] = x.no_such_thing"


def test_nothing_is_compiled_at_decoration(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("print(scaled(np.arange(3.0)).tolist(), ", "print("))
    run(program, cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_functions_that_it_calls():
    @numba.njit
    def compiled(x):
        return 2 * x

    def plain(x, n=1):
        return compiled(x) + n if n < 3 else plain(x, n - 1)

    neighbours = numba.stencil(lambda x: x[-1] + x[1])

    @npt.gufunc("(n)->(n)")
    def all_of_them(x):
        return plain(x, 3) + neighbours(x) + random.random() * 0 + math.pi

    x = np.arange(4.0)
    np.testing.assert_allclose(all_of_them(x), 2 * x + 2 + [0, 2, 4, 0] + math.pi)
    copy = pickle.loads(pickle.dumps(all_of_them))
    np.testing.assert_allclose(copy(x), all_of_them(x))


def test_errors_of_the_function_are_its_own():
    @npt.gufunc("(n)->()")
    def checked(x):
        if x[0] < 0:
            raise KeyError("negative")
        if x[0] > 9:
            raise ValueError("too large", x[0])
        return x.sum()

    stack = np.ones((50, 3))
    np.testing.assert_array_equal(checked(stack), np.full(50, 3))
    stack[30] = -1
    for threads in (1, 2):
        with pytest.raises(KeyError, match="negative"):
            checked(stack, threads=threads)
        with pytest.raises(KeyError, match="negative"):
            checked(np.broadcast_to(stack, (4, 50, 3))[::2, ::-1], threads=threads)
    with pytest.raises(ValueError, match="too large") as caught:
        checked(np.full(2, 12.0))
    assert caught.value.args == ("too large", 12.0)


def test_what_numba_cannot_compile_is_shown_at_the_users_line():
    def inner(x):
        return x.partitioned(1)

    @npt.gufunc("(n)->(n)")
    def outer(x):
        y = x * 2
        return inner(y)

    with pytest.raises(
        npt.StencilError, match=r"(?s)\[body-not-compiled\].*partitioned"
    ) as caught:
        outer(np.ones(3))
    assert caught.value.diagnostic.span.text.strip() == "return x.partitioned(1)"
    assert "Traceback" not in str(caught.value)


def test_wrong_shapes_are_named_by_number():
    @npt.gufunc("(n)->(n),(n)")
    def two(x):
        out = np.empty(len(x) + 1)
        out[:] = 0
        return x * 2, out

    with pytest.raises(ValueError, match=r"result 2 of 'two' has the shape \(4,\), .* \(n\) of"):
        two(np.ones((5, 3)))


def test_numbers_are_no_warnings():
    @npt.gufunc("(n)->(n)")
    def divided(x):
        return 1 / x

    np.testing.assert_array_equal(divided(np.array([0.0, 2.0])), [np.inf, 0.5])


@npt.gufunc("()->()")
def busy(seconds):
    # Machine code that looks at no clock: some 1e9 additions a second.
    found = 0.0
    for k in range(int(seconds * 1e8)):
        found += math.sin(k)
    return found


def test_long_items_leave_the_interpreter_to_others():
    # The first call is not known to be short, nor is one after a long one.
    busy(np.full(1, 0.01))
    counted = []
    end = threading.Event()

    def count():
        while not end.is_set():
            counted.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    begin = time.perf_counter()
    busy(np.full(1, 0.2))
    spent = time.perf_counter() - begin
    end.set()
    thread.join()
    assert sum(one > begin for one in counted) > spent / 0.05


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_is_heard_between_items(threads):
    busy(np.full(2, 0.001))
    clock = threading.Timer(0.3, _thread.interrupt_main)
    # A shell ignores interrupts of what it runs in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    begin = time.perf_counter()
    clock.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            busy(np.full(2000, 0.01), threads=threads)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.perf_counter() - begin < 5


def test_many_threads_call_at_once():
    stacks = [np.random.default_rng(k).random((2000, 7 + k)) for k in range(4)]
    wanted = [np.array([sum(row.tolist()) for row in stack]) for stack in stacks]
    wrong = []

    def work(k):
        for _ in range(30):
            if not np.allclose(total(stacks[k]), wanted[k], rtol=1e-12):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forked_child():
    stack = np.ones((20000, 20))
    wanted = total(stack)
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(total(stack), wanted) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_rows_in_a_large_stack_are_shared():
    stack = np.random.default_rng(3).random((30000, 40))
    np.testing.assert_array_equal(total(stack, threads=2), total(stack, threads=1))
    np.testing.assert_array_equal(total(stack.T, axis=0, threads=3), total(stack))


def test_options_and_looks():
    assert repr(total) == "<gufunc total(n)->()>"
    assert (total.nin, total.nout, total.signature) == (1, 1, "(n)->()")
    assert "float64, a number, stored" in total.explain("int8")
    assert total(5 * [1]) == 5
    assert total(np.ones(3, "float16")).dtype == np.float64
    with pytest.raises(ValueError, match="threads=0"):
        total(np.ones(3), threads=0)
    with pytest.raises(TypeError, match="masked"):
        total(np.ma.ones(3))


def test_plain_python_is_not_for_gufuncs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "does not run with NUMBA_DISABLE_JIT=1; unset that variable, or call" in done.stderr


def test_debug_of_gufuncs_needs_no_numba_to_compile(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np\nimport ninepoint as npt\n"
        "@npt.gufunc('(n)->()')\ndef mean(x):\n    return x.sum() / len(x)\n"
        "@npt.gufunc('(n),()->(n)')\ndef scaled(x, p, out):\n"
        "    for i in range(len(x)):\n        out[i] = x[i] * p\n"
        "print(mean.debug(np.arange(6).reshape(2, 3)), scaled.debug(np.arange(3.0), 2))\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[1. 4.] [0. 2. 4.]\n"
