"""Recorded values that are still wanted are computed before `out=` overwrites what they read."""

from __future__ import annotations

import gc

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compared import same


@npt.stencil(boundary="nearest")
def k(x):
    return x[-1] + x[0] + x[1]


@npt.stencil(boundary="nearest")
def both(x):
    return x[-1] - x[1], x[0] + x[1]


@npt.stencil(boundary="nearest")
def heat(u):
    return u[0] + 0.25 * (u[-1] - 2 * u[0] + u[1])


TABLE = np.arange(4.0)


@npt.stencil(boundary="nearest", performance_warnings=False)
def looked(x):
    return TABLE[int(x[0])]


@npt.stencil(boundary="nearest", standard_indexing="w")
def weighted(x, w):
    return w[0] * x[-1] + w[1] * x[1]


@npt.ufunc
def doubled(x):
    return 2.0 * x


@npt.gufunc("(n)->(n)")
def into(x, out):
    out[:] = x + 1


def fresh():
    return np.random.default_rng(1).random(12)


def spare():
    return np.zeros(12)


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
    assert k(y, out=a) is a
    same(a, wanted)
    same(y, k(fresh()))
    # And where nobody holds what is between.
    a[:] = fresh()
    k(k(npt.lazy(a)), out=a)
    same(a, wanted)


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
    with pytest.raises(IndexError):
        k(spare(), out=a)
    assert (a == 9).all()
    del y
    k(spare(), out=a)
    assert not a.any()


def test_arrays_beside_the_fields_count_as_they_were_at_the_call():
    x, w, wall = fresh().reshape(3, 4), np.array([1.0, 2.0]), np.arange(3.0)

    @npt.stencil
    def flow(u):
        return u[0, -1] + u[0, 1]

    for given, value in ((npt.lazy(x), wall), (da.from_array(x, chunks=(2, 2)), 2.0)):
        # Beside chunks the values of a border are numbers.
        w[:], wall[:] = (1, 2), (0, 1, 2)
        sides = ("nearest", (npt.dirichlet(value), "nearest"))
        wanted = weighted(x, w), flow(x, boundary=sides)
        recorded = weighted(given, w), flow(given, boundary=sides)
        w[:], wall[:] = 7, 7
        same(recorded, wanted)


def test_the_elements_of_a_field_count_as_they_are_when_it_is_computed():
    a = fresh()
    y = k(npt.lazy(a))
    a[:] = 1
    same(y, np.full(12, 3.0))
