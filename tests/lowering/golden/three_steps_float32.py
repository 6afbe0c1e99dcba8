"""3 steps of spreading: written by ninepoint; changes made here are lost."""

import numpy as np

from ninepoint.backends.numba.support import (
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
def u_c0_row(u_0, o0, n):
    for j in range(n):
        u_c0_1 = u_0[j]
        o0[j] = u_c0_1


@row_function()
def u_0_row(u_c0_0, u_c0_1, u_c0_2, u_c0_3, u_c0_4, o0, n):
    for j in range(n):
        t0_s0 = u_c0_0[j + 1]
        t1_s0 = u_c0_4[j + 1]
        t2_s0 = t0_s0 + t1_s0
        t3_s0 = u_c0_1[j + 1]
        t4_s0 = t2_s0 + t3_s0
        t5_s0 = u_c0_3[j + 1]
        t6_s0 = t4_s0 + t5_s0
        t7_s0 = u_c0_2[j]
        t8_s0 = t6_s0 + t7_s0
        t9_s0 = u_c0_2[j + 2]
        t10_s0 = t8_s0 + t9_s0
        t11_s0 = u_c0_2[j + 1]
        t12_s0 = f32(6.0) * t11_s0
        t13_s0 = t10_s0 - t12_s0
        t14_s0 = f32(0.125) * t13_s0
        t15_s0 = t11_s0 + t14_s0
        o0[j] = t15_s0


def band(u, out0, ends1_0, ends2_0, constant0, constant1):
    n1 = out0.shape[3]
    n2 = out0.shape[2]
    before1 = 1 if ends1_0[0] == 0 else 0
    after1 = 1 if ends1_0[1] == 0 else 0
    ended1 = before1 + after1 < 2
    before2 = 1 if ends2_0[0] == 0 else 0
    after2 = 1 if ends2_0[1] == 0 else 0
    ended2 = before2 + after2 < 2
    u_c0 = aligned((3, out0.shape[2] + 6 | 1, padded(n1 + 19, 4)), np.float32)
    u_0 = aligned((3, out0.shape[2] + 6 | 1, padded(n1 + 19, 4)), np.float32)
    u_1 = aligned((3, out0.shape[2] + 6 | 1, padded(n1 + 19, 4)), np.float32)
    for b in range(out0.shape[0]):
        for i0 in range(-6, out0.shape[1]):
            for i in range(-3 * before2, n2 + 3 * after2):
                u_c0_row(row_from(u, (b, i0 + 6, i + 3 * before2), 0), row_from(u_c0, ((i0 + 6) % 3, i + 3), -3 * before1 + 16), n1 + 3 * after1 + 3 * before1)
                if ended1:
                    beyond_ends(row(u_c0, ((i0 + 6) % 3, i + 3)), 16, n1, ends1_0, 1, 1, constant0[0])
            if ended2:
                beyond_rows(u_c0[(i0 + 6) % 3], 3, n2, ends2_0, 1, 1, constant0[0])
            if i0 >= -4:
                for i in range(-2 * before2, n2 + 2 * after2):
                    u_0_row(row_from(u_c0, ((i0 + 4) % 3, i + 3), -2 * before1 + 15), row_from(u_c0, ((i0 + 5) % 3, i + 2), -2 * before1 + 15), row_from(u_c0, ((i0 + 5) % 3, i + 3), -2 * before1 + 15), row_from(u_c0, ((i0 + 5) % 3, i + 4), -2 * before1 + 15), row_from(u_c0, ((i0 + 6) % 3, i + 3), -2 * before1 + 15), row_from(u_0, ((i0 + 4) % 3, i + 3), -2 * before1 + 16), n1 + 2 * after1 + 2 * before1)
                    if ended1:
                        absent_ends(row(u_0, ((i0 + 4) % 3, i + 3)), 16, n1, ends1_0, 1, 1, row(u_c0, ((i0 + 5) % 3, i + 3)), 16, constant1[0])
                    if ended2:
                        absent_row(row(u_0, ((i0 + 4) % 3, i + 3)), i, n2, ends2_0, 1, 1, row(u_c0, ((i0 + 5) % 3, i + 3)), 0, constant1[0])
                    if ended1:
                        beyond_ends(row(u_0, ((i0 + 4) % 3, i + 3)), 16, n1, ends1_0, 1, 1, constant0[0])
                if ended2:
                    beyond_rows(u_0[(i0 + 4) % 3], 3, n2, ends2_0, 1, 1, constant0[0])
            if i0 >= -2:
                for i in range(-before2, n2 + after2):
                    u_0_row(row_from(u_0, ((i0 + 2) % 3, i + 3), -before1 + 15), row_from(u_0, ((i0 + 3) % 3, i + 2), -before1 + 15), row_from(u_0, ((i0 + 3) % 3, i + 3), -before1 + 15), row_from(u_0, ((i0 + 3) % 3, i + 4), -before1 + 15), row_from(u_0, ((i0 + 4) % 3, i + 3), -before1 + 15), row_from(u_1, ((i0 + 2) % 3, i + 3), -before1 + 16), n1 + after1 + before1)
                    if ended1:
                        absent_ends(row(u_1, ((i0 + 2) % 3, i + 3)), 16, n1, ends1_0, 1, 1, row(u_0, ((i0 + 3) % 3, i + 3)), 16, constant1[0])
                    if ended2:
                        absent_row(row(u_1, ((i0 + 2) % 3, i + 3)), i, n2, ends2_0, 1, 1, row(u_0, ((i0 + 3) % 3, i + 3)), 0, constant1[0])
                    if ended1:
                        beyond_ends(row(u_1, ((i0 + 2) % 3, i + 3)), 16, n1, ends1_0, 1, 1, constant0[0])
                if ended2:
                    beyond_rows(u_1[(i0 + 2) % 3], 3, n2, ends2_0, 1, 1, constant0[0])
            if i0 >= 0:
                for i in range(0, n2):
                    u_0_row(row_from(u_1, (i0 % 3, i + 3), 15), row_from(u_1, ((i0 + 1) % 3, i + 2), 15), row_from(u_1, ((i0 + 1) % 3, i + 3), 15), row_from(u_1, ((i0 + 1) % 3, i + 4), 15), row_from(u_1, ((i0 + 2) % 3, i + 3), 15), row(out0, (b, i0, i)), n1)
                    if ended1:
                        absent_ends(row(out0, (b, i0, i)), 0, n1, ends1_0, 1, 1, row(u_1, ((i0 + 1) % 3, i + 3)), 16, constant1[0])
                    if ended2:
                        absent_row(row(out0, (b, i0, i)), i, n2, ends2_0, 1, 1, row(u_1, ((i0 + 1) % 3, i + 3)), 16, constant1[0])
