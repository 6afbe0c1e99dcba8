"""sobel: written by ninepoint; changes made here are lost."""

from ninepoint.backends.numba.support import (
    row,
    row_function,
    i16,
    u16,
)


@row_function(overlap=(64, 59))
def band_row(x_0, x_1, x_2, o0, n):
    for j in range(n):
        t0 = x_0[j + 2]
        t1 = x_1[j + 2]
        t2 = u16(u16(2) * u16(t1))
        t3 = u16(u16(t0) + t2)
        t4 = x_2[j + 2]
        t5 = u16(t3 + u16(t4))
        t6 = x_0[j]
        t7 = i16(i16(t5) - i16(t6))
        t8 = x_1[j]
        t9 = u16(u16(2) * u16(t8))
        t10 = i16(t7 - i16(t9))
        t11 = x_2[j]
        t12 = i16(t10 - i16(t11))
        t13 = x_2[j + 1]
        t14 = u16(u16(2) * u16(t13))
        t15 = u16(u16(t11) + t14)
        t16 = u16(t15 + u16(t4))
        t17 = i16(i16(t16) - i16(t6))
        t18 = x_0[j + 1]
        t19 = u16(u16(2) * u16(t18))
        t20 = i16(t17 - i16(t19))
        t21 = i16(t20 - i16(t0))
        t22 = u16(-t12 if t12 < i16(0) else t12)
        t23 = u16(-t21 if t21 < i16(0) else t21)
        t24 = u16(t22 + t23)
        o0[j] = t24


@row_function(apart=("o0", "o1"), overlap=(64, 20))
def band_rows(x_0, x_1, x_2, x_3, x_4, o0, o1, o2, n):
    for j in range(n):
        r0 = x_0[j + 2]
        r1 = x_1[j + 2]
        r2 = u16(u16(2) * u16(r1))
        r3 = u16(u16(r0) + r2)
        r4 = x_2[j + 2]
        r5 = u16(r3 + u16(r4))
        r6 = x_0[j]
        r7 = i16(i16(r5) - i16(r6))
        r8 = x_1[j]
        r9 = u16(u16(2) * u16(r8))
        r10 = i16(r7 - i16(r9))
        r11 = x_2[j]
        r12 = i16(r10 - i16(r11))
        r13 = x_2[j + 1]
        r14 = u16(u16(2) * u16(r13))
        r15 = u16(u16(r11) + r14)
        r16 = u16(r15 + u16(r4))
        r17 = i16(i16(r16) - i16(r6))
        r18 = x_0[j + 1]
        r19 = u16(u16(2) * u16(r18))
        r20 = i16(r17 - i16(r19))
        r21 = i16(r20 - i16(r0))
        r22 = u16(-r12 if r12 < i16(0) else r12)
        r23 = u16(-r21 if r21 < i16(0) else r21)
        r24 = u16(r22 + r23)
        r25 = u16(u16(2) * u16(r4))
        r26 = u16(u16(r1) + r25)
        r27 = x_3[j + 2]
        r28 = u16(r26 + u16(r27))
        r29 = i16(i16(r28) - i16(r8))
        r30 = u16(u16(2) * u16(r11))
        r31 = i16(r29 - i16(r30))
        r32 = x_3[j]
        r33 = i16(r31 - i16(r32))
        r34 = x_3[j + 1]
        r35 = u16(u16(2) * u16(r34))
        r36 = u16(u16(r32) + r35)
        r37 = u16(r36 + u16(r27))
        r38 = i16(i16(r37) - i16(r8))
        r39 = x_1[j + 1]
        r40 = u16(u16(2) * u16(r39))
        r41 = i16(r38 - i16(r40))
        r42 = i16(r41 - i16(r1))
        r43 = u16(-r33 if r33 < i16(0) else r33)
        r44 = u16(-r42 if r42 < i16(0) else r42)
        r45 = u16(r43 + r44)
        r46 = u16(u16(2) * u16(r27))
        r47 = u16(u16(r4) + r46)
        r48 = x_4[j + 2]
        r49 = u16(r47 + u16(r48))
        r50 = i16(i16(r49) - i16(r11))
        r51 = u16(u16(2) * u16(r32))
        r52 = i16(r50 - i16(r51))
        r53 = x_4[j]
        r54 = i16(r52 - i16(r53))
        r55 = x_4[j + 1]
        r56 = u16(u16(2) * u16(r55))
        r57 = u16(u16(r53) + r56)
        r58 = u16(r57 + u16(r48))
        r59 = i16(i16(r58) - i16(r11))
        r60 = i16(r59 - i16(r14))
        r61 = i16(r60 - i16(r4))
        r62 = u16(-r54 if r54 < i16(0) else r54)
        r63 = u16(-r61 if r61 < i16(0) else r61)
        r64 = u16(r62 + r63)
        o0[j] = r24
        o1[j] = r45
        o2[j] = r64


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    for b in range(out0.shape[0]):
        far = out0.nbytes > 1048576
        many = 0 if far and n > 120 else out0.shape[1] // 3 * 3
        for i in range(0, many, 3):
            band_rows(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(x, (b, i + 3)), row(x, (b, i + 4)), row(out0, (b, i)), row(out0, (b, i + 1)), row(out0, (b, i + 2)), n)
        for i in range(many, out0.shape[1]):
            band_row(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(out0, (b, i)), n)
