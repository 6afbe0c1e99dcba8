"""Packages that only images need."""

from __future__ import annotations

from ..undisturbed import imported

# What is imported of a package beside itself.
_PARTS = {
    "PIL": ("PIL.Image", "PIL.BmpImagePlugin", "PIL.JpegImagePlugin", "PIL.PngImagePlugin"),
}


# The name by which pip knows a module.
_PACKAGES = {"PIL": "pillow", "dask.array": "'dask[array]'"}


def need(*modules: str) -> None:
    """Import `modules`, or say which one is missing and how to get it."""
    for module in modules:
        try:
            for one in (module, *_PARTS.get(module, ())):
                imported(one)
        except ImportError as error:
            raise ImportError(
                f"Reading and writing images needs '{module}', which cannot be imported "
                f"({error}). Install it with: pip install {_PACKAGES.get(module, module)}"
            ) from error
