"""Kernels and arrays of these tests."""

import numpy as np

import ninepoint as npt

RNG = np.random.default_rng(0)
X = RNG.random((4, 20, 33)).astype("float32")
ROW = RNG.random(33).astype("float32")


@npt.stencil(boundary="nearest")
def between(x, y):
    return x[-1, 1] - y[0, 2] * x[1, 0]


@npt.stencil(boundary="valid")
def inner(x):
    return x[-1, 1] - x[1, -2]


@npt.stencil(boundary="nearest")
def two(x, r=0.5):
    s = between(x, x)
    return s[0, 0] + r * x[1, 1], s[0, 1] > 0.5


@npt.stencil(boundary="wrap")
def turn(x):
    return x[-2, 1] - x[1, 0]


@npt.stencil(boundary="keep")
def heat(u, r):
    return u[0, 0] + r * (u[-1, 0] + u[1, 0] - 2 * u[0, 0])


@npt.stencil(boundary="nearest")
def twice(u, r):
    s = heat(u, r)
    return s[0, 1] - r * s[-1, 0]


@npt.stencil(boundary="nearest")
def striped(x):
    s = inner(x)
    return s[-1, 1] if npt.index(s)[1] % 2 else s[1, 0]


@npt.stencil(boundary="constant", cval=0.5)
def moment(x):
    i, j = npt.index(x)
    return x[0, 1] * (i + j)


@npt.ufunc
def over(x, y, *, gain=1.0):
    return gain * (x - y) if x > y else x
