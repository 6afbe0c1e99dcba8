"""Gufuncs give what the plain function gives for each item; how they compile, and their errors."""

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
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_array_equal as equal

import ninepoint as npt
from compared import refuses
from own_process import printed

SCALE = 3
WEIGHTS = np.array([1.0, 2.0, 4.0])


def matmul(a, b):
    n, k = a.shape
    m = b.shape[1]
    out = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            total = 0.0
            for one in range(k):
                total += a[i, one] * b[one, j]
            out[i, j] = total
    return out


def total(x):
    result = 0.0
    for value in x:
        result += value
    return result


def counted(x, bins):
    found = np.zeros(bins, np.int32)
    for value in x:
        found[int(value) % bins] += 1
    return found


def cumulated(x):
    out = np.zeros_like(x)
    out[0] = x[0]
    for k in range(1, len(x)):
        out[k] = out[k - 1] + x[k]
    return out


def scaled(x, factor):
    result = np.ones(len(x))
    result *= factor
    return result + x


def early(x):
    out = np.empty(len(x))
    if x[0] > 1:
        return x * 2.0
    out[:] = 5
    out = out[::-1] * 1.0
    return out


def shared(x):
    out = np.zeros(len(x))
    other = out
    other[0] = 3
    return out, out[::-1], other


# A function, its signature, and the core shapes of its inputs.
CASES = [
    (matmul, "(n,k),(k,m)->(n,m)", [(2, 3), (3, 4)]), (shared, "(n)->(n),(n),(n)", [(5,)]),
    (lambda x: x[::-1].T, "(n,m)->(m,n)", [(1, 4)]), (scaled, "(n),()->(n)", [(4,), ()]),
    (early, "(n)->(n)", [(3,)]), (total, "(n)->()", [(3,)]), (cumulated, "(n)->(n)", [(3,)]),
]  # fmt: skip
GUFUNCS = {function: npt.gufunc(signature)(function) for function, signature, _ in CASES}
PRODUCT, TOTAL = GUFUNCS[matmul], GUFUNCS[total]
COUNTED = npt.gufunc("(n)->(bins)")(counted)

# Of the first input and of the second.
STACKS = [((), ()), ((4,), (1,)), ((3, 1, 2), (4, 1)), ((1, 2), (2, 3, 2))]

LAID_OUT = [
    np.asfortranarray, lambda a: np.repeat(a, 2, -1)[..., ::2],
    lambda a: np.flip(np.flip(a).copy()), lambda a: a.astype(a.dtype.newbyteorder(">")),
]  # fmt: skip


def check(result, wanted):
    results = result if isinstance(result, tuple) else (result,)
    for one, expected in zip(results, wanted, strict=True):
        equal(one, expected)
        assert np.shape(one) == np.shape(expected)


@pytest.mark.parametrize(("function", "signature", "cores"), CASES[:5])
def test_stacks_broadcast_wherever_they_lie(function, signature, cores):
    random = np.random.default_rng(0)
    gufunc, defined = GUFUNCS[function], np.vectorize(function, signature=signature)
    for stacks, lying in zip(STACKS, LAID_OUT, strict=True):
        arrays = [random.integers(0, 9, stack + core) / 4
                  for stack, core in zip(stacks, cores, strict=False)]  # fmt: skip
        arrays = [lying(array) if array.ndim else array for array in map(np.asarray, arrays)]
        wanted = defined(*arrays)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for made in (gufunc(*arrays), gufunc.debug(*arrays), gufunc(*arrays, threads=2)):
            check(made, wanted)
        outs = tuple(np.asfortranarray(np.zeros(one.shape)) for one in wanted)
        check(gufunc(*arrays, out=outs if len(outs) > 1 else outs[0]), wanted)
        check(outs, wanted)


@pytest.mark.parametrize(("dtype", "function"), [("int8", total), ("complex64", cumulated)])
def test_types_are_those_of_numba(dtype, function):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    compiled = numba.njit(function)
    wanted = np.array([np.asarray(compiled(item)) for item in x])
    equal(GUFUNCS[function](x), wanted, strict=True)


