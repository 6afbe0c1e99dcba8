"""What each file format can hold, and one frame turned into the bytes of a file.

Nothing is rounded, scaled or cut to make it fit: a format that cannot hold an array refuses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .pictures import codecs_of_wide_png

# Pillow's own level, 6, is 2 to 6 times as slow as 1 on images of 8 and 16 bits, and its files are
# smaller by a tenth or not at all (skimage's camera at 1000 x 1000, smooth and with noise, Pillow
# 13 with zlib-ng: 22 against 90 ms, 31 against 68 ms, and 64 against 389 ms for 16 bits).
PNG_LEVEL = 1
JPEG_QUALITY = 95


@dataclass(frozen=True, slots=True)
class Format:
    """A file format; `holds` maps a dtype to the numbers of channels that it may have."""

    name: str
    suffixes: tuple[str, ...]
    holds: dict[str, tuple[int, ...]]
    largest_side: int


ANY_CHANNELS = (1, 2, 3, 4)
NUMBERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
FLOATS = ("float16", "float32", "float64", "complex64", "complex128")

PNG = Format(
    "PNG", (".png",), {"bool": (1,), "uint8": ANY_CHANNELS, "uint16": (1, 3, 4)}, 2**31 - 1
)
JPEG = Format("JPEG", (".jpg", ".jpeg"), {"uint8": (1, 3)}, 65500)
TIFF = Format(
    "TIFF",
    (".tif", ".tiff"),
    {"bool": (1,), **dict.fromkeys(NUMBERS + FLOATS, ANY_CHANNELS)},
    2**31 - 1,
)
FORMATS = (PNG, JPEG, TIFF)
IMAGES = tuple(suffix for form in FORMATS for suffix in form.suffixes)


@dataclass(frozen=True, slots=True)
class Options:
    """How hard to compress: PNG and TIFF by `compression`, JPEG by `quality`."""

    compression: int | None = None
    quality: int | None = None


def check_options(form: Format, options: Options) -> None:
    """Raise `ValueError` for an option that is out of range or that the format does not have."""
    level, quality = options.compression, options.quality
    if level is not None and form not in (PNG, TIFF):
        raise ValueError(f"{form.name} has no compression level; JPEG has quality=")
    if quality is not None and form != JPEG:
        raise ValueError(f"{form.name} is written without loss and has no quality")
    if level is not None and level not in range(10):
        raise ValueError(f"compression is a level from 0 to 9, not {level!r}")
    if quality is not None and quality not in range(1, 101):
        raise ValueError(f"quality is a number from 1 to 100, not {quality!r}")


def check_holds(form: Format, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
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
                f"If that is an axis of the image, array.reshape(-1, {shape[1]}, {channels}) is "
                "one stack, and .zarr and .npy hold all axes as they are. Save more channels as "
                "separate stacks, array[..., 0] and so on"
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


def _cure(form: Format, dtype: np.dtype[Any]) -> str:
    fitting = " or ".join(f"'{name}'" for name in form.holds if name != "bool")
    match dtype.kind:
        case "c":
            first = f"take abs(array), scale and round it, and .astype({fitting})"
        case "f":
            first = f"scale and round it, and .astype({fitting})"
        case _:
            first = f"if the values fit, .astype({fitting})"
    return f"{first}; or save as TIFF (.tif), which holds {dtype}"


def as_grey(array: Any, form: Format) -> Any:
    """Give an array of bools as 0 and 255, unless the format holds such images of bools."""
    channels = array.shape[3] if array.ndim == 4 else 1
    if array.dtype != bool or channels in form.holds.get("bool", ()):
        return array
    return array.astype(np.uint8) * np.uint8(255)


def encode(frame: NDArray[Any], form: Format, options: Options) -> bytes:
    """Turn one frame that passed `check_holds` into the contents of a file."""
    if frame.ndim == 3 and frame.shape[2] == 1:
        frame = frame[:, :, 0]
    frame = np.ascontiguousarray(frame, frame.dtype.newbyteorder("="))
    if form == TIFF:
        return _encode_tiff(frame, options.compression)
    from PIL import Image

    file = BytesIO()
    level = PNG_LEVEL if options.compression is None else options.compression
    if form == JPEG:
        Image.fromarray(frame).save(file, "JPEG", quality=options.quality or JPEG_QUALITY)
    elif frame.dtype == np.uint16 and frame.ndim == 3:
        return bytes(codecs_of_wide_png().png_encode(frame, level))
    else:
        Image.fromarray(frame).save(file, "PNG", compress_level=level)
    return file.getvalue()


def _encode_tiff(frame: NDArray[Any], level: int | None) -> bytes:
    from tifffile import imwrite

    file = BytesIO()
    imwrite(
        file,
        frame,
        compression="zlib" if level else None,
        compressionargs={"level": level} if level else None,
        **tiff_layout(frame.shape),
    )
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
