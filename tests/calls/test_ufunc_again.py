"""Calls of functions of numbers that come again: as the first of them, whatever comes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ninepoint as npt


@npt.ufunc
def mixed(x, y, *, scale=2.0):
    return scale * x + y * y


@npt.ufunc
def both(x, y):
    return x + y, x < y


def test_arrays_of_any_strides():
    rng = np.random.default_rng(2)
    base = rng.random((40, 60))
    mixed(base, base)
    views = [base, base[::-1], base[:, ::-1], base[::2, ::3], base.T, base[:1], base[:, :1]]
    for x in views:
        for y in (
            *views,
            np.broadcast_to(base[0], base.shape),
            np.broadcast_to(base[:, :1], base.shape),
        ):
            if x.shape != y.shape:
                continue
            expected = 2.0 * x + y * y
            for _ in range(2):
                np.testing.assert_array_equal(mixed(x, y), expected)
                out = np.full(x.shape[::-1], np.nan).T
                assert mixed(x, y, out=out) is out
                np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("step", [1, 2, -1, 3000])
def test_results_over_fields(step):
    for _ in range(3):
        x = np.arange(10_000.0)
        y = x.copy()
        mixed(x, y)
        expected = 2.0 * x + y * y
        assert mixed(x, y, out=x) is x
        np.testing.assert_array_equal(x, expected)
        memory = np.arange(10_000.0 + abs(step))
        field, out = memory[: -abs(step)], memory[abs(step) :]
        if step < 0:
            field, out = out, field
        expected = 2.0 * field + y * y
        mixed(field, y, out=out)
        np.testing.assert_array_equal(out, expected)
        memory = np.arange(20_000.0)
        expected = 2.0 * memory[::2] + y * y
        mixed(memory[::2], y, out=memory[10_000:])
        np.testing.assert_array_equal(memory[10_000:], expected)


def test_numbers_in_the_place_of_fields():
    x = np.arange(6, dtype="float32")
    for value in (2, 2.5, np.float32(1.5), 1j):
        for _ in range(3):
            found, expected = mixed(x, value), mixed.debug(x, value)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(mixed(value, x), mixed.debug(value, x))
    with pytest.raises(ValueError, match="does not fit"):
        mixed(x, 2**70)
    np.testing.assert_array_equal(mixed(x, np.array(2.0)), mixed.debug(x, np.array(2.0)))
    np.testing.assert_array_equal(mixed(x, x), mixed.debug(x, x))


def test_what_comes_between():
    x, y = np.arange(4.0), np.ones(4)
    for _ in range(3):
        assert [one.dtype.kind for one in both(x, y)] == ["f", "b"]
        assert mixed(x, y).shape == (4,)
        assert mixed(x[:, None], y).shape == (4, 4)
        assert mixed(x.astype("int8"), y).dtype == mixed.debug(x.astype("int8"), y).dtype
        np.testing.assert_array_equal(mixed(x.astype(">f8"), y), mixed(x, y))
        np.testing.assert_array_equal(mixed(x, y, dtype="float32"), mixed(x, y))
        with pytest.raises(ValueError, match="do not broadcast"):
            mixed(x, np.ones(3))
        with pytest.raises(TypeError, match="out has dtype"):
            mixed(x, y, out=np.empty(4, int))
        fixed = np.empty(4)
        fixed.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            mixed(x, y, out=fixed)
        narrow = np.empty(4, "float32")
        assert mixed(x, y, out=narrow) is narrow
        np.testing.assert_array_equal(narrow, mixed(x, y))


def test_floats_give_no_warnings():
    @npt.ufunc
    def quotient(x, y):
        return x / y

    x = np.array([0.0, 1.0, 1e308])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for _ in range(3):
            found = quotient(x, np.array([0.0, 0.0, 1e-308]))
    assert np.isnan(found[0])
    assert np.isinf(found[1:]).all()


def test_looks_at_calls_with_numbers():
    x = np.arange(100.0)
    assert "100 float64" in str(mixed.bench(x, 2.0, repeat=3))
    assert "100 float64" in str(mixed.bench(2.0, x, repeat=3, threads=1, scale=3.0))
    assert mixed.tune(x, 2.0, seconds=0.0) is not None
    with pytest.raises(TypeError, match="measures arrays of NumPy"):
        mixed.bench(1.0, 2.0)
    with pytest.raises(TypeError, match="needs a value for 'y'"):
        mixed.bench(x)


def test_chunks_of_unknown_size():
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(3)
    known = rng.random((20, 4)) - 0.5
    x = da.from_array(known, chunks=(6, 4))
    some, wanted = x[x[:, 0] > 0], known[known[:, 0] > 0]
    for other, values in ((some, wanted), (2.0, 2.0), (np.arange(4.0), np.arange(4.0))):
        lazy = mixed(some, other, scale=3.0)
        assert lazy.dtype == np.float64
        np.testing.assert_array_equal(lazy.compute(), 3.0 * wanted + values * np.ones(4) * values)
    total, less = both(some, some * 2)
    assert (total.dtype, less.dtype) == (np.float64, np.bool_)
    np.testing.assert_array_equal(total.compute(), wanted * 3)
    np.testing.assert_array_equal(less.compute(), wanted < wanted * 2)
    assert mixed(some, some, dtype="float32").compute().dtype == np.float32
    with pytest.raises(ValueError, match=r"call .compute_chunk_sizes\(\) on it first"):
        mixed(x[x > 0], 2.0)
