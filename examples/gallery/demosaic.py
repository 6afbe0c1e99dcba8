"""
The colours of a sensor
=======================

A pixel of a camera sees one colour; the other two are means of the pixels around it.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage import data

import ninepoint as npt


# %%
# The filters of Bayer (1976): red at even rows and columns, blue at odd ones, green elsewhere.
@npt.stencil
def mosaic(red, green, blue):
    i, j = npt.index(red)
    if (i + j) % 2:
        return green[0, 0]
    return blue[0, 0] if i % 2 else red[0, 0]


# %%
# What is missing lies beside a pixel, or at its corners, by where the pixel is.  A mirror at the
# border leaves even rows even.
@npt.stencil(boundary="mirror")
def demosaic(raw):
    i, j = npt.index(raw)
    here = raw[0, 0]
    beside = (raw[0, -1] + raw[0, 1]) / 2
    above = (raw[-1, 0] + raw[1, 0]) / 2
    corners = (raw[-1, -1] + raw[-1, 1] + raw[1, -1] + raw[1, 1]) / 4
    around = (beside + above) / 2
    if i % 2 == 0:
        return (here, around, corners) if j % 2 == 0 else (beside, here, above)
    return (above, here, beside) if j % 2 == 0 else (corners, around, here)


photograph = data.chelsea().astype("float32") / 255
raw = mosaic(*np.moveaxis(photograph, -1, 0))
colours = np.stack(demosaic(raw), axis=-1)
print(f"mean error {np.abs(colours - photograph).mean():.4f}")

# %%
# What the sensor has, in the colours of its filters, beside what is made of it.
filters = np.zeros_like(photograph)
filters[::2, ::2, 0] = raw[::2, ::2]
filters[::2, 1::2, 1] = raw[::2, 1::2]
filters[1::2, ::2, 1] = raw[1::2, ::2]
filters[1::2, 1::2, 2] = raw[1::2, 1::2]
part = (slice(85, 145), slice(120, 180))
pictures = {"the sensor": filters, "demosaiced": colours, "the photograph": photograph}
figure, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained")
for one, (title, shown) in zip(axes, pictures.items(), strict=True):
    one.imshow(shown[part].clip(0, 1), interpolation="nearest")
    one.set_title(title)
    one.set_axis_off()
plt.show()
