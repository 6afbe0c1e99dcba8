"""What `correlate` gives for integers, whatever type holds the weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ninepoint as npt
from nightly import only

image = np.random.default_rng(5).integers(0, 256, (7, 9), dtype=np.uint8)


@pytest.mark.parametrize(
    ("weights", "dtype"),
    only(
        7,
        itertools.product(
            [[[-1, 0, 1]], [[0, 3, 0]], [[-1], [2], [-1]], [[1, 1, 1]]],
            ["uint8", "int16", "bool", "uint64"],
        ),
    ),
)
def test_whole_weights_are_whole_in_any_dtype(weights, dtype) -> None:
    """[[-1., 0., 1.]] gave uint8, and cut at 0."""
    x = image.astype(dtype)
    made = npt.filters.correlate(x, np.array(weights))
    for kind in ("float32", "float64"):
        same = npt.filters.correlate(x, np.array(weights, kind))
        assert same.dtype == made.dtype
        np.testing.assert_array_equal(same, made)
    wide = x.astype(np.int64)
    np.testing.assert_array_equal(made, npt.filters.correlate(wide, weights))
    assert np.min(weights) >= 0 or made.dtype.kind == "i"


def test_negative_fractions_make_floats() -> None:
    weights = np.array([[-1, 0, 1]]) / 2
    made = npt.filters.correlate(image, weights)
    assert made.dtype == np.float64
    np.testing.assert_array_equal(made, npt.filters.correlate(image * 1.0, weights))
    held = npt.filters.correlate(image, weights, dtype="int16")
    np.testing.assert_array_equal(held, np.rint(made))


def test_lost_fractions_are_told() -> None:
    weights = [[0.25, 0.5, 0.25]]
    with pytest.warns(npt.RoundingWarning, match=r"weight is 0\.25.*rounded to uint8.*dtype="):
        rounded = npt.filters.correlate(image, weights)
    np.testing.assert_array_equal(rounded, npt.filters.correlate(image, weights, dtype="uint8"))
    exact = npt.filters.correlate(image, weights, dtype="float64")
    np.testing.assert_array_equal(rounded, np.rint(exact))
    assert npt.filters.correlate(image > 9, weights).dtype == np.float64
    assert npt.filters.correlate(image.astype("float32"), weights).dtype == np.float32


def test_a_deviation_of_integers_is_a_float() -> None:
    """17.92 was 18, and 0.4 nothing."""
    for dtype, made in (("uint8", "float64"), ("bool", "float64"), ("float32", "float32")):
        x = (image % 3).astype(dtype)
        found = npt.filters.local_std(x, 3, min_count=2)
        assert found.dtype == made
        np.testing.assert_array_equal(found, npt.filters.local_std(x, 3))
        assert found[3, 4] == pytest.approx(x[2:5, 3:6].std(), rel=1e-6)
    assert npt.filters.local_std(image, 3, dtype="uint8").dtype == np.uint8
