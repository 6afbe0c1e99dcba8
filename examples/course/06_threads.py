# %% [markdown]
# # Threads
#
# `parallel=True` with `prange` says which loop is shared among threads. Here it is always the
# loop that the function does not have: the elements of a ufunc, the stack of a gufunc, the points
# of a stencil.

# %% A product, its rows shared
import numba
import numpy as np
from numba import prange
from timing import compare

import ninepoint as npt


@npt.gufunc("(n,k),(k,m)->(n,m)")
def matmul(A, B):
    C = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * B[k, j]
            C[i, j] = total
    return C


@numba.njit(parallel=True)
def parallel_loops(A, B, C):
    for i in prange(A.shape[0]):
        for j in range(B.shape[1]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * B[k, j]
            C[i, j] = total


A, B = np.random.default_rng(0).random((2, 200, 200))
C = np.zeros_like(A)
parallel_loops(A, B, C)
assert np.array_equal(matmul(A, B), C)

# %% [markdown]
# One product is one item, and has one thread. With an axis more, the rows are a stack of matrices
# of one row each, and all threads have work; B is the same for all of them and is not copied.

# %% Each row an item of a stack
by_rows = matmul(A[:, np.newaxis, :], B)[:, 0, :]
assert np.array_equal(by_rows, C)
compare(
    Numba_parallel=lambda: parallel_loops(A, B, C),
    ninepoint_one_item=lambda: matmul(A, B),
    ninepoint_rows=lambda: matmul(A[:, np.newaxis, :], B),
)


# %% [markdown]
# The next function goes through sines and their inverses many times over, with arrays in NumPy's
# functions. As a gufunc it stays as it is: each item is an array, and a stack of them is shared
# among the threads.


# %% Functions of whole arrays
def round_trips(x, iterations):
    for _ in range(iterations):
        x = np.arcsin(np.sin(x))
        x = np.arccos(np.cos(x))
        x = np.arctan(np.tan(x))
    return x


evaluate = npt.gufunc("(n)->(n)")(round_trips)
of_numba = numba.njit(round_trips)

x = np.linspace(-1500, 1500, 100)
np.testing.assert_allclose(evaluate(x, 20), round_trips(x, 20), atol=1e-10)
assert np.array_equal(evaluate(x, 20), of_numba(x, 20))
compare(
    NumPy=lambda: round_trips(x, 1000),
    Numba=lambda: of_numba(x, 1000),
    ninepoint=lambda: evaluate(x, 1000),
)

# %% Four of them at once
several = x + np.arange(4)[:, np.newaxis]
assert np.array_equal(evaluate(several, 20)[3], of_numba(several[3], 20))
compare(
    Numba_one_after_the_other=lambda: [of_numba(row, 1000) for row in several],
    ninepoint_one_thread=lambda: evaluate(several, 1000, threads=1),
    ninepoint=lambda: evaluate(several, 1000),
)

# %% [markdown]
# One round of it is a function of one number, and `iterate` takes an array through the rounds.


# %% Functions of one number, step by step
@npt.ufunc
def once(x):
    x = np.arcsin(np.sin(x))
    x = np.arccos(np.cos(x))
    return np.arctan(np.tan(x))


np.testing.assert_allclose(once.iterate(x, steps=20), evaluate(x, 20), atol=1e-10)

# %% [markdown]
# Numba's `parallel_diagnostics` tells which loops are shared; `explain` tells that of ours, the
# result's type and why, and the way that the loop takes.

# %% Diagnostics
print(once.explain("float64"))
print(matmul.explain("float64"))
