"""PNG and JPEG, through Pillow: one image in a file, of which no claim is believed unchecked.

The decoders are called directly, not through `PIL.Image.open`: that warns and fails by a limit
that is global to the process, where ours is an option of the call.

    1 bit                      bool, (rows, columns)
    grey, 8 or 16 bits         uint8 or uint16, (rows, columns)
    grey + alpha               uint8, (rows, columns, 2)
    colour, palette            uint8 (PNG also uint16), (rows, columns, 3), or 4 with transparency

A palette is replaced by its colours: an index means nothing to a stencil.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .paths import need

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

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


@dataclass(frozen=True, slots=True)
class Header:
    """Shape `(rows, columns[, channels])` and dtype of one image."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    def __str__(self) -> str:
        """Write it as messages do: 480 x 640 x 3 uint8."""
        return f"{' x '.join(map(str, self.shape))} {self.dtype}"

    @property
    def nbytes(self) -> int:
        """Size of the decoded image [bytes]."""
        return math.prod(self.shape) * self.dtype.itemsize


def check_claim(found: Header, max_pixels: int | None, expected: Header | None = None) -> None:
    """Raise `ValueError` for an image without pixels, with too many, or unlike the first one."""
    rows, columns = found.shape[:2]
    if rows < 1 or columns < 1:
        raise ValueError(f"it claims to be {rows} x {columns} pixels")
    if max_pixels is not None and rows * columns > max_pixels:
        raise ValueError(
            f"it claims {rows} x {columns} pixels, more than max_pixels={max_pixels}; "
            "if you trust the file, raise max_pixels or pass max_pixels=None"
        )
    if expected is not None and found != expected:
        raise ValueError(f"it is {found}, but the first frame is {expected}")


def header(
    file: BinaryIO, size: int, max_pixels: int | None, expected: Header | None = None
) -> Header:
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
    check_claim(found, None, expected)
    return found


def decode(data: bytes, expected: Header, max_pixels: int | None) -> NDArray[np.generic]:
    """Decode a whole file, after a check that it holds an image like `expected`."""
    found = header(BytesIO(data), len(data), max_pixels, expected)
    if data.startswith(PNG_SIGNATURE):
        _check_png(data)
    picture = _opened(BytesIO(data))
    if _is_wide_colour(picture):
        return np.asarray(codecs_of_wide_png().png_decode(data))
    if picture.mode == "P":
        return np.asarray(picture.convert("RGBA" if found.shape[2] == 4 else "RGB"))
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
    raise ValueError("it is no PNG, JPEG or TIFF image" if signature else "it is empty")


def _is_wide_colour(picture: ImageFile) -> bool:
    args = picture.tile[0].args if picture.tile else None
    is_colour = picture.mode in ("LA", "RGB", "RGBA")
    return is_colour and isinstance(args, str) and args.endswith(";16B")


def _check_png(data: bytes) -> None:
    """Check the checksum of every chunk, up to the last one.

    Pillow skips those of the pixels; 1 MB takes under a millisecond, a tenth of decoding it.
    """
    at = len(PNG_SIGNATURE)
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        kind = data[at + 4 : at + 8]
        end = at + 12 + length
        if end > len(data):
            break
        if zlib.crc32(memoryview(data)[at + 4 : end - 4]) != int.from_bytes(
            data[end - 4 : end], "big"
        ):
            raise ValueError(f"the checksum of its {kind!r} chunk at byte {at} is wrong")
        if kind == b"IEND":
            return
        at = end
    raise ValueError(f"the file is truncated: it ends at byte {len(data)}, before its end chunk")
