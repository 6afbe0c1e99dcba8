# %% [markdown]
# # The mean of square roots
#
# In the course this is the first program for a graphics card. Here it runs on the processor, on
# all its cores where there is a stack.

# %% In plain Python
import math

import numba
import numpy as np
from timing import compare

import ninepoint as npt


def mean_of_roots(values):
    total = 0.0
    for value in values:
        total += math.sqrt(value)
    return total / len(values)


values = np.random.default_rng(0).random(1_000_000)
few = values[:10_000]

# %% Compiled
average_sqrt = npt.gufunc("(n)->()")(mean_of_roots)
average_sqrt_fast = npt.gufunc("(n)->()", fastmath=True)(mean_of_roots)
of_numba = numba.njit(mean_of_roots)

assert average_sqrt(few) == mean_of_roots(few)
assert average_sqrt(values) == of_numba(values)
assert np.isclose(average_sqrt_fast(values), of_numba(values), rtol=1e-9)
compare(plain_10_000_numbers=lambda: mean_of_roots(few), ninepoint=lambda: average_sqrt(few))
compare(
    Numba=lambda: of_numba(values),
    ninepoint=lambda: average_sqrt(values),
    ninepoint_fastmath=lambda: average_sqrt_fast(values),
)

# %% [markdown]
# A kernel for a graphics card shares the sum by hand: each thread adds every so many numbers. As
# a stack, the same share of the work is a row, and the mean of the rows' means is the mean of
# all.

# %% Shared by hand
shared = average_sqrt(values.reshape(100, -1))
assert shared.shape == (100,)
assert np.isclose(shared.mean(), of_numba(values), rtol=1e-12)
compare(
    Numba=lambda: of_numba(values),
    ninepoint_a_stack=lambda: average_sqrt(values.reshape(100, -1)).mean(),
    ninepoint_stack_fastmath=lambda: average_sqrt_fast(values.reshape(100, -1)).mean(),
)
