"""mean5: written by ninepoint; changes made here are lost."""

from ninepoint.backends.support import (
    row,
    row_function,
    f32,
)


@row_function()
def band_row(x_0, x_1, x_2, x_3, x_4, o0, n):
    for j in range(n):
        t0 = x_0[j]
        t1 = x_0[j + 1]
        t2 = x_0[j + 2]
        t3 = x_0[j + 3]
        t4 = x_0[j + 4]
        t5 = t0 + t1
        t6 = t2 + t3
        t7 = t5 + t6
        t8 = t7 + t4
        t9 = x_1[j]
        t10 = x_1[j + 1]
        t11 = x_1[j + 2]
        t12 = x_1[j + 3]
        t13 = x_1[j + 4]
        t14 = t9 + t10
        t15 = t11 + t12
        t16 = t14 + t15
        t17 = t16 + t13
        t18 = x_2[j]
        t19 = x_2[j + 1]
        t20 = x_2[j + 2]
        t21 = x_2[j + 3]
        t22 = x_2[j + 4]
        t23 = t18 + t19
        t24 = t20 + t21
        t25 = t23 + t24
        t26 = t25 + t22
        t27 = x_3[j]
        t28 = x_3[j + 1]
        t29 = x_3[j + 2]
        t30 = x_3[j + 3]
        t31 = x_3[j + 4]
        t32 = t27 + t28
        t33 = t29 + t30
        t34 = t32 + t33
        t35 = t34 + t31
        t36 = x_4[j]
        t37 = x_4[j + 1]
        t38 = x_4[j + 2]
        t39 = x_4[j + 3]
        t40 = x_4[j + 4]
        t41 = t36 + t37
        t42 = t38 + t39
        t43 = t41 + t42
        t44 = t43 + t40
        t45 = t8 + t17
        t46 = t26 + t35
        t47 = t45 + t46
        t48 = t47 + t44
        t49 = t48 / f32(25.0)
        o0[j] = t49


@row_function(apart=("o0", "o1", "o2"))
def band_rows(x_0, x_1, x_2, x_3, x_4, x_5, x_6, x_7, o0, o1, o2, o3, n):
    for j in range(n):
        r0 = x_0[j]
        r1 = x_0[j + 1]
        r2 = x_0[j + 2]
        r3 = x_0[j + 3]
        r4 = x_0[j + 4]
        r5 = r0 + r1
        r6 = r2 + r3
        r7 = r5 + r6
        r8 = r7 + r4
        r9 = x_1[j]
        r10 = x_1[j + 1]
        r11 = x_1[j + 2]
        r12 = x_1[j + 3]
        r13 = x_1[j + 4]
        r14 = r9 + r10
        r15 = r11 + r12
        r16 = r14 + r15
        r17 = r16 + r13
        r18 = x_2[j]
        r19 = x_2[j + 1]
        r20 = x_2[j + 2]
        r21 = x_2[j + 3]
        r22 = x_2[j + 4]
        r23 = r18 + r19
        r24 = r20 + r21
        r25 = r23 + r24
        r26 = r25 + r22
        r27 = x_3[j]
        r28 = x_3[j + 1]
        r29 = x_3[j + 2]
        r30 = x_3[j + 3]
        r31 = x_3[j + 4]
        r32 = r27 + r28
        r33 = r29 + r30
        r34 = r32 + r33
        r35 = r34 + r31
        r36 = x_4[j]
        r37 = x_4[j + 1]
        r38 = x_4[j + 2]
        r39 = x_4[j + 3]
        r40 = x_4[j + 4]
        r41 = r36 + r37
        r42 = r38 + r39
        r43 = r41 + r42
        r44 = r43 + r40
        r45 = r8 + r17
        r46 = r26 + r35
        r47 = r45 + r46
        r48 = r47 + r44
        r49 = r48 / f32(25.0)
        r50 = x_5[j]
        r51 = x_5[j + 1]
        r52 = x_5[j + 2]
        r53 = x_5[j + 3]
        r54 = x_5[j + 4]
        r55 = r50 + r51
        r56 = r52 + r53
        r57 = r55 + r56
        r58 = r57 + r54
        r59 = r17 + r26
        r60 = r35 + r44
        r61 = r59 + r60
        r62 = r61 + r58
        r63 = r62 / f32(25.0)
        r64 = x_6[j]
        r65 = x_6[j + 1]
        r66 = x_6[j + 2]
        r67 = x_6[j + 3]
        r68 = x_6[j + 4]
        r69 = r64 + r65
        r70 = r66 + r67
        r71 = r69 + r70
        r72 = r71 + r68
        r73 = r44 + r58
        r74 = r46 + r73
        r75 = r74 + r72
        r76 = r75 / f32(25.0)
        r77 = x_7[j]
        r78 = x_7[j + 1]
        r79 = x_7[j + 2]
        r80 = x_7[j + 3]
        r81 = x_7[j + 4]
        r82 = r77 + r78
        r83 = r79 + r80
        r84 = r82 + r83
        r85 = r84 + r81
        r86 = r58 + r72
        r87 = r60 + r86
        r88 = r87 + r85
        r89 = r88 / f32(25.0)
        o0[j] = r49
        o1[j] = r63
        o2[j] = r76
        o3[j] = r89


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    for b in range(out0.shape[0]):
        for i in range(0, out0.shape[1] - 3, 4):
            band_rows(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(x, (b, i + 3)), row(x, (b, i + 4)), row(x, (b, i + 5)), row(x, (b, i + 6)), row(x, (b, i + 7)), row(out0, (b, i)), row(out0, (b, i + 1)), row(out0, (b, i + 2)), row(out0, (b, i + 3)), n)
        for i in range(out0.shape[1] - out0.shape[1] % 4, out0.shape[1]):
            band_row(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(x, (b, i + 3)), row(x, (b, i + 4)), row(out0, (b, i)), n)
