"""Gufuncs on arrays of Dask, xarray, pandas and of others that ask for NumPy's functions."""

from __future__ import annotations

import numpy as np
import pytest
from gufunc_reference import reference

import ninepoint as npt


def matmul(a, b):
    out = np.zeros((a.shape[0], b.shape[1]))
    for i, j, k in np.ndindex(a.shape[0], b.shape[1], a.shape[1]):
        out[i, j] += a[i, k] * b[k, j]
    return out


def halves(x):
    out = np.empty(len(x))
    for k in range(len(x)):
        out[k] = x[k] / 2
    return out


def extremes(x):
    low, high, total = x[0], x[0], 0.0
    for value in x:
        low, high, total = min(low, value), max(high, value), total + value
    return low, high, total / len(x)


def counted(x, bins):
    found = np.zeros(bins, np.int32)
    for value in x:
        found[int(value * bins)] += 1
    return found


MATMUL = npt.gufunc("(n,k),(k,m)->(n,m)")(matmul)
HALVES = npt.gufunc("(n)->(n)")(halves)
EXTREMES = npt.gufunc("(n)->(),(),()")(extremes)
COUNTED = npt.gufunc("(n)->(bins)")(counted)


def numbers(*shape):
    return np.random.default_rng(len(shape)).random(shape)


def test_dask_is_lazy_and_equal():
    da = pytest.importorskip("dask.array")
    x = numbers(3, 4, 5)
    for chunks in ((1, 2, -1), (3, -1, -1), (2, 3, -1)):
        lazy = da.from_array(x, chunks=chunks)
        one = HALVES(lazy)
        assert one.dtype == one._meta.dtype == np.float64
        assert one.chunks == lazy.chunks
        np.testing.assert_array_equal(one, x / 2)
    for made, wanted in zip(EXTREMES(lazy), (x.min(2), x.max(2), x.mean(2)), strict=True):
        assert made.dtype == wanted.dtype == made.compute().dtype
        np.testing.assert_allclose(made, wanted, rtol=1e-15)
    counts = np.apply_along_axis(lambda row: np.histogram(row, 3, (0, 1))[0], 2, x)
    np.testing.assert_array_equal(COUNTED(lazy, bins=3), counts)
    assert COUNTED(lazy, bins=3).dtype == np.int32
    assert HALVES(lazy, dtype="float32").compute().dtype == np.float32


def test_dask_stacks_broadcast():
    da = pytest.importorskip("dask.array")
    a, b = numbers(4, 1, 2, 3), numbers(5, 3, 2)
    wanted = reference(matmul, "(n,k),(k,m)->(n,m)", a, b)[0]
    for chunks in (1, 2):
        lazy = da.from_array(b, chunks=(chunks, -1, -1))
        for made in (
            MATMUL(da.from_array(a, chunks=(2, 1, -1, -1)), lazy),
            MATMUL(a, lazy),
            MATMUL(da.from_array(a, chunks=(3, 1, -1, -1)), b),
        ):
            np.testing.assert_array_equal(made, wanted)
    # Cut in two ways along one axis.
    x, y = da.from_array(numbers(4, 2, 3), chunks=(3, -1, -1)), numbers(4, 3, 2)
    made = MATMUL(x, da.from_array(y, chunks=(2, -1, -1)))
    np.testing.assert_array_equal(made, MATMUL(x.compute(), y))
    # Cut beside an array that is not.
    np.testing.assert_array_equal(MATMUL(x, y), MATMUL(x.compute(), y))


def test_dask_axes():
    da = pytest.importorskip("dask.array")
    x = numbers(3, 4, 5)
    lazy = da.from_array(x, chunks=(3, 2, 2))
    np.testing.assert_array_equal(HALVES(lazy, axis=0), HALVES(x, axis=0))
    for made, wanted in zip(
        EXTREMES(lazy, axis=0, keepdims=True), EXTREMES(x, axis=0, keepdims=True), strict=True
    ):
        np.testing.assert_array_equal(made, wanted)
    y = da.from_array(numbers(3, 5, 4), chunks=(-1, -1, 2))
    axes = [(0, 1), (0, 1), (2, 0)]
    np.testing.assert_array_equal(
        MATMUL(y, da.from_array(numbers(5, 2, 4), chunks=(-1, -1, 2)), axes=axes),
        MATMUL(y.compute(), numbers(5, 2, 4), axes=axes),
    )


def test_dask_on_processes(dask_client):
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(numbers(4, 6), chunks=(2, -1))
    np.testing.assert_array_equal(HALVES(lazy).compute(), numbers(4, 6) / 2)


def test_xarray_keeps_what_remains():
    xr = pytest.importorskip("xarray")
    x = numbers(3, 4, 5)
    named = xr.DataArray(
        x, dims=("t", "y", "x"), coords={"t": [1, 2, 3], "x": np.arange(5) * 2},
        name="u", attrs={"units": "K"},
    )  # fmt: skip
    same = HALVES(named)
    assert (same.dims, same.name, same.attrs) == (named.dims, "u", {"units": "K"})
    np.testing.assert_array_equal(same.coords["x"], named.coords["x"])
    np.testing.assert_array_equal(same, x / 2)
    least, _, _ = EXTREMES(named)
    assert least.dims == ("t", "y")
    assert set(least.coords) == {"t"}
    over_time = EXTREMES(named, dims={"n": "t"})[1]
    assert over_time.dims == ("y", "x")
    np.testing.assert_array_equal(over_time, x.max(axis=0))
    other = xr.DataArray(numbers(5, 2), dims=("x", "z"), coords={"z": ["a", "b"]})
    product = MATMUL(named, other)
    assert product.dims == ("t", "y", "z")
    assert set(product.coords) == {"t", "z"}
    np.testing.assert_array_equal(product, MATMUL(x, numbers(5, 2)))
    assert COUNTED(named, bins=2).dims == ("t", "y", "bins")
    assert COUNTED(named, bins=2, dims={"bins": "b"}).dims == ("t", "y", "b")
    assert MATMUL(named, numbers(5, 2)).dims == ("t", "y", "m")


def test_xarray_over_dask():
    xr = pytest.importorskip("xarray")
    pytest.importorskip("dask.array")
    named = xr.DataArray(numbers(3, 4, 5), dims=("t", "y", "x")).chunk({"t": 1})
    made = HALVES(named)
    assert made.chunks == named.chunks
    np.testing.assert_array_equal(made, numbers(3, 4, 5) / 2)


def test_pandas_keeps_the_index():
    pd = pytest.importorskip("pandas")
    column = pd.Series([1.0, 2.0, 5.0], index=list("abc"), name="v")
    pd.testing.assert_series_equal(HALVES(column), column / 2)
    assert EXTREMES(column)[1] == 5
    table = pd.DataFrame(numbers(3, 2), index=list("abc"), columns=["p", "q"])
    pd.testing.assert_series_equal(EXTREMES(table)[0], table.min(axis=1))
    pd.testing.assert_frame_equal(HALVES(table), table / 2)
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
    made = HALVES(Metres(np.arange(3.0)))
    np.testing.assert_array_equal(made.values, [0, 0.5, 1])
