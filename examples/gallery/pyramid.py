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
# All levels beside each other, and what was lost.


def beside(images):
    """Draw the first one, and the others in a column beside it."""
    height, width = images[0].shape
    canvas = np.full((height, width + images[1].shape[1]), np.nan)
    canvas[:, :width] = images[0]
    top = 0
    for one in images[1:]:
        rows, columns = one.shape
        canvas[top : top + rows, width : width + columns] = one
        top += rows
    return canvas


figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.imshow(beside(levels), cmap="gray")
left.set_title("levels")
right.imshow(beside([*lost, levels[-1] - levels[-1].mean()]), cmap="gray", vmin=-40, vmax=40)
right.set_title("what each has lost, and the smallest")
for axes in (left, right):
    axes.set_axis_off()
plt.show()
