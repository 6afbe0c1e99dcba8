"""first_edge, on the general path: written by ninepoint."""

import math

import numpy as np

from ninepoint.backends.relative import (
    along_all,
    along_any,
    along_max,
    along_mean,
    along_median,
    along_min,
    along_prod,
    along_ptp,
    along_std,
    along_var,
    cast,
    ceiled,
    clipped,
    floored,
    look,
    near,
    njit,
    op_add,
    op_and,
    op_eq,
    op_floordiv,
    op_ge,
    op_gt,
    op_le,
    op_lshift,
    op_lt,
    op_mod,
    op_mul,
    op_ne,
    op_or,
    op_pow,
    op_rshift,
    op_sub,
    op_word,
    op_xor,
    peek,
    rounded,
    saturated,
    stored,
    unowned,
    whole,
    wide,
    window,
    wrapped,
)

inf, nan = math.inf, math.nan
FLAGS = dict(nogil=True, error_model='numpy', boundscheck=True, fastmath=False)


@njit(**FLAGS, cache=True)
def point(x):
    steps = 0
    while steps < 3 and abs(wide(peek(x.array, (x.place[0], x.place[1] + 0, near(x.place[2], steps, 0, 2, x.outside, 0)))) - wide(peek(x.array, (x.place[0], x.place[1] + 0, x.place[2] + 0)))) < 10:
        steps += 1
    return steps


def band(field0, out0, outside):
    field0 = unowned(field0)
    outside = unowned(outside)
    for b in range(out0.shape[0]):
        for i0 in range(out0.shape[1]):
            for j in range(out0.shape[2]):
                value = point(look(field0, (b, i0, j), outside))
                out0[b, i0, j] = stored(value, out0)
