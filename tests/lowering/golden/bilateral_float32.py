"""bilateral: written by ninepoint; changes made here are lost."""

from ninepoint.backends.numba.support import (
    row,
    row_function,
    exp_float32,
    f32,
)


@row_function()
def band_row(x_0, x_1, x_2, o0, n, like_):
    for j in range(n):
        t0 = x_0[j]
        t1 = x_1[j + 1]
        t2 = t0 - t1
        t3 = t2 * t2
        t4 = -t3
        t5 = 2.0 * like_
        t6 = t5 * like_
        t7 = f32(t6)
        t8 = t4 / t7
        t9 = exp_float32(t8)
        t10 = t9 * f32(0.6411803960800171)
        t11 = t10 * t0
        t12 = f32(0.0) + t11
        t13 = f32(0.0) + t10
        t14 = x_0[j + 1]
        t15 = t14 - t1
        t16 = t15 * t15
        t17 = -t16
        t18 = t17 / t7
        t19 = exp_float32(t18)
        t20 = t19 * f32(0.8007373809814453)
        t21 = t20 * t14
        t22 = t12 + t21
        t23 = t13 + t20
        t24 = x_0[j + 2]
        t25 = t24 - t1
        t26 = t25 * t25
        t27 = -t26
        t28 = t27 / t7
        t29 = exp_float32(t28)
        t30 = t29 * f32(0.6411803960800171)
        t31 = t30 * t24
        t32 = t22 + t31
        t33 = t23 + t30
        t34 = x_1[j]
        t35 = t34 - t1
        t36 = t35 * t35
        t37 = -t36
        t38 = t37 / t7
        t39 = exp_float32(t38)
        t40 = t39 * f32(0.8007373809814453)
        t41 = t40 * t34
        t42 = t32 + t41
        t43 = t33 + t40
        t44 = t1 - t1
        t45 = t44 * t44
        t46 = -t45
        t47 = t46 / t7
        t48 = exp_float32(t47)
        t49 = t48 * t1
        t50 = t42 + t49
        t51 = t43 + t48
        t52 = x_1[j + 2]
        t53 = t52 - t1
        t54 = t53 * t53
        t55 = -t54
        t56 = t55 / t7
        t57 = exp_float32(t56)
        t58 = t57 * f32(0.8007373809814453)
        t59 = t58 * t52
        t60 = t50 + t59
        t61 = t51 + t58
        t62 = x_2[j]
        t63 = t62 - t1
        t64 = t63 * t63
        t65 = -t64
        t66 = t65 / t7
        t67 = exp_float32(t66)
        t68 = t67 * f32(0.6411803960800171)
        t69 = t68 * t62
        t70 = t60 + t69
        t71 = t61 + t68
        t72 = x_2[j + 1]
        t73 = t72 - t1
        t74 = t73 * t73
        t75 = -t74
        t76 = t75 / t7
        t77 = exp_float32(t76)
        t78 = t77 * f32(0.8007373809814453)
        t79 = t78 * t72
        t80 = t70 + t79
        t81 = t71 + t78
        t82 = x_2[j + 2]
        t83 = t82 - t1
        t84 = t83 * t83
        t85 = -t84
        t86 = t85 / t7
        t87 = exp_float32(t86)
        t88 = t87 * f32(0.6411803960800171)
        t89 = t88 * t82
        t90 = t80 + t89
        t91 = t81 + t88
        t92 = t90 / t91
        o0[j] = t92


def band(x, out0, near_, like_):
    n = out0.shape[out0.ndim - 1]
    for b in range(out0.shape[0]):
        for i in range(out0.shape[1]):
            band_row(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(out0, (b, i)), n, like_)
