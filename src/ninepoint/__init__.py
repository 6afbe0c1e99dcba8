"""ninepoint: write what happens at one point, in terms of its neighbours.

    import ninepoint as npt

    @npt.stencil
    def smooth(x):
        return (x[-1, 0] + x[0, -1] + x[0, 0] + x[0, 1] + x[1, 0]) / 5

    y = smooth(image, boundary="reflect")

Importing this package imports neither Numba nor Dask; they come when they are first needed.
"""

from .base.undisturbed import handed_on

__version__ = "0.1.0"

# The names are in `__init__.pyi`.
__getattr__, __dir__, __all__ = handed_on(__name__, __file__)
