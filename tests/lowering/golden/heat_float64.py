"""heat: written by ninepoint; changes made here are lost."""

from ninepoint.backends.numba.support import (
    row,
    row_function,
    f64,
)


@row_function()
def band_row(u_0, u_1, u_2, o0, n, rate_):
    for j in range(n):
        t0 = u_1[j + 1]
        t1 = u_0[j + 1]
        t2 = u_2[j + 1]
        t3 = t1 + t2
        t4 = u_1[j]
        t5 = t3 + t4
        t6 = u_1[j + 2]
        t7 = t5 + t6
        t8 = 4.0 * t0
        t9 = t7 - t8
        t10 = f64(rate_)
        t11 = t10 * t9
        t12 = t0 + t11
        o0[j] = t12


@row_function(apart=("o0", "o1"))
def band_rows(u_0, u_1, u_2, u_3, u_4, o0, o1, o2, n, rate_):
    for j in range(n):
        r0 = u_1[j + 1]
        r1 = u_0[j + 1]
        r2 = u_2[j + 1]
        r3 = r1 + r2
        r4 = u_1[j]
        r5 = r3 + r4
        r6 = u_1[j + 2]
        r7 = r5 + r6
        r8 = 4.0 * r0
        r9 = r7 - r8
        r10 = f64(rate_)
        r11 = r10 * r9
        r12 = r0 + r11
        r13 = u_3[j + 1]
        r14 = r0 + r13
        r15 = u_2[j]
        r16 = r14 + r15
        r17 = u_2[j + 2]
        r18 = r16 + r17
        r19 = 4.0 * r2
        r20 = r18 - r19
        r21 = r10 * r20
        r22 = r2 + r21
        r23 = u_4[j + 1]
        r24 = r2 + r23
        r25 = u_3[j]
        r26 = r24 + r25
        r27 = u_3[j + 2]
        r28 = r26 + r27
        r29 = 4.0 * r13
        r30 = r28 - r29
        r31 = r10 * r30
        r32 = r13 + r31
        o0[j] = r12
        o1[j] = r22
        o2[j] = r32


def band(u, out0, rate_):
    n = out0.shape[out0.ndim - 1]
    for b in range(out0.shape[0]):
        far = out0.nbytes > 1048576
        many = 0 if far and 15 < n < 248 else out0.shape[1] // 3 * 3
        for i in range(0, many, 3):
            band_rows(row(u, (b, i)), row(u, (b, i + 1)), row(u, (b, i + 2)), row(u, (b, i + 3)), row(u, (b, i + 4)), row(out0, (b, i)), row(out0, (b, i + 1)), row(out0, (b, i + 2)), n, rate_)
        for i in range(many, out0.shape[1]):
            band_row(row(u, (b, i)), row(u, (b, i + 1)), row(u, (b, i + 2)), row(out0, (b, i)), n, rate_)
