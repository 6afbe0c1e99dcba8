"""GeoTIFF: laid out by rioxarray, which knows of projections, then filled tile by tile."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays.recognise import is_xarray
from ..stores.extras import need
from ..undisturbed import imported
from .alone import alone
from .units import Region

# Tiles are squares of so many pixels: a multiple of 16, as the format asks for.
TILE = 512


@dataclass(frozen=True, slots=True)
class Raster:
    """The bands of a file."""

    path: str

    def write(self, block: np.ndarray, region: Region) -> None:
        """Write whole tiles."""
        need("Writing GeoTIFF", "rasterio")
        rasterio: Any = imported("rasterio")
        *bands, rows, columns = region
        first = bands[0].start if bands else 0
        block = block if bands else block[None]
        window = ((rows.start, rows.stop), (columns.start, columns.stop))
        with alone(self.path), rasterio.open(self.path, "r+") as file:
            file.write(block, range(first + 1, first + 1 + len(block)), window=window)


def is_on_earth(result: Any) -> bool:
    """Whether a result says where on Earth it is."""
    if not is_xarray(result):
        return False
    if "rioxarray" not in sys.modules and "spatial_ref" not in result.coords:
        return False
    need("Writing GeoTIFF", "rioxarray")
    imported("rioxarray")
    return result.rio.crs is not None


def check(result: Any) -> None:
    """Raise where a GeoTIFF cannot hold such an array."""
    if not imported("rasterio").dtypes.check_dtype(result.dtype):
        raise TypeError(
            f"a GeoTIFF cannot hold {result.dtype} values: convert them first, such as "
            "array.astype('float32')"
        )
    x, y = result.rio.x_dim, result.rio.y_dim
    if result.ndim not in (2, 3) or result.dims[-2:] != (y, x):
        raise ValueError(
            f"a GeoTIFF holds ({y}, {x}) or (band, {y}, {x}), not {result.dims}; "
            "transpose the array first"
        )


def lay_out(path: str, result: Any) -> None:
    """Write everything but the pixels."""
    zeros = imported("dask.array").zeros(result.shape, dtype=result.dtype, chunks=-1)
    result.copy(data=zeros).rio.to_raster(
        path, driver="GTiff", tiled=True, blockxsize=TILE, blockysize=TILE, bigtiff="IF_SAFER",
        lock=threading.Lock(), compute=False,
    )  # fmt: skip
