"""A whole stack in one TIFF, written by many tasks at once in any order.

Pages that are not compressed all have the same size, so the file is laid out first, with every
page described and its pixels missing, and each frame is then put at its place.  The layout is
written under a temporary name: nobody sees a page without its pixels.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .formats import tiff_layout
from .replacing import replacement, write_all

# Above this a TIFF needs 64-bit places; tifffile keeps the same margin for the descriptions.
LARGEST_CLASSIC = 2**32 - 2**25


@dataclass(frozen=True, slots=True)
class StackFile:
    """Where the pixels of each frame belong in the file: `start + frame * step` [bytes]."""

    path: str
    temporary: str
    start: int
    step: int

    def write(self, frame: NDArray[Any], number: int) -> None:
        """Put one frame at its place; to do it twice does no harm."""
        frame = np.ascontiguousarray(frame, frame.dtype.newbyteorder("="))
        if frame.dtype == bool:
            frame = np.packbits(frame.reshape(frame.shape[:2]), axis=1)
        data = memoryview(frame.reshape(-1).view(np.uint8).data)
        assert len(data) <= self.step, (len(data), self.step)
        # Without O_CREAT: when another frame has failed, the file is gone and stays gone.
        descriptor = os.open(self.temporary, os.O_WRONLY | getattr(os, "O_BINARY", 0))
        try:
            write_all(descriptor, data, self.start + number * self.step)
        finally:
            os.close(descriptor)


@contextmanager
def stack_file(path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[StackFile]:
    """Lay out a TIFF for frames of one shape, and give it its name when all went well.

    `shape` is `(frames, rows, columns[, channels])`.
    """
    with replacement(path) as (_, temporary):
        start, step = _lay_out(temporary, shape, dtype)
        yield StackFile(path, temporary, start, step)


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
