"""Run ninepoint where only NumPy and Numba are installed; `make core` makes such a place.

A script and not a test: it must run without pytest, in an environment of its own.
"""

import importlib.util
import sys

import ninepoint as npt

for name in ("numba", "dask", "PIL", "tifffile", "xarray", "distributed", "rich", "ml_dtypes"):
    assert name not in sys.modules, f"'import ninepoint' imported {name}"
for name in ("dask", "PIL", "tifffile", "xarray", "scipy"):
    assert importlib.util.find_spec(name) is None, f"{name} is installed: this proves nothing"

import numpy as np  # noqa: E402  (after the check above, which it must not disturb)


@npt.stencil
def smooth(x):
    return (x[-1, -1] + x[-1, 0] + x[-1, 1] +
            x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
            x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) // 9  # fmt: skip


image = np.arange(20, dtype=np.int8).reshape(4, 5)
result = smooth(image)
expected = np.zeros_like(image)
expected[1:-1, 1:-1] = image[1:-1, 1:-1]  # the mean over a plane is the plane

assert result.dtype == np.int8, result.dtype
np.testing.assert_array_equal(result, expected)
np.testing.assert_array_equal(npt.filters.median(np.ones((3, 3), np.uint8), size=3), 1)
print(f"ninepoint {npt.__version__} works with NumPy and Numba alone")
