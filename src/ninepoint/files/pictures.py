"""PNG, JPEG and BMP, through Pillow: one image in a file.

The decoders are called directly, not through `PIL.Image.open`: that warns and fails by a limit
that is global to the process, where ours is an option of the call.

    1 bit                      bool, (rows, columns)
    grey, 8 or 16 bits         uint8 or uint16, (rows, columns)
    grey + alpha               uint8, (rows, columns, 2)
    colour, palette            uint8 (PNG also uint16), (rows, columns, 3), or 4 with transparency

A palette is replaced by its colours: an index means nothing to a stencil.
"""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .header import BEST_DEFLATE_RATIO, Header, check_claim

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
MODES = {
    "1": (np.dtype(bool), ()),
    "L": (np.dtype(np.uint8), ()),
    "I;16": (np.dtype(np.uint16), ()),
    "LA": (np.dtype(np.uint8), (2,)),
    "RGB": (np.dtype(np.uint8), (3,)),
    "RGBA": (np.dtype(np.uint8), (4,)),
}


def header(file: BinaryIO, size: int, max_pixels: int | None) -> Header:
    """Read what `file`, of `size` bytes, claims to hold, without decoding it."""
    picture = _opened(file)
    found = _header(picture)
    check_claim(found, max_pixels)
    # At least a bit for each pixel: this is far from exact and stops 68 bytes that claim 10 GB.
    if picture.format == "PNG" and size * BEST_DEFLATE_RATIO * 8 < found.shape[0] * found.shape[1]:
        raise ValueError(f"it claims {found} pixels, which its {size} bytes cannot hold")
    return found


def decode(data: bytes, expected: Header, max_pixels: int | None) -> NDArray[np.generic]:
    """Decode a whole file, after a check that it holds an image like `expected`."""
    found = header(BytesIO(data), len(data), max_pixels)
    if found != expected:
        raise ValueError(f"it is {found}, but the first frame is {expected}")
    if data.startswith(PNG_SIGNATURE):
        _check_png(data)
    picture = _opened(BytesIO(data))
    if _is_wide_colour(picture):
        return _decode_wide_colour(data)
    if picture.mode == "P":
        return np.asarray(picture.convert("RGBA" if found.shape[2] == 4 else "RGB"))
    return np.asarray(picture)


def _opened(file: BinaryIO) -> ImageFile:
    from PIL.BmpImagePlugin import BmpImageFile
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
    if signature.startswith(b"BM"):
        return BmpImageFile(file)
    if signature.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")):
        raise ValueError("it is a TIFF under another name; rename it to .tif")
    raise ValueError("it is empty" if not signature else "it is no PNG, JPEG, BMP or TIFF image")


def _header(picture: ImageFile) -> Header:
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
        dtype = np.dtype(np.uint16)
    return Header((rows, columns, *channels), dtype)


def _is_wide_colour(picture: ImageFile) -> bool:
    """Answer whether Pillow would drop the low byte of every number."""
    return (
        picture.mode in ("LA", "RGB", "RGBA")
        and bool(picture.tile)
        and isinstance(picture.tile[0].args, str)
        and picture.tile[0].args.endswith(";16B")
    )


def _decode_wide_colour(data: bytes) -> NDArray[np.uint16]:
    """Decode colour of 16 bits twice: Pillow can give the high bytes or the low bytes.

    It drops one byte of each number; read as big-endian it drops the low one, and told that
    the file is little-endian it drops the high one.
    """
    high, low = _opened(BytesIO(data)), _opened(BytesIO(data))
    low.tile = [tile._replace(args=str(tile.args).replace(";16B", ";16L")) for tile in low.tile]
    result: NDArray[np.uint16] = np.asarray(high).astype(np.uint16)
    result <<= 8
    result |= np.asarray(low)
    return result


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