def test_axes_are_those_of_numpy_and_results_lie_over_an_input():
    random = np.random.default_rng(5)
    a, b = random.random((3, 4, 5)), random.random((5, 2, 4))
    for axes in ([(0, 2), (0, 1), (0, 1)], [(-3, -1), (0, 1), (-1, 0)]):
        wanted = np.matmul(a, b, axes=axes)
        for call in (PRODUCT, PRODUCT.debug):
            np.testing.assert_allclose(call(a, b, axes=axes), wanted, rtol=1e-12)

    power = npt.gufunc("(n)->()")(lambda x, p=1: np.sum(x**p))
    x = np.arange(24.0).reshape(2, 3, 4)
    for axis in (0, 1, -1):
        for keepdims in (False, True):
            wanted = np.sum(x**2, axis=axis, keepdims=keepdims)
            for call in (power, power.debug):
                made = call(x, 2, axis=axis, keepdims=keepdims)
                equal(made, wanted)
                made = call(x, 2, axes=[axis], keepdims=keepdims)
                equal(made, wanted)
    x = np.arange(9.0).reshape(3, 3)
    wanted = x @ x
    assert PRODUCT(x, x, out=x) is x
    equal(x, wanted)
    y = np.arange(6.0)
    equal(GUFUNCS[cumulated](y[:-1], out=y[1:]), np.arange(5).cumsum())


def test_numbers_by_name_and_by_default_and_other_dtypes_for_results():
    powers = npt.gufunc("(n)->(n)")(lambda x, base, *, factor=2: base**x * factor)
    x = np.arange(3)
    equal(powers(x, 3), [2, 6, 18])
    equal(powers(x, base=2, factor=5), [5, 10, 20])
    equal(powers.debug(x, 2, factor=5), [5, 10, 20])
    assert powers(x, 2.0).dtype == np.float64
    assert powers(x, np.int64(2)).dtype == np.int64
    x = np.arange(6.0).reshape(2, 3)
    assert TOTAL(x, dtype="float32").dtype == np.float32
    made = GUFUNCS[shared](x, dtype=("float32", "complex128", "float64"))
    assert [one.dtype.name for one in made] == ["float32", "complex128", "float64"]
    single = npt.gufunc("(n)->(n)", dtype="float32")(cumulated)
    equal(single(x), np.cumsum(x, axis=1).astype("float32"), strict=True)
    out = np.zeros((2, 3), "float32")
    assert GUFUNCS[cumulated](x, out=out) is out
    equal(out, np.cumsum(x, axis=1))


@npt.gufunc("(n)->()")
def root_of_sum(x):
    module = math
    return module.sqrt(x.sum())


def test_module_that_a_name_holds():
    for call in (root_of_sum, root_of_sum.debug):
        assert call(np.ones(4)) == 2


def test_sizes_that_only_results_have_and_sizes_of_nothing():
    first = npt.gufunc("(n)->(k)", sizes={"k": 2})(lambda x: x[: x[0] + 2] * 1)
    x = np.arange(0, 6, 2) % 3
    counts = COUNTED(np.array([x, x + 3.0]), 4)
    equal(counts, [[1, 1, 1, 0], [1, 1, 0, 1]])
    assert [COUNTED(x + 0.0, bins=k).shape for k in range(1, 4)] == [(k,) for k in range(1, 4)]
    for call in (first, first.debug):
        equal(call(x), x[:2])
        equal(call(x + 1, sizes={"k": 3}), x + 1)
    assert TOTAL(np.zeros((0, 3))).shape == (0,)
    equal(TOTAL(np.zeros((2, 0))), [0, 0])
    made = PRODUCT(np.zeros((2, 0)), np.zeros((0, 3)))
    equal(made, np.zeros((2, 3)))


def test_names_of_the_rewritten_text_are_free():
    @npt.gufunc("(out0)->(out0)")
    def named(told):
        shape0, value0, wrong, a0, shape_of = 1, 2, 3, 4, 5

        def put(k):
            return k + shape0 + value0 + wrong + a0 + shape_of + SCALE + WEIGHTS[1]

        out0 = np.empty(len(told))
        out0[:] = put(told)
        return out0

    equal(named(np.arange(3)), [20, 21, 22])


