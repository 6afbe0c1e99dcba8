"""Positions on a GPU are those in the whole array, however a call gets there."""

from __future__ import annotations

import dask.array as da
import numpy as np

import ninepoint as npt

X = np.random.default_rng(0).integers(0, 99, (25, 41)).astype("uint8")


@npt.stencil(boundary="nearest")
def parity(x, a=3):
    i, j = npt.index(x)
    if (i + j) % 2 == 0:
        return x[0, 0]
    return (x[-1, 0] + x[1, 0]) // 2 if i % 2 else (x[0, 1] + a * npt.index()[1]) % 50


@npt.stencil(boundary="wrap")
def heat(u, r):
    i, j = npt.index(u)
    return u[0, 0] + r * (u[-1, 0] - 2 * u[0, 0] + u[1, 0]) + (i * 3 + j) % 2


def chunks_there(cupy, x):
    return da.from_array(x, chunks=(12, 20)).map_blocks(cupy.asarray)


def test_positions_are_those_in_the_whole_array(cupy):
    wanted, stack = parity(X), np.stack([X[::-1], X])
    ways = {
        "there": lambda: parity(cupy.asarray(X)).get(),
        "again": lambda: parity(cupy.asarray(X)).get(),
        "stack": lambda: parity(cupy.asarray(stack)).get()[1],
        "axes": lambda: parity(X.T, axes=(1, 0), device="cuda").T,
        "chunks": lambda: parity(chunks_there(cupy, X)).map_blocks(cupy.asnumpy).compute(),
    }
    for name, way in ways.items():
        made = way()
        assert made.dtype == wanted.dtype, name
        np.testing.assert_array_equal(made, wanted, err_msg=name)
    # Less room than one array takes: a piece at a time.
    cupy.fake.room = cupy.fake.used + 4_000
    cupy.fake.log.clear()
    np.testing.assert_array_equal(parity(stack, device="cuda")[1], wanted)
    assert cupy.fake.log.count("upload") > 3


def test_steps(cupy):
    u = np.random.default_rng(1).random((40, 30))
    wanted = heat.iterate(u, 0.1, steps=3)
    there = heat.iterate(cupy.asarray(u), 0.1, steps=3).get()
    np.testing.assert_array_equal(there, wanted)
    sent = heat.iterate(u, lambda step: 0.1, steps=3, device="cuda")
    np.testing.assert_array_equal(sent, wanted)


@npt.stencil(boundary="constant", cval=0.5)
def moment(x):
    i, j = npt.index(x)
    return x[0, 1] * (i + j)


def test_a_fractional_constant_is_none_of_positions(cupy):
    x = X.astype("float32")
    np.testing.assert_array_equal(moment(cupy.asarray(x)).get(), moment(x))
