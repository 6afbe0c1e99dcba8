"""3 steps of spreading: written by ninepoint; changes made here are lost."""

import numpy as np

from ninepoint.backends.support import (
    row,
    row_function,
    padded,
    f32,
    row_from,
    aligned,
    absent_ends,
    beyond_ends,
    absent_row,
    beyond_rows,
)


@row_function(noalias=True)
def uc_row(u_0, o0, n):
    for j in range(n):
        uc = u_0[j]
        o0[j] = uc


@row_function()
def u0_row(uc__0, uc__1, uc__2, uc__3, uc__4, o0, n):
    for j in range(n):
        t0s0_ = uc__0[j + 1]
        t1s0_ = uc__4[j + 1]
        t2s0_ = t0s0_ + t1s0_
        t3s0_ = uc__1[j + 1]
        t4s0_ = t2s0_ + t3s0_
        t5s0_ = uc__3[j + 1]
        t6s0_ = t4s0_ + t5s0_
        t7s0_ = uc__2[j]
        t8s0_ = t6s0_ + t7s0_
        t9s0_ = uc__2[j + 2]
        t10s0_ = t8s0_ + t9s0_
        t11s0_ = uc__2[j + 1]
        t12s0_ = f32(6.0) * t11s0_
        t13s0_ = t10s0_ - t12s0_
        t14s0_ = f32(0.125) * t13s0_
        t15s0_ = t11s0_ + t14s0_
        o0[j] = t15s0_


def band(u, out0, ends1, ends2, constant0):
    n1 = out0.shape[3]
    n2 = out0.shape[2]
    before1 = 1 if ends1[0] == 0 else 0
    after1 = 1 if ends1[1] == 0 else 0
    ended1 = before1 + after1 < 2
    before2 = 1 if ends2[0] == 0 else 0
    after2 = 1 if ends2[1] == 0 else 0
    ended2 = before2 + after2 < 2
    uc_ = aligned((3, out0.shape[2] + 6 | 1, padded(n1 + 19, 4)), np.float32)
    u0_ = aligned((3, out0.shape[2] + 6 | 1, padded(n1 + 19, 4)), np.float32)
    u1_ = aligned((3, out0.shape[2] + 6 | 1, padded(n1 + 19, 4)), np.float32)
    for b in range(out0.shape[0]):
        for i0 in range(-6, out0.shape[1]):
            for i in range(-3 * before2, n2 + 3 * after2):
                uc_row(row_from(u, (b, i0 + 6, i + 3 * before2), 0), row_from(uc_, ((i0 + 6) % 3, i + 3), -3 * before1 + 16), n1 + 3 * after1 + 3 * before1)
                if ended1:
                    beyond_ends(row(uc_, ((i0 + 6) % 3, i + 3)), 16, n1, ends1, 1, 1, constant0[0])
            if ended2:
                beyond_rows(uc_[(i0 + 6) % 3], 3, n2, ends2, 1, 1, constant0[0])
            if i0 >= -4:
                for i in range(-2 * before2, n2 + 2 * after2):
                    u0_row(row_from(uc_, ((i0 + 4) % 3, i + 3), -2 * before1 + 15), row_from(uc_, ((i0 + 5) % 3, i + 2), -2 * before1 + 15), row_from(uc_, ((i0 + 5) % 3, i + 3), -2 * before1 + 15), row_from(uc_, ((i0 + 5) % 3, i + 4), -2 * before1 + 15), row_from(uc_, ((i0 + 6) % 3, i + 3), -2 * before1 + 15), row_from(u0_, ((i0 + 4) % 3, i + 3), -2 * before1 + 16), n1 + 2 * after1 + 2 * before1)
                    if ended1:
                        absent_ends(row(u0_, ((i0 + 4) % 3, i + 3)), 16, n1, ends1, 1, 1, row(uc_, ((i0 + 5) % 3, i + 3)), 16, constant0[0])
                    if ended2:
                        absent_row(row(u0_, ((i0 + 4) % 3, i + 3)), i, n2, ends2, 1, 1, row(uc_, ((i0 + 5) % 3, i + 3)), 0, constant0[0])
                    if ended1:
                        beyond_ends(row(u0_, ((i0 + 4) % 3, i + 3)), 16, n1, ends1, 1, 1, constant0[0])
                if ended2:
                    beyond_rows(u0_[(i0 + 4) % 3], 3, n2, ends2, 1, 1, constant0[0])
            if i0 >= -2:
                for i in range(-before2, n2 + after2):
                    u0_row(row_from(u0_, ((i0 + 2) % 3, i + 3), -before1 + 15), row_from(u0_, ((i0 + 3) % 3, i + 2), -before1 + 15), row_from(u0_, ((i0 + 3) % 3, i + 3), -before1 + 15), row_from(u0_, ((i0 + 3) % 3, i + 4), -before1 + 15), row_from(u0_, ((i0 + 4) % 3, i + 3), -before1 + 15), row_from(u1_, ((i0 + 2) % 3, i + 3), -before1 + 16), n1 + after1 + before1)
                    if ended1:
                        absent_ends(row(u1_, ((i0 + 2) % 3, i + 3)), 16, n1, ends1, 1, 1, row(u0_, ((i0 + 3) % 3, i + 3)), 16, constant0[0])
                    if ended2:
                        absent_row(row(u1_, ((i0 + 2) % 3, i + 3)), i, n2, ends2, 1, 1, row(u0_, ((i0 + 3) % 3, i + 3)), 0, constant0[0])
                    if ended1:
                        beyond_ends(row(u1_, ((i0 + 2) % 3, i + 3)), 16, n1, ends1, 1, 1, constant0[0])
                if ended2:
                    beyond_rows(u1_[(i0 + 2) % 3], 3, n2, ends2, 1, 1, constant0[0])
            if i0 >= 0:
                for i in range(0, n2):
                    u0_row(row_from(u1_, (i0 % 3, i + 3), 15), row_from(u1_, ((i0 + 1) % 3, i + 2), 15), row_from(u1_, ((i0 + 1) % 3, i + 3), 15), row_from(u1_, ((i0 + 1) % 3, i + 4), 15), row_from(u1_, ((i0 + 2) % 3, i + 3), 15), row(out0, (b, i0, i)), n1)
                    if ended1:
                        absent_ends(row(out0, (b, i0, i)), 0, n1, ends1, 1, 1, row(u1_, ((i0 + 1) % 3, i + 3)), 16, constant0[0])
                    if ended2:
                        absent_row(row(out0, (b, i0, i)), i, n2, ends2, 1, 1, row(u1_, ((i0 + 1) % 3, i + 3)), 16, constant0[0])
