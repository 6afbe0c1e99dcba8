"""
A wave in two media
===================

A wave meets a slower medium: part of it is thrown back, part goes on, bent.
"""

import matplotlib.pyplot as plt
import numpy as np

import ninepoint as npt


# %%
# The two results take the place of the first two fields in the next step; the third stays.
@npt.stencil(boundary="keep")
def wave(u, before, speed):
    """Two states, u and the one before; the square of the speed stays as it is."""
    around = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0]
    return 2 * u[0, 0] - before[0, 0] + speed[0, 0] * around, u[0, 0]


# %%
# Two speeds on the two sides of an inclined line, and a drop to begin with.
n = 400
rows, columns = np.mgrid[:n, :n]
fast, slow = 0.5, 0.25
speed = np.where(columns + rows // 4 < 260, fast, slow).astype("float32") ** 2
start = np.exp(-((columns - 150) ** 2 + (rows - 200) ** 2) / 60).astype("float32")

# %%
# A callback keeps the state after every 120 steps.
frames = {}
wave.iterate(
    start,
    start,
    speed,
    steps=480,
    every=120,
    callback=lambda step, u, before: frames.__setitem__(step, u),
)
print(f"{len(frames)} pictures of {n} x {n} points, {max(frames)} steps")

figure, axes = plt.subplots(1, 4, figsize=(16, 4.4), layout="constrained")
for one, (step, u) in zip(axes, frames.items(), strict=True):
    one.imshow(u, cmap="RdBu_r", vmin=-0.12, vmax=0.12)
    one.contour(speed, levels=[(fast**2 + slow**2) / 2], colors="black", linewidths=0.8)
    one.set_title(f"step {step}")
    one.set_axis_off()
plt.show()
