"""The lengths of the whole array, in kernels on a GPU."""

from __future__ import annotations

import numpy as np

import ninepoint as npt


@npt.stencil(boundary="nearest")
def scaled(x):
    return x[0, 1] * len(x) + x.shape[1]


def test_a_kernel_that_asks_for_lengths(cupy):
    x = np.random.default_rng(0).random((5, 9, 11))
    there = cupy.asarray(x)
    for _ in range(2):
        np.testing.assert_array_equal(scaled(there).get(), scaled(x))
        made = scaled(there, axes=(0, 2)).get()
        np.testing.assert_array_equal(made, scaled(x, axes=(0, 2)))
    np.testing.assert_array_equal(scaled(there[:, :4]).get(), scaled(x[:, :4]))
