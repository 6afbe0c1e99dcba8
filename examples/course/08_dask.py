# %% [markdown]
# # With Dask
#
# With Numba a compiled function is one task of `dask.delayed`, and the tasks are put together by
# hand. A ufunc takes Dask arrays as they are: each block is a task, without the interpreter's
# lock.

# %% Tasks put together by hand
import random

import dask
import dask.array as da
import numba
import numpy as np
from timing import compare

import ninepoint as npt


@numba.njit(nogil=True)
def drawn_one_by_one(samples):
    inside = 0
    for _ in range(samples):
        x = random.uniform(-1, 1)
        y = random.uniform(-1, 1)
        if x * x + y * y < 1.0:
            inside += 1
    return 4 * inside / samples


samples, experiments = 1_000_000, 10
experiment = dask.delayed(drawn_one_by_one)
by_hand = dask.delayed(np.mean)([experiment(samples) for _ in range(experiments)])
print("Numba", by_hand.compute())


# %% Arrays of Dask
@npt.ufunc
def within(x, y):
    return x * x + y * y < 1.0


x, y = da.random.default_rng(0).uniform(-1, 1, (2, experiments, samples), chunks=(1, 1, -1))
approximation = 4 * within(x, y).mean()
made = approximation.compute()
print("ninepoint", made)
assert abs(made - np.pi) < 0.01

# %% [markdown]
# The numbers have a seed, so they are the same in each run and on any number of workers. What a
# loop draws in a compiled function has a state for each thread.

# %% The times
assert approximation.compute() == made
compare(
    Numba=by_hand.compute,
    ninepoint=approximation.compute,
    only_the_random_numbers=lambda: dask.compute(x.sum(), y.sum()),
)


# %% A gufunc over blocks
@npt.gufunc("(n),(n)->()")
def share(x, y):
    inside = 0
    for k in range(len(x)):
        if x[k] * x[k] + y[k] * y[k] < 1.0:
            inside += 1
    return 4 * inside / len(x)


estimates = share(x, y)
assert estimates.shape == (experiments,)
assert estimates.dtype == np.float64
assert np.isclose(estimates.mean().compute(), made, rtol=1e-12)
