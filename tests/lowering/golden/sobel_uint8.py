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


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    for b in range(out0.shape[0]):
        for i in range(out0.shape[1]):
            band_row(row(x, (b, i)), row(x, (b, i + 1)), row(x, (b, i + 2)), row(out0, (b, i)), n)
