"""ninepoint: write what happens at one point, in terms of its neighbours.

    import ninepoint as npt

    @npt.stencil
    def smooth(x):
        return (x[-1, 0] + x[0, -1] + x[0, 0] + x[0, 1] + x[1, 0]) / 5

    y = smooth(image, boundary="reflect")

Importing this package imports neither Numba nor Dask; they come when they are first needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .api import Stencil, stencil
from .language.errors import StencilError

if TYPE_CHECKING:
    from . import filters
    from .files import ImageReadError, imread, imsave

__version__ = "0.1.0"

__all__ = [
    "ImageReadError",
    "Stencil",
    "StencilError",
    "filters",
    "imread",
    "imsave",
    "stencil",
]

_LAZY = {"ImageReadError": ".files", "imread": ".files", "imsave": ".files"}


def __getattr__(name: str) -> Any:
    if name == "filters":
        return importlib.import_module(".filters", __name__)
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
