"""<lambda>: written by ninepoint; changes made here are lost."""

import numpy as np

from ninepoint.backends.support import (
    row,
    row_function,
    padded,
    nan,
    f32,
)


@row_function(noalias=True)
def v0_row(x_0, x_1, x_2, o0, o1, o2, n):
    for j in range(n):
        v0_0 = x_0[j]
        v0_1 = x_1[j]
        v0_2 = x_2[j]
        v0_3 = v0_2 < v0_0
        v0_4 = v0_2 if v0_3 else v0_0
        v0_5 = v0_0 if v0_3 else v0_2
        v0_6 = v0_1 < v0_4
        v0_7 = v0_1 if v0_6 else v0_4
        v0_8 = v0_4 if v0_6 else v0_1
        v0_9 = v0_5 < v0_8
        v0_10 = v0_5 if v0_9 else v0_8
        v0_11 = v0_8 if v0_9 else v0_5
        v0_12 = v0_0 != v0_0
        v0_13 = v0_1 != v0_1
        v0_14 = v0_2 != v0_2
        v0_15 = v0_12 | v0_13
        v0_16 = v0_15 | v0_14
        v0_17 = f32(nan) if v0_16 else v0_11
        o0[j] = v0_7
        o1[j] = v0_10
        o2[j] = v0_17


@row_function()
def band_row(v0_0, v1_1, v2_2, o0, n):
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
        t9 = t3 > t0
        t10 = t3 if t9 else t0
        t11 = t6 > t10
        t12 = t6 if t11 else t10
        t13 = t7 < t1
        t14 = t7 if t13 else t1
        t15 = t1 if t13 else t7
        t16 = t4 < t14
        t18 = t14 if t16 else t4
        t19 = t15 < t18
        t20 = t15 if t19 else t18
        t22 = t5 < t2
        t23 = t5 if t22 else t2
        t24 = t8 < t23
        t25 = t8 if t24 else t23
        t26 = t20 < t12
        t27 = t20 if t26 else t12
        t28 = t12 if t26 else t20
        t29 = t25 < t27
        t31 = t27 if t29 else t25
        t32 = t31 < t28
        t33 = t31 if t32 else t28
        t35 = t2 != t2
        t36 = t5 != t5
        t37 = t8 != t8
        t38 = t35 | t36
        t39 = t38 | t37
        t40 = f32(nan) if t39 else t33
        o0[j] = t40


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    v0 = np.empty((1, padded(n + 2, 4)), dtype=np.float32)
    v1 = np.empty((1, padded(n + 2, 4)), dtype=np.float32)
    v2 = np.empty((1, padded(n + 2, 4)), dtype=np.float32)
    for b in range(out0.shape[0]):
        for i in range(out0.shape[1]):
            v0_row(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(v0, (0,)), row(v1, (0,)), row(v2, (0,)), n + 2)
            band_row(row(v0, (0,)), row(v1, (0,)), row(v2, (0,)), row(out0, (b, i)), n)
