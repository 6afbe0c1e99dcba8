"""TIFF, through tifffile: any number of pages in a file, each one a frame.

Of each page only its place is kept: tifffile reads a page from there without following the chain
of pages again.  The chain is followed here, which takes a fifth of the time (0.025 and 0.12 ms a
file of one page), as tifffile would read all that each page says.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from ..arrays.channels import stack_name
from ..base.undisturbed import imported
from ..language.errors import MetadataWarning, warn
from .formats import BEST_DEFLATE_RATIO, TIFF_SIGNATURES, Header, check_claim, check_like
from .ome import Axis, image, told_by_tiff
from .opened import Found, Opened, opened
from .paths import need, readable

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffFrame, TiffPage

DEFLATE = (8, 32946)

# The tag in which a GeoTIFF says where on the Earth it is (OGC GeoTIFF 1.1, GeoKeyDirectoryTag).
GEO_KEYS = 34735

# The tags that say whether a page is a smaller copy or a mask (TIFF 6.0, NewSubfileType and
# SubfileType), the type of short numbers, and as many entries as a page may have.
KIND, OLD_KIND, SHORT, MOST_ENTRIES = 254, 255, 3, 4096

# Kinds of files whose axes only tifffile knows, by its names.
_KINDS = ("ome", "imagej", "shaped", "lsm", "stk", "fluoview", "micromanager", "ndtiff", "nih",
          "philips", "scn")  # fmt: skip


def page_places(file: BinaryIO) -> tuple[int, ...]:
    """Find the byte at which each page of `file` is described, in order.

    Smaller copies of other pages, as overviews and thumbnails are, and masks are left out.

    Raises
    ------
    ValueError
        If the file is no TIFF, has no page, or its chain leaves the file or turns in a circle.
    """
    head = file.read(16)
    if head[:4] not in TIFF_SIGNATURES:
        raise ValueError(f"it is no TIFF: it begins with {head[:4]!r}")
    order: Literal["little", "big"] = "little" if head[:2] == b"II" else "big"
    # How many entries a page has; of each its tag, its type, how many values, and these; the place
    # of the next page.
    parts = ("Q", "HHQ8s", "Q") if 43 in head[2:4] else ("H", "HHI4s", "I")
    sign = "<" if order == "little" else ">"
    many, entry, place = (struct.Struct(sign + part) for part in parts)
    places: dict[int, bool] = {}
    (at,) = place.unpack_from(head, place.size)
    while at:
        if at in places:
            raise ValueError(f"its chain of pages turns back after page {len(places) - 1}")
        file.seek(at)
        try:
            (entries,) = many.unpack(file.read(many.size))
            if entries > MOST_ENTRIES:
                raise ValueError(f"its page {len(places)} claims to have {entries} tags")
            kinds = {
                tag: int.from_bytes(value[: 2 if kind == SHORT else 4], order)
                for tag, kind, _, value in entry.iter_unpack(file.read(entry.size * entries))
                if tag in (KIND, OLD_KIND)
            }
            places[at] = not kinds.get(KIND, 0) & 0b101 and kinds.get(OLD_KIND) != 2
            (at,) = place.unpack(file.read(place.size))
        except struct.error as error:
            reason = f"it is truncated: there is no page {len(places)}, as it says"
            raise ValueError(reason) from error
    frames = tuple(place for place, is_frame in places.items() if is_frame)
    if not frames:
        raise ValueError("it holds no page, or smaller copies and masks alone")
    return frames


def _pages(file: BinaryIO | mmap) -> TiffFile:
    found: TiffFile = imported("tifffile").TiffFile(file, _multifile=False)
    return found


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
        return claimed, _dropped(tiff, len(places))


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


def _check_segments(page: TiffPage | TiffFrame) -> None:
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
    whole: Any = page.keyframe
    nbytes = (page.size * whole.bitspersample + 7) // 8
    stored = sum(page.databytecounts[:wanted])
    ratio = {1: 1, **dict.fromkeys(DEFLATE, BEST_DEFLATE_RATIO)}.get(page.compression)
    if ratio is not None and stored * ratio < nbytes:
        raise ValueError(f"it claims {nbytes} bytes of pixels, which its {stored} cannot hold")
    tile = math.prod(page.chunks)
    if tile > max(4 * page.size, 2**24):
        raise ValueError(f"one of its tiles claims {tile} numbers, the image has {page.size}")


def _kind(tiff: TiffFile) -> str | None:
    """Who wrote a file whose axes tifffile knows."""
    return next((kind for kind in _KINDS if getattr(tiff, f"is_{kind}", False)), None)


def _dropped(tiff: TiffFile, frames: int) -> str | None:
    """Say what a file says besides its numbers, and imread drops; None if that is nothing."""
    kind = _kind(tiff)
    if kind is None:
        return None
    # The axes of its pages, slowest first.
    pairs = zip(tiff.series[0].axes, tiff.series[0].shape, strict=True)
    axes = [f"{name}={n}" for name, n in pairs if name not in "YXS" and n > 1]
    is_scaled = any(axis != Axis(axis.name) for axis in told_by_tiff(tiff)[0])
    what = ["the size of a pixel"] if is_scaled else []
    what += [f"{len(tiff.series)} images"] if kind == "ome" and len(tiff.series) > 1 else []
    if len(axes) < 2 and not what:
        return None
    what += [f"the axes {', '.join(axes)}"] if axes else []
    return (
        f"{tiff.filename} is {kind.upper()}-TIFF with {' and '.join(what)}, which imread drops: "
        f"{frames} frames are in the file's order. ninepoint.open(path) keeps the axes."
    )


# Arrays, tile by tile: also such that are larger than memory.


def open_tiff(path: str) -> Found | None:
    """Look at a GeoTIFF, at an image, or at several whose axes are known; None for frames."""
    need("Reading TIFF", "tifffile")
    now = readable(path)
    with open(path, "rb") as file:
        places = page_places(file)
        file.seek(0)
        with _pages(file) as tiff:
            page: Any = page_at(tiff, places[0])
            if GEO_KEYS in page.tags:
                return _open_raster(path)
            claimed, kind = _header(page), _kind(tiff)
            # What imread gives otherwise: channels last, the colours of a palette, bools.
            odd = page.shaped[0] > 1 or page.photometric == 3 or page.bitspersample % 8
            odd = odd or len(page.chunks) < 2 or find_spec("zarr") is None
            if odd or (kind is None and len(places) > 1):
                return None
            if not min(page.chunks):
                raise ValueError(f"its tiles have the shape {tuple(page.chunks)}")
            series, (axes, labels, title) = tiff.series[0], told_by_tiff(tiff)
            if kind == "ome" and len(tiff.series) > 1:
                words = f"{path} holds {len(tiff.series)} images, of which open gives the first"
                warn(words, MetadataWarning)
    shape = tuple(series.shape)
    lead = shape[: len(shape) - len(claimed.shape)]
    is_named = not {"q", "i"} & set(series.axes.lower())
    is_told = is_named and (bool(lead) or any(axis != Axis(axis.name) for axis in axes))
    if len(lead) == 1 and not is_told:
        return None
    pieces = (*(1 for _ in lead), *page.chunks[:2], *claimed.shape[2:])
    layer = stack_name(claimed.shape, "{}")
    array = Opened(_tiles, (now.path,), now, shape, claimed.dtype, pieces, layer=layer)
    like = image(array, axes, labels, title) if is_told else None
    return Found({"": array}, like)


def _tiles(path: str) -> Any:
    """Open an array of Zarr, of which tiles or strips with some elements are decoded."""
    with open(path, "rb") as file:
        # A map, for nobody closes what is open as long as the process.
        mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
        series = _pages(mapped).series[0]
        for page in series.pages:
            if page is None:
                raise ValueError("it is one of several files that hold an image together")
            _check_segments(page)
        store = series.aszarr(level=0)
        return need("Reading TIFF tile by tile", "zarr").open_array(store, mode="r")


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
    return Found({"": opened(_raster, path, stamp, like, pieces)}, like)


def _raster(path: str) -> Any:
    """Open the bands, of shape (band, y, x), for each thread anew: GDAL lets no two use one."""
    rioxarray = need("Reading GeoTIFF", "rioxarray")
    return rioxarray.open_rasterio(path, cache=False, lock=False).variable
