"""The GPU that figures were taken on."""

from __future__ import annotations

from typing import Any

from .. import machine

PACKAGES = (
    "cupy-cuda13x", "cupy-cuda12x", "nvidia-cuda-nvrtc", "torch", "triton", "jax", "numba-cuda",
)  # fmt: skip


def describe() -> dict[str, Any]:
    """The machine with its GPU, what drives it, and the versions of the others."""
    import cupy

    from ninepoint.backends.cuda import driver

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    found = machine.describe(PACKAGES)
    found["gpu"] = {
        "text": driver.described(),
        "processors": properties.get("multiProcessorCount"),
        "cache": properties.get("l2CacheSize"),
        "compiler": driver.compiler(),
        "cupy": cupy.__version__,
    }
    return found
