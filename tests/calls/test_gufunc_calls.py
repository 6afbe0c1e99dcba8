"""Compiling, caching, pickling, threads and errors of gufuncs, and the checks of their indices."""

import _thread
import math
import os
import pickle
import random
import re
import runpy
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import dask.array as da
import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal as equal

import ninepoint as npt
from own_process import printed


@npt.gufunc("(n)->()")
def total(x):
    result = 0.0
    for value in x:
        result += value
    return result


def run(path, text, *arguments, **variables):
    path.write_text(text)
    return printed(path, *arguments, **variables)


PROGRAM = """
import os, pickle, sys
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

cache = os.environ["NINEPOINT_CACHE_DIR"]
print(os.path.exists(cache), scaled(np.arange(3.0)).tolist())
LOWERED = ("ninepoint.lowering", "ninepoint.analysis")
assert not any(name.startswith(LOWERED) for name in sys.modules)
open(sys.argv[1], "wb").write(pickle.dumps(scaled))
"""


def test_a_warm_start_compiles_nothing_and_pickles_leave_main(tmp_path):
    kept, cache = tmp_path / "pickle", tmp_path / "cache"
    program, variables = tmp_path / "program.py", {"NINEPOINT_CACHE_DIR": str(cache)}
    # Nothing is compiled at decoration.
    assert run(program, PROGRAM, kept, **variables) == "False [0.0, 2.5, 5.0]"
    made = {file: file.stat().st_mtime_ns for file in cache.iterdir()}
    # Lines above it are not its meaning.
    assert run(program, "# a comment\n" + PROGRAM, kept, **variables) == "True [0.0, 2.5, 5.0]"
    assert {file: file.stat().st_mtime_ns for file in cache.iterdir()} == made
    scaled = pickle.loads(kept.read_bytes())
    equal(scaled(np.arange(3)), [0, 2.5, 5])
    assert pickle.loads(pickle.dumps(scaled)) is scaled


def test_dtypes_that_the_text_proves_are_those_of_debug():
    bits = np.uint8

    @npt.gufunc("(n),(m)->(n),(n,m),(n),(3)")
    def proved(x, y):
        like = np.zeros_like(x)
        table = np.ones((len(x), y.shape[0] + 0), dtype=np.complex64)
        narrow = np.empty(x.shape[0], bits)
        fixed = np.zeros(3)
        return like, table, narrow, fixed

    @npt.gufunc("(n)->(n)")
    def unproved(x):
        out = np.full(x.shape, x[0])
        return out

    x = np.arange(4, dtype="int16")
    assert unproved(x).dtype == unproved.debug(x).dtype
    made = [one.dtype.name for one in proved(x, x[:2])]
    assert made == ["int16", "complex64", "uint8", "float64"]


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


def test_options_and_looks():
    assert (repr(total), total.signature) == ("<gufunc total(n)->()>", "(n)->()")
    assert (total.nin, total.nout) == (1, 1)
    assert "float64, a number, stored" in total.explain("int8")
    assert total(5 * [1]) == 5
    assert total(np.ones(3, "float16")).dtype == np.float64
    for error, x, options in [(ValueError, [1], {"threads": 0}), (TypeError, np.ma.ones(3), {})]:
        with pytest.raises(error, match=r"threads=0|masked"):
            total(x, **options)


def test_errors_of_the_function_are_its_own_and_floats_give_none():
    @npt.gufunc("(n)->()")
    def checked(x):
        if x[0] < 0:
            raise KeyError("negative")
        if x[0] > 9:
            raise ValueError("too large", x[0])
        return 1 / x[0]

    stack = np.ones((50, 3))
    stack[7] = 0
    equal(checked(stack)[[6, 7]], [1, np.inf])
    stack[30] = -1
    for threads in (1, 2):
        for x in (stack, np.broadcast_to(stack, (4, 50, 3))[::2, ::-1]):
            with pytest.raises(KeyError, match="negative"):
                checked(x, threads=threads)
    with pytest.raises(ValueError, match="too large") as caught:
        checked(np.full(2, 12.0))
    assert caught.value.args == ("too large", 12.0)


def test_what_numba_cannot_compile_is_shown_at_the_users_line():
    def inner(x):
        return x.partitioned(1)

    def outer(x):
        return inner(x * 2)

    def beside_a_proved_dtype(x):
        out = np.zeros(len(x))
        out[0] = x.no_such_thing
        return out

    for function, line in ((outer, "return x.partitioned(1)"),
                           (beside_a_proved_dtype, "out[0] = x.no_such_thing")):  # fmt: skip
        with pytest.raises(npt.StencilError, match=r"\[body-not-compiled\]") as caught:
            npt.gufunc("(n)->(n)")(function)(np.ones(3))
        assert caught.value.diagnostic.span.text.strip() == line
        assert "Traceback" not in str(caught.value)


