"""Gufuncs give what the plain function gives for each item, however arrays lie and are given."""

import pickle

import dask.array as da
import numba
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_array_equal as equal

import ninepoint as npt

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


def test_axes_are_those_of_numpy():
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


def test_results_over_an_input():
    x = np.arange(9.0).reshape(3, 3)
    wanted = x @ x
    assert PRODUCT(x, x, out=x) is x
    equal(x, wanted)
    y = np.arange(6.0)
    equal(GUFUNCS[cumulated](y[:-1], out=y[1:]), np.arange(5).cumsum())


def test_numbers_by_name_and_by_default():
    powers = npt.gufunc("(n)->(n)")(lambda x, base, *, factor=2: base**x * factor)
    x = np.arange(3)
    equal(powers(x, 3), [2, 6, 18])
    equal(powers(x, base=2, factor=5), [5, 10, 20])
    equal(powers.debug(x, 2, factor=5), [5, 10, 20])
    assert powers(x, 2.0).dtype == np.float64
    assert powers(x, np.int64(2)).dtype == np.int64


def test_sizes_that_only_results_have():
    first = npt.gufunc("(n)->(k)", sizes={"k": 2})(lambda x: x[: x[0] + 2] * 1)
    x = np.arange(0, 6, 2) % 3
    counts = COUNTED(np.array([x, x + 3.0]), 4)
    equal(counts, [[1, 1, 1, 0], [1, 1, 0, 1]])
    assert [COUNTED(x + 0.0, bins=k).shape for k in range(1, 4)] == [(k,) for k in range(1, 4)]
    for call in (first, first.debug):
        equal(call(x), x[:2])
        equal(call(x + 1, sizes={"k": 3}), x + 1)


def test_no_items_and_no_elements():
    assert TOTAL(np.zeros((0, 3))).shape == (0,)
    equal(TOTAL(np.zeros((2, 0))), [0, 0])
    made = PRODUCT(np.zeros((2, 0)), np.zeros((0, 3)))
    equal(made, np.zeros((2, 3)))


def test_other_dtypes_for_results():
    x = np.arange(6.0).reshape(2, 3)
    assert TOTAL(x, dtype="float32").dtype == np.float32
    made = GUFUNCS[shared](x, dtype=("float32", "complex128", "float64"))
    assert [one.dtype.name for one in made] == ["float32", "complex128", "float64"]
    single = npt.gufunc("(n)->(n)", dtype="float32")(cumulated)
    equal(single(x), np.cumsum(x, axis=1).astype("float32"), strict=True)
    out = np.zeros((2, 3), "float32")
    assert GUFUNCS[cumulated](x, out=out) is out
    equal(out, np.cumsum(x, axis=1))


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


def test_functions_written_for_numba():
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


def test_functions_written_for_numba_may_have_arrays_of_their_own():
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


def test_dask_is_lazy_and_equal():
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


def test_dask_axes():
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


def test_pandas_keeps_the_index():
    column = pd.Series([1.0, 2.0, 5.0], index=list("abc"), name="v")
    pd.testing.assert_series_equal(halves(column), column / 2)
    assert extremes(column)[1] == 5
    table = pd.DataFrame(numbers(3, 2), index=list("abc"), columns=["p", "q"])
    pd.testing.assert_series_equal(extremes(table)[0], table.min(axis=1))
    pd.testing.assert_frame_equal(halves(table), table / 2)
    with pytest.raises(ValueError, match="index of 'y' is another"):
        npt.gufunc("(n),(n)->()")(lambda x, y: x[0] * y[0])(column, pd.Series([1.0, 2.0, 3.0]))


class Metres:
    """An array of another library."""

    def __init__(self, values):
        self.values = values

    def __array_ufunc__(self, function, method, *inputs, **options):
        plain = [one.values if isinstance(one, Metres) else one for one in inputs]
        assert (function.nin, function.nout, function.__name__) == (1, 1, "ninepoint.halves")
        assert function.signature == "(n)->(n)"
        return Metres(getattr(function, method)(*plain, **options))


def test_others_are_asked_as_by_functions_of_numpy():
    equal(halves(Metres(np.arange(3.0))).values, [0, 0.5, 1])
