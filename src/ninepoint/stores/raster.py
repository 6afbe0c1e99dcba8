"""Rasters of the Earth, through rioxarray, which knows of coordinates and projections.

Only the full resolution is read: overviews are copies of it, and no frames.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..undisturbed import imported
from .blocks import natural
from .extras import need
from .marks import mark_of
from .named import Named
from .stored import Array, Stored


@dataclass(frozen=True, slots=True)
class Raster:
    """The bands of a file, of shape (band, y, x)."""

    path: str

    def open(self) -> threading.local:
        """Give each thread a place for a dataset of its own: GDAL lets no two use one."""
        need("Reading GeoTIFF", "rasterio")
        return threading.local()

    def read(self, opened: Any, index: tuple[slice, ...]) -> Array:
        """Read a window of some bands."""
        if not hasattr(opened, "dataset"):
            opened.dataset = imported("rasterio").open(self.path)
        bands, rows, columns = index
        return np.asarray(
            opened.dataset.read(
                list(range(bands.start + 1, bands.stop + 1)),
                window=((rows.start, rows.stop), (columns.start, columns.stop)),
            )
        )


def open_raster(path: str) -> Named:
    """Look at a GeoTIFF."""
    need("Reading GeoTIFF", "xarray", "rasterio", "rioxarray")
    mark = mark_of(path)
    found: Any = imported("rioxarray").open_rasterio(path, cache=False)
    rasterio: Any = imported("rasterio")
    if not hasattr(found, "dims") or isinstance(found, list) or hasattr(found, "data_vars"):
        raise ValueError(
            f"{path!r} holds several images of different kinds; open the one you need with "
            "rioxarray.open_rasterio(path, variable=...)."
        )
    with rasterio.open(path) as opened:
        rows, columns = opened.block_shapes[0]
        apart = opened.interleaving is None or opened.interleaving.name != "pixel"
    shape, dtype = tuple(found.shape), np.dtype(found.dtype)
    pieces = (1 if apart else shape[0], int(rows), int(columns))
    stored = Stored(Raster(mark.path), mark, shape, dtype, pieces)
    return Named(stored, natural(shape, dtype.itemsize, pieces), dims=found.dims, like=found)
