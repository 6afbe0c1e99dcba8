"""TIFF, through tifffile: any number of pages in a file, each one a frame.

The chain of pages is walked here, with a few reads for each page, because a folder of stacks
has to be counted before its shape is known.  Only the place of each page is kept; tifffile
reads a page from its place without following the chain again.
"""

from __future__ import annotations

import logging
import math
import os
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ..base.undisturbed import imported
from ..language.colour import stack_name
from ..language.warned import MetadataWarning, warn
from .formats import BEST_DEFLATE_RATIO, TIFF_SIGNATURES, Header, check_claim, check_like
from .opened import Found, Opened, opened
from .paths import need, readable

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffPage

# tifffile's own bound: more tags than this are taken for damage.
MOST_TAGS = 4096
# Tags are sorted by their numbers, and those that are looked for come first.
FIRST_TAGS = 16
DEFLATE = (8, 32946)

# NewSubfileType, a set of bits: 1 for a smaller copy of another page, 4 for a mask of one. And the
# older SubfileType, of which 2 is a smaller copy (TIFF 6.0, pages 36 and 40).
NEW_SUBFILE_TYPE, SUBFILE_TYPE = 254, 255

# The tag in which a GeoTIFF says where on the Earth it is (OGC GeoTIFF 1.1, GeoKeyDirectoryTag).
GEO_KEYS = 34735

# Kinds of files whose axes only tifffile knows, by its names, and what they are called.
_KINDS = {"ome": "OME-TIFF", "imagej": "an ImageJ stack", "shaped": "a stack"} | {
    kind: f"a file of kind {kind.upper()}"
    for kind in ("lsm", "stk", "fluoview", "micromanager", "ndtiff", "nih", "philips", "scn")
}

# OME's metadata is XML, of which a few attributes are wanted: they are found, not parsed.
_PHYSICAL_SIZE = re.compile(r'PhysicalSize(\w+)\s*=\s*"([^"]*)"')


def page_places(file: BinaryIO, size: int) -> tuple[int, ...]:
    """Find the byte at which each page of `file` is described, in order.

    Smaller copies of other pages, as overviews and thumbnails are, and masks are left out.

    Raises
    ------
    ValueError
        If the file is no TIFF, has no page, or its chain leaves the file or turns in a circle.
    """
    head = file.read(16)
    is_large = head[2:4] in (b"+\0", b"\0+")
    if not head.startswith(TIFF_SIGNATURES) or len(head) < (16 if is_large else 8):
        raise ValueError("it is no TIFF" if head else "it is empty")
    order = "<" if head.startswith(b"II") else ">"
    count, address, at = ("Q", "Q", 8) if is_large else ("H", "I", 4)
    # Of a tag its number, type and count, and its value as words of 16 bits: numbers that fit
    # stand in one of the first two.
    tag = struct.Struct(f"{order}HH{address}{struct.calcsize(address) // 2}H")

    def number(form: str, at: int) -> int:
        file.seek(at)
        data = file.read(struct.calcsize(form))
        if len(data) < struct.calcsize(form):
            raise ValueError(f"it is truncated: a page description should be at byte {at}")
        return int(struct.unpack(order + form, data)[0])

    places: dict[int, bool] = {}
    while place := number(address, at):
        if place in places:
            raise ValueError(f"its chain of pages turns back to page {list(places).index(place)}")
        if place >= size:
            raise ValueError(f"page {len(places)} lies at byte {place} of {size}: truncated")
        tags = number(count, place)
        if not 0 < tags <= MOST_TAGS:
            raise ValueError(f"page {len(places)} claims {tags} tags")
        data = file.read(min(tags, FIRST_TAGS) * tag.size)
        whole = tag.iter_unpack(data[: len(data) - len(data) % tag.size])
        said = {number: first | second for number, _, _, first, second, *_ in whole}
        copies = said.get(NEW_SUBFILE_TYPE, 0) & 5 or said.get(SUBFILE_TYPE) == 2
        places[place] = not copies
        at = place + struct.calcsize(count) + tags * tag.size
    if not places:
        raise ValueError("it holds no page")
    frames = tuple(place for place, is_frame in places.items() if is_frame)
    if not frames:
        raise ValueError("its pages are smaller copies or masks of pages that it does not hold")
    return frames


# The file that is being read for us, and the lines about such files that were logged.
_reading: ContextVar[str] = ContextVar("reading", default="")
_shown: set[tuple[str, str]] = set()


def _is_new(record: logging.LogRecord) -> bool:
    """Let a record pass which others have asked for, or that was not there yet."""
    line = _reading.get(), record.getMessage()
    is_new = line not in _shown
    if line[0]:
        _shown.add(line)
    return is_new


@contextmanager
def _lines_once(path: str) -> Iterator[None]:
    """Let tifffile log each line about a file once."""
    logging.getLogger("tifffile").addFilter(_is_new)
    before = _reading.set(path)
    try:
        yield
    finally:
        _reading.reset(before)