def test_functions_written_for_numba_also_with_arrays_of_their_own():
    @npt.gufunc("(n)->(n)")
    def doubled(x, out):
        for k in range(len(x)):
            out[k] = 2 * x[k]

    @npt.gufunc("(n)->(),()")
    def extremes(x, low, high, offset=0):
        low[0] = high[0] = x[0]
        for value in x:
            low[0] = min(low[0], value + offset)
            high[0] = max(high[0], value + offset)

    x = np.arange(6).reshape(2, 3)
    out = np.zeros((2, 3), int)
    assert doubled(x, out) is out
    for made in (out, doubled(x), doubled.debug(x)):
        equal(made, 2 * x)
    equal(extremes(x), [[0, 3], [2, 5]])
    equal(extremes(x, offset=1)[1], [3, 6])
    assert extremes(x.astype("float32"))[0].dtype == np.float64

    @npt.gufunc("(n)->(n)")
    def smoothed(x, out):
        one, other = np.zeros(len(x), np.float32), np.zeros(len(x), np.float32)
        one[:] = x
        for _ in range(3):
            for k in range(len(x)):
                other[k] = (one[k] + one[k - 1]) / 2
            one, other = other, one
        same = out
        same[:] = one

    x = np.arange(8, dtype="int8").reshape(2, 4)
    assert smoothed(x).dtype == np.float32
    equal(smoothed(x), smoothed.debug(x))


@npt.gufunc("(n)->(n)")
def halves(x):
    out = np.empty(len(x))
    for k in range(len(x)):
        out[k] = x[k] / 2
    return out


@npt.gufunc("(n)->(),(),()")
def extremes(x):
    low, high, total = x[0], x[0], 0.0
    for value in x:
        low, high, total = min(low, value), max(high, value), total + value
    return low, high, total / len(x)


def numbers(*shape):
    return np.random.default_rng(len(shape)).random(shape)


def test_dask_is_lazy_and_equal_along_any_axes():
    x = numbers(3, 4, 5)
    for chunks in ((1, 2, -1), (2, 3, -1)):
        lazy = da.from_array(x, chunks=chunks)
        one = halves(lazy)
        assert one.dtype == one._meta.dtype == np.float64
        assert one.chunks == lazy.chunks
        equal(one, x / 2)
    for made, wanted in zip(extremes(lazy), (x.min(2), x.max(2), x.mean(2)), strict=True):
        assert made.dtype == wanted.dtype == made.compute().dtype
        np.testing.assert_allclose(made, wanted, rtol=1e-15)
    counts = COUNTED(10 * lazy, bins=3)
    assert counts.dtype == np.int32
    # As it is sent to processes.
    counts = pickle.loads(pickle.dumps(counts))
    equal(counts, COUNTED(10 * x, bins=3))
    assert halves(lazy, dtype="float32").compute().dtype == np.float32
    x = numbers(3, 4, 5)
    lazy = da.from_array(x, chunks=(3, 2, 2))
    options = {"axis": 0, "keepdims": True}
    for made, wanted in zip(extremes(lazy, **options), extremes(x, **options), strict=True):
        equal(made, wanted)
    y, z = numbers(3, 5, 4), numbers(5, 2, 4)
    axes = [(0, 1), (0, 1), (2, 0)]
    made = PRODUCT(*(da.from_array(one, chunks=(-1, -1, 2)) for one in (y, z)), axes=axes)
    equal(made, PRODUCT(y, z, axes=axes))


def test_xarray_keeps_what_remains():
    x = numbers(3, 4, 5)
    named = xr.DataArray(
        x, dims=("t", "y", "x"), coords={"t": [1, 2, 3], "x": np.arange(5) * 2},
        name="u", attrs={"units": "K"},
    )  # fmt: skip
    same, chunked = halves(named), named.chunk({"t": 1})
    assert (same.dims, same.name, same.attrs) == (named.dims, "u", {"units": "K"})
    equal(same.coords["x"], named.coords["x"])
    assert halves(chunked).chunks == chunked.chunks
    for made in (same, halves(chunked)):
        equal(made, x / 2)
    least, _, _ = extremes(named)
    assert least.dims == ("t", "y")
    assert set(least.coords) == {"t"}
    over_time = extremes(named, dims={"n": "t"})[1]
    assert over_time.dims == ("y", "x")
    equal(over_time, x.max(axis=0))
    other = xr.DataArray(numbers(5, 2), dims=("x", "z"), coords={"z": ["a", "b"]})
    product = PRODUCT(named, other)
    assert (product.dims, set(product.coords)) == (("t", "y", "z"), {"t", "z"})
    equal(product, PRODUCT(x, numbers(5, 2)))
    assert COUNTED(named, bins=2).dims == ("t", "y", "bins")
    assert COUNTED(named, bins=2, dims={"bins": "b"}).dims == ("t", "y", "b")
    assert PRODUCT(named, numbers(5, 2)).dims == ("t", "y", "m")


