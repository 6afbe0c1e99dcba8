# %% [markdown]
# # An approximation of pi
#
# Points in a square are drawn at random; pi / 4 of them lie in the circle. A loop that draws its
# own numbers has no array, and so nothing to be applied to: draw the numbers as arrays, with a
# generator that has a seed, and let a function of numbers say which points lie inside.

# %% In plain Python
import random

import numba
import numpy as np
from timing import compare

import ninepoint as npt


def drawn_one_by_one(samples):
    inside = 0
    for _ in range(samples):
        x = random.uniform(-1, 1)
        y = random.uniform(-1, 1)
        if x * x + y * y < 1.0:
            inside += 1
    return 4 * inside / samples


def mean(values):
    return sum(values) / len(values)


print("plain Python", mean([drawn_one_by_one(10_000) for _ in range(10)]))


# %% As arrays
@npt.ufunc
def within(x, y):
    return x * x + y * y < 1.0


def approximate_pi(samples, rng):
    x, y = rng.uniform(-1, 1, (2, samples))
    return 4 * np.mean(within(x, y))


samples, experiments = 100_000, 10
made = mean([approximate_pi(samples, np.random.default_rng(seed)) for seed in range(experiments)])
print("ninepoint", made)
assert abs(made - np.pi) < 0.01  # six times the standard deviation of a million points

# %% [markdown]
# The count can be one compiled function as well, without an array of truth values: a gufunc whose
# core is the axis of the points. Both give the same number, which is that of plain Python for
# these points.


# %% Counted in one pass
@npt.gufunc("(n),(n)->()")
def share(x, y):
    inside = 0
    for k in range(len(x)):
        if x[k] * x[k] + y[k] * y[k] < 1.0:
            inside += 1
    return 4 * inside / len(x)


x, y = np.random.default_rng(0).uniform(-1, 1, (2, samples))
plain = 4 * sum(a * a + b * b < 1.0 for a, b in zip(x.tolist(), y.tolist(), strict=True)) / samples
assert share(x, y) == 4 * np.mean(within(x, y)) == plain

# %% The times
of_numba = numba.njit(drawn_one_by_one)
rng = np.random.default_rng(0)
compare(
    Numba=lambda: of_numba(samples),
    ninepoint=lambda: share(*rng.uniform(-1, 1, (2, samples))),
    only_the_random_numbers=lambda: rng.uniform(-1, 1, (2, samples)),
)
