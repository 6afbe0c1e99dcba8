"""Lazy arrays of other libraries: results of the same kind, lazy, equal to NumPy to the bit."""

import pickle

import numpy as np
import pytest
import xarray as xr

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


class DaskArray:
    """The library dask-array, on the threads of this process."""

    def __init__(self, folder):
        self.library = pytest.importorskip("dask_array")

    def cut(self, array, chunks):
        return self.library.from_array(array, chunks=chunks)

    def computed(self, array):
        return array.compute(scheduler="sync")


class Cubed:
    """The library Cubed, which keeps to its memory."""

    def __init__(self, folder):
        self.library = pytest.importorskip("cubed")
        self.spec = self.library.Spec(work_dir=str(folder), allowed_mem="2MB")

    def cut(self, array, chunks):
        return self.library.from_array(array, chunks=chunks, spec=self.spec)

    def computed(self, array):
        return array.compute()


@pytest.fixture(scope="module", params=[DaskArray, Cubed])
def engine(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("engine"))


def assert_same(engine, found, wanted):
    assert isinstance(found, engine.library.Array)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(engine.computed(found), wanted)


def test_equal_to_numpy_to_the_bit(engine):
    for boundary in ("wrap", ("valid", "nearest")):
        found = mean9(engine.cut(X, (7, 11)), boundary=boundary)
        assert_same(engine, found, mean9(X, boundary=boundary))
    # A program of several results, in thin chunks beside arrays of NumPy.
    found = staged(engine.cut(X, (2, 30)), K, boundary="mirror")
    for one, wanted in zip(found, staged(X, K, boundary="mirror"), strict=True):
        assert_same(engine, one, wanted)


def test_axes_stacks_slices_and_steps(engine):
    stack = np.stack([X, X[::-1]])
    x = engine.cut(stack, (1, 20, 30))
    wanted = mean9(stack, boundary="nearest")
    assert_same(engine, mean9(x, boundary="nearest")[0:1, 3:9], wanted[0:1, 3:9])
    wanted = mean9(stack, boundary="nearest", axes=(0, 2))
    assert_same(engine, mean9(x, boundary="nearest", axes=(0, 2)), wanted)
    wanted = mean9.iterate(X, steps=3, boundary="wrap")
    assert_same(engine, mean9.iterate(engine.cut(X, (10, 30)), steps=3, boundary="wrap"), wanted)
    assert_same(engine, npt.filters.mean(engine.cut(X, 9), 3), npt.filters.mean(X, 3))


def test_steps_until_little_changes_and_names_of_dimensions(engine):
    told = {}

    def steps_of(x):
        seen = told[id(x)] = []
        options = {"steps": 9, "until": 0.05, "every": 3, "boundary": "nearest"}
        return mean9.iterate(x, **options, callback=lambda step, state: seen.append(step))

    x = engine.cut(X, 10)
    assert_same(engine, steps_of(x), steps_of(X))
    assert told[id(x)] == told[id(X)]
    named = xr.DataArray(engine.cut(X, (7, 11)), dims=("y", "x"), attrs={"units": "K"})
    found = mean9(named, dims=("x", "y"), boundary="nearest")
    assert found.dims == ("y", "x")
    assert found.attrs == {"units": "K"}
    assert_same(engine, found.data, mean9(X, axes=(1, 0), boundary="nearest"))


def test_libraries_are_not_mixed(engine):
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match=r"dask.Array .*lazy arrays of different libraries"):
        staged(engine.cut(X, 7), da.from_array(X, chunks=7))


def test_arrays_of_dask_array_are_saved_as_those_of_dask(tmp_path):
    da = pytest.importorskip("dask.array")
    x = DaskArray(None).cut(X, (7, 11))
    named = xr.DataArray(mean9(x, boundary="wrap"), dims=("y", "x"), name="u")
    npt.save(mean9(x, boundary="wrap"), tmp_path / "bare.zarr", progress=False)
    npt.save(named, tmp_path / "named.zarr", progress=False)
    for path in ("bare.zarr", "named.zarr/u"):
        found = da.from_zarr(tmp_path / path).compute(scheduler="sync")
        np.testing.assert_array_equal(found, mean9(X, boundary="wrap"))


def test_what_cubed_does_itself_and_may_not_do(tmp_path):
    engine = Cubed(tmp_path)
    with pytest.raises(TypeError, match=r"cubed.to_zarr\(x, path\)"):
        npt.save(engine.cut(X, 10), tmp_path / "out.zarr")
    x = engine.library.ones((1200, 400), chunks=(1200, 400), dtype="float32", spec=engine.spec)
    refuses(ValueError, "exceeds allowed_mem", mean9(x).compute)


def test_an_expression_is_a_few_kilobytes():
    """Its tasks are written out where it is computed, not where it is made."""
    x = DaskArray(None).library.zeros((400, 400), chunks=4, dtype="float32")
    assert len(pickle.dumps(mean9(x, boundary="wrap").expr)) < 10_000


def test_a_chain_of_dask_array_takes_as_long_as_it_has_calls():
    """Each call took twice as long as the one before it."""
    lazy, wanted = DaskArray(None).cut(X, 15), X
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
