"""PNG, JPEG and TIFF: what each format can hold, frames turned into bytes, and read.

Nothing is rounded, scaled or cut to make it fit: a format that cannot hold an array refuses it.

PNG and JPEG are read through Pillow, one image in a file, of which no claim is believed unchecked.
The decoders are called directly, not through `PIL.Image.open`: that warns and fails by a limit
that is global to the process, where ours is an option of the call.

    1 bit                      bool, (rows, columns)
    grey, 8 or 16 bits         uint8 or uint16, (rows, columns)
    grey + alpha               uint8, (rows, columns, 2)
    colour, palette            uint8 (PNG also uint16), (rows, columns, 3), or 4 with transparency

A palette is replaced by its colours: an index means nothing to a stencil.

TIFF is read through tifffile: any number of pages in a file, each one a frame, or an image whose
axes are known, tile by tile.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ..arrays.channels import stack_name
from ..base.frozen import frozen
from ..base.undisturbed import imported
from ..language.errors import MetadataWarning, warn
from .ome import Axis, image, told_by_tiff
from .opened import Found, Opened, opened
from .paths import need, readable

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffFrame, TiffPage

# Pillow's own level, 6, is 2 to 6 times as slow as 1 on images of 8 and 16 bits, and its files are
# smaller by a tenth or not at all (skimage's camera at 1000 x 1000, smooth and with noise, Pillow
# 13 with zlib-ng: 22 against 90 ms, 31 against 68 ms, and 64 against 389 ms for 16 bits).
PNG_LEVEL = 1
JPEG_QUALITY = 95


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """A file format; `holds` maps a dtype to the numbers of channels that it may have."""

    name: str
    suffixes: tuple[str, ...]
    holds: dict[str, tuple[int, ...]]
    largest_side: int


ANY_CHANNELS = (1, 2, 3, 4)
NUMBERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
FLOATS = ("float16", "float32", "float64", "complex64", "complex128")

PNG = Format("PNG", (".png",), {"uint8": ANY_CHANNELS, "uint16": (1, 3, 4)}, 2**31 - 1)
JPEG = Format("JPEG", (".jpg", ".jpeg"), {"uint8": (1, 3)}, 65500)
TIFF = Format(
    "TIFF",
    (".tif", ".tiff"),
    dict.fromkeys(NUMBERS + FLOATS, ANY_CHANNELS),
    2**31 - 1,
)
FORMATS = (PNG, JPEG, TIFF)

# The types of numbers that Zarr has.
STORABLE = {"bool", *TIFF.holds}

IMAGES = tuple(suffix for form in FORMATS for suffix in form.suffixes)

# Stores and files of arrays.
ARRAYS = (".zarr", ".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".hdf", ".npy")


def format_of(name: str) -> Format:
    """The format of an image file, by its name."""
    suffix = os.path.splitext(name)[1].lower()
    for form in FORMATS:
        if suffix in form.suffixes:
            return form
    known = ", ".join(IMAGES)
    raise ValueError(f"imsave cannot tell the format of {name!r}: the name should end in {known}")


def check_options(form: Format, level: int | None, quality: int | None) -> None:
    """Raise `ValueError` for an option that is out of range or that the format does not have."""
    if level is not None and form not in (PNG, TIFF):
        raise ValueError(f"{form.name} has no compression level; JPEG has quality=")
    if quality is not None and form != JPEG:
        raise ValueError(f"{form.name} is written without loss and has no quality")
    if level is not None and level not in range(10):
        raise ValueError(f"compression is a level from 0 to 9, not {level!r}")
    if quality is not None and quality not in range(1, 101):
        raise ValueError(f"quality is a number from 1 to 100, not {quality!r}")


def check_holds(form: Format, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    """Raise unless `form` holds frames of this dtype and shape `(rows, columns[, channels])`.

    Raises
    ------
    TypeError
        If it cannot hold the dtype.
    ValueError
        If it cannot hold that many channels, or a frame of that size.
    """
    name = dtype.name
    if name not in TIFF.holds:
        raise TypeError(
            f"no image format holds {dtype} arrays: convert to numbers first, "
            "such as array.astype('float64') for a .tif"
        )
    if name not in form.holds:
        ways = {"c": "take abs(array), scale and round it, and", "f": "scale and round it, and"}
        way = ways.get(dtype.kind, "if the values fit,")
        fitting = " or ".join(map(repr, form.holds))
        raise TypeError(
            f"{form.name} cannot hold {dtype} images: {way} .astype({fitting}); or save as TIFF "
            f"(.tif), which holds {dtype}"
        )
    channels = shape[2] if len(shape) == 3 else 1
    if channels not in form.holds[name]:
        if channels not in ANY_CHANNELS:
            raise ValueError(
                f"an image has 1 to 4 channels, and this array has {channels} on its last axis. "
                "A .tif without a number in its name, .zarr and .npy hold all axes as they are; "
                f"array.reshape(-1, {shape[1]}, {channels}) is one stack"
            )
        raise ValueError(
            f"{form.name} cannot hold {dtype} images of {channels} channels: "
            "save as TIFF (.tif), or without alpha, array[..., :-1]"
        )
    if form == PNG and name == "uint16" and channels > 1:
        codecs_of_wide_png()
    if max(shape[:2]) > form.largest_side:
        raise ValueError(
            f"{form.name} holds images of at most {form.largest_side} pixels a side, not "
            f"{shape[0]} x {shape[1]}; save as TIFF (.tif)"
        )


def encode(frame: np.ndarray, form: Format, level: int | None, quality: int | None) -> bytes:
    """Turn one frame that passed `check_holds` into the contents of a file."""
    frame = np.ascontiguousarray(frame, frame.dtype.newbyteorder("="))
    file = BytesIO()
    if form == TIFF:
        imported("tifffile").imwrite(
            file,
            frame,
            compression="zlib" if level else None,
            compressionargs={"level": level},
            **tiff_layout(frame.shape),
        )
        return file.getvalue()
    level = PNG_LEVEL if level is None else level
    if frame.dtype == np.uint16 and frame.ndim == 3:
        return bytes(codecs_of_wide_png().png_encode(frame, level))
    picture = imported("PIL.Image").fromarray(frame)
    if form == JPEG:
        picture.save(file, "JPEG", quality=quality or JPEG_QUALITY)
    else:
        picture.save(file, "PNG", compress_level=level)
    return file.getvalue()


def tiff_layout(shape: tuple[int, ...]) -> dict[str, Any]:
    """Say what the channels of a frame are; tifffile would guess by their number."""
    channels = shape[2] if len(shape) == 3 else 1
    return {
        "photometric": "rgb" if channels >= 3 else "minisblack",
        "planarconfig": "contig" if channels > 1 else None,
        "extrasamples": ["unassalpha"] if channels in (2, 4) else None,
        "software": "ninepoint",
    }


PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
MODES = {
    "1": ("bool", ()),
    "L": ("uint8", ()),
    "I;16": ("uint16", ()),
    "LA": ("uint8", (2,)),
    "RGB": ("uint8", (3,)),
    "RGBA": ("uint8", (4,)),
}

# Deflate cannot pack more than 1032 bytes into one (zlib, "Maximum Compression Factor",
# zlib.net/zlib_tech.html); rounded up.
BEST_DEFLATE_RATIO = 1100


@frozen
class Header:
    """Shape `(rows, columns[, channels])` and dtype of one image."""

    shape: tuple[int, ...]
    dtype: np.dtype

    def __str__(self) -> str:
        """Write it as messages do: 480 x 640 x 3 uint8."""
        return f"{' x '.join(map(str, self.shape))} {self.dtype}"


def check_like(found: Header, expected: Header) -> None:
    """Raise `ValueError` for an image unlike the first one, whose claim was checked."""
    if found != expected:
        raise ValueError(f"it is {found}, but the first frame is {expected}")


def picture_header(file: BinaryIO, size: int) -> Header:
    """Read what `file`, of `size` bytes, claims to hold, without decoding it."""
    picture = _opened(file)
    columns, rows = picture.size
    mode = picture.mode
    if mode == "P":
        mode = "RGBA" if "transparency" in picture.info else "RGB"
    if mode not in MODES:
        raise ValueError(f"its colours are {mode}; convert it to grey or RGB first")
    dtype, channels = MODES[mode]
    if _is_wide_colour(picture):
        if mode == "LA":
            raise ValueError("it is grey + alpha of 16 bits, which Pillow reads as 8 bits")
        codecs_of_wide_png()
        dtype = "uint16"
    found = Header((rows, columns, *channels), np.dtype(dtype))
    # At least a bit for each pixel: this is far from exact and stops 68 bytes that claim 10 GB.
    if picture.format == "PNG" and size * BEST_DEFLATE_RATIO * 8 < rows * columns:
        raise ValueError(f"it claims {found} pixels, which its {size} bytes cannot hold")
    return found


def picture(data: bytes, expected: Header) -> np.ndarray:
    """Decode a whole file, after a check that it holds an image like `expected`."""
    check_like(picture_header(BytesIO(data), len(data)), expected)
    # Of a PNG the checksum of every chunk: decoding skips those of the pixels.
    _opened(BytesIO(data)).verify()
    found = _opened(BytesIO(data))
    if _is_wide_colour(found):
        return np.asarray(codecs_of_wide_png().png_decode(data))
    if found.mode == "P":
        return np.asarray(found.convert("RGBA" if expected.shape[2] == 4 else "RGB"))
    return np.asarray(found)


def codecs_of_wide_png() -> Any:
    """The library for colour of 16 bits, of which Pillow drops the low byte of every number."""
    return need("Colour of 16 bits in PNG, which TIFF holds too,", "imagecodecs")


def _opened(file: BinaryIO) -> Any:
    signature = file.read(8)
    file.seek(0)
    if signature == PNG_SIGNATURE:
        picture = imported("PIL.PngImagePlugin").PngImageFile(file)
        if picture.is_animated:
            raise ValueError("it is an animated PNG; save its frames as separate files")
        return picture
    if signature.startswith(b"\xff\xd8\xff"):
        return imported("PIL.JpegImagePlugin").JpegImageFile(file)
    if signature.startswith(TIFF_SIGNATURES):
        raise ValueError("it is a TIFF under another name; rename it to .tif")
    raise ValueError(
        "it is no PNG, JPEG or TIFF image; ninepoint.open(path) reads .npy, .nc, .h5 and .zarr, "
        "and imageio.v3.imread(path) other images and videos"
        if signature
        else "it is empty"
    )


def _is_wide_colour(picture: Any) -> bool:
    args = picture.tile[0].args if picture.tile else None
    is_colour = picture.mode in ("LA", "RGB", "RGBA")
    return is_colour and isinstance(args, str) and args.endswith(";16B")


# Of each page of a TIFF only its place is kept: tifffile reads a page from there without following
# the chain of pages again.  The chain is followed here, which takes a fifth of the time (0.025 and
# 0.12 ms a file of one page), as tifffile would read all that each page says.

# How much smaller strips may be than what they hold, by their compression: none, and deflate.
RATIOS = {1: 1, 8: BEST_DEFLATE_RATIO, 32946: BEST_DEFLATE_RATIO}

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
    order = "<" if head[:2] == b"II" else ">"
    # How many entries a page has; of each its tag, its type, how many values, and two halves of
    # the first one, or two short ones; the place of the next page.
    parts = ("Q", "HHQHH4x", "Q") if 43 in head[2:4] else ("H", "HHIHH", "I")
    many, entry, place = (struct.Struct(order + part) for part in parts)
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
                tag: first if kind == SHORT or order == "<" else second
                for tag, kind, _, first, second in entry.iter_unpack(
                    file.read(entry.size * entries)
                )
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


def pages_header(file: BinaryIO, places: Sequence[int]) -> tuple[Header, str | None]:
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
        return _header(page_at(tiff, places[0])), _dropped(tiff, len(places))


def page_at(tiff: TiffFile, place: int) -> TiffPage:
    """Read the description of the page at byte `place`."""
    tiff.filehandle.seek(place)
    page: TiffPage = imported("tifffile").TiffPage(tiff, index=0)
    return page


def pages(file: BinaryIO, places: Sequence[int], expected: Header) -> Iterator[np.ndarray]:
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
    ratio = RATIOS.get(page.compression)
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
    return Found(array, like)


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
    return Found(opened(_raster, path, stamp, like, pieces), like)


def _raster(path: str) -> Any:
    """Open the bands, of shape (band, y, x), for each thread anew: GDAL lets no two use one."""
    rioxarray = need("Reading GeoTIFF", "rioxarray")
    return rioxarray.open_rasterio(path, cache=False, lock=False).variable
