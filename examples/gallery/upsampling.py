"""
A photograph made larger
========================

Four times as many rows and columns, between the pixels that there are.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import ninepoint as npt


# %%
# Result p reads around the pixel p // 4. Without more, that is repeated.
@npt.stencil(upsample=4)
def nearest(x):
    return x[0, 0]


# %%
# The centres of four results lie in each pixel, one eighth, three, five and seven eighths from its
# edge. Around each are two pixels along each axis, of which the nearer one weighs more.
@npt.stencil(boundary="nearest", upsample=4, dtype="uint8")
def bilinear(x):
    i, j = npt.index()
    down, right = ((i + 2) % 4 + 0.5) / 4, ((j + 2) % 4 + 0.5) / 4
    above = (1 - right) * x[(i - 2) // 4, (j - 2) // 4] + right * x[(i - 2) // 4, (j + 2) // 4]
    below = (1 - right) * x[(i + 2) // 4, (j - 2) // 4] + right * x[(i + 2) // 4, (j + 2) // 4]
    return round((1 - down) * above + down * below)


# %%
# The colours are a stack of three images.
photograph = data.astronaut()[60:150, 165:285]
channels = np.moveaxis(photograph, -1, 0)
larger = {"nearest": nearest(channels), "bilinear": bilinear(channels)}
for name, result in larger.items():
    print(f"{name}: {channels.shape} -> {result.shape} {result.dtype}")

figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for one, (name, result) in zip(axes, larger.items(), strict=True):
    one.imshow(np.moveaxis(result, 0, -1), interpolation="nearest")
    one.set_title(name)
    one.set_axis_off()
plt.show()
