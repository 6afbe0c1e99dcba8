"""Recorded values: what arrays have, they have; what `out=` overwrites is computed before."""

import gc

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compared import refuses, same

TABLE = np.arange(4.0)
k = npt.stencil(lambda x: x[-1] + x[0] + x[1], boundary="nearest")
both = npt.stencil(lambda x: (x[-1] - x[1], x[0] + x[1]), boundary="nearest")
heat = npt.stencil(lambda u: u[0] + 0.25 * (u[-1] - 2 * u[0] + u[1]), boundary="nearest")
looked = npt.stencil(lambda x: TABLE[int(x[0])], boundary="nearest", performance_warnings=False)
weighted = npt.stencil(
    lambda x, w: w[0] * x[-1] + w[1] * x[1], boundary="nearest", standard_indexing="w"
)
doubled = npt.ufunc(lambda x: 2.0 * x)


@npt.gufunc("(n)->(n)")
def into(x, out):
    out[:] = x + 1


def fresh():
    return np.random.default_rng(1).random(12)


def spare():
    return np.zeros(12)


USES = {
    "sum": lambda x: x.sum(),
    "mean along an axis": lambda x: x.mean(axis=0),
    "numpy.max": np.max,
    "numpy.mean": np.mean,
    "astype": lambda x: x.astype("float32"),
    "T": lambda x: x.T,
    "transpose": lambda x: x.transpose(),
    "reshape": lambda x: x.reshape(2, -1),
    "arithmetic": lambda x: 2 * x - x,
    "comparison": lambda x: (x > 1) & (x != 3),
    "index": lambda x: x[1:5:2],
    "item": lambda x: x[3:4].item(),
    "size": lambda x: (x.size, x.nbytes, len(x), x.ndim),
    "numbers": lambda x: (bool(x[:1]), float(x[1]), int(x[2])),
}


@pytest.mark.parametrize("name", USES)
def test_lazy_values_have_what_arrays_have(name):
    x = fresh()
    for given in (x, xr.DataArray(x, dims="x")):
        if name != "reshape" or given is x:
            wanted = USES[name](k(given))
            np.testing.assert_array_equal(USES[name](k(npt.lazy(given))), wanted)
    chunked = USES["sum"](k(npt.lazy(da.from_array(x, chunks=5))))
    assert isinstance(chunked, da.Array)


def test_what_lazy_values_lack_is_said_with_a_cure():
    y = k(npt.lazy(fresh()))
    assert {"sum", "T", "compute"} <= set(dir(y))
    for use, error, words in (
        (lambda: y.rolling(x=3), AttributeError, r"has no 'rolling'; .* x\.compute\(\)\.rolling"),
        (lambda: y.sort(), AttributeError, "has no 'sort'; compute it first"),
        (lambda: y.__setitem__(0, 1.0), TypeError, "cannot be written to; compute it first"),
        (lambda: bool(y), ValueError, "ambiguous"),
    ):
        refuses(error, words, use)


def test_lazy_values_are_saved(tmp_path):
    x = np.random.default_rng(1).integers(0, 255, (2, 9, 8), "uint8")
    wanted = npt.filters.median(x)
    for given in (x, da.from_array(x, chunks=(1, 9, 8))):
        y = npt.filters.median(npt.lazy(given))
        npt.save(y, tmp_path / "y.npy", overwrite=True)
        same(np.load(tmp_path / "y.npy"), wanted)
        npt.imsave(y, tmp_path / "{:02}.png", overwrite=True)
        same(npt.imread(tmp_path / "*.png").compute(), wanted)


