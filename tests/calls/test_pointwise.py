"""Functions of numbers on arrays of every kind, and as parts of kernels."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ninepoint as npt
from compiling import nothing_compiled
from seams import plan_of


@npt.ufunc
def mix(x, y, *, k=3):
    return k * x - y


@npt.ufunc
def both(x, y):
    return x + y, x > y


@npt.ufunc
def halvings(n, *, least=1):
    count = 0
    while n > least:
        n //= 2
        count += 1
        if count == 50:
            break
    return count


@npt.stencil(boundary="nearest")
def blur(x):
    return (x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1]) / 4


IMAGE = np.random.default_rng(0).random((40, 30))


# Arrays of NumPy.


def test_results_lie_in_memory_as_the_arrays_do():
    x = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    for _ in range(2):
        assert mix(x, x).flags.f_contiguous
        assert mix(x.T, x.T).flags.c_contiguous


def test_numbers_and_arrays_without_axes_give_numbers():
    result = mix(2, 5)
    assert (result, type(result)) == (1, np.int64)
    assert type(mix(np.float32(2), np.float32(1))) is np.float32
    assert type(mix(np.array(2.0), 1)) is np.float64
    found = both(1.5, 2)
    assert found == (3.5, False)
    assert type(found[1]) is np.bool
    assert mix.debug(2, 5) == 1
    assert type(halvings(1000)) is np.int64


def test_numbers_beside_arrays_are_scalars_and_widen_nothing():
    x = np.arange(4, dtype="float32")
    assert mix(x, 0.5).dtype == "float32"
    assert mix(x, np.float64(0.5)).dtype == "float64"
    assert mix(x, np.array(0.5)).dtype == "float64"
    np.testing.assert_array_equal(mix(2, y=x, k=1), 2 - x)
    small = np.arange(4, dtype="uint8")
    assert mix(small, np.int8(3)).dtype == mix(small, np.array([3], "int8")).dtype
    np.testing.assert_array_equal(mix(small, np.int8(3), k=1), [-3, -2, -1, 0])


def test_another_number_compiles_nothing():
    x = np.arange(5.0)
    mix(x, 1.0, k=2)
    with nothing_compiled():
        np.testing.assert_array_equal(mix(x, 7.5, k=9), 9 * x - 7.5)


def test_integers_are_exact_and_their_type_is_proved():
    x = np.array([0, 255], "uint8")

    @npt.ufunc
    def difference(x, y):
        return x - y

    result = difference(x, x[::-1].copy())
    assert (result.tolist(), result.dtype) == ([-255, 255], np.dtype("int16"))
    assert difference(x, x[::-1], dtype="uint8", overflow="wrap").tolist() == [1, 255]


def test_out():
    x = IMAGE.copy()
    out = np.empty_like(x)
    for _ in range(2):
        assert mix(x, x, out=out) is out
        np.testing.assert_array_equal(out, 3 * x - x)
        assert mix(x, x, out=(out,)) is out
        wide = np.zeros((40, 60))
        mix(x, x[0], out=wide[:, ::2])
        np.testing.assert_array_equal(wide[:, ::2], 3 * x - x[0])
        assert not wide[:, 1::2].any()
        same = x.copy()
        assert mix(same, same.T.copy().T, out=same) is same
        np.testing.assert_array_equal(same, 3 * x - x)
        turned = np.empty((30, 40)).T
        mix(x, x, out=turned)
        np.testing.assert_array_equal(turned, 3 * x - x)
    narrow = np.empty(x.shape, "float32")
    np.testing.assert_array_equal(mix(x, x, out=narrow), (3 * x - x).astype("float32"))
    zero = np.zeros(())
    assert mix(2.0, 1.0, out=zero) is zero
    assert zero == 5
    pair = np.empty_like(x), np.empty(x.shape, bool)
    assert both(x, 0.5, out=pair) == pair
    np.testing.assert_array_equal(pair[1], x > 0.5)
    overlapping = np.arange(10.0)
    mix(overlapping[:-1], overlapping[1:], k=1, out=overlapping[1:])
    np.testing.assert_array_equal(overlapping, [0, *[-1] * 9])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads):
    x = np.random.default_rng(1).integers(0, 10**6, (700, 300))
    for _ in range(2):
        result = halvings(x, threads=threads)
        np.testing.assert_array_equal(result, np.where(x > 1, np.log2(np.maximum(x, 1)), 0) // 1)
        np.testing.assert_array_equal(mix(x, x[0], threads=threads), 3 * x - x[0])


def test_calls_from_many_threads():
    x = np.arange(50_000)
    wanted = halvings(x)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: halvings(x), range(12)):
            np.testing.assert_array_equal(found, wanted)


def test_a_loop_is_no_reason_for_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @npt.ufunc
        def loop(x):
            while x > 1:
                x /= 2
            return x

        assert loop(np.array([8.0, 3.0])).tolist() == [1.0, 0.75]


def test_complex_numbers_and_early_returns():
    @npt.ufunc
    def escape(x, y, *, most):
        c, z = complex(x, y), 0j
        for n in range(most):
            z = z * z + c
            if z.real * z.real + z.imag * z.imag >= 4:
                return n
        return most

    x, y = np.linspace(-2, 1, 12), np.linspace(-1, 1, 9)[:, None]
    for most in (5, 20):
        np.testing.assert_array_equal(escape(x, y, most=most), escape.debug(x, y, most=most))
    single = x.astype("float32")
    found = escape(single, y.astype("float32"), most=9, dtype="uint8", overflow="saturate")
    assert found.dtype == "uint8"


def test_a_table_by_name():
    @npt.ufunc
    def look(x, *, table):
        return table[x]

    table = np.arange(10) ** 2
    x = np.array([[3, 1], [9, 0]], "uint8")
    np.testing.assert_array_equal(look(x, table=table), table[x])
    np.testing.assert_array_equal(look.debug(x, table=table), table[x])


def test_lists_and_names_that_mean_something_else():
    @npt.ufunc
    def odd(outside, value, i, *, turns=1):
        while turns > 3:
            turns -= 1
        return outside + value * i + turns

    assert odd([1, 2], [3, 4], 5, turns=9).tolist() == [19, 25]
    assert mix([1, 2], [[3], [4]]).tolist() == [[0, 3], [-1, 2]]


def test_interrupted_helpers_and_recursion():
    with pytest.raises(npt.StencilError, match="recursion"):

        @npt.ufunc
        def again(x):
            return again(x - 1) if x > 0 else 0


# Arrays of other kinds.


@pytest.mark.parametrize("chunks", [(10, 10), (40, 7), (13, 30), ((1, 39), (29, 1))])
def test_dask(chunks):
    x = da.from_array(IMAGE, chunks=chunks)
    for other in (
        x,
        IMAGE,
        x[0],
        IMAGE[:, :1],
        da.from_array(IMAGE, chunks=(9, 11)),
        0.5,
        x[3, 4],
    ):
        lazy = mix(x, other)
        wanted = 3 * IMAGE - (other.compute() if hasattr(other, "compute") else other)
        assert isinstance(lazy, da.Array)
        result = lazy.compute()
        np.testing.assert_array_equal(result, wanted)
        assert (lazy.dtype, lazy.shape) == (result.dtype, result.shape)
        assert lazy._meta.dtype == result.dtype
    total, larger = both(x, x[:, :1])
    np.testing.assert_array_equal(total.compute(), IMAGE + IMAGE[:, :1])
    assert larger.dtype == bool
    assert halvings((x * 100).astype("int64")).compute().max() == 6
    assert mix(x[0, 0], 1.0).compute() == 3 * IMAGE[0, 0] - 1


def test_dask_with_processes_gets_the_text():
    one = pickle.loads(pickle.dumps(mix))
    assert one is mix
    copy = pickle.loads(pickle.dumps(mix._done_by({"x": np.arange(3.0), "y": 2.0})))
    assert copy.scalars == ("y", "k")
    assert type(copy) is npt.Ufunc
    np.testing.assert_array_equal(copy(np.arange(3.0), 2.0), 3 * np.arange(3.0) - 2)


def test_xarray_broadcasts_by_name():
    a = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("t", "x"), coords={"t": [5, 6]}, name="a")
    b = xr.DataArray(np.arange(12.0).reshape(3, 4), dims=("x", "y"))
    result = mix(a, b)
    xr.testing.assert_equal(result.drop_attrs(), 3 * a - b)
    assert (result.dims, result.name) == (("t", "x", "y"), "a")
    xr.testing.assert_equal(mix(b, a), 3 * b - a)
    xr.testing.assert_equal(mix(a, 2), 3 * a - 2)
    xr.testing.assert_equal(mix(a.chunk(x=2), b.chunk()).compute(), 3 * a - b)
    xr.testing.assert_equal(mix(a[0], a[:, 0]), 3 * a[0] - a[:, 0])
    xr.testing.assert_equal(mix(a[0, 0], 1.0), 3 * a[0, 0] - 1)
    xr.testing.assert_equal(mix(a[0, 0], b), 3 * a[0, 0] - b)
    wide = xr.Dataset({"a": a, "b": b, "c": 3.0, "names": ("y", list("pqrs"))})
    made = mix(wide, 1)
    xr.testing.assert_equal(made["b"], 3 * b - 1)
    assert made["c"] == 8
    assert made["names"].equals(wide["names"])


def test_columns_of_pandas():
    table = pd.DataFrame({"a": [1, 2, 3], "b": [4.0, 5.0, 6.0]}, index=[7, 8, 9])
    pd.testing.assert_series_equal(mix(table["a"], table["b"]), 3 * table["a"] - table["b"])
    pd.testing.assert_series_equal(mix(table["b"], 2, k=1), table["b"] - 2)
    pd.testing.assert_frame_equal(mix(table, 1), 3 * table - 1.0, check_dtype=False)
    turned = table["b"].iloc[::-1]
    pd.testing.assert_series_equal(
        mix(table["a"], turned), 3 * table["a"] - table["b"], check_names=False
    )
    total, larger = both(table["a"], table["b"])
    assert (total.tolist(), larger.tolist()) == ([5.0, 7.0, 9.0], [False] * 3)
    assert total.index.tolist() == [7, 8, 9]


def test_a_users_function_is_not_taken_for_one_of_numpy():
    @npt.ufunc
    def multiply(x):
        return x * 5

    column = pd.Series([1, 2], name="n")
    pd.testing.assert_series_equal(multiply(column), column * 5)


# In kernels.


@npt.stencil(boundary="nearest")
def edges(x):
    near = mix(blur(x), x, k=1)
    return near[0, 1] - near[0, -1]


def test_a_stage_in_one_pass():
    inner = mix(blur(IMAGE), IMAGE, k=1)
    wide = np.pad(inner, 1, mode="edge")
    np.testing.assert_array_equal(edges(IMAGE), (wide[:, 2:] - wide[:, :-2])[1:-1])
    assert len(plan_of(edges, "float64").passes) == 1
    stack = np.stack([IMAGE, IMAGE.T.copy().reshape(40, 30)])
    np.testing.assert_array_equal(edges(stack)[0], edges(IMAGE))
    np.testing.assert_array_equal(edges.debug(IMAGE[:9, :8]), edges(IMAGE[:9, :8]))
    np.testing.assert_array_equal(
        edges(da.from_array(IMAGE, chunks=(11, 9))).compute(), edges(IMAGE)
    )
    large = np.random.default_rng(0).random((600, 500))
    np.testing.assert_array_equal(edges(large, axes=(1, 0)), edges(large.T.copy()).T)


def test_on_numbers_it_is_a_helper():
    @npt.ufunc
    def absolute(x):
        return x if x > 0 else -x

    @npt.ufunc
    def distance(x, y):
        return absolute(x - y)

    @npt.stencil(boundary="nearest")
    def rough(x, k):
        return distance(x[0, 1], x[0, -1]) + k * absolute(-2)

    wide = np.pad(IMAGE, 1, mode="edge")
    wanted = np.abs(wide[1:-1, 2:] - wide[1:-1, :-2]) + 3.0
    np.testing.assert_array_equal(rough(IMAGE, 1.5), wanted)
    np.testing.assert_array_equal(rough.debug(IMAGE[:5, :6], 1.5), rough(IMAGE[:5, :6], 1.5))
    np.testing.assert_array_equal(distance(IMAGE, 0.5), np.abs(IMAGE - 0.5))

    @npt.stencil(neighborhood=((0, 2),), boundary="nearest")
    def seeking(x):
        k = 0
        while distance(x[k], x[0]) < 2 and k < 2:
            k += 1
        return k

    x = np.array([0.0, 1.0, 5.0, 5.0, 5.0])
    assert seeking(x).tolist() == seeking.debug(x).tolist() == [2, 1, 2, 2, 2]


def test_a_number_for_a_field_of_a_stage():
    @npt.stencil(boundary="nearest")
    def twice(x, s):
        a = mix(x, 2.0)
        b = mix(s, a, k=1)
        return a[0, 0] + b[0, 1] - x[0, 0]

    a = 3 * IMAGE - 2
    b = 4.0 - np.pad(a, 1, mode="edge")[1:-1, 2:]
    np.testing.assert_array_equal(twice(IMAGE, 4.0), a + b - IMAGE)


def test_what_is_indexed_later_was_made_of_arrays():
    """Nothing else shows that `x` is one."""

    @npt.stencil(boundary="nearest")
    def across(x, k):
        near = mix(x, 2.0)
        return near[0, 1] - k * mix(k, 1.0)

    wanted = np.pad(3 * IMAGE - 2, 1, mode="edge")[1:-1, 2:] - 0.5 * (3 * 0.5 - 1)
    assert across.fields == ("x",)
    np.testing.assert_array_equal(across(IMAGE, 0.5), wanted)
    small = IMAGE[:4, :5]
    np.testing.assert_array_equal(across.debug(small, 0.5), across(small, 0.5))


def test_lazy_values_are_one_pass():
    x = npt.lazy(np.random.default_rng(0).random((600, 500)))
    made = mix(blur(x), x, k=2)
    wanted = mix(blur(x.compute()), x.compute(), k=2)
    # Each has the axes of what it reads.
    assert (made.ndim, blur(x).ndim) == (2, 2)
    np.testing.assert_array_equal(made.compute(), wanted)
    before = blur(mix(x, 0.5))
    np.testing.assert_array_equal(before.compute(), blur(3 * x.compute() - 0.5))
    row = npt.lazy(np.arange(500.0))
    np.testing.assert_array_equal(
        blur(mix(x, row)).compute(), blur(3 * x.compute() - np.arange(500.0))
    )
    assert mix(npt.lazy(np.array(2.0)), 1.0) == 5
    named = npt.lazy(xr.DataArray(x.compute(), dims=("y", "x")))
    again = mix(blur(named), named, k=2).compute()
    assert again.dims == ("y", "x")
    np.testing.assert_array_equal(again.values, wanted)


def test_names_of_colours_are_not_asked_for():
    pixels = np.random.default_rng(0).integers(0, 255, (32, 40, 3)).astype("uint8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(mix(pixels, pixels, k=1), pixels * 0)


# Looking inside.


def test_explain_and_source():
    text = mix.explain("uint8")
    assert "at one element of each array" in text
    assert "border" not in text
    assert "one point after the other, for its loops differ" in halvings.explain("int64")
    assert "def band" in mix.source("float32")
    assert mix.explain(np.arange(10.0), np.arange(10.0)).count("measured") == 1
    assert repr(mix) == "<ufunc mix(x, y, *, k=3)>"
    assert (mix.nin, both.nout, mix.nout) == (2, 2, 1)
    assert mix._repr_svg_() is None


def test_what_is_decorated_twice():
    with pytest.raises(TypeError, match="'mix' is a ufunc already"):
        npt.ufunc(mix)
    with pytest.raises(TypeError, match="'mix' is a ufunc already"):
        npt.stencil(mix)


def test_steps():
    @npt.ufunc
    def newton(x, n):
        return (x + n / x) / 2

    n = np.array([[2.0, 9.0], [16.0, 25.0]])
    np.testing.assert_allclose(newton.iterate(np.ones_like(n), n, steps=9), np.sqrt(n))
