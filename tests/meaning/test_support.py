"""The functions that generated text calls: as exact as they say, at every edge."""

from __future__ import annotations

import numpy as np
import pytest

import ninepoint as npt

EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-300, 1.0, -1.0]


@npt.stencil
def exponential(x):
    return np.exp(x[0])


@pytest.mark.parametrize(
    ("dtype", "low", "high", "edges"),
    [
        ("float32", -104.0, 88.8, [88.72, 88.73, -87.3, -87.4, -103.2, -104.0, -105.0, 89.5]),
        ("float64", -746.0, 709.9, [709.78, 709.79, -708.4, -745.1, -746.0, -747.0, 711.0]),
    ],
)
def test_exponential_within_two_units_in_the_last_place(dtype, low, high, edges):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(low, high, 200_000), rng.uniform(-2, 2, 50_000), EDGES, edges])
    x = x.astype(dtype)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.longdouble))
        rounded = exact.astype(dtype)
        result = exponential(x)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(rounded))
        np.testing.assert_array_equal(np.isinf(result), np.isinf(rounded))
        finite = np.isfinite(rounded)
        units = np.abs(result - exact)[finite] / np.spacing(rounded[finite])
    assert units.max() <= 2


@npt.stencil
def quotient(x, y):
    return x[0] // y[0]


def test_quotients_beyond_64_bits():
    x, y = np.array([1e300, -1e300, 1e20, -1e25, 7.0]), np.array([1e-300, 1e-300, 3.0, 7.0, 2.0])
    with np.errstate(all="ignore"):
        wanted = x // y
    np.testing.assert_array_equal(quotient(x, y), wanted)
