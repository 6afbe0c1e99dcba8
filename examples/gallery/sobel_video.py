"""
Edges in a video
================

The frames are a stack, and the stencil works on its last two axes.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import ninepoint as npt


# %%
# The slope is exact, whatever the bytes are; what exceeds a byte in the end is held at 255.
@npt.stencil(boundary="nearest", dtype="uint8", overflow="saturate")
def sobel(x):
    along = x[1, -1] + 2 * x[1, 0] + x[1, 1] - x[-1, -1] - 2 * x[-1, 0] - x[-1, 1]
    across = x[-1, 1] + 2 * x[0, 1] + x[1, 1] - x[-1, -1] - 2 * x[0, -1] - x[1, -1]
    return round(math.hypot(along, across) / 2)


# %%
# A camera that moves over a photograph: 48 frames of 200 x 300.
photograph = data.coins()
ways = np.linspace(0, 1, 48)
corners = [(round(100 * t), round(42 + 40 * math.sin(2 * math.pi * t))) for t in ways]
video = np.stack([photograph[r : r + 200, c : c + 300] for r, c in corners])

edges = sobel(video)
print(f"{video.dtype} {video.shape} -> {edges.dtype} {edges.shape}")

# %%
figure, axes = plt.subplots(2, 4, figsize=(16, 6), layout="constrained")
for column, frame in enumerate((0, 15, 31, 47)):
    axes[0, column].imshow(video[frame], cmap="gray", vmin=0, vmax=255)
    axes[1, column].imshow(edges[frame], cmap="gray", vmin=0, vmax=255)
    axes[0, column].set_title(f"frame {frame}")
for one in axes.flat:
    one.set_axis_off()
plt.show()
