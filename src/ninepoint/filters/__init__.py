"""Ready-made filters: each is a few lines of stencil, to be used, read and copied.

    y = npt.filters.median(x, size=5)
    y = npt.filters.gaussian(x, sigma=1.5, boundary="wrap")

A filter works on the last two axes (the only one of an array that has one); axes before them
are a stack. A tuple, one entry for each axis, makes it work on as many last axes: `size=(3, 3, 3)`
filters volumes. `axes=` or `dims=` name others. `Options` lists what every filter takes.

On floats the results are those of scipy.ndimage, for every border it has. An image of integers
gives an image of the same integers, rounded to nearest and held between their least and greatest
value; SciPy cuts the fraction off. Sums, and what may be negative where the image is not
(`sum`, `sobel`, `prewitt`, `laplace`, and `correlate` with weights that are integers), are exact
instead, in the smallest dtype that holds every possible result. Deviations, slopes by `gradient`,
derivatives of Gaussians and thresholds are float64.

A stencil is made once for each size or set of weights, and compiled once for each dtype.
"""

from __future__ import annotations

from functools import partial

from .filtering import Options as Options
from .morphology import (
    black_tophat,
    closing,
    dilate,
    erode,
    morphological_gradient,
    opening,
    white_tophat,
)
from .reductions import local_std, maximum, mean, median, minimum, percentile, sum
from .smoothing import bilateral, gaussian, gaussian_laplace, threshold_local, unsharp
from .weights import correlate, gradient, laplace, prewitt, sobel

__all__ = [
    "bilateral",
    "black_tophat",
    "closing",
    "correlate",
    "dilate",
    "erode",
    "gaussian",
    "gaussian_laplace",
    "gradient",
    "laplace",
    "local_std",
    "maximum",
    "mean",
    "median",
    "minimum",
    "morphological_gradient",
    "opening",
    "percentile",
    "prewitt",
    "sobel",
    "sum",
    "threshold_local",
    "unsharp",
    "white_tophat",
]

__dir__ = partial(sorted, __all__)
