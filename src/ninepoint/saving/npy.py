"""Arrays of NumPy in a file (.npy): runs of elements, each at its place.

Written by `pwrite` and not through a memory map: on a disk that is full a map ends the process,
and of two machines that write neighbouring runs through maps one loses some.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from ..files.replacing import write_all
from .cutting import UNIT_BYTES
from .units import Region, Shape

# What says that there is no room; a system that cannot take room beforehand says other things.
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Run:
    """The elements of a file of this shape, the first of which lies at byte `start`."""

    path: str
    start: int
    shape: Shape

    def write(self, block: np.ndarray, region: Region) -> None:
        """Write elements that lie one after another."""
        block = np.ascontiguousarray(block, block.dtype.newbyteorder("="))
        first = int(np.ravel_multi_index([one.start for one in region], self.shape))
        # Without O_CREAT: a file that is gone stays gone.
        descriptor = os.open(self.path, os.O_WRONLY | getattr(os, "O_BINARY", 0))
        try:
            data = memoryview(block.reshape(-1).view(np.uint8).data)
            write_all(descriptor, data, self.start + first * block.itemsize)
        finally:
            os.close(descriptor)


def run_size(shape: Shape, itemsize: int, lazy: Sequence[Sequence[int]]) -> Shape:
    """Choose boxes whose elements lie one after another, as large as a unit may be."""
    size = [1] * len(shape)
    nbytes = itemsize
    for axis in reversed(range(len(shape))):
        n = shape[axis]
        if nbytes * n > UNIT_BYTES:
            many, one = max(1, UNIT_BYTES // nbytes), max(lazy[axis], default=1)
            size[axis] = many // one * one if one <= many else many
            break
        size[axis] = max(1, n)
        nbytes *= max(1, n)
    else:
        # All of it is small: as Dask has it along the first axis.
        size[:1] = [max(1, max(sizes, default=1)) for sizes in lazy[:1]]
    return tuple(size)


def lay_out(path: str, shape: Shape, dtype: np.dtype[Any]) -> None:
    """Write the header, and take the room of the elements, where the system can do that."""
    with open(path, "wb") as file:
        file.write(_header(shape, dtype))
        whole = file.tell() + math.prod(shape) * dtype.itemsize
        file.truncate(whole)
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, whole)
            except OSError as error:
                if error.errno in _FULL:
                    raise OSError(
                        error.errno, f"{error.strerror}: the array takes {whole} bytes"
                    ) from error


def run(path: str, shape: Shape, dtype: np.dtype[Any]) -> Run:
    """The elements of a file that is, or will be, laid out."""
    return Run(path, len(_header(shape, dtype)), shape)


def _header(shape: Shape, dtype: np.dtype[Any]) -> bytes:
    file = BytesIO()
    header = {"descr": dtype.newbyteorder("=").str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()
