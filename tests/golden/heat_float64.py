"""heat: written by ninepoint; changes made here are lost."""

from ninepoint.backends.support import (
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


def band(u, out0, rate_):
    n = out0.shape[out0.ndim - 1]
    for b in range(out0.shape[0]):
        for i in range(out0.shape[1]):
            band_row(row(u, (b, i)), row(u, (b, i + 1)), row(u, (b, i + 2)), row(out0, (b, i)), n, rate_)
