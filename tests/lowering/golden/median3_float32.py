"""<lambda>: written by ninepoint; changes made here are lost."""

from ninepoint.backends.numba.support import (
    row,
    row_function,
    nan,
    f32,
)


@row_function(overlap=(32, 14))
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
        t12 = t0 != t0
        t13 = t1 != t1
        t14 = t2 != t2
        t15 = t12 | t13
        t16 = t15 | t14
        t17 = f32(nan) if t16 else t11
        t18 = x_1[j]
        t19 = x_1[j + 1]
        t20 = x_1[j + 2]
        t21 = t20 < t18
        t22 = t20 if t21 else t18
        t23 = t18 if t21 else t20
        t24 = t19 < t22
        t25 = t19 if t24 else t22
        t26 = t22 if t24 else t19
        t27 = t23 < t26
        t28 = t23 if t27 else t26
        t29 = t26 if t27 else t23
        t30 = t18 != t18
        t31 = t19 != t19
        t32 = t20 != t20
        t33 = t30 | t31
        t34 = t33 | t32
        t35 = f32(nan) if t34 else t29
        t36 = x_2[j]
        t37 = x_2[j + 1]
        t38 = x_2[j + 2]
        t39 = t38 < t36
        t40 = t38 if t39 else t36
        t41 = t36 if t39 else t38
        t42 = t37 < t40
        t43 = t37 if t42 else t40
        t44 = t40 if t42 else t37
        t45 = t41 < t44
        t46 = t41 if t45 else t44
        t47 = t44 if t45 else t41
        t48 = t36 != t36
        t49 = t37 != t37
        t50 = t38 != t38
        t51 = t48 | t49
        t52 = t51 | t50
        t53 = f32(nan) if t52 else t47
        t54 = t25 > t7
        t55 = t25 if t54 else t7
        t56 = t43 > t55
        t57 = t43 if t56 else t55
        t58 = t46 < t10
        t59 = t46 if t58 else t10
        t60 = t10 if t58 else t46
        t61 = t28 < t59
        t63 = t59 if t61 else t28
        t64 = t60 < t63
        t65 = t60 if t64 else t63
        t67 = t35 < t17
        t68 = t35 if t67 else t17
        t69 = t53 < t68
        t70 = t53 if t69 else t68
        t71 = t65 < t57
        t72 = t65 if t71 else t57
        t73 = t57 if t71 else t65
        t74 = t70 < t72
        t76 = t72 if t74 else t70
        t77 = t76 < t73
        t78 = t76 if t77 else t73
        t80 = t17 != t17
        t81 = t35 != t35
        t82 = t53 != t53
        t83 = t80 | t81
        t84 = t83 | t82
        t85 = f32(nan) if t84 else t78
        o0[j] = t85


