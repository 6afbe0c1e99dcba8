"""life: written by ninepoint; changes made here are lost."""

import numpy as np

from ninepoint.backends.numba.support import (
    row,
    row_function,
    padded,
    i16,
    u8,
    u16,
)


@row_function(noalias=True)
def v0_row(x_0, x_1, x_2, o0, n):
    for j in range(n):
        v0_0 = x_0[j]
        v0_1 = x_1[j]
        v0_2 = x_2[j]
        v0_3 = u16(u16(v0_0) + u16(v0_1))
        v0_4 = u16(v0_3 + u16(v0_2))
        o0[j] = v0_4


@row_function()
def band_row(x_0, v0_1, o0, n):
    for j in range(n):
        t0 = v0_1[j]
        t1 = v0_1[j + 1]
        t2 = v0_1[j + 2]
        t3 = u16(t0 + t1)
        t4 = u16(t3 + t2)
        t5 = x_0[j + 1]
        t6 = i16(i16(t4) - i16(t5))
        t7 = t6 == i16(3)
        t8 = t6 == i16(2)
        t9 = t5 != u8(0)
        t10 = t8 & t9
        t11 = t7 | t10
        o0[j] = t11


@row_function(apart=("o0", "o1"), overlap=(64, 30))
def band_rows(x_0, x_1, x_2, x_3, x_4, o0, o1, o2, n):
    for j in range(n):
        r0 = x_0[j]
        r1 = x_0[j + 1]
        r2 = x_0[j + 2]
        r3 = u16(u16(r0) + u16(r1))
        r4 = u16(r3 + u16(r2))
        r5 = x_1[j]
        r6 = x_1[j + 1]
        r7 = x_1[j + 2]
        r8 = u16(u16(r5) + u16(r6))
        r9 = u16(r8 + u16(r7))
        r10 = x_2[j]
        r11 = x_2[j + 1]
        r12 = x_2[j + 2]
        r13 = u16(u16(r10) + u16(r11))
        r14 = u16(r13 + u16(r12))
        r15 = u16(r4 + r9)
        r16 = u16(r15 + r14)
        r17 = i16(i16(r16) - i16(r6))
        r18 = r17 == i16(3)
        r19 = r17 == i16(2)
        r20 = r6 != u8(0)
        r21 = r19 & r20
        r22 = r18 | r21
        r23 = x_3[j]
        r24 = x_3[j + 1]
        r25 = x_3[j + 2]
        r26 = u16(u16(r23) + u16(r24))
        r27 = u16(r26 + u16(r25))
        r28 = u16(r9 + r14)
        r29 = u16(r28 + r27)
        r30 = i16(i16(r29) - i16(r11))
        r31 = r30 == i16(3)
        r32 = r30 == i16(2)
        r33 = r11 != u8(0)
        r34 = r32 & r33
        r35 = r31 | r34
        r36 = x_4[j]
        r37 = x_4[j + 1]
        r38 = x_4[j + 2]
        r39 = u16(u16(r36) + u16(r37))
        r40 = u16(r39 + u16(r38))
        r41 = u16(r14 + r27)
        r42 = u16(r41 + r40)
        r43 = i16(i16(r42) - i16(r24))
        r44 = r43 == i16(3)
        r45 = r43 == i16(2)
        r46 = r24 != u8(0)
        r47 = r45 & r46
        r48 = r44 | r47
        o0[j] = r22
        o1[j] = r35
        o2[j] = r48


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    v0 = np.empty((1, padded(n + 2, 2)), dtype=np.uint16)
    for b in range(out0.shape[0]):
        far = out0.nbytes > 1048576
        many = 0 if n < 80 or (far and (n < 2000 or (n < 6000 and x.strides[1] % 4096 == 0))) else out0.shape[1] // 3 * 3
        for i in range(0, many, 3):
            band_rows(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(x, (b, i + 3)), row(x, (b, i + 4)), row(out0, (b, i)), row(out0, (b, i + 1)), row(out0, (b, i + 2)), n)
        for i in range(many, out0.shape[1]):
            v0_row(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(v0, (0,)), n + 2)
            band_row(row(x, (b, i + 1)), row(v0, (0,)), row(out0, (b, i)), n)
