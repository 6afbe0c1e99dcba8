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

from ..base.undisturbed import handed_on

# The names are in `__init__.pyi`.
__getattr__, _, _names = handed_on(__name__, __file__)
__all__ = [name for name in _names if name.islower()]
__dir__ = __all__.copy
