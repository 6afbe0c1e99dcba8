"""
Heat with fixed and periodic borders
====================================

Heat in a plate, against the exact solution.

A product of waves keeps its shape and fades: exp(-k t) at time t, with k from the equation. The
error is that of the method, of second order in the distance of the points.
"""

import matplotlib.pyplot as plt
import numpy as np

import ninepoint as npt


# %%
# One step, for any border: that is said at the call.
@npt.stencil
def heat(u, r):
    return u[0, 0] + r * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0])


# %%
# The steps are counted so that the end is at the same time on every grid.
def solve(border, n, r=0.2, end=0.02):
    """Temperatures at the beginning, at the end, and exactly at the end."""
    if border == "keep":
        # The edges stay at 0: half a wave along x, one along y.
        h = 1 / (n - 1)
        x, y = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n))
        start, rate = np.sin(np.pi * x) * np.sin(2 * np.pi * y), 5 * np.pi**2
        start[[0, -1]] = start[:, [0, -1]] = 0
    else:
        h = 1 / n
        x, y = np.meshgrid(np.arange(n) * h, np.arange(n) * h)
        start, rate = np.sin(2 * np.pi * x) * np.cos(2 * np.pi * y), 8 * np.pi**2
    steps = round(end / (r * h * h))
    made = heat.iterate(start, r, steps=steps, boundary=border)
    return start, made, start * np.exp(-rate * steps * r * h * h)


# %%
# Twice as many points along an axis leave a quarter of the error.
figure, axes = plt.subplots(2, 3, figsize=(12, 7.5), layout="constrained")
for row, (border, words) in zip(axes, {"keep": "fixed", "wrap": "periodic"}.items(), strict=True):
    for n in (33, 65, 129, 257):
        start, made, exact = solve(border, n)
        error = np.abs(made - exact).max()
        print(f"{words:8s} borders, {n:3d} x {n:3d} points: largest error {error:.2e}")
    for one, values, title in zip(
        row, (start, made, made - exact), ("start", "end", "error"), strict=True
    ):
        most = np.abs(values).max()
        shown = one.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most)
        figure.colorbar(shown, ax=one, shrink=0.8)
        one.set_title(f"{words} borders, {title}")
        one.set_axis_off()
plt.show()
