"""
The ground through the year
===========================

A wall whose temperature changes in time, against the exact solution.

The surface is warm in summer and cold in winter. Below it the wave of a year fades, and comes
late: exp(-z / d) at the depth z, and z / d later, where d is how deep heat comes in a year.
"""

import matplotlib.pyplot as plt
import numpy as np

import ninepoint as npt

# %%
# Metres and days: cells of 20 cm down to 20 m, and soil through which heat creeps.
DIFFUSIVITY, SPACING, DEPTH, YEAR = 0.05, 0.2, 20.0, 365.0
R = 0.4
DAYS = R * SPACING**2 / DIFFUSIVITY  # in a step
REACHED = np.sqrt(DIFFUSIVITY * YEAR / np.pi)


@npt.stencil
def creep(temperature):
    around = temperature[-1] + temperature[1]
    return temperature[0] + R * (around - 2 * temperature[0])


# %%
# The surface is a function of the step; from below nothing flows.
def surface(step):
    return 10 + 12 * np.sin(2 * np.pi * step * DAYS / YEAR)


depths = np.arange(SPACING / 2, DEPTH, SPACING)
walls = ((npt.dirichlet(surface), npt.neumann(0)),)
steps = round(6 * YEAR / DAYS)
year = round(YEAR / DAYS)
taken = []
creep.iterate(
    np.full(depths.size, 10.0),
    steps=steps,
    every=1,
    boundary=walls,
    callback=lambda step, ground: taken.append(ground.copy()),
)

# %%
# After some years the beginning is forgotten.
days = np.arange(steps - year, steps) * DAYS
made = np.array(taken[-year:]).T
late = depths[:, None] / REACHED
exact = 10 + 12 * np.exp(-late) * np.sin(2 * np.pi * (days + DAYS) / YEAR - late)
error = np.abs(made - exact).max()
print(f"{steps} steps of {DAYS:.2f} days; largest error {error:.2f} degrees of 12")

figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
shown = axes[0].imshow(
    made, cmap="RdYlBu_r", aspect="auto", extent=(0, 12, DEPTH, 0), vmin=-2, vmax=22
)
figure.colorbar(shown, ax=axes[0], label="degrees")
axes[0].set(xlabel="month", ylabel="depth [m]", ylim=(12, 0))
for month in (0, 3, 6, 9):
    at = month * year // 12
    axes[1].plot(made[:, at], depths, label=f"month {month}")
    axes[1].plot(exact[::5, at], depths[::5], "k.", markersize=3)
axes[1].set(xlabel="degrees; dots are exact", ylabel="depth [m]", ylim=(12, 0))
axes[1].legend(loc="lower right")
plt.show()
