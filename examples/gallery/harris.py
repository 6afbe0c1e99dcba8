"""
Corners of a photograph
=======================

After Harris and Stephens (1988): stencils that call each other.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import ninepoint as npt

# %%
# The gradients are a stencil of their own, with two results.
ACROSS = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], "float32") / 8


@npt.stencil(boundary="reflect")
def gradients(x):
    return (x[-1:2, -1:2] * ACROSS.T).sum(), (x[-1:2, -1:2] * ACROSS).sum()


# %%
# The response calls it and reads windows of what it gives. Only a few rows of the gradients
# are kept, never an image of them.
@npt.stencil(boundary="reflect")
def response(x, k=0.05):
    """How much the gradients in a window differ in direction: det - k trace**2."""
    along, across = gradients(x)
    p = (along[-2:3, -2:3] * along[-2:3, -2:3]).sum()
    q = (along[-2:3, -2:3] * across[-2:3, -2:3]).sum()
    r = (across[-2:3, -2:3] * across[-2:3, -2:3]).sum()
    return p * r - q * q - k * (p + r) * (p + r)


# %%
# A corner is where the response is the greatest of its surroundings.
@npt.stencil
def peaks(x, least):
    return x[0, 0] > least and x[0, 0] == x[-4:5, -4:5].max()


photograph = data.camera()
strength = response(photograph.astype("float32") / 255)
corners = peaks(strength, 0.02 * float(strength.max()))
rows, columns = np.nonzero(corners)
print(f"{len(rows)} corners in a photograph of {photograph.shape}")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.5), layout="constrained")
left.imshow(photograph, cmap="gray")
left.plot(columns, rows, "o", mfc="none", mec="red", ms=5)
left.set_title(f"{len(rows)} corners")
right.imshow(np.cbrt(strength), cmap="RdBu_r", vmin=-0.4, vmax=0.4)
right.set_title("response (cube root)")
for axes in (left, right):
    axes.set_axis_off()
plt.show()
