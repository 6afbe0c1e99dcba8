# %% [markdown]
# # A matrix product
#
# Three loops, compiled. With Numba the loops are a function that is given the array for the
# result; with ninepoint they are a function that returns it, and the signature says which axes it
# is about.

# %% The system
from time import perf_counter

import numba
import numpy as np
from timing import compare

import ninepoint as npt

print(npt.info())


# %% Loops in plain Python
def loops(A, B, C):
    for i in range(len(A)):
        for j in range(B.shape[1]):
            total = 0.0
            for k in range(len(B)):
                total += A[i, k] * B[k, j]
            C[i, j] = total


rng = np.random.default_rng(0)
N = 200
A, B = rng.random((N, N)), rng.random((N, N))
C = np.zeros_like(A)

start = perf_counter()
loops(A[:40, :40], B[:40, :40], C[:40, :40])
print(f"plain Python, 40 x 40: {1e3 * (perf_counter() - start):.1f} ms")


# %% [markdown]
# The signature names the core axes: `n` rows, `m` columns, and `k` is summed over. What comes
# before these axes is a stack. The array `C` has the shape of the result, so it *is* the result:
# the loops write where the caller reads, and nothing is copied.


# %% The function under a decorator
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


compiled_loops = numba.njit(loops)
compiled_loops(A, B, C)
assert np.array_equal(matmul(A, B), C)
print(matmul.explain("float64"))

# %% [markdown]
# The decorator is a function as well, and Numba's own style, in which the result is a parameter,
# is accepted too.

# %% The function as an argument
in_numbas_style = npt.gufunc("(n,k),(k,m)->(n,m)")(loops)
assert np.array_equal(in_numbas_style(A, B), C)

# %% The times
out = np.empty_like(C)
compare(
    Numba=lambda: compiled_loops(A, B, C),
    ninepoint=lambda: matmul(A, B, out=out),
    ninepoint_new_result=lambda: matmul(A, B),
    NumPy_and_BLAS=lambda: A @ B,
)

# %% [markdown]
# The first call includes the compilation. It is kept on disk, so the first call of the *next*
# process is short as well, without an option for it; `04_options.py` measures that.

# %% Compilation is not execution
single = A.astype(np.float32), B.astype(np.float32)
for call in ("first", "second"):
    start = perf_counter()
    made = matmul(*single)
    print(f"{call} call {1e3 * (perf_counter() - start):.1f} ms")
np.testing.assert_allclose(made, C, rtol=1e-5)

# %% [markdown]
# A stack of matrices needs no other function; nor do matrices of another dtype.

# %% A stack, and other types
stack = rng.random((3, 5, 20, 30))
assert matmul(stack, rng.random((30, 10))).shape == (3, 5, 20, 10)
whole = rng.integers(0, 9, (4, 4))
assert np.array_equal(matmul(whole, whole), whole @ whole)