# All that writes to an array that the user gave.
WRITERS = {
    "stencil": lambda a, y: k(a, out=a),
    "lazy": lambda a, y: k(npt.lazy(a), out=a),
    "of itself": lambda a, y: k(y, out=a),
    "several": lambda a, y: both(spare(), out=(spare(), a)),
    "another": lambda a, y: k(spare(), out=a),
    "a part": lambda a, y: k(spare()[:3], out=a[3:6]),
    "strided": lambda a, y: k(spare()[::2], out=a[::2]),
    "ufunc": lambda a, y: doubled(a, out=a),
    "ufunc of a number": lambda a, y: doubled(3.0, out=a[4:5].reshape(())),
    "gufunc": lambda a, y: into(a, out=a),
    "gufunc by position": lambda a, y: into(spare(), a),
    "filter": lambda a, y: npt.filters.median(spare(), 3, out=a),
    "filter of it": lambda a, y: npt.filters.gaussian(a, 1.0, out=a),
    "iterate": lambda a, y: heat.iterate(a, steps=5, out=a),
    "no step": lambda a, y: heat.iterate(spare(), steps=0, out=a),
    "NumPy on it": lambda a, y: np.add(npt.lazy(spare()), 1, out=a),
    "float32": lambda a, y: k(spare(), out=a.view("float32")[:12]),
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_wanted_is_computed_before_it_is_overwritten(name):
    for source in (lambda a: a, lambda a: a[::-1], xr.DataArray):
        a = fresh()
        for _ in range(2):
            # The second time calls are prepared.
            a[:] = fresh()
            x = source(a)
            wanted = np.asarray(k(k(np.array(x)))), np.asarray(k(np.array(x)))
            y = k(npt.lazy(x))
            z = k(y)
            if name != "of itself" or isinstance(x, np.ndarray):
                WRITERS[name](a, y)
            same((z, y), wanted)


def test_a_gufunc_may_be_given_its_result_by_position_again_and_again():
    """What was remembered of the first call took the result for an input."""
    for _ in range(4):
        out = spare()
        into(spare(), out)
        assert (out == 1).all()


def test_results_of_out_itself_are_as_if_nothing_overlapped():
    a = fresh()
    wanted = k(k(a))
    y = k(npt.lazy(a))
    same(k(y, out=a), wanted)
    same((a, y), (wanted, k(fresh())))


def test_only_what_is_wanted_and_overwritten_is_computed():
    a, b = fresh(), fresh()
    of_a, of_b, of_none = k(npt.lazy(a)), k(npt.lazy(b)), k(k(npt.lazy(a)))
    of_none = None
    gc.collect()
    assert of_none is None
    k(spare(), out=a)
    assert "computed" in repr(of_a)
    assert "computed" not in repr(of_b)
    # What lies between its elements and beside them is no part of a view.
    left, right = b[:6], b[6:]
    of_left = k(npt.lazy(left))
    k(spare()[:6], out=right)
    assert "computed" not in repr(of_left)
    assert "computed" in repr(of_b)


def test_an_error_of_what_is_recorded_comes_before_anything_is_written():
    a = np.full(12, 9.0)
    y = looked(npt.lazy(a))
    refuses(IndexError, "", k, spare(), out=a)
    assert (a == 9).all()
    del y
    k(spare(), out=a)
    assert not a.any()


def test_what_counts_when_arrays_are_changed_by_the_program():
    x, w, wall = fresh().reshape(3, 4), np.array([1.0, 2.0]), np.arange(3.0)
    flow = npt.stencil(lambda u: u[0, -1] + u[0, 1])
    for given, value in ((npt.lazy(x), wall), (da.from_array(x, chunks=(2, 2)), 2.0)):
        # Arrays beside the fields: as they were at the call.
        w[:], wall[:] = (1, 2), (0, 1, 2)
        # Beside chunks the values of a border are numbers.
        sides = ("nearest", (npt.dirichlet(value), "nearest"))
        wanted = weighted(x, w), flow(x, boundary=sides)
        recorded = weighted(given, w), flow(given, boundary=sides)
        w[:], wall[:] = 7, 7
        same(recorded, wanted)
    # Fields: as they are when it is computed.
    y = k(npt.lazy(x))
    x[:] = 1
    same(y, np.full((3, 4), 3.0))
