"""Keys of Dask: equal calls have equal ones, and calls that mean anything else have others."""

from __future__ import annotations

import numpy as np
import pytest

import ninepoint as npt

da = pytest.importorskip("dask.array")


def made(step: int = 1, extra: float = 0.5, weights: tuple[int, ...] = (1, 2, 1)) -> npt.Stencil:
    constant = np.array(weights)

    @npt.stencil
    def kernel(x, gain=1):
        return (x[-1:2] * constant).sum() * gain + x[step] + extra

    return kernel


CALLS = {
    "plain": lambda x: made()(x),
    "step": lambda x: made(step=2)(x),
    "int": lambda x: made(extra=1)(x),
    "float": lambda x: made(extra=1.0)(x),
    "zero": lambda x: made(extra=0.0)(x),
    "minus zero": lambda x: made(extra=-0.0)(x),
    "weights": lambda x: made(weights=(1, 2, 3))(x),
    "gain": lambda x: made()(x, 2),
    "gain, bool": lambda x: made()(x, True),
    "gain, float": lambda x: made()(x, 2.0),
    "gain, float32": lambda x: made()(x, np.float32(2)),
    "boundary": lambda x: made()(x, boundary="wrap"),
    "sides": lambda x: made()(x, boundary=(("fill", "nearest"),)),
    "cval": lambda x: made()(x, cval=1),
    "nan": lambda x: made()(x, cval=np.nan),
    "dtype": lambda x: made()(x, dtype="float32"),
    "wrap": lambda x: made()(x, dtype="int8", overflow="wrap"),
    "saturate": lambda x: made()(x, dtype="int8", overflow="saturate"),
    "fastmath": lambda x: npt.stencil(fastmath=True)(made().__wrapped__)(x),
    "chunks": lambda x: made()(x.rechunk(4)),
    "field": lambda x: made()(x.astype("float32")),
}


def test_equal_calls_have_equal_keys_and_others_do_not():
    x = da.zeros(12, chunks=5)
    names = {what: call(x).name for what, call in CALLS.items()}
    assert len(set(names.values())) == len(names)
    assert names == {what: call(x).name for what, call in CALLS.items()}


def test_arrays_of_coefficients_are_part_of_the_key():
    @npt.stencil(standard_indexing=("w",))
    def weighted(x, w):
        return w[0] * x[0, -1] + w[1] * x[0, 0] + w[2] * x[0, 1]

    x = da.zeros((6, 6), chunks=3)
    w = np.array([1.0, 2.0, 3.0])
    name = weighted(x, w).name
    assert weighted(x, w.copy()).name == name
    assert weighted(x, np.array([1.0, 0, 2.0, 0, 3.0])[::2]).name == name
    assert weighted(x, w + 1).name != name
    assert weighted(x, w.astype("float32")).name != name
