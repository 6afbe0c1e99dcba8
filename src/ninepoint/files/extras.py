"""Packages that only images need."""

from __future__ import annotations

from importlib import import_module


def need(*modules: str) -> None:
    """Import `modules`, or say which one is missing and how to get all of them."""
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            raise ImportError(
                f"Reading and writing images needs '{module}', which cannot be imported "
                f"({error}). Install it with: pip install 'ninepoint[images]'"
            ) from error
