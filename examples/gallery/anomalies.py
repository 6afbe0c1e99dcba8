"""
Anomalies of a time series
==========================

How far a value lies from those around it, in units of their deviation.
"""

import matplotlib.pyplot as plt
import numpy as np

import ninepoint as npt


# %%
# The window holds the 24 hours before and after. The point itself is taken out of mean and
# deviation, or a large value would hide itself.
@npt.stencil(boundary="mirror")
def local_score(x):
    """The distance from the local mean, with the point itself left out of mean and deviation."""
    window = x[-24:25]
    n = 48
    mean = (window.sum() - x[0]) / n
    squares = ((window * window).sum() - x[0] * x[0]) / n
    return (x[0] - mean) / np.sqrt(max(squares - mean * mean, 1e-12))


# %%
# A series with a trend, a period of ten days, noise, and five values that do not belong.
rng = np.random.default_rng(3)
hours = np.arange(24 * 60)
series = 20 + 0.004 * hours + 2 * np.sin(2 * np.pi * hours / 240) + rng.normal(0, 0.4, hours.size)
put_in = np.array([200, 555, 556, 910, 1300])
series[put_in] += [4, -3.5, -3.5, 5, -4]

score = local_score(series)
found = np.flatnonzero(np.abs(score) > 4)
print(f"put in at {put_in.tolist()}, found at {found.tolist()}")

# %%
# Trend and period do not disturb the score, for all that is in the mean of the neighbours.
figure, (top, bottom) = plt.subplots(2, 1, figsize=(11, 6), sharex=True, layout="constrained")
top.plot(hours, series, lw=0.8)
top.plot(found, series[found], "ro", mfc="none", ms=9)
top.set_ylabel("value")
top.set_title("a series with five odd values")
bottom.plot(hours, score, lw=0.8)
for limit in (-4, 4):
    bottom.axhline(limit, color="red", lw=0.8, ls="--")
bottom.set_ylabel("local z-score")
bottom.set_xlabel("hour")
plt.show()
