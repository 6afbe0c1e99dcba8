"""Calls and definitions are values: equal ones mean the same, in any process."""

from __future__ import annotations

import pickle

import dask.array as da
import numpy as np
import pytest

import ninepoint as npt


@npt.stencil(boundary="nearest", standard_indexing="w")
def weighted(x, w):
    return x[-1] * w[0] + x[1] * w[1]


@npt.stencil(boundary=["wrap", ("fill", "edge")])
def heat(u, r=0.25):
    return u[0, 0] + r * (u[-1, 0] + u[1, 0] - 2 * u[0, 0])


@npt.stencil
def pipeline(u, k):
    a = heat(u, r=k / 8)
    return a[0, 1] - a[0, -1]


def name(stencil, *values, **options):
    """Dask names a result by all that it depends on."""
    return stencil(da.zeros((4, 6), chunks=2), *values, **options).name


@pytest.mark.parametrize("other", [-0.0, 0, False, np.float32(0), np.float64(0), 0j])
def test_calls_differ_by_the_type_and_sign_of_a_number(other):
    assert name(heat, r=0.0) == name(heat, 0.0)
    assert name(heat, r=0.0) != name(heat, r=other)


@pytest.mark.parametrize(
    "options",
    [
        {"boundary": "wrap"},
        {"cval": 1},
        {"dtype": "float32"},
        {"dtype": "uint8", "overflow": "wrap"},
    ],
)
def test_calls_differ_by_their_options(options):
    assert name(heat, 1.0, **options) != name(heat, 1.0)
    assert name(heat, 1.0, **options) == name(heat, 1.0, **options)


def test_a_pickled_call_means_the_same():
    again = pickle.loads(pickle.dumps((heat, pipeline)))
    assert name(again[0], np.float32(0.5)) == name(heat, np.float32(0.5))
    assert name(again[1], k=3) == name(pipeline, 3)
    assert name(pipeline, 3) != name(pipeline, 4)


def test_an_array_among_the_scalars_may_change_between_calls():
    w = np.array([1.0, 2.0])
    x = np.arange(5.0)

    for _ in range(3):
        w *= 2
        np.testing.assert_array_equal(weighted(x, w), weighted.debug(x, w))


def test_a_boundary_is_read_where_it_is_written():
    with pytest.raises(ValueError, match="unknown boundary 'odd'"):
        npt.stencil(boundary=("wrap", "odd"))
    with pytest.raises(ValueError, match="wraps on one side only"):
        npt.stencil(boundary=(("wrap", "fill"),))
    # How many axes there are is known when the kernel has been read.
    with pytest.raises(ValueError, match="has 3 entries, but the stencil has 2 axes"):
        heat(np.ones((4, 4)), boundary=("wrap",) * 3)


@npt.stencil(boundary="constant")
def beside(x, r=1.0):
    return x[-1] + r * x[1]


@pytest.mark.parametrize("named", ["r", "cval"])
def test_an_array_without_axes_is_the_number_that_it_was_when_it_was_given(named):
    x, given = np.arange(5.0), np.array(2.0)
    wanted = beside(x, **{named: 2.0})
    recorded = beside(npt.lazy(x), **{named: given})
    chunked = beside(da.from_array(x), **{named: given})
    given[...] = 7
    np.testing.assert_array_equal(recorded.compute(), wanted)
    np.testing.assert_array_equal(chunked.compute(), wanted)


def test_values_beyond_the_ends_that_print_alike_are_told_apart():
    x = np.zeros(4)
    for value in (0.123456789, 0.1234567891):
        assert beside(x, cval=np.array(value))[0] == value


def test_the_reference_takes_an_array_without_axes_beyond_the_ends():
    x = np.arange(4)
    np.testing.assert_array_equal(
        beside.debug(x, cval=np.array(1)), beside(x, cval=1), strict=True
    )
    assert npt.stencil(lambda x: x[-1]).debug(x, cval=np.array(3))[0] == 3


def test_a_decorated_value_beyond_the_ends_stays():
    given = np.array(3)
    before = npt.stencil(cval=given)(lambda x: x[-1])
    given[...] = 7
    assert before(np.arange(4))[0] == 3
