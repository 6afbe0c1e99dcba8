# %% [markdown]
# # The two closest points
#
# Every pair is tried. The result is two points and their distance, so the signature has three
# results: two with the axis `d` of the coordinates, and a number.

# %% In plain Python
import math

import numba
import numpy as np
from timing import compare

import ninepoint as npt


def pair(points):
    least = math.inf
    first, second = 0, 0
    for i in range(len(points)):
        for j in range(i + 1, len(points)):
            x = points[i, 0] - points[j, 0]
            y = points[i, 1] - points[j, 1]
            if x * x + y * y < least:
                least = x * x + y * y
                first, second = i, j
    return points[first], points[second], math.sqrt(least)


points = np.random.default_rng(0).uniform(-1, 1, (8100, 2))
few = points[:200]
one, other, distance = pair(few)
print(f"200 points: {one} and {other}, {distance:.6f} apart")

# %% Compiled
closest = npt.gufunc("(p,d)->(d),(d),()")(pair)
of_numba = numba.njit("Tuple((float64[:], float64[:], float64))(float64[:,:])")(pair)

for mine, plain in zip(closest(few), pair(few), strict=True):
    assert np.array_equal(mine, plain)
for mine, theirs in zip(closest(points), of_numba(points), strict=True):
    assert np.array_equal(mine, theirs)
compare(
    plain_Python_60_points=lambda: pair(few[:60]),
    Numba_60_points=lambda: of_numba(few[:60]),
    ninepoint_60_points=lambda: closest(few[:60]),
)
compare(Numba=lambda: of_numba(points), ninepoint=lambda: closest(points))

# %% [markdown]
# A stack of clouds is shared among the threads; on one cloud there is one result, and one thread.

# %% Many clouds at once
clouds = np.random.default_rng(1).random((40, 500, 2))
ones, others, distances = closest(clouds)
assert distances.shape == (40,)
assert ones.shape == others.shape == (40, 2)
assert distances[7] == closest(clouds[7])[2]
compare(one_thread=lambda: closest(clouds, threads=1), all_threads=lambda: closest(clouds))
