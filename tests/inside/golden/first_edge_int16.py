"""first_edge: written by ninepoint; changes made here are lost."""

from ninepoint.backends.llvm.library import (
    row,
    row_function,
    i32,
    i64,
    u8,
    u16,
)


@row_function()
def band_row(x_0, o0, n):
    for j in range(n):
        t0 = x_0[j]
        t1 = i32(i32(t0) - i32(t0))
        t2 = u16(-t1 if t1 < i32(0) else t1)
        t3 = t2 < u16(10)
        t4_c0 = t3
        t4_c1 = u8(0)
        t4_n0 = 0
        while t4_c0:
            t4_u1_0 = u8(t4_c1 + u8(1))
            t4_u1_1 = t4_u1_0 < u8(3)
            t4_u1_2_i1 = i64(t4_u1_0)
            t4_u1_2_i1 = t4_u1_2_i1 if t4_u1_1 else 2
            t4_u1_2 = x_0[j + t4_u1_2_i1]
            t4_u1_3 = i32(i32(t4_u1_2) - i32(t0))
            t4_u1_4 = u16(-t4_u1_3 if t4_u1_3 < i32(0) else t4_u1_3)
            t4_u1_5 = t4_u1_4 < u16(10)
            t4_u1_6 = t4_u1_1 & t4_u1_5
            t4_c0, t4_c1 = t4_u1_6, t4_u1_0
            t4_n0 = t4_n0 + 1
        t5 = i64(t4_c1)
        o0[j] = t5


def band(x, out0):
    n = out0.shape[out0.ndim - 1]
    for b in range(out0.shape[0]):
        for i in range(out0.shape[1]):
            band_row(row(x, (b, i)), row(out0, (b, i)), n)
