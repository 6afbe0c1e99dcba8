"""Calls and definitions are values: what is given to one is what it was when it was given.

That calls are equal, or differ, tests/arrays/test_dask_keys.py shows.
"""

import pickle

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_array_equal as equal

import ninepoint as npt


@npt.stencil(boundary=["wrap", ("fill", "edge")])
def heat(u, r=0.25):
    return u[0, 0] + r * (u[-1, 0] + u[1, 0] - 2 * u[0, 0])


@npt.stencil
def pipeline(u, k):
    a = heat(u, r=k / 8)
    return a[0, 1] - a[0, -1]


beside = npt.stencil(lambda x, r=1.0: x[-1] + r * x[1], boundary="constant")


def test_a_pickled_call_means_the_same():
    again = pickle.loads(pickle.dumps((heat, pipeline)))
    x = da.zeros((4, 6), chunks=2)
    assert again[0](x, np.float32(0.5)).name == heat(x, r=np.float32(0.5)).name
    assert again[1](x, k=3).name == pipeline(x, 3).name != pipeline(x, 4).name


@pytest.mark.parametrize("named", ["r", "cval"])
def test_an_array_without_axes_is_the_number_that_it_was_when_it_was_given(named):
    x, given = np.arange(5.0), np.array(2.0)
    wanted = beside(x, **{named: 2.0})
    recorded = beside(npt.lazy(x), **{named: given})
    chunked = beside(da.from_array(x), **{named: given})
    decorated = npt.stencil(cval=given)(lambda x: x[-1])
    given[...] = 7
    equal(recorded.compute(), wanted)
    equal(chunked.compute(), wanted)
    assert decorated(x)[0] == 2


def test_values_beyond_the_ends_that_print_alike_are_told_apart():
    x = np.zeros(4)
    for value in (0.123456789, 0.1234567891):
        assert beside(x, cval=np.array(value))[0] == value


def test_the_reference_takes_an_array_without_axes_beyond_the_ends():
    x = np.arange(4)
    equal(beside.debug(x, cval=np.array(1)), beside(x, cval=1), strict=True)
    assert npt.stencil(lambda x: x[-1]).debug(x, cval=np.array(3))[0] == 3
