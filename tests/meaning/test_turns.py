"""Several rows are made in a turn, which changes no result."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import ninepoint as npt
from nightly import only


def total(x):
    return x[-1:2, -1:2].sum()


def greatest(x):
    return x[-1:2, -1:2].max()


def cross(x):
    return abs(2 * x[0, 0] - x[-1, 0] - x[1, 0]) + abs(2 * x[0, 0] - x[0, -1] - x[0, 1])


def plain_cross(x):
    x = x.astype("int64")
    middle = 2 * x[..., 1:-1, 1:-1]
    down = middle - x[..., :-2, 1:-1] - x[..., 2:, 1:-1]
    return abs(down) + abs(middle - x[..., 1:-1, :-2] - x[..., 1:-1, 2:])


def windows(x):
    return sliding_window_view(x.astype("int64"), (3, 3), axis=(-2, -1))


PLAINLY = {
    total: lambda x: windows(x).sum(axis=(-2, -1)),
    greatest: lambda x: windows(x).max(axis=(-2, -1)),
    cross: plain_cross,
}

# In cache and beyond, narrower and wider than what makes a difference, heights that three rows
# at once leave no row of, or one or two.
SHAPES = [
    (3, 3), (5, 40), (11, 90), (13, 700), (300, 40, 200), (20, 400, 300), (420, 3001), (300, 4096),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "dtype"),
    only(2, [(total, "uint8"), (total, "int16"), (greatest, "float32"), (cross, "uint8")]),
)
def test_arrays_of_all_kinds(function, dtype):
    stencil = npt.stencil(boundary="valid")(function)
    for shape in SHAPES:
        x = np.random.default_rng(len(shape)).integers(0, 99, shape).astype(dtype)
        wanted = PLAINLY[function](x)
        np.testing.assert_array_equal(stencil(x, threads=1), wanted, err_msg=str(shape))
        apart = np.zeros((*shape[:-1], shape[-1] + 7), dtype)
        apart[..., 3 : 3 + shape[-1]] = x
        one = stencil(apart[..., 3 : 3 + shape[-1]], threads=2)
        np.testing.assert_array_equal(one, wanted, err_msg=str(shape))


def test_rows_of_stages_that_roll_are_not_made_anew():
    def rolling(x):
        return x[-1:2, -1:2].sum() + x[-7:8, -7:8].max()

    assert "many" not in npt.stencil(rolling).source("uint8")
