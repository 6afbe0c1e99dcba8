"""Gufuncs on arrays of Dask, xarray, pandas and of others that ask for NumPy's functions."""

import pickle

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from gufunc_reference import COUNTED, PRODUCT
from numpy.testing import assert_array_equal as equal

import ninepoint as npt


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
