"""2 steps of life: written by ninepoint; changes made here are lost."""

import numpy as np

from ninepoint.backends.numba.support import (
    row,
    row_function,
    padded,
    i8,
    i16,
    u8,
    u16,
    row_from,
    aligned,
    absent_ends,
    beyond_ends,
)


@row_function(noalias=True)
def x_c0_row(x_0, o0, n):
    for j in range(n):
        x_c0_1 = x_0[j]
        o0[j] = x_c0_1


@row_function(noalias=True)
def v0_s0_row(x_c0_0, x_c0_1, x_c0_2, o0, n):
    for j in range(n):
        v0_0_s0 = x_c0_0[j]
        v0_1_s0 = x_c0_1[j]
        v0_2_s0 = x_c0_2[j]
        v0_3_s0 = u16(u16(v0_0_s0) + u16(v0_1_s0))
        v0_4_s0 = u16(v0_3_s0 + u16(v0_2_s0))
        o0[j] = v0_4_s0


@row_function()
def x_0_row(x_c0_0, v0_s0_1, o0, n):
    for j in range(n):
        t0_s0 = v0_s0_1[j]
        t1_s0 = v0_s0_1[j + 1]
        t2_s0 = v0_s0_1[j + 2]
        t3_s0 = u16(t0_s0 + t1_s0)
        t4_s0 = u16(t3_s0 + t2_s0)
        t5_s0 = x_c0_0[j]
        t6_s0 = i16(i16(t4_s0) - i16(t5_s0))
        t7_s0 = t6_s0 == i16(3)
        t8_s0 = t6_s0 == i16(2)
        t9_s0 = t5_s0 != u8(0)
        t10_s0 = t8_s0 & t9_s0
        t11_s0 = t7_s0 | t10_s0
        o0[j] = t11_s0


@row_function(noalias=True)
def v0_s1_row(x_0_0, x_0_1, x_0_2, o0, n):
    for j in range(n):
        v0_0_s1 = x_0_0[j]
        v0_1_s1 = x_0_1[j]
        v0_2_s1 = x_0_2[j]
        v0_3_s1 = u8(v0_0_s1 + v0_1_s1)
        v0_4_s1 = u8(v0_3_s1 + v0_2_s1)
        o0[j] = v0_4_s1


@row_function()
def band_row(x_0_0, v0_s1_1, o0, n):
    for j in range(n):
        t0_s1 = v0_s1_1[j]
        t1_s1 = v0_s1_1[j + 1]
        t2_s1 = v0_s1_1[j + 2]
        t3_s1 = u8(t0_s1 + t1_s1)
        t4_s1 = u8(t3_s1 + t2_s1)
        t5_s1 = x_0_0[j]
        t6_s1 = i8(i8(t4_s1) - i8(t5_s1))
        t7_s1 = t6_s1 == i8(3)
        t8_s1 = t6_s1 == i8(2)
        t9_s1 = t5_s1 != u8(0)
        t10_s1 = t8_s1 & t9_s1
        t11_s1 = t7_s1 | t10_s1
        o0[j] = t11_s1


def band(x, out0, ends1_0, constant0, constant1):
    n1 = out0.shape[2]
    before1 = 1 if ends1_0[0] == 0 else 0
    after1 = 1 if ends1_0[1] == 0 else 0
    ended1 = before1 + after1 < 2
    x_c0 = aligned((3, padded(n1 + 66, 1)), np.uint8)
    v0_s0 = aligned((1, padded(n1 + 66, 2)), np.uint16)
    x_0 = aligned((3, padded(n1 + 66, 1)), np.uint8)
    v0_s1 = aligned((1, padded(n1 + 66, 1)), np.uint8)
    for b in range(out0.shape[0]):
        for i in range(-4, out0.shape[1]):
            x_c0_row(row_from(x, (b, i + 4), 0), row_from(x_c0, ((i + 4) % 3,), -2 * before1 + 64), n1 + 2 * after1 + 2 * before1)
            if ended1:
                beyond_ends(row(x_c0, ((i + 4) % 3,)), 64, n1, ends1_0, 1, 1, constant0[0])
            if i >= -2:
                v0_s0_row(row_from(x_c0, ((i + 2) % 3,), -before1 + 63), row_from(x_c0, ((i + 3) % 3,), -before1 + 63), row_from(x_c0, ((i + 4) % 3,), -before1 + 63), row_from(v0_s0, (0,), -before1 + 63), n1 + after1 + before1 + 2)
            if i >= -2:
                x_0_row(row_from(x_c0, ((i + 3) % 3,), -before1 + 64), row_from(v0_s0, (0,), -before1 + 63), row_from(x_0, ((i + 2) % 3,), -before1 + 64), n1 + after1 + before1)
                if ended1:
                    absent_ends(row(x_0, ((i + 2) % 3,)), 64, n1, ends1_0, 1, 1, row(x_c0, ((i + 3) % 3,)), 64, constant1[0])
                if ended1:
                    beyond_ends(row(x_0, ((i + 2) % 3,)), 64, n1, ends1_0, 1, 1, constant0[0])
            if i >= 0:
                v0_s1_row(row_from(x_0, (i % 3,), 63), row_from(x_0, ((i + 1) % 3,), 63), row_from(x_0, ((i + 2) % 3,), 63), row_from(v0_s1, (0,), 63), n1 + 2)
            if i >= 0:
                band_row(row_from(x_0, ((i + 1) % 3,), 64), row_from(v0_s1, (0,), 63), row(out0, (b, i)), n1)
                if ended1:
                    absent_ends(row(out0, (b, i)), 0, n1, ends1_0, 1, 1, row(x_0, ((i + 1) % 3,)), 64, constant1[0])
