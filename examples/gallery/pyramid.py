"""
A pyramid of a photograph
=========================

Each level is the one below, smoothed and with every second row and column; what is lost from
one to the next brings them all back. After Burt and Adelson (1983).
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import ninepoint as npt

# %%
# Only the points that remain are computed: result p reads around 2 * p.
BELL = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1])


@npt.stencil(boundary="mirror", every=2)
def reduced(x):
    return (x[-2:3, -2:3] * BELL).sum() / 256


photograph = data.camera().astype("float64")
levels = [photograph]
while len(levels) < 5:
    levels.append(reduced(levels[-1]))
print(*(f"{rows} x {columns}" for rows, columns in (level.shape for level in levels)))


# %%
# And back, to twice as many rows and columns: every second one lies on one of the smaller level,
# and the others between two.
@npt.stencil(boundary="mirror", upsample=2)
def expanded(x):
    i, j = npt.index()
    column = (x[0, 0] + x[1, 0]) / 2 if i % 2 else (x[-1, 0] + 6 * x[0, 0] + x[1, 0]) / 8
    if j % 2:
        return (column[0, 0] + column[0, 1]) / 2
    return (column[0, -1] + 6 * column[0, 0] + column[0, 1]) / 8


@npt.stencil
def detail(fine, coarse):
    return fine[0, 0] - expanded(coarse)[0, 0]


@npt.stencil
def restored(coarse, lost):
    return expanded(coarse)[0, 0] + lost[0, 0]


# %%
# The smallest level and what each step has lost are the whole photograph. The weights are
# fractions of powers of two: float64 rounds nothing here.
lost = [detail(fine, coarse) for fine, coarse in pairwise(levels)]
image = levels[-1]
for step in reversed(lost):
    image = restored(image, step)
assert np.array_equal(image, photograph)

# %%
# The levels, and what was lost from each to the next.
figure, rows = plt.subplots(2, 4, figsize=(12, 6), layout="constrained")
for axes, level, less in zip(rows.T, levels, lost, strict=False):
    axes[0].imshow(level, cmap="gray")
    axes[0].set_title(f"{level.shape[0]} x {level.shape[1]}")
    axes[1].imshow(less, cmap="gray", vmin=-40, vmax=40)
    for one in axes:
        one.set_axis_off()
plt.show()