@contextmanager
def _pages(file: BinaryIO) -> Iterator[TiffFile]:
    with _lines_once(file.name), imported("tifffile").TiffFile(file, _multifile=False) as found:
        yield found


def header(
    file: BinaryIO, places: Sequence[int], max_pixels: int | None
) -> tuple[Header, str | None]:
    """Read what the first page claims to hold, without decoding it; and what will be dropped."""
    with _pages(file) as tiff:
        # Above 4 GB ImageJ describes only the first image.
        noted = (tiff.is_imagej and tiff.imagej_metadata) or {}
        images = int(noted.get("images", 1))
        if images > len(places):
            raise ValueError(
                f"it is an ImageJ hyperstack of {images} images described as {len(places)} pages; "
                "write it anew with tifffile.imwrite(path, tifffile.imread(path), bigtiff=True)"
            )
        page = page_at(tiff, places[0])
        claimed = _header(page)
        check_claim(claimed, max_pixels)
        return claimed, _dropped(tiff, page, file.name, len(places))


def page_at(tiff: TiffFile, place: int) -> TiffPage:
    """Read the description of the page at byte `place`."""
    tiff.filehandle.seek(place)
    page: TiffPage = imported("tifffile").TiffPage(tiff, index=0)
    return page


def frames(file: BinaryIO, places: Sequence[int], expected: Header) -> Iterator[np.ndarray]:
    """Decode pages one by one, after a check that each holds an image like `expected`."""
    with _pages(file) as tiff:
        for place in places:
            page = page_at(tiff, place)
            check_like(_header(page), expected)
            _check_segments(page)
            # One worker: the chunks already fill the cores.
            data = page.asarray(maxworkers=1)
            if page.photometric == 3:
                assert page.colormap is not None, "a palette was promised by _header"
                yield np.moveaxis((page.colormap >> 8).astype(np.uint8)[:, data], 0, -1)
                continue
            separate, _, rows, columns, contiguous = page.shaped
            data = data.reshape(separate, rows, columns, contiguous)
            whole = data[0] if separate == 1 else np.moveaxis(data[..., 0], 0, -1)
            yield whole.reshape(expected.shape)


def _header(page: TiffPage) -> Header:
    if page.dtype is None:
        raise ValueError(f"its numbers of {page.bitspersample} bits have no NumPy dtype")
    separate, depth, rows, columns, contiguous = page.shaped
    if depth != 1:
        raise ValueError(f"its page is a volume of depth {depth}")
    if page.photometric == 5:
        raise ValueError("its colours are CMYK; convert it to grey or RGB first")
    samples = separate * contiguous
    if page.photometric == 3 and page.colormap is not None:
        return Header((rows, columns, 3), np.dtype(np.uint8))
    shape = (rows, columns) if samples == 1 else (rows, columns, samples)
    return Header(shape, np.dtype(page.dtype).newbyteorder("="))


def _check_segments(page: TiffPage) -> None:
    """Raise `ValueError` unless every strip or tile is there, whole and of a credible size.

    tifffile gives zeros for a strip that is absent.
    """
    size = page.parent.filehandle.size
    wanted = math.prod(page.chunked)
    if min(len(page.dataoffsets), len(page.databytecounts)) < wanted:
        raise ValueError(f"it has {len(page.dataoffsets)} strips or tiles of {wanted}")
    for number, (start, count) in enumerate(
        zip(page.dataoffsets[:wanted], page.databytecounts[:wanted], strict=True)
    ):
        if start == 0 or count == 0:
            raise ValueError(f"its strip or tile {number} is missing")
        if start + count > size:
            raise ValueError(
                f"the file is truncated: strip or tile {number} ends at byte {start + count} "
                f"of {size}"
            )
    nbytes = (page.size * page.bitspersample + 7) // 8
    stored = sum(page.databytecounts[:wanted])
    ratio = {1: 1, **dict.fromkeys(DEFLATE, BEST_DEFLATE_RATIO)}.get(page.compression)
    if ratio is not None and stored * ratio < nbytes:
        raise ValueError(f"it claims {nbytes} bytes of pixels, which its {stored} cannot hold")
    tile = math.prod(page.chunks)
    if tile > max(4 * page.size, 2**24):
        raise ValueError(f"one of its tiles claims {tile} numbers, the image has {page.size}")