@row_function(apart=("o0", "o1"), overlap=(32, 7))
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
        r12 = r0 != r0
        r13 = r1 != r1
        r14 = r2 != r2
        r15 = r12 | r13
        r16 = r15 | r14
        r17 = f32(nan) if r16 else r11
        r18 = x_1[j]
        r19 = x_1[j + 1]
        r20 = x_1[j + 2]
        r21 = r20 < r18
        r22 = r20 if r21 else r18
        r23 = r18 if r21 else r20
        r24 = r19 < r22
        r25 = r19 if r24 else r22
        r26 = r22 if r24 else r19
        r27 = r23 < r26
        r28 = r23 if r27 else r26
        r29 = r26 if r27 else r23
        r30 = r18 != r18
        r31 = r19 != r19
        r32 = r20 != r20
        r33 = r30 | r31
        r34 = r33 | r32
        r35 = f32(nan) if r34 else r29
        r36 = x_2[j]
        r37 = x_2[j + 1]
        r38 = x_2[j + 2]
        r39 = r38 < r36
        r40 = r38 if r39 else r36
        r41 = r36 if r39 else r38
        r42 = r37 < r40
        r43 = r37 if r42 else r40
        r44 = r40 if r42 else r37
        r45 = r41 < r44
        r46 = r41 if r45 else r44
        r47 = r44 if r45 else r41
        r48 = r36 != r36
        r49 = r37 != r37
        r50 = r38 != r38
        r51 = r48 | r49
        r52 = r51 | r50
        r53 = f32(nan) if r52 else r47
        r54 = r25 > r7
        r55 = r25 if r54 else r7
        r56 = r43 > r55
        r57 = r43 if r56 else r55
        r58 = r46 < r10
        r59 = r46 if r58 else r10
        r60 = r10 if r58 else r46
        r61 = r28 < r59
        r62 = r59 if r61 else r28
        r63 = r60 < r62
        r64 = r60 if r63 else r62
        r65 = r35 < r17
        r66 = r35 if r65 else r17
        r67 = r53 < r66
        r68 = r53 if r67 else r66
        r69 = r64 < r57
        r70 = r64 if r69 else r57
        r71 = r57 if r69 else r64
        r72 = r68 < r70
        r73 = r70 if r72 else r68
        r74 = r73 < r71
        r75 = r73 if r74 else r71
        r76 = r17 != r17
        r77 = r35 != r35
        r78 = r53 != r53
        r79 = r76 | r77
        r80 = r79 | r78
        r81 = f32(nan) if r80 else r75
        r82 = x_3[j]
        r83 = x_3[j + 1]
        r84 = x_3[j + 2]
        r85 = r84 < r82
        r86 = r84 if r85 else r82
        r87 = r82 if r85 else r84
        r88 = r83 < r86
        r89 = r83 if r88 else r86
        r90 = r86 if r88 else r83
        r91 = r87 < r90
        r92 = r87 if r91 else r90
        r93 = r90 if r91 else r87
        r94 = r82 != r82
        r95 = r83 != r83
        r96 = r84 != r84
        r97 = r94 | r95
        r98 = r97 | r96
        r99 = f32(nan) if r98 else r93
        r100 = r43 > r25
        r101 = r43 if r100 else r25
        r102 = r89 > r101
        r103 = r89 if r102 else r101
        r104 = r92 < r28
        r105 = r92 if r104 else r28
        r106 = r28 if r104 else r92
        r107 = r46 < r105
        r108 = r105 if r107 else r46
        r109 = r106 < r108
        r110 = r106 if r109 else r108
        r111 = r53 < r35
        r112 = r53 if r111 else r35
        r113 = r99 < r112
        r114 = r99 if r113 else r112
        r115 = r110 < r103
        r116 = r110 if r115 else r103
        r117 = r103 if r115 else r110
        r118 = r114 < r116
        r119 = r116 if r118 else r114
        r120 = r119 < r117
        r121 = r119 if r120 else r117
        r122 = r99 != r99
        r123 = r77 | r78
        r124 = r123 | r122
        r125 = f32(nan) if r124 else r121
        r126 = x_4[j]
        r127 = x_4[j + 1]
        r128 = x_4[j + 2]
        r129 = r128 < r126
        r130 = r128 if r129 else r126
        r131 = r126 if r129 else r128
        r132 = r127 < r130
        r133 = r127 if r132 else r130
        r134 = r130 if r132 else r127
        r135 = r131 < r134
        r136 = r131 if r135 else r134
        r137 = r134 if r135 else r131
        r138 = r126 != r126
        r139 = r127 != r127
        r140 = r128 != r128
        r141 = r138 | r139
        r142 = r141 | r140
        r143 = f32(nan) if r142 else r137
        r144 = r89 > r43
        r145 = r89 if r144 else r43
        r146 = r133 > r145
        r147 = r133 if r146 else r145
        r148 = r136 < r46
        r149 = r136 if r148 else r46
        r150 = r46 if r148 else r136
        r151 = r92 < r149
        r152 = r149 if r151 else r92
        r153 = r150 < r152
        r154 = r150 if r153 else r152
        r155 = r99 < r53
        r156 = r99 if r155 else r53
        r157 = r143 < r156
        r158 = r143 if r157 else r156
        r159 = r154 < r147
        r160 = r154 if r159 else r147
        r161 = r147 if r159 else r154
        r162 = r158 < r160
        r163 = r160 if r162 else r158
        r164 = r163 < r161
        r165 = r163 if r164 else r161
        r166 = r143 != r143
        r167 = r78 | r122
        r168 = r167 | r166
        r169 = f32(nan) if r168 else r165
        o0[j] = r81
        o1[j] = r125
        o2[j] = r169


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    for b in range(out0.shape[0]):
        far = out0.nbytes > 1048576
        many = 0 if far and 30 < n < 497 else out0.shape[1] // 3 * 3
        for i in range(0, many, 3):
            band_rows(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(x, (b, i + 3)), row(x, (b, i + 4)), row(out0, (b, i)), row(out0, (b, i + 1)), row(out0, (b, i + 2)), n)
        for i in range(many, out0.shape[1]):
            band_row(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(out0, (b, i)), n)
