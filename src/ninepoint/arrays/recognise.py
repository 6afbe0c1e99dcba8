"""Recognise arrays of other libraries without importing those libraries.

An object can only be a Dask array if somebody has imported Dask: `sys.modules` knows.
"""

from __future__ import annotations

import sys
from typing import Any


def is_dask(value: object) -> bool:
    """Whether `value` is a Dask array."""
    return _isinstance(value, "dask.array", "Array")


def is_xarray(value: object) -> bool:
    """Whether `value` is an xarray DataArray."""
    return _isinstance(value, "xarray", "DataArray")


def is_dataset(value: object) -> bool:
    """Whether `value` is an xarray Dataset, which a stencil does not take."""
    return _isinstance(value, "xarray", "Dataset")


def _isinstance(value: object, module: str, name: str) -> bool:
    # A library that is just being imported by another thread lacks its names still.
    kind: Any = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)
