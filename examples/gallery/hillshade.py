"""
Slope and shade of a landscape
==============================

A real elevation model: the Jacksboro fault, from Matplotlib's sample data.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cbook import get_sample_data

import ninepoint as npt


# %%
# The rise to the north and to the east are two results of one kernel; the distances between
# points are numbers of the call, as degrees of longitude are shorter than those of latitude.
@npt.stencil(boundary="nearest")
def gradient(z, north, east):
    """Rise to the north and to the east, after Horn (1981)."""
    up = z[-1, -1] + 2 * z[-1, 0] + z[-1, 1] - z[1, -1] - 2 * z[1, 0] - z[1, 1]
    right = z[-1, 1] + 2 * z[0, 1] + z[1, 1] - z[-1, -1] - 2 * z[0, -1] - z[1, -1]
    return up / (8 * north), right / (8 * east)


# %%
# What needs no neighbours is a stencil as well, here with functions of ``math``.
@npt.stencil
def slope(up, right):
    return math.degrees(math.atan(math.hypot(up[0, 0], right[0, 0])))


@npt.stencil
def shade(up, right, azimuth=315.0, altitude=45.0):
    a, h = math.radians(azimuth), math.radians(altitude)
    light = -math.cos(h) * (up[0, 0] * math.cos(a) + right[0, 0] * math.sin(a)) + math.sin(h)
    return max(0.0, light / math.sqrt(1 + up[0, 0] ** 2 + right[0, 0] ** 2))


# %%
# Read, compute, draw.
dem = get_sample_data("jacksboro_fault_dem.npz")
z = dem["elevation"].astype("float64")
metres = 111_320.0  # of a degree of latitude
north = float(dem["dy"]) * metres
east = float(dem["dx"]) * metres * math.cos(math.radians(float(dem["ymin"])))
up, right = gradient(z, north, east)
steep, lit = slope(up, right), shade(up, right)
print(f"{z.shape} points of {north:.0f} x {east:.0f} m, up to {steep.max():.0f} degrees steep")

figure, axes = plt.subplots(1, 3, figsize=(15, 5), layout="constrained")
pictures = [("elevation [m]", z, "terrain"), ("slope [degrees]", steep, "magma")]
pictures.append(("shade, light from the north-west", lit, "gray"))
for one, (title, values, colours) in zip(axes, pictures, strict=True):
    shown = one.imshow(values, cmap=colours, aspect=north / east)
    figure.colorbar(shown, ax=one, shrink=0.7)
    one.set_title(title)
    one.set_axis_off()
plt.show()
assert np.isfinite(lit).all()
