"""Calls that are one call: where one border gives what theirs give, and what they give then."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import ninepoint as npt


@npt.stencil
def across(x):
    return x[-1, 0] - 2 * x[0, 1] + 3 * x[2, 0]


def test_rings_are_one_however_often_they_look():
    @npt.stencil(boundary="wrap")
    def ring(x, y):
        a = across(x, boundary="wrap")
        b = across(a, boundary="wrap")
        return b[3, 0] + a[0, -1] + y[0, 2]

    @npt.stencil(boundary="wrap")
    def last(a, b, y):
        return b[3, 0] + a[0, -1] + y[0, 2]

    x, y = np.random.default_rng(1).random((2, 5, 6))
    a = across(x, boundary="wrap")
    wanted = last(a, across(a, boundary="wrap"), y)
    np.testing.assert_array_equal(ring(x, y), wanted)
    for chunks in ((5, 6), (2, 6), (3, 2)):
        lazy = [da.from_array(one, chunks=chunks) for one in (x, y)]
        np.testing.assert_array_equal(ring(*lazy).compute(scheduler="sync"), wanted)


def test_each_axis_by_itself():
    @npt.stencil(boundary=("reflect", "fill"), cval=7)
    def down(x):
        return x[-1, 0] + x[2, 0]

    @npt.stencil(boundary=("wrap", "fill"), cval=7)
    def both(x):
        return down(x)[0, -1]

    @npt.stencil(boundary=("wrap", "fill"), cval=7)
    def along(x):
        return x[0, -1]

    @npt.stencil(boundary=("wrap", "fill"), cval=7)
    def again(x):
        return down(x)[1, -1]

    x = np.random.default_rng(2).random((4, 5))
    np.testing.assert_array_equal(both(x), along(down(x)))
    np.testing.assert_array_equal(again(x), again.debug(x))


def test_constants_that_differ_are_not_one():
    @npt.stencil
    def two(x):
        a = across(x, boundary="constant", cval=1)
        b = across(x, boundary="constant", cval=2)
        return a[0, 0] + b[0, 0]

    x = np.random.default_rng(3).random((4, 5))
    wanted = sum(across(x, boundary="constant", cval=value) for value in (1, 2))
    np.testing.assert_array_equal(two(x), wanted)


def test_a_constant_that_does_not_fit_is_refused_as_ever():
    @npt.stencil
    def wrong(x):
        a = across(x, boundary="constant", cval=0.5)
        return a[0, 0] + x[0, 0]

    with pytest.raises(ValueError, match=r"0\.5"):
        wrong(np.zeros((4, 5), int))


@pytest.mark.parametrize("threads", [1, 2])
def test_steps(threads):
    @npt.stencil(boundary="wrap")
    def step(u, v, r):
        a = across(u, boundary="wrap")
        return u[0, 0] + r * a[0, 0] * v[0, 0], v[0, 0] - r * a[0, 0]

    u, v = np.random.default_rng(4).random((2, 20, 30))
    wanted = u, v
    for k in range(5):
        wanted = step(*wanted, 0.01 * k)
    made = step.iterate(u, v, [0.01 * k for k in range(5)], steps=5, threads=threads)
    np.testing.assert_array_equal(made, wanted)


def test_what_keep_cannot_hold_is_refused_in_pipelines_too() -> None:
    @npt.stencil
    def alike(x):
        return x[0]

    @npt.stencil(dtype="int16", overflow="saturate", boundary="keep")
    def sums(x):
        y = alike(x)
        return y[0] + y[1]

    x = np.array([1, 64], "uint16")
    for call in (sums, sums.debug):
        with pytest.raises(ValueError, match='"keep" cannot hold uint16 values in a int16 result'):
            call(x)
