"""
An ocean with land in it
========================

The mean of a window eats the coast, unless it leaves out what is missing.
"""

import matplotlib.pyplot as plt
import numpy as np

import ninepoint as npt


# %%
# Land is NaN. The first kernel is the plain mean; the second takes what there is, asks for three
# neighbours at least, and leaves land as it is.
@npt.stencil(boundary=("nearest", "wrap"))
def plain(x):
    return x[-2:3, -2:3].mean()


@npt.stencil(boundary=("nearest", "wrap"))
def coast_aware(x, least=3):
    near = x[-2:3, -2:3]
    enough = np.isfinite(near).sum() >= least
    return np.nanmean(near) if enough and np.isfinite(x[0, 0]) else np.nan


# %%
# A globe of two degrees, with continents out of smooth noise. The border is one rule for each
# axis: nothing lies beyond the poles, and the last meridian is the first one's neighbour.
rng = np.random.default_rng(7)
latitude = np.linspace(-89, 89, 90)
shape = (90, 180)
border = ("nearest", "wrap")
height = npt.filters.gaussian(rng.normal(size=shape), 7, boundary=border)
coast = npt.filters.gaussian(rng.normal(size=shape), 1.5, boundary=border)
land = height / height.std() + 0.4 * coast / coast.std() > 0.7
warmth = 29 * np.cos(np.radians(latitude))[:, None] ** 1.5 + rng.normal(0, 2.5, shape)
sea = np.where(land, np.nan, warmth).astype("float32")

smooth, kept = plain(sea), coast_aware(sea)
print(f"sea: {np.isfinite(sea).sum()} points as measured, "
      f"{np.isfinite(smooth).sum()} after the plain mean, "
      f"{np.isfinite(kept).sum()} after the other")  # fmt: skip

figure, axes = plt.subplots(1, 3, figsize=(16, 3.4), layout="constrained")
pictures = {"as measured": sea, "mean of 5 x 5": smooth, "mean of what there is": kept}
colours = plt.get_cmap("turbo").with_extremes(bad="0.75")
for one, (title, values) in zip(axes, pictures.items(), strict=True):
    shown = one.imshow(values, cmap=colours, vmin=-5, vmax=32, origin="lower")
    one.set_title(title)
    one.set_axis_off()
figure.colorbar(shown, ax=axes, shrink=0.8, label="degrees Celsius")
plt.show()
