"""Which file a frame is written to, and how it gets there.

A whole stack in one TIFF is written by many tasks at once in any order.  Pages that are not
compressed all have the same size, so the file is laid out first, with every page described and
its pixels missing, and each frame is then put at its place.  The layout is written under a
temporary name: nobody sees a page without its pixels.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .atomic import replacement, write_at, write_whole
from .formats import FORMATS, IMAGES, Format, Options, encode, tiff_layout
from .paths import AnyPath, local_path

# What most systems allow [bytes].
LONGEST_NAME = 255

# How a whole number is written: with so many digits at least, and no others than 0 to 9.
_DECIMAL = re.compile(r"0?[0-9]{0,2}d?")

# Above this a TIFF needs 64-bit places; tifffile keeps the same margin for the descriptions.
LARGEST_CLASSIC = 2**32 - 2**25


@dataclass(frozen=True, slots=True)
class Target:
    """A folder, and the name of each file in it: `name` is a template if `numbered`."""

    folder: str
    name: str
    numbered: bool
    format: Format

    def path(self, frame: int) -> str:
        """Give the file of a frame, without touching the disk."""
        name = self.name.format(frame) if self.numbered else self.name
        return os.path.join(self.folder, name)


def parse_pattern(pattern: AnyPath) -> Target:
    """Take a pattern such as "smooth/{:04d}.png" apart.

    A folder, or a name without a suffix, stands for "{:04d}.png" in that folder.
    """
    text = local_path(pattern, "imsave writes local files, not to the URL {!r}")
    if not text:
        raise ValueError("the pattern of imsave is empty; give one such as 'smooth/{:04d}.png'")
    is_folder = text.endswith(("/", os.sep)) or os.path.isdir(text)
    if is_folder or not (Path(text).suffix or "{" in text):
        text = os.path.join(text, "{:04d}.png")
    folder, name = os.path.split(text)
    if "{" in folder or "}" in folder:
        raise ValueError(f"only the name of the file can hold a {{}}, not its folder: {text!r}")
    numbered = _is_numbered(name, text)
    if not numbered:
        name = name.replace("{{", "{").replace("}}", "}")
    target = Target(folder or ".", name, numbered, _format_of(name))
    _check_name(target.path(0)[len(os.path.join(target.folder, "")) :], text)
    return target


def _is_numbered(name: str, text: str) -> bool:
    if len(name) > LONGEST_NAME:
        raise ValueError(f"a name of {len(name)} characters is too long for a file")
    try:
        pieces = [piece for piece in Formatter().parse(name) if piece[1] is not None]
    except ValueError as error:
        raise ValueError(f"the pattern {text!r} is not well formed: {error}") from error
    for _, field, form, conversion in pieces:
        if field not in ("", "0") or len(pieces) > 1:
            raise ValueError(
                f"the pattern {text!r} should hold one {{}} for the number of the frame, "
                "such as 'smooth/{:04d}.png'"
            )
        if conversion or not _DECIMAL.fullmatch(form or ""):
            raise ValueError(
                f"the pattern {text!r} cannot hold a frame number: in the braces stands how many "
                "digits it has at least, as in {:04d}"
            )
    return bool(pieces)


def _check_name(name: str, text: str) -> None:
    """Refuse a name that leaves the folder, that no file can have, or that promises too much."""
    if os.path.basename(name) != name:
        raise ValueError(f"the pattern {text!r} leaves its folder: it gives the name {name!r}")
    if len(os.fsencode(name)) > LONGEST_NAME:
        raise ValueError(f"the name {name[:40]!r}... is too long for a file")
    if name.lower().endswith((".ome.tif", ".ome.tiff")):
        stem = name[: name.lower().rindex(".ome")]
        raise ValueError(
            f"imsave writes no OME-TIFF, as the name {name!r} says; name it {stem + '.tif'!r}, or "
            "use tifffile.imwrite(name, array, metadata={'axes': ...})"
        )


def _format_of(name: str) -> Format:
    suffix = Path(name).suffix.lower()
    for form in FORMATS:
        if suffix in form.suffixes:
            return form
    known = ", ".join(IMAGES)
    raise ValueError(f"imsave cannot tell the format of {name!r}: the name should end in {known}")


@dataclass(frozen=True, slots=True)
class FrameFiles:
    """A file for each frame; with `resume` a frame whose file is there is left out.

    So are those that are not among its `own`: a chunk may hold some of each.
    """

    target: Target
    options: Options
    resume: bool
    own: range

    def __call__(self, frame: NDArray[Any], number: int) -> None:
        """Encode one frame and put it under its name."""
        path = self.target.path(number)
        if number in self.own and not (self.resume and os.path.lexists(path)):
            write_whole(path, encode(frame, self.target.format, self.options))


@dataclass(frozen=True, slots=True)
class StackFile:
    """Where the pixels of each frame belong in a file: `start + frame * step` [bytes]."""

    path: str
    start: int
    step: int

    def __call__(self, frame: NDArray[Any], number: int) -> None:
        """Put one frame at its place; to do it twice does no harm."""
        frame = np.ascontiguousarray(frame, frame.dtype.newbyteorder("="))
        if frame.dtype == bool:
            frame = np.packbits(frame.reshape(frame.shape[:2]), axis=1)
        data = memoryview(frame.reshape(-1).view(np.uint8).data)
        assert len(data) <= self.step, (len(data), self.step)
        write_at(self.path, data, self.start + number * self.step)


@contextmanager
def stack_file(path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[StackFile]:
    """Lay out a TIFF for frames of one shape, and give it its name when all went well.

    `shape` is `(frames, rows, columns[, channels])`.
    """
    with replacement(path) as temporary:
        yield StackFile(temporary, *_lay_out(temporary, shape, dtype))


def _lay_out(temporary: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, int]:
    from tifffile import TiffFile, imwrite

    frames, rows, columns = shape[:3]
    if len(shape) == 4 and shape[3] == 1:
        shape = shape[:3]
    is_bits = dtype.kind == "b"
    nbytes = rows * -(-columns // 8) if is_bits else math.prod(shape[1:]) * dtype.itemsize
    # tifffile leaves room for whole bytes; bits it has to be given.
    blank = (np.zeros(shape[1:], bool) for _ in range(frames)) if is_bits else None
    with open(temporary, "r+b") as file:
        imwrite(
            file,
            blank,
            shape=shape,
            dtype=dtype.newbyteorder("="),
            bigtiff=frames * nbytes > LARGEST_CLASSIC,
            rowsperstrip=rows,
            **tiff_layout(shape[1:]),
        )
        file.seek(0)
        with TiffFile(file) as tiff:
            pages = tiff.pages
            assert len(pages) == frames, (len(pages), frames)
            start, second, last = (pages[page].dataoffsets[0] for page in (0, 1, frames - 1))
    step = second - start
    assert last == start + (frames - 1) * step, (start, second, last)
    return start, step
