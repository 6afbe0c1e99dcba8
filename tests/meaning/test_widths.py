"""Rows are right whatever their width."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import ninepoint as npt
from nightly import only

WIDTHS = [3, 4, 7, 33, 35, 36, 42, 65, 66, 67, 68, 76, 77, 99, 129, 130, 131, 195, 447]


def median(x):
    return int(np.median(x[-1:2, -1:2]))


def median_of_floats(x):
    return np.median(x[-1:2, -1:2])


def plainly(x):
    windows = sliding_window_view(x, (3, 3)).reshape(x.shape[0] - 2, x.shape[1] - 2, 9)
    return np.sort(windows, axis=-1)[..., 4].astype(x.dtype)


def image(width, dtype):
    return np.random.default_rng(width).integers(0, 99, (9, width)).astype(dtype)


@pytest.mark.parametrize("dtype", only(1, ["int16", "uint8", "float32"]))
def test_every_width(dtype):
    function = median_of_floats if dtype == "float32" else median
    stencil = npt.stencil(dtype=dtype, boundary="valid")(function)
    for width in WIDTHS:
        x = image(width, dtype)
        np.testing.assert_array_equal(stencil(x), plainly(x), err_msg=str(width))


def test_a_result_that_goes_over_its_field():
    stencil = npt.stencil(dtype="uint8", boundary="nearest")(median)
    for width in WIDTHS:
        x = image(width, "uint8")
        expected = stencil(x)
        stencil(x, out=x)
        np.testing.assert_array_equal(x, expected, err_msg=str(width))


def test_steps_done_together():
    stencil = npt.stencil(dtype="uint8", boundary="nearest", schedule=npt.Schedule(steps=3))(
        median
    )
    for width in WIDTHS:
        x = image(width, "uint8")
        expected = stencil(stencil(stencil(x)))
        np.testing.assert_array_equal(stencil.iterate(x, steps=3), expected, err_msg=str(width))


def least_of_itself(x):
    total = x[0, 0] * 0.5
    for _ in range(40):
        total = (total + 1.5) * total - x[0, 0]
    return total


def test_points_that_need_no_neighbour_go_over_their_field():
    stencil = npt.stencil(dtype="float32")(least_of_itself)
    for width in WIDTHS:
        x = image(width, "float32") / np.float32(100)
        expected = stencil(x)
        stencil(x, out=x)
        np.testing.assert_array_equal(x, expected, err_msg=str(width))
