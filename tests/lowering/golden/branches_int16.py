"""branches: written by ninepoint; changes made here are lost."""

from ninepoint.backends.numba.support import (
    row,
    row_function,
    i16,
    i32,
    u16,
)


@row_function()
def band_row(x_0, o0, n):
    for j in range(n):
        t0 = x_0[j]
        t1 = x_0[j + 2]
        t2 = x_0[j + 1]
        t3 = i32(i32(t2) - i32(t0))
        t4 = u16(-t3 if t3 < i32(0) else t3)
        t5 = t4 > u16(40)
        t6 = i32(i32(t2) - i32(t1))
        t7 = u16(-t6 if t6 < i32(0) else t6)
        t8 = t7 > u16(40)
        t9 = t5 & t8
        t10 = i32(i32(t0) + i32(t1))
        t11 = i16(t10 >> i32(1))
        t12 = t2 < i16(0)
        t13 = t2 if t2 > i16(-100) else i16(-100)
        t14 = t13 if t12 else t2
        t15 = t11 if t9 else t14
        o0[j] = t15


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    for b in range(out0.shape[0]):
        for i in range(out0.shape[1]):
            band_row(row(x, (b, i)), row(out0, (b, i)), n)
