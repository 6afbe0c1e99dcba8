"""Kernels of the tests of arrays in chunks, and what these tests ask again and again."""

import dask
import numpy as np

import ninepoint as npt
from compared import each


@npt.stencil(boundary="nearest")
def mean(x):
    """The mean of a point and its four neighbours, in whole numbers."""
    return (x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1] + x[0, 0]) // 5


@npt.stencil(boundary="wrap")
def far(x, y):
    """A look to one side, and two results."""
    return x[-3, 0] + y[0, 2], x[0, 1] - y[0, 0]


near = npt.stencil(lambda x: x[-1, -1] + 2 * x[1, 1] - x[0, 0])


def image(*shape):
    return np.random.default_rng(1).integers(0, 999, shape)


def equal(lazy, wanted):
    """Compare results of a call on Dask, or one, with the same on NumPy."""
    computed = dask.compute(*each(lazy), scheduler="sync")
    for one, now, other in zip(each(lazy), computed, each(wanted), strict=True):
        np.testing.assert_array_equal(now, other)
        assert one.dtype == now.dtype == other.dtype


def tasks_of(*arrays):
    """The tasks, as a scheduler sees them."""
    tasks = {}
    for one in dask.optimize(*arrays):
        tasks |= dict(one.__dask_graph__())
    return tasks
