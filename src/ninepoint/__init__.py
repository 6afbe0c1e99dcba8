"""ninepoint: write what happens at one point, in terms of its neighbours.

    import ninepoint as npt

    @npt.stencil
    def smooth(x):
        return (x[-1, 0] + x[0, -1] + x[0, 0] + x[0, 1] + x[1, 0]) / 5

    y = smooth(image, boundary="reflect")

Importing this package imports neither Numba nor Dask; they come when they are first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base.undisturbed import handed_on

if TYPE_CHECKING:
    from . import filters, shapes
    from .api.pointwise import Ufunc, ufunc
    from .api.stencil import Stencil, stencil
    from .arrays.conditions import Condition, dirichlet, extrapolate, neumann, robin
    from .gufuncs.api import Gufunc, gufunc
    from .inspecting.explaining import explain
    from .inspecting.measuring import Measurement
    from .inspecting.surroundings import info
    from .io.frames import imsave
    from .io.images import imread
    from .io.opening import open
    from .io.paths import ImageReadError
    from .io.saving import save
    from .iteration.slabs.slab import distribute
    from .language.errors import (
        ChannelWarning,
        MetadataWarning,
        PerformanceWarning,
        RoundingWarning,
        StencilError,
    )
    from .language.positions import index, spacing
    from .language.statistics import entropy, mode, trimmed_mean
    from .lowering.schedule import Schedule
    from .running.recording import Lazy, compute, lazy

__version__ = "0.1.0"

__all__ = [
    "ChannelWarning",
    "Condition",
    "Gufunc",
    "ImageReadError",
    "Lazy",
    "Measurement",
    "MetadataWarning",
    "PerformanceWarning",
    "RoundingWarning",
    "Schedule",
    "Stencil",
    "StencilError",
    "Ufunc",
    "compute",
    "dirichlet",
    "distribute",
    "entropy",
    "explain",
    "extrapolate",
    "filters",
    "gufunc",
    "imread",
    "imsave",
    "index",
    "info",
    "lazy",
    "mode",
    "neumann",
    "open",
    "robin",
    "save",
    "shapes",
    "spacing",
    "stencil",
    "trimmed_mean",
    "ufunc",
]

# Where public names are found when they are first used; modules are themselves.
_PLACES = {
    "": "filters shapes",
    ".api.stencil": "Stencil stencil",
    ".arrays.conditions": "Condition dirichlet extrapolate neumann robin",
    ".gufuncs.api": "Gufunc gufunc",
    ".inspecting.measuring": "Measurement",
    ".inspecting.explaining": "explain",
    ".inspecting.surroundings": "info",
    ".io.frames": "imsave",
    ".io.images": "imread",
    ".io.opening": "open",
    ".io.paths": "ImageReadError",
    ".io.saving": "save",
    ".language.errors": (
        "ChannelWarning MetadataWarning PerformanceWarning RoundingWarning StencilError"
    ),
    ".language.positions": "index spacing",
    ".language.statistics": "entropy mode trimmed_mean",
    ".lowering.schedule": "Schedule",
    ".api.pointwise": "Ufunc ufunc",
    ".running.recording": "Lazy compute lazy",
    ".iteration.slabs.slab": "distribute",
}

__getattr__, __dir__ = handed_on(__name__, _PLACES)
