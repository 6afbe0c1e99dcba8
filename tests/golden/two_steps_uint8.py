"""2 steps of life: written by ninepoint; changes made here are lost."""

import numpy as np

from ninepoint.backends.support import (
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
def xc_row(x_0, o0, n):
    for j in range(n):
        xc = x_0[j]
        o0[j] = xc


@row_function(noalias=True)
def v0s0_row(xc__0, xc__1, xc__2, o0, n):
    for j in range(n):
        v0_0s0_ = xc__0[j]
        v0_1s0_ = xc__1[j]
        v0_2s0_ = xc__2[j]
        v0_3s0_ = u16(u16(v0_0s0_) + u16(v0_1s0_))
        v0_4s0_ = u16(v0_3s0_ + u16(v0_2s0_))
        o0[j] = v0_4s0_


@row_function()
def x0_row(xc__0, v0s0__1, o0, n):
    for j in range(n):
        t0s0_ = v0s0__1[j]
        t1s0_ = v0s0__1[j + 1]
        t2s0_ = v0s0__1[j + 2]
        t3s0_ = u16(t0s0_ + t1s0_)
        t4s0_ = u16(t3s0_ + t2s0_)
        t5s0_ = xc__0[j]
        t6s0_ = i16(i16(t4s0_) - i16(t5s0_))
        t7s0_ = t6s0_ == i16(3)
        t8s0_ = t6s0_ == i16(2)
        t9s0_ = t5s0_ != u8(0)
        t10s0_ = t8s0_ & t9s0_
        t11s0_ = t7s0_ | t10s0_
        o0[j] = t11s0_


@row_function(noalias=True)
def v0s1_row(x0__0, x0__1, x0__2, o0, n):
    for j in range(n):
        v0_0s1_ = x0__0[j]
        v0_1s1_ = x0__1[j]
        v0_2s1_ = x0__2[j]
        v0_3s1_ = u8(v0_0s1_ + v0_1s1_)
        v0_4s1_ = u8(v0_3s1_ + v0_2s1_)
        o0[j] = v0_4s1_


@row_function()
def band_row(x0__0, v0s1__1, o0, n):
    for j in range(n):
        t0s1_ = v0s1__1[j]
        t1s1_ = v0s1__1[j + 1]
        t2s1_ = v0s1__1[j + 2]
        t3s1_ = u8(t0s1_ + t1s1_)
        t4s1_ = u8(t3s1_ + t2s1_)
        t5s1_ = x0__0[j]
        t6s1_ = i8(i8(t4s1_) - i8(t5s1_))
        t7s1_ = t6s1_ == i8(3)
        t8s1_ = t6s1_ == i8(2)
        t9s1_ = t5s1_ != u8(0)
        t10s1_ = t8s1_ & t9s1_
        t11s1_ = t7s1_ | t10s1_
        o0[j] = t11s1_


def band(x, out0, ends1, constant0):
    n1 = out0.shape[2]
    before1 = 1 if ends1[0] == 0 else 0
    after1 = 1 if ends1[1] == 0 else 0
    ended1 = before1 + after1 < 2
    xc_ = aligned((3, padded(n1 + 66, 1)), np.uint8)
    v0s0_ = aligned((1, padded(n1 + 66, 2)), np.uint16)
    x0_ = aligned((3, padded(n1 + 66, 1)), np.uint8)
    v0s1_ = aligned((1, padded(n1 + 66, 1)), np.uint8)
    for b in range(out0.shape[0]):
        for i in range(-4, out0.shape[1]):
            xc_row(row_from(x, (b, i + 4), 0), row_from(xc_, ((i + 4) % 3,), -2 * before1 + 64), n1 + 2 * after1 + 2 * before1)
            if ended1:
                beyond_ends(row(xc_, ((i + 4) % 3,)), 64, n1, ends1, 1, 1, constant0[0])
            if i >= -2:
                v0s0_row(row_from(xc_, ((i + 2) % 3,), -before1 + 63), row_from(xc_, ((i + 3) % 3,), -before1 + 63), row_from(xc_, ((i + 4) % 3,), -before1 + 63), row_from(v0s0_, (0,), -before1 + 63), n1 + after1 + before1 + 2)
            if i >= -2:
                x0_row(row_from(xc_, ((i + 3) % 3,), -before1 + 64), row_from(v0s0_, (0,), -before1 + 63), row_from(x0_, ((i + 2) % 3,), -before1 + 64), n1 + after1 + before1)
                if ended1:
                    absent_ends(row(x0_, ((i + 2) % 3,)), 64, n1, ends1, 1, 1, row(xc_, ((i + 3) % 3,)), 64, constant0[0])
                if ended1:
                    beyond_ends(row(x0_, ((i + 2) % 3,)), 64, n1, ends1, 1, 1, constant0[0])
            if i >= 0:
                v0s1_row(row_from(x0_, (i % 3,), 63), row_from(x0_, ((i + 1) % 3,), 63), row_from(x0_, ((i + 2) % 3,), 63), row_from(v0s1_, (0,), 63), n1 + 2)
            if i >= 0:
                band_row(row_from(x0_, ((i + 1) % 3,), 64), row_from(v0s1_, (0,), 63), row(out0, (b, i)), n1)
                if ended1:
                    absent_ends(row(out0, (b, i)), 0, n1, ends1, 1, 1, row(x0_, ((i + 1) % 3,)), 64, constant0[0])
