"""Packages that only images need."""

from __future__ import annotations

from ..undisturbed import imported

# What is imported of a package beside itself.
_PARTS = {
    "PIL": ("PIL.Image", "PIL.BmpImagePlugin", "PIL.JpegImagePlugin", "PIL.PngImagePlugin"),
}


def need(*modules: str) -> None:
    """Import `modules`, or say which one is missing and how to get all of them."""
    for module in modules:
        try:
            for one in (module, *_PARTS.get(module, ())):
                imported(one)
        except ImportError as error:
            raise ImportError(
                f"Reading and writing images needs '{module}', which cannot be imported "
                f"({error}). Install it with: pip install 'ninepoint[images]'"
            ) from error
