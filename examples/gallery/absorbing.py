"""
Waves that leave
================

Sound in a box without walls: an absorbing layer at the edge throws nothing back.
"""

import matplotlib.pyplot as plt
import numpy as np

import ninepoint as npt


# %%
# Pressure is known in the middle of cells, velocities on the faces below and to the right of
# them. Each direction is damped by itself, so pressure is split into what its two directions add
# to it: the perfectly matched layer of Bérenger (1994).
@npt.stencil(boundary="constant")
def faces(py, px, vy, vx, dy, dx, r):
    """Give the velocities, half a step later."""
    down = py[1, 0] + px[1, 0] - py[0, 0] - px[0, 0]
    right = py[0, 1] + px[0, 1] - py[0, 0] - px[0, 0]
    return (
        ((1 - dy[0, 0] / 2) * vy[0, 0] - r * down) / (1 + dy[0, 0] / 2),
        ((1 - dx[0, 0] / 2) * vx[0, 0] - r * right) / (1 + dx[0, 0] / 2),
    )


# %%
# The pressure needs the new velocities of two faces along each axis: those are a stage.
@npt.stencil(boundary="constant")
def step(py, px, vy, vx, dy, dx, r=0.5):
    """Take both parts of the pressure, and the velocities, one step on."""
    wy, wx = faces(py, px, vy, vx, dy, dx, r)
    return (
        ((1 - dy[0, 0] / 2) * py[0, 0] - r * (wy[0, 0] - wy[-1, 0])) / (1 + dy[0, 0] / 2),
        ((1 - dx[0, 0] / 2) * px[0, 0] - r * (wx[0, 0] - wx[0, -1])) / (1 + dx[0, 0] / 2),
        wy[0, 0],
        wx[0, 0],
    )


# %%
# Without damping the edge is a wall. With it, 20 points swallow the pulse.
n, width = 240, 20
rows, columns = np.mgrid[:n, :n]
pulse = np.exp(-((rows - 90) ** 2 + (columns - 150) ** 2) / 30) / 2
still = np.zeros((n, n))
depth = np.maximum(0, width - np.minimum(np.arange(n), np.arange(n)[::-1])) / width


def pictures(strength):
    """The pressure after 100, 200, 300 and 400 steps."""
    d = strength * depth**2
    frames = []
    step.iterate(
        pulse, pulse, still, still, d[:, None], d[None, :],
        steps=400, every=100, callback=lambda _, py, px, vy, vx: frames.append(py + px),
    )  # fmt: skip
    return frames


figure, axes = plt.subplots(2, 4, figsize=(16, 8.4), layout="constrained")
for line, (words, strength) in zip(axes, {"walls": 0.0, "layer": 0.2}.items(), strict=True):
    for one, frame, steps in zip(line, pictures(strength), (100, 200, 300, 400), strict=True):
        one.imshow(frame, cmap="RdBu_r", vmin=-0.1, vmax=0.1)
        one.set_title(f"{words}, step {steps}")
        one.set_axis_off()
    print(f"{words}: {np.abs(frame).max():.4f} is left")
plt.show()
