# %% [markdown]
# # Functions that call functions
#
# A function that is called needs no decorator: it is compiled into its caller. One of
# `numba.njit` may be called as well, and a ufunc may be called by another.

# %% Plain functions, and those of Numba
import math

import numba
import numpy as np
from timing import compare

import ninepoint as npt


def square(x):
    return x**2


@numba.njit
def square_of_numba(x):
    return x**2


@npt.ufunc
def squared(x):
    return x**2


@npt.ufunc
def hypot(x, y):
    return math.sqrt(square(x) + square(y))


@npt.ufunc
def hypot_of_mixed(x, y):
    return math.sqrt(square_of_numba(x) + squared(y))


@numba.vectorize
def hypot_of_numba(x, y):
    return math.sqrt(square_of_numba(x) + square_of_numba(y))


x, y = np.random.default_rng(0).random((2, 100_000))
assert np.array_equal(hypot(x, y), hypot_of_numba(x, y))
assert np.array_equal(hypot_of_mixed(x, y), hypot_of_numba(x, y))
assert hypot(3, 4) == hypot_of_numba(3, 4) == 5
compare(Numba=lambda: hypot_of_numba(x, y), ninepoint=lambda: hypot(x, y))


# %% [markdown]
# A gufunc calls plain functions too, and a stencil calls ufuncs: as a stage, where it is given
# fields, and as a plain function, where it is given numbers.


# %% In a gufunc and in a stencil
@npt.gufunc("(n)->()")
def length(x):
    total = 0.0
    for value in x:
        total += square(value)
    return math.sqrt(total)


@npt.stencil
def steepness(z):
    return hypot(z[0, 1] - z[0, -1], z[1, 0] - z[-1, 0])


z = np.random.default_rng(0).random((50, 60))
inner = np.hypot(z[1:-1, 2:] - z[1:-1, :-2], z[2:, 1:-1] - z[:-2, 1:-1])
np.testing.assert_allclose(steepness(z)[1:-1, 1:-1], inner, rtol=1e-12)
np.testing.assert_allclose(length(z), np.sqrt((z * z).sum(axis=1)), rtol=1e-12)
