"""gaussian: written by ninepoint; changes made here are lost."""

import numpy as np

from ninepoint.backends.numba.support import (
    row,
    row_function,
    padded,
    f32,
    f64,
)


@row_function(noalias=True)
def v0_row(x_0, x_1, x_2, x_3, x_4, o0, n):
    for j in range(n):
        v0_0 = x_0[j]
        v0_1 = f64(v0_0)
        v0_2 = x_1[j]
        v0_3 = f64(v0_2)
        v0_4 = x_2[j]
        v0_5 = f64(v0_4)
        v0_6 = x_3[j]
        v0_7 = f64(v0_6)
        v0_8 = x_4[j]
        v0_9 = f64(v0_8)
        v0_10 = v0_1 + v0_9
        v0_11 = v0_10 * 0.16666666666666666
        v0_12 = v0_3 + v0_7
        v0_13 = v0_12 * 0.6666666666666666
        v0_14 = v0_11 + v0_13
        v0_15 = v0_14 + v0_5
        o0[j] = v0_15


@row_function()
def band_row(v0_0, o0, n):
    for j in range(n):
        t0 = v0_0[j]
        t1 = v0_0[j + 1]
        t2 = v0_0[j + 2]
        t3 = v0_0[j + 3]
        t4 = v0_0[j + 4]
        t5 = t0 + t4
        t6 = t5 * 0.0234375
        t7 = t1 + t3
        t8 = t7 * 0.09375
        t9 = t2 * 0.140625
        t10 = t6 + t8
        t11 = t10 + t9
        t12 = f32(t11)
        o0[j] = t12


@row_function(noalias=True)
def v0_rows(x_0, x_1, x_2, x_3, x_4, x_5, x_6, o0, o1, o2, n):
    for j in range(n):
        v0_r0 = x_0[j]
        v0_r1 = f64(v0_r0)
        v0_r2 = x_1[j]
        v0_r3 = f64(v0_r2)
        v0_r4 = x_2[j]
        v0_r5 = f64(v0_r4)
        v0_r6 = x_3[j]
        v0_r7 = f64(v0_r6)
        v0_r8 = x_4[j]
        v0_r9 = f64(v0_r8)
        v0_r10 = v0_r1 + v0_r9
        v0_r11 = v0_r10 * 0.16666666666666666
        v0_r12 = v0_r3 + v0_r7
        v0_r13 = v0_r12 * 0.6666666666666666
        v0_r14 = v0_r11 + v0_r13
        v0_r15 = v0_r14 + v0_r5
        v0_r16 = x_5[j]
        v0_r17 = f64(v0_r16)
        v0_r18 = v0_r3 + v0_r17
        v0_r19 = v0_r18 * 0.16666666666666666
        v0_r20 = v0_r5 + v0_r9
        v0_r21 = v0_r20 * 0.6666666666666666
        v0_r22 = v0_r19 + v0_r21
        v0_r23 = v0_r22 + v0_r7
        v0_r24 = x_6[j]
        v0_r25 = f64(v0_r24)
        v0_r26 = v0_r5 + v0_r25
        v0_r27 = v0_r26 * 0.16666666666666666
        v0_r28 = v0_r7 + v0_r17
        v0_r29 = v0_r28 * 0.6666666666666666
        v0_r30 = v0_r27 + v0_r29
        v0_r31 = v0_r30 + v0_r9
        o0[j] = v0_r15
        o1[j] = v0_r23
        o2[j] = v0_r31


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    v0 = np.empty((3, padded(n + 4, 8)), dtype=np.float64)
    for b in range(out0.shape[0]):
        many = out0.shape[1] // 3 * 3
        for i in range(0, many, 3):
            v0_rows(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(x, (b, i + 3)), row(x, (b, i + 4)), row(x, (b, i + 5)), row(x, (b, i + 6)), row(v0, (i % 3,)), row(v0, ((i + 1) % 3,)), row(v0, ((i + 2) % 3,)), n + 4)
            band_row(row(v0, (i % 3,)), row(out0, (b, i)), n)
            band_row(row(v0, ((i + 1) % 3,)), row(out0, (b, i + 1)), n)
            band_row(row(v0, ((i + 2) % 3,)), row(out0, (b, i + 2)), n)
        for i in range(many, out0.shape[1]):
            v0_row(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(x, (b, i + 3)), row(x, (b, i + 4)), row(v0, (i % 3,)), n + 4)
            band_row(row(v0, (i % 3,)), row(out0, (b, i)), n)
