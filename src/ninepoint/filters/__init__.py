"""Ready-made filters: each is a few lines of stencil, to be used, read and copied.

    y = npt.filters.median(x, size=5)
    y = npt.filters.gaussian(x, sigma=1.5, boundary="wrap")

A filter works on the last two axes (the only one of an array that has one); axes before them
are a stack. A tuple, one entry for each axis, makes it work on as many last axes: `size=(3, 3, 3)`
filters volumes. `axes=` or `dims=` name others. `Options` lists what every filter takes.

On floats the results are those of scipy.ndimage, for every border it has. An image of integers
gives an image of the same integers, rounded to nearest and held between their least and greatest
value; SciPy cuts the fraction off. What may be negative where the image is not (`sobel`,
`prewitt`, `laplace`, and `correlate` with weights that are integers) is exact instead, in the
smallest dtype that holds every possible result.

A stencil is made once for each size or set of weights, and compiled once for each dtype.
"""

from __future__ import annotations

from functools import partial

from .filtering import Options as Options
from .ranks import median, percentile
from .reductions import dilate, erode, local_std, maximum, mean, minimum
from .weights import correlate, gaussian, laplace, prewitt, sobel, unsharp

__all__ = [
    "correlate",
    "dilate",
    "erode",
    "gaussian",
    "laplace",
    "local_std",
    "maximum",
    "mean",
    "median",
    "minimum",
    "percentile",
    "prewitt",
    "sobel",
    "unsharp",
]

__dir__ = partial(sorted, __all__)
