"""PNG, JPEG and TIFF: what each format can hold, frames turned into bytes, and PNG and JPEG read.

Nothing is rounded, scaled or cut to make it fit: a format that cannot hold an array refuses it.

What is read is one image in a file, through Pillow, of which no claim is believed unchecked.  The
decoders are called directly, not through `PIL.Image.open`: that warns and fails by a limit
that is global to the process, where ours is an option of the call.

    1 bit                      bool, (rows, columns)
    grey, 8 or 16 bits         uint8 or uint16, (rows, columns)
    grey + alpha               uint8, (rows, columns, 2)
    colour, palette            uint8 (PNG also uint16), (rows, columns, 3), or 4 with transparency

A palette is replaced by its colours: an index means nothing to a stencil.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ..base.frozen import frozen
from ..base.undisturbed import imported
from .paths import need

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

    from .run import How

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
IMAGES = tuple(suffix for form in FORMATS for suffix in form.suffixes)


def format_of(name: str) -> Format:
    """The format of an image file, by its name."""
    suffix = os.path.splitext(name)[1].lower()
    for form in FORMATS:
        if suffix in form.suffixes:
            return form
    known = ", ".join(IMAGES)
    raise ValueError(f"imsave cannot tell the format of {name!r}: the name should end in {known}")


def check_options(form: Format, how: How) -> None:
    """Raise `ValueError` for an option that is out of range or that the format does not have."""
    level, quality = how.compression, how.quality
    if level is not None and form not in (PNG, TIFF):
        raise ValueError(f"{form.name} has no compression level; JPEG has quality=")
    if quality is not None and form != JPEG:
        raise ValueError(f"{form.name} is written without loss and has no quality")
    if level is not None and level not in range(10):
        raise ValueError(f"compression is a level from 0 to 9, not {level!r}")
    if quality is not None and quality not in range(1, 101):
        raise ValueError(f"quality is a number from 1 to 100, not {quality!r}")


def storable(dtype: np.dtype) -> bool:
    """Whether Zarr has a type for these numbers: it has those of TIFF, and bools."""
    return dtype.name in ("bool", *TIFF.holds)


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
        raise TypeError(f"{form.name} cannot hold {dtype} images: {_cure(form, dtype)}")
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


def _cure(form: Format, dtype: np.dtype) -> str:
    fitting = " or ".join(f"'{name}'" for name in form.holds)
    match dtype.kind:
        case "c":
            first = f"take abs(array), scale and round it, and .astype({fitting})"
        case "f":
            first = f"scale and round it, and .astype({fitting})"
        case _:
            first = f"if the values fit, .astype({fitting})"
    return f"{first}; or save as TIFF (.tif), which holds {dtype}"


def encode(frame: np.ndarray, form: Format, how: How) -> bytes:
    """Turn one frame that passed `check_holds` into the contents of a file."""
    frame = np.ascontiguousarray(frame, frame.dtype.newbyteorder("="))
    file, level = BytesIO(), how.compression
    if form == TIFF:
        imported("tifffile").imwrite(
            file,
            frame,
            compression="zlib" if level else None,
            compressionargs={"level": level} if level else None,
            **tiff_layout(frame.shape),
        )
        return file.getvalue()
    level = PNG_LEVEL if level is None else level
    if frame.dtype == np.uint16 and frame.ndim == 3:
        return bytes(codecs_of_wide_png().png_encode(frame, level))
    image = imported("PIL.Image").fromarray(frame)
    if form == JPEG:
        image.save(file, "JPEG", quality=how.quality or JPEG_QUALITY)
    else:
        image.save(file, "PNG", compress_level=level)
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
    "1": (np.dtype(bool), ()),
    "L": (np.dtype(np.uint8), ()),
    "I;16": (np.dtype(np.uint16), ()),
    "LA": (np.dtype(np.uint8), (2,)),
    "RGB": (np.dtype(np.uint8), (3,)),
    "RGBA": (np.dtype(np.uint8), (4,)),
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

    @property
    def nbytes(self) -> int:
        """Size of the decoded image [bytes]."""
        return math.prod(self.shape) * self.dtype.itemsize


def check_claim(found: Header, max_pixels: int | None) -> None:
    """Raise `ValueError` for an image without pixels, or with too many."""
    rows, columns = found.shape[:2]
    if rows < 1 or columns < 1:
        raise ValueError(f"it claims to be {rows} x {columns} pixels")
    if max_pixels is not None and rows * columns > max_pixels:
        raise ValueError(
            f"it claims {rows} x {columns} pixels, more than max_pixels={max_pixels}; "
            "if you trust the file, raise max_pixels or pass max_pixels=None"
        )


def check_like(found: Header, expected: Header) -> None:
    """Raise `ValueError` for an image unlike the first one, whose claim was checked."""
    if found != expected:
        raise ValueError(f"it is {found}, but the first frame is {expected}")


def header(file: BinaryIO, size: int, max_pixels: int | None) -> Header:
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
        dtype = np.dtype(np.uint16)
    found = Header((rows, columns, *channels), dtype)
    check_claim(found, max_pixels)
    # At least a bit for each pixel: this is far from exact and stops 68 bytes that claim 10 GB.
    if picture.format == "PNG" and size * BEST_DEFLATE_RATIO * 8 < rows * columns:
        raise ValueError(f"it claims {found} pixels, which its {size} bytes cannot hold")
    return found


def decode(data: bytes, expected: Header) -> np.ndarray:
    """Decode a whole file, after a check that it holds an image like `expected`."""
    check_like(header(BytesIO(data), len(data), None), expected)
    # Of a PNG the checksum of every chunk: decoding skips those of the pixels.
    _opened(BytesIO(data)).verify()
    picture = _opened(BytesIO(data))
    if _is_wide_colour(picture):
        return np.asarray(codecs_of_wide_png().png_decode(data))
    if picture.mode == "P":
        return np.asarray(picture.convert("RGBA" if expected.shape[2] == 4 else "RGB"))
    return np.asarray(picture)


def codecs_of_wide_png() -> Any:
    """The library for colour of 16 bits, of which Pillow drops the low byte of every number."""
    return need("Colour of 16 bits in PNG, which TIFF holds too,", "imagecodecs")


def _opened(file: BinaryIO) -> ImageFile:
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile

    signature = file.read(8)
    file.seek(0)
    if signature == PNG_SIGNATURE:
        picture = PngImageFile(file)
        if picture.is_animated:
            raise ValueError("it is an animated PNG; save its frames as separate files")
        return picture
    if signature.startswith(b"\xff\xd8\xff"):
        return JpegImageFile(file)
    if signature.startswith(TIFF_SIGNATURES):
        raise ValueError("it is a TIFF under another name; rename it to .tif")
    raise ValueError(
        "it is no PNG, JPEG or TIFF image; ninepoint.open(path) reads .npy, .nc, .h5 and .zarr, "
        "and imageio.v3.imread(path) other images and videos"
        if signature
        else "it is empty"
    )


def _is_wide_colour(picture: ImageFile) -> bool:
    args = picture.tile[0].args if picture.tile else None
    is_colour = picture.mode in ("LA", "RGB", "RGBA")
    return is_colour and isinstance(args, str) and args.endswith(";16B")
