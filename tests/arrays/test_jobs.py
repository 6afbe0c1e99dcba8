"""Programs with many coefficients: every task but one is short, whatever is asked for."""

from __future__ import annotations

import pickle

import dask.array as da
import numpy as np
import pytest

import ninepoint as npt


@npt.stencil(standard_indexing="w", boundary="mirror")
def weighed(x, w):
    return x[-1, 0] * w[0] + x[0, 1] * w[999], x[0, 0] * w[1]


@pytest.mark.parametrize("chunks", [(2, 20, 30), (2, 7, 9)])
def test_coefficients_are_a_node_of_their_own(chunks: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random((5, 20, 30), dtype="float32")
    w = np.random.default_rng(1).random(1000)
    wanted = weighed(x, w)
    lazy = weighed(da.from_array(x, chunks=chunks), w)
    for one, other in zip(lazy, wanted, strict=True):
        np.testing.assert_array_equal(one.compute(scheduler="sync"), other)
        np.testing.assert_array_equal(one[1:3, :5].compute(scheduler="sync"), other[1:3, :5])
    total = (lazy[0] + lazy[1])[:, 3:12]
    graph = total.__dask_graph__()
    sizes = [len(pickle.dumps(task)) for task in dict(graph).values()]
    assert sum(size > w.nbytes for size in sizes) == 1
    np.testing.assert_array_equal(
        total.compute(scheduler="sync"), (wanted[0] + wanted[1])[:, 3:12]
    )
