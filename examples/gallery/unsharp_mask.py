"""
A photograph made sharper
=========================

What a blur takes away is added once more.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import ninepoint as npt

# %%
# The blur is a stage of the kernel that sharpens: a few of its rows are kept, never an image.
WEIGHTS = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256


@npt.stencil(boundary="reflect")
def blur(x):
    return (x[-2:3, -2:3] * WEIGHTS).sum()


@npt.stencil(boundary="reflect", dtype="uint8", overflow="saturate")
def sharpen(x, amount=2.0, threshold=2.0):
    lost = x[0, 0] - blur(x)[0, 0]
    return round(x[0, 0] + (amount * lost if abs(lost) > threshold else 0.0))


# %%
# The colours are a stack of three images.
photograph = data.astronaut()
channels = np.moveaxis(photograph, -1, 0)  # the colours are a stack of three images
sharp = np.moveaxis(sharpen(channels), 0, -1)
print(f"{photograph.dtype} {photograph.shape} -> {sharp.dtype} {sharp.shape}")

part = (slice(20, 220), slice(130, 330))
figure, axes = plt.subplots(1, 2, figsize=(11, 5.5), layout="constrained")
for one, (title, shown) in zip(axes, {"before": photograph, "after": sharp}.items(), strict=True):
    one.imshow(shown[part], interpolation="nearest")
    one.set_title(title)
    one.set_axis_off()
plt.show()
