"""One image of a TIFF, tile by tile, through tifffile: also one that is larger than memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..files import tiff
from ..files.errors import MALFORMED, ImageReadError, reason_of
from ..files.labels import labels
from ..language.colour import stack_name
from ..language.warned import MetadataWarning, warn
from ..undisturbed import imported
from .blocks import natural
from .extras import need
from .marks import mark_of
from .named import Named
from .stored import Array, Stored

# The tag in which a GeoTIFF says where on the Earth it is (OGC GeoTIFF 1.1, GeoKeyDirectoryTag).
GEO_KEYS = 34735


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a file, of shape (rows, columns[, channels]), by the byte where it begins."""

    path: str
    place: int

    def open(self) -> Any:
        """Read the description of the page, all of it while the file is open."""
        need("Reading TIFF", "tifffile")
        with tiff.lines_once(self.path), imported("tifffile").TiffFile(self.path) as file:
            page: Any = tiff.opened(file, self.place)
            assert page.decode
            assert page.dataoffsets is not None
            assert page.databytecounts is not None
            assert page.jpegtables is None or page.jpegtables
            return page

    def read(self, opened: Any, index: tuple[slice, ...]) -> Array:
        """Decode the tiles, or the strips, that hold these elements."""
        page = opened
        rows, columns = index[0], index[1]
        shape = [s.stop - s.start for s in (rows, columns)]
        result: Array = np.empty((*shape, page.shaped[-1]), np.dtype(page.dtype))
        high, wide = page.chunks[:2]
        across = -(-page.imagewidth // wide)
        with open(self.path, "rb") as file, tiff.lines_once(self.path):
            for down in range(rows.start // high, -(-rows.stop // high)):
                for along in range(columns.start // wide, -(-columns.stop // wide)):
                    number = down * across + along
                    tile = _decoded(file, page, number, self.path)
                    _put(result, tile, (down * high, along * wide), (rows, columns))
        found: Array = result[..., index[2]] if len(index) == 3 else result[..., 0]
        return found


def _decoded(file: Any, page: Any, number: int, path: str) -> Array:
    try:
        file.seek(page.dataoffsets[number])
        data = file.read(page.databytecounts[number])
        if not data or len(data) < page.databytecounts[number]:
            raise ValueError("the file is truncated" if data else "it is missing")
        tables = {} if page.jpegtables is None else {"jpegtables": page.jpegtables}
        tile, _, shape = page.decode(data, number, **tables)
    except MALFORMED as error:
        raise ImageReadError(path, 0, f"tile {number}: {reason_of(error)}") from error
    # A volume has one more axis, of which this is one slice; what sticks out is cut off.
    found: Array = np.asarray(tile)[0][tuple(slice(0, n) for n in shape[1:])]
    return found


def _put(result: Array, tile: Array, at: tuple[int, int], index: tuple[slice, slice]) -> None:
    """Copy what a tile has of the box that is read."""
    target, source = [], []
    for first, n, span in zip(at, tile.shape, index, strict=False):
        a, b = max(first, span.start), min(first + n, span.stop)
        target.append(slice(a - span.start, b - span.start))
        source.append(slice(a - first, b - first))
    result[tuple(target)] = tile[tuple(source)]


def look_at(path: str) -> tuple[tuple[int, ...], bool]:
    """Where the full images of a TIFF begin, and whether the first one is of the Earth."""
    need("Reading TIFF", "tifffile")
    mark_of(path)
    with open(path, "rb") as file, tiff.lines_once(path):
        places = tiff.page_places(file, os.path.getsize(path))
        file.seek(0)
        with imported("tifffile").TiffFile(file) as opened:
            return places, GEO_KEYS in tiff.opened(opened, places[0]).tags


def open_page(path: str, place: int) -> Named | None:
    """Look at an image; None where it is not to be read by tiles."""
    mark = mark_of(path)
    with tiff.lines_once(path), imported("tifffile").TiffFile(path) as file:
        page: Any = tiff.opened(file, place)
        separate, depth, rows, columns, channels = page.shaped
        plain = separate == depth == 1 and page.photometric not in (3, 5) and page.dtype
        if not plain or file.is_imagej or page.bitspersample % 8 or len(page.chunks) < 2:
            return None
        if not min(page.chunks):
            raise ValueError(f"its tiles have the shape {tuple(page.chunks)}")
        dtype = np.dtype(page.dtype)
        high, wide = page.chunks[:2]
        said = labels(file, page)
    if said is not None and said.size:
        name = os.path.basename(path)
        warn(f"{name} is {said.kind} with pixels of {said.size}, which open drops.",
             MetadataWarning)  # fmt: skip
    shape = (rows, columns) if channels == 1 else (rows, columns, channels)
    pieces = (high, wide) if channels == 1 else (high, wide, channels)
    stored = Stored(Page(mark.path, place), mark, shape, dtype.newbyteorder("="), pieces)
    blocks = natural(shape, dtype.itemsize, pieces)
    return Named(stored, blocks, name=stack_name(shape, "{}"))