def test_pandas_keeps_the_index_and_others_are_asked():
    column = pd.Series([1.0, 2.0, 5.0], index=list("abc"), name="v")
    pd.testing.assert_series_equal(halves(column), column / 2)
    assert extremes(column)[1] == 5
    table = pd.DataFrame(numbers(3, 2), index=list("abc"), columns=["p", "q"])
    pd.testing.assert_series_equal(extremes(table)[0], table.min(axis=1))
    pd.testing.assert_frame_equal(halves(table), table / 2)
    with pytest.raises(ValueError, match="index of 'y' is another"):
        npt.gufunc("(n),(n)->()")(lambda x, y: x[0] * y[0])(column, pd.Series([1.0, 2.0, 3.0]))
    equal(halves(Metres(np.arange(3.0))).values, [0, 0.5, 1])


class Metres:
    """An array of another library."""

    def __init__(self, values):
        self.values = values

    def __array_ufunc__(self, function, method, *inputs, **options):
        plain = [one.values if isinstance(one, Metres) else one for one in inputs]
        assert (function.nin, function.nout, function.__name__) == (1, 1, "ninepoint.halves")
        assert function.signature == "(n)->(n)"
        return Metres(getattr(function, method)(*plain, **options))


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


def test_functions_that_it_calls_and_what_numba_cannot_compile():
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


def test_options_looks_and_dtypes_that_the_text_proves():
    assert (repr(TOTAL), TOTAL.signature) == ("<gufunc total(n)->()>", "(n)->()")
    assert (TOTAL.nin, TOTAL.nout) == (1, 1)
    assert "float64, a number, stored" in TOTAL.explain("int8")
    assert TOTAL(5 * [1]) == 5
    assert TOTAL(np.ones(3, "float16")).dtype == np.float64
    for error, x, options in [(ValueError, [1], {"threads": 0}), (TypeError, np.ma.ones(3), {})]:
        refuses(error, r"threads=0|masked", TOTAL, x, **options)
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
            refuses(KeyError, "negative", checked, x, threads=threads)
    with pytest.raises(ValueError, match="too large") as caught:
        checked(np.full(2, 12.0))
    assert caught.value.args == ("too large", 12.0)


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
        refuses(IndexError, "", gufunc, few, 0, out=room[2:6])
        assert (room[[0, 1, 6, 7]] == -1).all()
        assert not (room == 7).any()


def test_checks_are_left_out_where_it_is_asked_and_lines_are_those_of_the_file(tmp_path):
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
    refuses(IndexError, "", full, stack)
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
        refuses(IndexError, re.escape(f'File "{path}", line {line}\n'), last, np.ones(3))


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
        refuses(KeyboardInterrupt, "", busy, np.full(2000, 0.01), threads=threads)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.perf_counter() - begin < 5


def test_many_threads_call_at_once_and_share_a_large_stack():
    stacks = [np.random.default_rng(k).random((2000, 7 + k)) for k in range(4)]
    wanted = [np.array([sum(row.tolist()) for row in stack]) for stack in stacks]

    def work(k):
        return [TOTAL(stacks[k]) for _ in range(30)]

    with ThreadPoolExecutor(4) as pool:
        for found, right in zip(pool.map(work, range(4)), wanted, strict=True):
            np.testing.assert_allclose(found, [right] * 30, rtol=1e-12)
    stack = np.random.default_rng(3).random((30000, 40))
    equal(TOTAL(stack, threads=2), TOTAL(stack, threads=1))
    equal(TOTAL(stack.T, axis=0, threads=3), wanted := TOTAL(stack))
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(TOTAL(stack), wanted) else 1)
    assert os.waitpid(child, 0)[1] == 0
