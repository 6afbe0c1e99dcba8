"""tall_mean: written by ninepoint; changes made here are lost."""

import numpy as np

from ninepoint.backends.llvm.library import (
    row,
    row_function,
    padded,
    u8,
    u16,
)


@row_function()
def v0_add(x_0, o0, n):
    for j in range(n):
        v0 = o0[j]
        v0_0 = x_0[j]
        v0_in = u16(v0 + u16(v0_0))
        o0[j] = v0_in


@row_function()
def v0_move(x_0, x_1, o0, n):
    for j in range(n):
        v0 = o0[j]
        v0_0 = x_1[j]
        v0_0_out = x_0[j]
        v0_in = u16(v0 + u16(v0_0))
        v0_next = u16(v0_in - u16(v0_0_out))
        o0[j] = v0_next


@row_function()
def band_row(v0_0, o0, n):
    for j in range(n):
        t0 = v0_0[j]
        t1 = v0_0[j + 1]
        t2 = v0_0[j + 2]
        t3 = u16(t0 + t1)
        t4 = u16(t3 + t2)
        n7 = u16(t4 + u16(46))
        n8 = u8(u16(n7 // u16(93)))
        t9 = n8
        o0[j] = t9


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    v0 = np.empty((1, padded(n + 2, 2)), dtype=np.uint16)
    for b in range(out0.shape[0]):
        for i in range(-30, out0.shape[1]):
            if i == -30:
                v0[:] = 0
            if -30 <= i <= 0:
                v0_add(row(x, (b, i + 30)), row(v0, (0,)), n + 2)
            elif i > 0:
                v0_move(row(x, (b, i - 1)), row(x, (b, i + 30)), row(v0, (0,)), n + 2)
            if i >= 0:
                band_row(row(v0, (0,)), row(out0, (b, i)), n)
