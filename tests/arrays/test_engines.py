"""Arrays of other libraries: lazy as they are, taken, or refused with the cure; never loaded."""

import array
import pickle

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
from own_process import printed

X = np.random.default_rng(0).random((20, 30), dtype="float32")
K = np.arange(30, dtype="float32")


@npt.stencil
def mean9(u):
    s = u[-1, -1] + u[-1, 0] + u[-1, 1] + u[0, -1] + u[0, 0] + u[0, 1]
    return (s + u[1, -1] + u[1, 0] + u[1, 1]) / 9


@npt.stencil
def staged(u, v):
    a = mean9(u)
    b = mean9(a)
    return b[0, 1] - v[0, -2], a[0, 0] * v[0, 0]


dask_array = pytest.importorskip("dask_array")


def assert_same(found, wanted):
    assert isinstance(found, dask_array.Array)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(found.compute(scheduler="sync"), wanted)


def test_equal_to_numpy_to_the_bit_also_of_stacks_slices_and_steps():
    for boundary in ("wrap", ("valid", "nearest")):
        found = mean9(dask_array.from_array(X, (7, 11)), boundary=boundary)
        assert_same(found, mean9(X, boundary=boundary))
    # A program of several results, in thin chunks beside arrays of NumPy.
    found = staged(dask_array.from_array(X, (2, 30)), K, boundary="mirror")
    for one, wanted in zip(found, staged(X, K, boundary="mirror"), strict=True):
        assert_same(one, wanted)
    stack = np.stack([X, X[::-1]])
    x = dask_array.from_array(stack, (1, 20, 30))
    wanted = mean9(stack, boundary="nearest")
    assert_same(mean9(x, boundary="nearest")[0:1, 3:9], wanted[0:1, 3:9])
    wanted = mean9(stack, boundary="nearest", axes=(0, 2))
    assert_same(mean9(x, boundary="nearest", axes=(0, 2)), wanted)
    wanted = mean9.iterate(X, steps=3, boundary="wrap")
    assert_same(
        mean9.iterate(dask_array.from_array(X, (10, 30)), steps=3, boundary="wrap"), wanted
    )
    assert_same(npt.filters.mean(dask_array.from_array(X, 9), 3), npt.filters.mean(X, 3))


def test_steps_until_little_changes_and_names_of_dimensions():
    told = {}

    def steps_of(x):
        seen = told[id(x)] = []
        options = {"steps": 9, "until": 0.05, "every": 3, "boundary": "nearest"}
        return mean9.iterate(x, **options, callback=lambda step, state: seen.append(step))

    x = dask_array.from_array(X, 10)
    assert_same(steps_of(x), steps_of(X))
    assert told[id(x)] == told[id(X)]
    named = xr.DataArray(dask_array.from_array(X, (7, 11)), dims=("y", "x"), attrs={"units": "K"})
    found = mean9(named, dims=("x", "y"), boundary="nearest")
    assert found.dims == ("y", "x")
    assert found.attrs == {"units": "K"}
    assert_same(found.data, mean9(X, axes=(1, 0), boundary="nearest"))


def test_libraries_are_not_mixed():
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match=r"dask.Array .*lazy arrays of different libraries"):
        staged(dask_array.from_array(X, 7), da.from_array(X, chunks=7))


def test_arrays_of_dask_array_are_saved_as_those_of_dask(tmp_path):
    da = pytest.importorskip("dask.array")
    x = dask_array.from_array(X, (7, 11))
    named = xr.DataArray(mean9(x, boundary="wrap"), dims=("y", "x"), name="u")
    npt.save(mean9(x, boundary="wrap"), tmp_path / "bare.zarr", progress=False)
    npt.save(named, tmp_path / "named.zarr", progress=False)
    for path in ("bare.zarr", "named.zarr/u"):
        found = da.from_zarr(tmp_path / path).compute(scheduler="sync")
        np.testing.assert_array_equal(found, mean9(X, boundary="wrap"))


def test_expressions_are_small_and_chains_take_as_long_as_they_have_calls():
    """Its tasks are written out where it is computed, not where it is made."""
    x = dask_array.zeros((400, 400), chunks=4, dtype="float32")
    assert len(pickle.dumps(mean9(x, boundary="wrap").expr)) < 10_000
    # Each call took twice as long as the one before it.
    lazy, wanted = dask_array.from_array(X, 15), X
    for _ in range(30):
        lazy, wanted = mean9(lazy, boundary="wrap"), mean9(wanted, boundary="wrap")
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), wanted)


