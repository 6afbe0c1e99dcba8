"""Calls are prepared when they first come: the second must see all that is new in it."""

from __future__ import annotations

import numpy as np
import pytest

import ninepoint as npt

# Compiled code is tried between protected pages first.
pytestmark = pytest.mark.usefixtures("protected_pages")


@npt.stencil
def difference(x, scale=2):
    return (x[0, 1] - x[0, -1]) * scale


@npt.stencil
def both(x, y):
    return x[0, 1] + y[1, 0], x[-1, 0] - y[0, 0]


def image(*shape, dtype="float64", seed=0):
    return np.random.default_rng(seed).integers(0, 99, shape).astype(dtype)


@pytest.mark.parametrize("shape", [(9, 7), (70, 90), (300, 500), (700, 900)])
@pytest.mark.parametrize("boundary", ["fill", "keep", "valid", "reflect", "wrap", "constant"])
def test_later_calls_give_the_same(shape, boundary):
    for x in (image(*shape), image(2, *shape), image(2 * shape[0], shape[1])[::2]):
        first = difference(x, boundary=boundary)
        out = np.empty_like(first)
        for options in ({}, {}, {"threads": 1}, {"threads": 1}, {"threads": 3}, {"out": out}):
            later = difference(x, boundary=boundary, **options)
            np.testing.assert_array_equal(later, first)
        assert difference(x, 2, boundary=boundary, out=out) is out
        for scale in (3, 4, 2.5, 0.5, True):
            wanted = difference(x, scale=scale, boundary=boundary)
            np.testing.assert_array_equal(difference(x, scale, boundary=boundary), wanted)


@pytest.mark.parametrize("boundary", ["fill", "reflect"])
def test_several_fields_and_outputs(boundary):
    x, y = image(3, 20, 30), image(3, 20, 30, seed=1)
    wanted = [both(x[k], y=y[k], boundary=boundary) for k in range(3)]
    for _ in range(3):
        for k, result in enumerate(both(x, y, boundary=boundary)):
            np.testing.assert_array_equal(result, [one[k] for one in wanted])


def test_signed_zeros_and_types_of_cval_are_told_apart():
    x = image(5, 6)
    for _ in range(2):
        assert not np.signbit(difference(x, cval=0.0)[0, 0])
        assert np.signbit(difference(x, cval=-0.0)[0, 0])
        assert not np.signbit(difference(x, cval=0)[0, 0])
        assert difference(x, cval=1)[0, 0] == difference(x, cval=True)[0, 0] == 1


@pytest.mark.parametrize("shape", [(8, 9), (400, 300)])
def test_an_overlapping_out_is_seen_each_time(shape):
    wanted = difference(image(*shape))
    for _ in range(3):
        x = image(*shape)
        np.testing.assert_array_equal(difference(x, out=x), wanted)
    x, out = image(*shape), np.empty(shape)
    difference(x, out=out)
    difference(x, out=out)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        difference(x, out=out)


def test_mistakes_are_found_after_calls_that_went_well():
    x = image(8, 9)
    for _ in range(2):
        difference(x, threads=1)
        difference(x, 1)
    with pytest.raises(TypeError):
        difference(x, threads=True)
    with pytest.raises(ValueError, match="does not fit into int64"):
        difference(x, 2**63)
    with pytest.raises(ValueError, match="boundary"):
        difference(x, boundary="no such rule")
    with pytest.raises(TypeError):
        difference(x, 1, 2)


def test_memory_that_looks_alike():
    raw = np.zeros(8 * 72 + 1, "uint8")
    odd, even = raw[1:].view("float64").reshape(8, 9), raw[:-1].view("float64").reshape(8, 9)
    foreign = image(8, 9).astype(image(8, 9).dtype.newbyteorder())
    for _ in range(2):
        even[...] = image(8, 9)
        np.testing.assert_array_equal(difference(even), difference(image(8, 9)))
        odd[...] = image(8, 9)
        np.testing.assert_array_equal(difference(odd), difference(image(8, 9)))
        np.testing.assert_array_equal(difference(foreign), difference(image(8, 9)))


def test_few_calls_are_remembered():
    x = image(4, 5)
    for cval in range(1000):
        assert difference(x, cval=cval)[0, 0] == cval
    assert len(difference._prepared) <= 256
