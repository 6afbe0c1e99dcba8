"""
A pyramid of a photograph
=========================

Each level is the one below, smoothed and with every second row and column. After Burt and
Adelson (1983).
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import ninepoint as npt

# %%
# Only the points that remain are computed: result p reads around 2 * p.
BELL = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype("float32") / 256


@npt.stencil(boundary="mirror", every=2)
def reduced(x):
    return (x[-2:3, -2:3] * BELL).sum()


# %%
# A kernel that calls it reads a smaller array.
@npt.stencil(boundary="mirror")
def third_level(x):
    first = reduced(x)
    second = reduced(first)
    third = reduced(second)
    return third[0, 0]


photograph = data.camera().astype("float32")
levels = [photograph]
while len(levels) < 5:
    levels.append(reduced(levels[-1]))
assert np.array_equal(third_level(photograph), levels[3])
print(*(f"{rows} x {columns}" for rows, columns in (level.shape for level in levels)))

# %%
# All levels beside each other.
height, width = photograph.shape
canvas = np.full((height, width + levels[1].shape[1]), np.nan)
canvas[:, :width] = photograph
top = 0
for level in levels[1:]:
    rows, columns = level.shape
    canvas[top : top + rows, width : width + columns] = level
    top += rows
figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
axes.imshow(canvas, cmap="gray")
axes.set_axis_off()
plt.show()
