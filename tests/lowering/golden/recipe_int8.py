"""recipe: written by ninepoint; changes made here are lost."""

import numpy as np

from ninepoint.backends.numba.support import (
    row,
    row_function,
    padded,
    i8,
    i16,
    i32,
    u16,
    u32,
)


@row_function(noalias=True)
def v0_row(x_0, x_1, x_2, o0, n):
    for j in range(n):
        v0_0 = x_0[j]
        v0_1 = x_1[j]
        v0_2 = x_2[j]
        v0_3 = i16(i16(v0_0) + i16(v0_1))
        v0_4 = i16(v0_3 + i16(v0_2))
        o0[j] = v0_4


@row_function()
def band_row(v0_0, o0, n):
    for j in range(n):
        t0 = v0_0[j]
        t1 = v0_0[j + 1]
        t2 = v0_0[j + 2]
        t3 = i16(t0 + t1)
        t4 = i16(t3 + t2)
        t5 = i8(i32(u16(u32(u32(u16(t4 + i32(1152))) * u32(7282)) >> u32(16))) - i32(128))
        o0[j] = t5


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    v0 = np.empty((1, padded(n + 2, 2)), dtype=np.int16)
    for b in range(out0.shape[0]):
        for i in range(out0.shape[1]):
            v0_row(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(v0, (0,)), n + 2)
            band_row(row(v0, (0,)), row(out0, (b, i)), n)
