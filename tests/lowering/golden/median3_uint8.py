"""median3: written by ninepoint; changes made here are lost."""

from ninepoint.backends.numba.support import (
    row,
    row_function,
)


@row_function(overlap=(64, 21))
def band_row(x_0, x_1, x_2, o0, n):
    for j in range(n):
        t0 = x_0[j]
        t1 = x_0[j + 1]
        t2 = x_0[j + 2]
        t3 = t2 < t0
        t4 = t2 if t3 else t0
        t5 = t0 if t3 else t2
        t6 = t1 < t4
        t7 = t1 if t6 else t4
        t8 = t4 if t6 else t1
        t9 = t5 < t8
        t10 = t5 if t9 else t8
        t11 = t8 if t9 else t5
        t12 = x_1[j]
        t13 = x_1[j + 1]
        t14 = x_1[j + 2]
        t15 = t14 < t12
        t16 = t14 if t15 else t12
        t17 = t12 if t15 else t14
        t18 = t13 < t16
        t19 = t13 if t18 else t16
        t20 = t16 if t18 else t13
        t21 = t17 < t20
        t22 = t17 if t21 else t20
        t23 = t20 if t21 else t17
        t24 = x_2[j]
        t25 = x_2[j + 1]
        t26 = x_2[j + 2]
        t27 = t26 < t24
        t28 = t26 if t27 else t24
        t29 = t24 if t27 else t26
        t30 = t25 < t28
        t31 = t25 if t30 else t28
        t32 = t28 if t30 else t25
        t33 = t29 < t32
        t34 = t29 if t33 else t32
        t35 = t32 if t33 else t29
        t36 = t19 > t7
        t37 = t19 if t36 else t7
        t38 = t31 > t37
        t39 = t31 if t38 else t37
        t40 = t34 < t10
        t41 = t34 if t40 else t10
        t42 = t10 if t40 else t34
        t43 = t22 < t41
        t45 = t41 if t43 else t22
        t46 = t42 < t45
        t47 = t42 if t46 else t45
        t49 = t23 < t11
        t50 = t23 if t49 else t11
        t51 = t35 < t50
        t52 = t35 if t51 else t50
        t53 = t47 < t39
        t54 = t47 if t53 else t39
        t55 = t39 if t53 else t47
        t56 = t52 < t54
        t58 = t54 if t56 else t52
        t59 = t58 < t55
        t60 = t58 if t59 else t55
        o0[j] = t60


@row_function(apart=("o0", "o1"), overlap=(64, 10))
def band_rows(x_0, x_1, x_2, x_3, x_4, o0, o1, o2, n):
    for j in range(n):
        r0 = x_0[j]
        r1 = x_0[j + 1]
        r2 = x_0[j + 2]
        r3 = r2 < r0
        r4 = r2 if r3 else r0
        r5 = r0 if r3 else r2
        r6 = r1 < r4
        r7 = r1 if r6 else r4
        r8 = r4 if r6 else r1
        r9 = r5 < r8
        r10 = r5 if r9 else r8
        r11 = r8 if r9 else r5
        r12 = x_1[j]
        r13 = x_1[j + 1]
        r14 = x_1[j + 2]
        r15 = r14 < r12
        r16 = r14 if r15 else r12
        r17 = r12 if r15 else r14
        r18 = r13 < r16
        r19 = r13 if r18 else r16
        r20 = r16 if r18 else r13
        r21 = r17 < r20
        r22 = r17 if r21 else r20
        r23 = r20 if r21 else r17
        r24 = x_2[j]
        r25 = x_2[j + 1]
        r26 = x_2[j + 2]
        r27 = r26 < r24
        r28 = r26 if r27 else r24
        r29 = r24 if r27 else r26
        r30 = r25 < r28
        r31 = r25 if r30 else r28
        r32 = r28 if r30 else r25
        r33 = r29 < r32
        r34 = r29 if r33 else r32
        r35 = r32 if r33 else r29
        r36 = r19 > r7
        r37 = r19 if r36 else r7
        r38 = r31 > r37
        r39 = r31 if r38 else r37
        r40 = r34 < r10
        r41 = r34 if r40 else r10
        r42 = r10 if r40 else r34
        r43 = r22 < r41
        r44 = r41 if r43 else r22
        r45 = r42 < r44
        r46 = r42 if r45 else r44
        r47 = r23 < r11
        r48 = r23 if r47 else r11
        r49 = r35 < r48
        r50 = r35 if r49 else r48
        r51 = r46 < r39
        r52 = r46 if r51 else r39
        r53 = r39 if r51 else r46
        r54 = r50 < r52
        r55 = r52 if r54 else r50
        r56 = r55 < r53
        r57 = r55 if r56 else r53
        r58 = x_3[j]
        r59 = x_3[j + 1]
        r60 = x_3[j + 2]
        r61 = r60 < r58
        r62 = r60 if r61 else r58
        r63 = r58 if r61 else r60
        r64 = r59 < r62
        r65 = r59 if r64 else r62
        r66 = r62 if r64 else r59
        r67 = r63 < r66
        r68 = r63 if r67 else r66
        r69 = r66 if r67 else r63
        r70 = r31 > r19
        r71 = r31 if r70 else r19
        r72 = r65 > r71
        r73 = r65 if r72 else r71
        r74 = r68 < r22
        r75 = r68 if r74 else r22
        r76 = r22 if r74 else r68
        r77 = r34 < r75
        r78 = r75 if r77 else r34
        r79 = r76 < r78
        r80 = r76 if r79 else r78
        r81 = r35 < r23
        r82 = r35 if r81 else r23
        r83 = r69 < r82
        r84 = r69 if r83 else r82
        r85 = r80 < r73
        r86 = r80 if r85 else r73
        r87 = r73 if r85 else r80
        r88 = r84 < r86
        r89 = r86 if r88 else r84
        r90 = r89 < r87
        r91 = r89 if r90 else r87
        r92 = x_4[j]
        r93 = x_4[j + 1]
        r94 = x_4[j + 2]
        r95 = r94 < r92
        r96 = r94 if r95 else r92
        r97 = r92 if r95 else r94
        r98 = r93 < r96
        r99 = r93 if r98 else r96
        r100 = r96 if r98 else r93
        r101 = r97 < r100
        r102 = r97 if r101 else r100
        r103 = r100 if r101 else r97
        r104 = r65 > r31
        r105 = r65 if r104 else r31
        r106 = r99 > r105
        r107 = r99 if r106 else r105
        r108 = r102 < r34
        r109 = r102 if r108 else r34
        r110 = r34 if r108 else r102
        r111 = r68 < r109
        r112 = r109 if r111 else r68
        r113 = r110 < r112
        r114 = r110 if r113 else r112
        r115 = r69 < r35
        r116 = r69 if r115 else r35
        r117 = r103 < r116
        r118 = r103 if r117 else r116
        r119 = r114 < r107
        r120 = r114 if r119 else r107
        r121 = r107 if r119 else r114
        r122 = r118 < r120
        r123 = r120 if r122 else r118
        r124 = r123 < r121
        r125 = r123 if r124 else r121
        o0[j] = r57
        o1[j] = r91
        o2[j] = r125


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    for b in range(out0.shape[0]):
        far = out0.nbytes > 1048576
        many = 0 if far and 200 < n < 2000 else out0.shape[1] // 3 * 3
        for i in range(0, many, 3):
            band_rows(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(x, (b, i + 3)), row(x, (b, i + 4)), row(out0, (b, i)), row(out0, (b, i + 1)), row(out0, (b, i + 2)), n)
        for i in range(many, out0.shape[1]):
            band_row(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(out0, (b, i)), n)