def _dropped(
    tiff: TiffFile, page: TiffPage, path: str, frames: int, who: str = "imread"
) -> str | None:
    """Say what a file says besides its numbers, and is lost; None if that is nothing."""
    kind = next((one for one in _KINDS if getattr(tiff, f"is_{one}", False)), None)
    if kind is None:
        return None
    series = tiff.series
    # The axes of its pages, slowest first.
    pairs = zip(series[0].axes, series[0].shape, strict=True)
    axes = [(name, n) for name, n in pairs if name not in "YXS" and n > 1]
    what = [f"{len(series)} images"] if kind == "ome" and len(series) > 1 else []
    sizes = _sizes(kind, tiff, page)
    if not what and len(axes) < 2 and not sizes:
        return None
    if axes:
        # tifffile calls those Q of which nothing is known.
        named = ", ".join(f"{name}={n}" for name, n in axes if name != "Q")
        what.append(f"the axes {named or ' x '.join(str(n) for _, n in axes)}")
    if sizes:
        what.append(f"pixels of {', '.join(sizes)}")
    words = f"{os.path.basename(path)} is {_KINDS[kind]} with {' and '.join(what)}, which {who} "
    if frames == 1:
        return f"{words}drops."
    words += f"drops: it gives the pages as {frames} frames in the file's order."
    lengths = [length for _, length in axes]
    if len(lengths) > 1 and math.prod(lengths) == frames:
        shape = ", ".join(map(str, lengths))
        words += f" x.reshape({shape}, *x.shape[1:]) gives the axes back."
    return words


def _sizes(kind: str, tiff: TiffFile, page: TiffPage) -> list[str]:
    """The sizes of a pixel, as a file of a kind says them."""
    if kind == "ome":
        said = dict(reversed(_PHYSICAL_SIZE.findall(page.description)))
        return [f"{n} {said[n]} {said.get(f'{n}Unit', 'µm')}" for n in "ZYX" if n in said]
    note = (kind == "imagej" and tiff.imagej_metadata) or {}
    unit = str(note.get("unit", ""))
    if unit.lower() in ("", "pixel", "pixels"):
        return []
    sizes = [f"Z {note['spacing']} {unit}"] if "spacing" in note and "slices" in note else []
    along_x, along_y = page.resolution
    pixels = (("Y", along_y), ("X", along_x))
    return [*sizes, *(f"{name} {1 / count:.4g} {unit}" for name, count in pixels if count)]


# One image, tile by tile: also one that is larger than memory.


def open_tiff(path: str) -> Found | None:
    """Look at a GeoTIFF, or at the only image of a TIFF; None where it is not read by tiles."""
    need("Reading TIFF", "tifffile")
    now = readable(path)
    with open(path, "rb") as file:
        places = page_places(file, now.size)
        file.seek(0)
        with _pages(file) as tiff:
            page: Any = page_at(tiff, places[0])
            if GEO_KEYS in page.tags:
                return _open_raster(path)
            claimed = _header(page)
            # What imread gives otherwise: channels last, the colours of a palette, bools.
            odd = page.shaped[0] > 1 or page.photometric == 3 or page.bitspersample % 8
            odd = odd or tiff.is_imagej or len(page.chunks) < 2
            if len(places) > 1 or odd or find_spec("zarr") is None:
                return None
            if not min(page.chunks):
                raise ValueError(f"its tiles have the shape {tuple(page.chunks)}")
            dropped = _dropped(tiff, page, path, 1, "open")
    if dropped is not None:
        warn(dropped, MetadataWarning)
    shape = claimed.shape
    pieces = (*page.chunks[:2], *shape[2:])
    array = Opened(_tiles, (now.path, places[0]), now, shape, claimed.dtype, pieces, True)
    return Found(array, layer=stack_name(shape, "{}"))


def _tiles(path: str, place: int) -> Any:
    """Open a page as an array of Zarr, of which tiles or strips with some elements are decoded."""
    with open(path, "rb") as file, _lines_once(path):
        # A map, for nobody closes what is open as long as the process.
        mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
        page = page_at(imported("tifffile").TiffFile(mapped), place)
        _check_segments(page)
        return need("Reading TIFF tile by tile", "zarr").open_array(page.aszarr(), mode="r")


def _open_raster(path: str) -> Found:
    """Look at a GeoTIFF, of which the full resolution is read: overviews are copies of it."""
    stamp = readable(path)
    rioxarray = need("Reading GeoTIFF", "xarray", "rasterio", "rioxarray")
    like = rioxarray.open_rasterio(path, cache=False)
    if not hasattr(like, "dims") or hasattr(like, "data_vars"):
        raise ValueError(
            f"{path!r} holds several images of different kinds; open the one you need with "
            "rioxarray.open_rasterio(path, variable=...)."
        )
    with imported("rasterio").open(path) as file:
        rows, columns = file.block_shapes[0]
        apart = file.interleaving is None or file.interleaving.name != "pixel"
    pieces = (1 if apart else like.shape[0], int(rows), int(columns))
    return Found(opened(_raster, path, stamp, like, pieces), like=like)


def _raster(path: str) -> Any:
    """Open the bands, of shape (band, y, x), for each thread anew: GDAL lets no two use one."""
    rioxarray = need("Reading GeoTIFF", "rioxarray")
    return rioxarray.open_rasterio(path, cache=False, lock=False).variable