def written(x, i):
    r = np.zeros(len(x))
    r[len(x)] = 7
    return r


def remainder(x, i):
    return x[i % len(x)]


def helper(y, i):
    double = 2 * y
    return double[i]


def called(x, i):
    return helper(x, i)


def flat(x, i):
    return x.flat[i]


def into(x, out):
    for k in range(len(x) + 1):
        out[k] = x[k - 1]


# The body, its signature, the length of an item, an index that is outside, the array that the
# message names, and the line.
BODIES = [
    (written, "(n),()->(n)", 3, 0, "'r'", "r[len(x)] = 7"),
    (remainder, "(n),()->()", 0, 7, "'x'", "return x[i % len(x)]"),
    (called, "(n),()->()", 3, -4, "'double'", "return double[i]"),
    (flat, "(n),()->()", 3, 3, "an array", "return x.flat[i]"),
    (into, "(n)->(n)", 3, None, "'out'", "out[k] = x[k - 1]"),
]


@pytest.mark.parametrize(("function", "signature", "length", "outside", "array", "line"), BODIES)
def test_an_index_that_is_outside_is_told_at_its_line(
    function, signature, length, outside, array, line
):
    gufunc = npt.gufunc(signature)(function)
    few = np.arange(4.0 * length).reshape(4, length)
    many = np.random.default_rng(1).random((30_000, length))
    index = () if outside is None else (outside,)
    lazy = da.from_array(few, chunks=(2, -1))
    for x, options in [(few, {}), (few, {}), (many, {"threads": 4}), (lazy, {})]:
        with pytest.raises(IndexError) as caught:
            np.asarray(gufunc(x, *index, **options))
        assert str(caught.value).startswith(
            f"'{function.__name__}' reads or writes outside {array}. [outside-array]\n"
        )
        assert f" | {' ' * 4 * (function is into)}    {line}\n" in str(caught.value)
        assert __file__ in str(caught.value)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (type(error), str(error)) == (IndexError, str(caught.value))
    with pytest.raises(IndexError), np.errstate(all="ignore"):
        gufunc.debug(few, *index)
    if function in (called, flat):
        equal(gufunc(few, 2), gufunc.debug(few, 2))
    if function is written:
        room = np.full((8, 3), -1.0)
        with pytest.raises(IndexError):
            gufunc(few, 0, out=room[2:6])
        assert (room[[0, 1, 6, 7]] == -1).all()
        assert not (room == 7).any()


def test_checks_are_left_out_where_it_is_asked():
    def after(x):
        return x[len(x)]

    stack = np.arange(6.0).reshape(2, 3)
    # That of the next item, which is memory of the array's own.
    bare, full = npt.gufunc("(n)->()", boundscheck=False)(after), npt.gufunc("(n)->()")(after)
    assert "indices are not checked" in bare.explain()
    assert "not checked" not in full.explain()
    again, full = pickle.loads(pickle.dumps((bare, full)))
    for one in (bare, again):
        equal(one(np.r_[stack, stack])[:3], [3, 0, 3])
    with pytest.raises(IndexError):
        full(stack)


def test_lines_are_those_of_the_file_as_it_is_now(tmp_path):
    text = (
        "import ninepoint as npt\n\n@npt.gufunc('(n)->()')\ndef last(x):\n    return x[len(x)]\n"
    )
    above = text.replace("@npt", "# above\n\n@npt")
    within = above.replace("    return", "    # within\n    return")
    for number, one in enumerate([text, above, within]):
        path = tmp_path / f"lines{number}.py"
        path.write_text(one)
        last = runpy.run_path(str(path))["last"]
        line = one.split("\n").index("    return x[len(x)]") + 1
        with pytest.raises(IndexError, match=re.escape(f'File "{path}", line {line}\n')):
            last(np.ones(3))


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
    turns, begin = 0, time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(busy, np.full(1, 0.2))
        while not work.done():
            time.sleep(0.001)
            turns += 1
    assert turns > (time.perf_counter() - begin) / 0.05


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


def test_many_threads_call_at_once_and_share_a_large_stack():
    stacks = [np.random.default_rng(k).random((2000, 7 + k)) for k in range(4)]
    wanted = [np.array([sum(row.tolist()) for row in stack]) for stack in stacks]

    def work(k):
        return [total(stacks[k]) for _ in range(30)]

    with ThreadPoolExecutor(4) as pool:
        for found, right in zip(pool.map(work, range(4)), wanted, strict=True):
            np.testing.assert_allclose(found, [right] * 30, rtol=1e-12)
    stack = np.random.default_rng(3).random((30000, 40))
    equal(total(stack, threads=2), total(stack, threads=1))
    equal(total(stack.T, axis=0, threads=3), wanted := total(stack))
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(total(stack), wanted) else 1)
    assert os.waitpid(child, 0)[1] == 0