PLANNED = """
import dask
dask.config.set({"array.query-planning": True})
import dask.array as da, numpy as np, ninepoint as npt
@npt.stencil(boundary="wrap")
def two(u):
    return u[1, 0] - u[0, 0], u[0, 1] - u[-1, 0]
@npt.stencil(boundary="wrap")
def drift(u):
    return (u[0, 0] + u[0, 1]) / 2
for call in (two, npt.ufunc(lambda x: x + 1), lambda x: drift.iterate(x, steps=2)):
    try:
        call(da.zeros((10, 12), chunks=4))
    except TypeError as error:
        assert 'set "array.query-planning" to False by dask.config.set' in str(error), error
    else:
        raise AssertionError(call)
"""


def test_query_planning_of_dask_is_refused(tmp_path):
    """It is settled when Dask is imported, so in a process of its own."""
    (tmp_path / "planned.py").write_text(PLANNED)
    printed(tmp_path / "planned.py")


LINE = np.array([1.0, 4.0, 9.0, 16.0])
change = npt.stencil(lambda x: x[1] - x[0], boundary="nearest")
of_change = npt.stencil(lambda x: change(x)[0], boundary="nearest")
moved = npt.stencil(lambda y, x: x[1] - x[0] + 0 * y[0], boundary="nearest")
table = npt.stencil(lambda y, x: y[0] * x[0], standard_indexing="x")


ALONE = {
    "single": change,
    "staged": of_change,
    "lazy": lambda x: change(npt.lazy(x)).compute(),
    "filter": lambda x: npt.filters.mean(x, 3, axes=0),
    "iterate": lambda x: change.iterate(x, steps=1),
    "iterate staged": lambda x: of_change.iterate(x, steps=1),
    "debug": change.debug,
}
WAYS = ALONE | {
    "beside NumPy": lambda x: moved(LINE, x),
    "beside Dask": lambda x: moved(da.from_array(LINE), x),
    "beside xarray": lambda x: moved(xr.DataArray(LINE, dims="t"), x),
    "table": lambda x: table(LINE, x),
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
        yield file.create_dataset("x", data=LINE)


# Made here, as Zarr begins a thread with its first array.
ZARR = zarr.array(LINE)

REFUSED = [
    (ZARR, r"zarr.Array; dask.array.from_zarr\(x\)"),
    (pd.Series(LINE, index=list("abcd")), r"index would be lost: give x.to_numpy"),
    (pd.DataFrame({"a": LINE, "b": LINE}), r"names of its columns would be lost"),
    (pd.Index([1, 2, 3, 4]), r"give x.to_numpy\(\)"),
    (pd.array([1, 2, 3, 4]), r"numpy.asarray\(x\) makes one"),
    (xr.Variable("t", LINE), r"xarray.Variable; give x.data"),
    (dask.bag.from_sequence(LINE.tolist()), r"Bag, which no stencil takes"),
    (dask.delayed(np.array)(LINE), r"Delayed, which no stencil takes"),
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
    wanted = change(LINE)
    for made in (da.from_zarr(ZARR), da.from_array(stored, chunks="auto")):
        np.testing.assert_array_equal(change(made).compute(), wanted)
    series = pd.Series(LINE, index=pd.Index(list("abcd"), name="t"), name="u")
    found = change(series.to_xarray())
    pd.testing.assert_series_equal(found.to_series(), pd.Series(wanted, series.index, name="u"))


@pytest.mark.parametrize("way", WAYS)
def test_what_is_in_memory_is_taken(way):
    wanted = np.asarray(WAYS[way](LINE))
    for kind in (list, tuple, memoryview, lambda x: array.array("d", x)):
        np.testing.assert_array_equal(np.asarray(WAYS[way](kind(LINE))), wanted)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("way", ALONE)
def test_subclasses_of_arrays_are_arrays_and_a_number_is_none(way):
    class Kind(np.ndarray):
        pass

    made = WAYS[way](LINE.view(Kind))
    assert type(made) is np.ndarray
    np.testing.assert_array_equal(made, WAYS[way](LINE))
    np.testing.assert_array_equal(WAYS[way](np.matrix(LINE)), WAYS[way](LINE[None]))
    for number in (3.0, np.float64(3), np.array(3.0)):
        refuses(ValueError, r"needs an array of at least", WAYS[way], number)
