# %% [markdown]
# # Types
#
# With Numba one may declare the types of arguments and result; then the function takes no others.
# Here nothing is declared: each combination of types is compiled when it first comes, and what
# comes out follows from what goes in. `dtype=` asks for another type of the result.

# %% A mean of two numbers
import numba
import numpy as np
from timing import compare

import ninepoint as npt


def mean_of_two(x, y):
    return (x + y) / 2.0


average = npt.ufunc(mean_of_two)
declared = numba.vectorize([numba.float64(numba.int32, numba.int32)])(mean_of_two)
alone = numba.njit(numba.float64(numba.int32, numba.int32))(mean_of_two)

rng = np.random.default_rng(0)
x, y = rng.integers(-1000, 1000, (2, 100_000), dtype=np.int32)
assert average(3, 4) == alone(3, 4) == 3.5
assert average(x, y).dtype == declared(x, y).dtype == np.float64
assert np.array_equal(average(x, y), declared(x, y))
compare(Numba=lambda: declared(x, y), ninepoint=lambda: average(x, y))


# %% The same under a decorator, and for all types
@npt.ufunc
def average_numbers(x, y):
    return (x + y) / 2.0


most = np.array([2**31 - 1], np.int32)
assert average_numbers(most, most) == 2**31 - 1  # the sum is exact, as in Python
for dtype in (np.uint8, np.int64, np.float32, np.float64, np.complex128):
    values = np.arange(4).astype(dtype)
    print(f"{np.dtype(dtype)!s:10s} -> {average_numbers(values, values).dtype}")

# %% A type that is asked for
assert average_numbers(x, y, dtype=np.float32).dtype == np.float32


# %% [markdown]
# A signature of arrays, `float64[:, :]`, becomes the names of their axes.


# %% A signature of arrays
def rows_by_columns(A, B, C):
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * B[k, j]
            C[i, j] = total


matmul = npt.gufunc("(n,k),(k,m)->(n,m)")(rows_by_columns)
types = numba.void(*[numba.float64[:, :]] * 3)
typed = numba.njit(types)(rows_by_columns)

A, B = rng.random((2, 100, 100))
C = np.zeros_like(A)
typed(A, B, C)
np.testing.assert_allclose(matmul(A, B), C, rtol=1e-13)
compare(Numba=lambda: typed(A, B, C), ninepoint=lambda: matmul(A, B))
