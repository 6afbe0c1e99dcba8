"""Arrays of other libraries: taken as they are, or refused with the cure; never lost or loaded."""

import array

import dask
import dask.array as da
import dask.bag
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import ninepoint as npt
from compared import refuses

X = np.array([1.0, 4.0, 9.0, 16.0])
change = npt.stencil(lambda x: x[1] - x[0], boundary="nearest")
staged = npt.stencil(lambda x: change(x)[0], boundary="nearest")
moved = npt.stencil(lambda y, x: x[1] - x[0] + 0 * y[0], boundary="nearest")
table = npt.stencil(lambda y, x: y[0] * x[0], standard_indexing="x")


ALONE = {
    "single": change,
    "staged": staged,
    "lazy": lambda x: change(npt.lazy(x)).compute(),
    "filter": lambda x: npt.filters.mean(x, 3, axes=0),
    "iterate": lambda x: change.iterate(x, steps=1),
    "iterate staged": lambda x: staged.iterate(x, steps=1),
    "debug": change.debug,
}
WAYS = ALONE | {
    "beside NumPy": lambda x: moved(X, x),
    "beside Dask": lambda x: moved(da.from_array(X), x),
    "beside xarray": lambda x: moved(xr.DataArray(X, dims="t"), x),
    "table": lambda x: table(X, x),
}


class Elsewhere:
    """An array that would be loaded whole."""

    shape, ndim, dtype = (4,), 1, np.dtype("float64")

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("loaded")


class Chunked(Elsewhere):
    """One that is read piece by piece."""

    chunks = (2,)

    def __getitem__(self, at):
        raise AssertionError("loaded")


class Sliced:
    """One that NumPy would take for a sequence."""

    shape, ndim, dtype = (4,), 1, np.dtype("float64")

    def __len__(self):
        return 4

    def __getitem__(self, at):
        raise AssertionError("loaded")


class Collection:
    """What Dask computes, but no array of its own."""

    def __dask_graph__(self):
        return {}

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("loaded")


def of_module(module, name):
    return type(name, (Elsewhere,), {"__module__": module})()


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    with h5py.File(tmp_path_factory.mktemp("h5") / "x.h5", "w") as file:
        yield file.create_dataset("x", data=X)


# Made here, as Zarr begins a thread with its first array.
ZARR = zarr.array(X)

REFUSED = [
    (ZARR, r"zarr.Array; dask.array.from_zarr\(x\)"),
    (pd.Series(X, index=list("abcd")), r"index would be lost: give x.to_numpy"),
    (pd.DataFrame({"a": X, "b": X}), r"names of its columns would be lost"),
    (pd.Index([1, 2, 3, 4]), r"give x.to_numpy\(\)"),
    (pd.array([1, 2, 3, 4]), r"numpy.asarray\(x\) makes one"),
    (xr.Variable("t", X), r"xarray.Variable; give x.data"),
    (dask.bag.from_sequence(X.tolist()), r"Bag, which no stencil takes"),
    (dask.delayed(np.array)(X), r"Delayed, which no stencil takes"),
    (Collection(), r"Collection, which no stencil takes"),
    (Chunked(), r"dask.array.from_array\(x, chunks=.auto.\) reads it"),
    (Sliced(), r"x\[...\] loads it"),
    (Elsewhere(), r"numpy.asarray\(x\) makes one, and loads it whole"),
    (of_module("cubed.array_api.array_object", "Array"), r"x.compute\(\)"),
    (of_module("dask_array.core", "Array"), r"x.compute\(\)"),
    (of_module("torch", "Tensor"), r"give x.numpy\(\)"),
    (of_module("netCDF4", "Variable"), r"xarray.open_dataset"),
]


@pytest.mark.parametrize("way", WAYS)
def test_other_arrays_are_refused_with_the_cure(stored, way):
    for x, words in [*REFUSED, (stored, r"h5py.Dataset; dask.array.from_array\(x")]:
        refuses(TypeError, words, WAYS[way], x)
    if way not in ("debug", "table"):
        objects = da.from_array(np.array([1, "a", None, 2], dtype=object), chunks=2)
        refuses(TypeError, r"object", WAYS[way], objects)


def test_the_cures_work(stored):
    wanted = change(X)
    for made in (da.from_zarr(ZARR), da.from_array(stored, chunks="auto")):
        np.testing.assert_array_equal(change(made).compute(), wanted)
    series = pd.Series(X, index=pd.Index(list("abcd"), name="t"), name="u")
    found = change(series.to_xarray())
    pd.testing.assert_series_equal(found.to_series(), pd.Series(wanted, series.index, name="u"))


@pytest.mark.parametrize("way", WAYS)
def test_what_is_in_memory_is_taken(way):
    wanted = np.asarray(WAYS[way](X))
    for kind in (list, tuple, memoryview, lambda x: array.array("d", x)):
        np.testing.assert_array_equal(np.asarray(WAYS[way](kind(X))), wanted)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("way", ALONE)
def test_subclasses_of_arrays_are_arrays_and_a_number_is_none(way):
    class Kind(np.ndarray):
        pass

    made = WAYS[way](X.view(Kind))
    assert type(made) is np.ndarray
    np.testing.assert_array_equal(made, WAYS[way](X))
    np.testing.assert_array_equal(WAYS[way](np.matrix(X)), WAYS[way](X[None]))
    for number in (3.0, np.float64(3), np.array(3.0)):
        refuses(ValueError, r"needs an array of at least", WAYS[way], number)
