"""
Blocks of a photograph
======================

A pool makes one point of each block: its mean, or how much it varies.
"""

import matplotlib.pyplot as plt
from skimage import data

import ninepoint as npt

SIZE = 8


# %%
# A window from 0 on, and a result for each block: with "valid", for each whole one.
@npt.stencil(boundary="valid", every=SIZE)
def pooled(x):
    block = x[0:SIZE, 0:SIZE]
    return block.mean(), block.max() - block.min()


photograph = data.camera()
means, spreads = pooled(photograph)
print(f"{photograph.shape} -> {means.shape}")

# %%
# The same by cutting the array into blocks, which holds for whole ones too.
rows, columns = (n // SIZE for n in photograph.shape)
blocks = photograph[: rows * SIZE, : columns * SIZE].reshape(rows, SIZE, columns, SIZE)
assert (means == blocks.mean(axis=(1, 3))).all()

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.5), layout="constrained")
left.imshow(means, cmap="gray")
left.set_title(f"means of {SIZE} x {SIZE}")
right.imshow(spreads, cmap="magma")
right.set_title("greatest less least")
for axes in (left, right):
    axes.set_axis_off()
plt.show()
