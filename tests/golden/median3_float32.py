"""<lambda>: written by ninepoint; changes made here are lost."""

import math

import numpy as np

from ninepoint.backends.support import (
    row,
    row_function,
    padded,
    nan,
    f32,
)



@row_function(noalias=True)
def v0_row(x_0, x_1, x_2, o0, o1, o2, o3, n):
    for j in range(n):
        v0_0 = x_0[j]
        v0_1 = x_1[j]
        v0_2 = x_2[j]
        v0_3 = v0_0 != v0_0
        v0_4 = v0_1 != v0_1
        v0_5 = v0_2 != v0_2
        v0_6 = v0_3 | v0_4
        v0_7 = v0_6 | v0_5
        v0_8 = v0_2 < v0_0
        v0_9 = v0_2 if v0_8 else v0_0
        v0_10 = v0_0 if v0_8 else v0_2
        v0_11 = v0_1 < v0_9
        v0_12 = v0_1 if v0_11 else v0_9
        v0_13 = v0_9 if v0_11 else v0_1
        v0_14 = v0_10 < v0_13
        v0_15 = v0_10 if v0_14 else v0_13
        v0_16 = v0_13 if v0_14 else v0_10
        o0[j] = v0_12
        o1[j] = v0_15
        o2[j] = v0_16
        o3[j] = v0_7


@row_function()
def band_row(v0_0, v1_1, v2_2, v3_3, o0, n):
    for j in range(n):
        t0 = v0_0[j]
        t1 = v1_1[j]
        t2 = v2_2[j]
        t3 = v0_0[j + 1]
        t4 = v1_1[j + 1]
        t5 = v2_2[j + 1]
        t6 = v0_0[j + 2]
        t7 = v1_1[j + 2]
        t8 = v2_2[j + 2]
        t9 = t6 < t0
        t10 = t6 if t9 else t0
        t11 = t0 if t9 else t6
        t12 = t3 < t10
        t14 = t10 if t12 else t3
        t15 = t11 < t14
        t17 = t14 if t15 else t11
        t18 = t7 < t1
        t19 = t7 if t18 else t1
        t20 = t1 if t18 else t7
        t21 = t4 < t19
        t23 = t19 if t21 else t4
        t24 = t20 < t23
        t25 = t20 if t24 else t23
        t27 = t8 < t2
        t28 = t8 if t27 else t2
        t30 = t5 < t28
        t31 = t5 if t30 else t28
        t36 = t25 < t17
        t37 = t25 if t36 else t17
        t38 = t17 if t36 else t25
        t39 = t31 < t37
        t41 = t37 if t39 else t31
        t42 = t41 < t38
        t43 = t41 if t42 else t38
        t45 = v3_3[j]
        t46 = v3_3[j + 1]
        t47 = v3_3[j + 2]
        t48 = t45 | t46
        t49 = t48 | t47
        t50 = f32(nan) if t49 else t43
        o0[j] = t50


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    v0 = np.empty((1, padded(n + 2, 4)), dtype=np.float32)
    v1 = np.empty((1, padded(n + 2, 4)), dtype=np.float32)
    v2 = np.empty((1, padded(n + 2, 4)), dtype=np.float32)
    v3 = np.empty((1, padded(n + 2, 1)), dtype=np.bool)
    for b in range(out0.shape[0]):
        for i in range(out0.shape[1]):
            v0_row(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(v0, (0,)), row(v1, (0,)), row(v2, (0,)), row(v3, (0,)), n + 2)
            band_row(row(v0, (0,)), row(v1, (0,)), row(v2, (0,)), row(v3, (0,)), row(out0, (b, i)), n)
