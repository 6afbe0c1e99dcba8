"""Arrays of NumPy in files of their own (.npy), by memory maps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from .marks import mark_of
from .stored import Array, Stored


@dataclass(frozen=True, slots=True)
class Npy:
    """A file of one array, mapped."""

    path: str

    def open(self) -> Array:
        """Map it; what is read is what the system then loads."""
        if os.path.getsize(self.path) < 2**10:
            # Nothing can be mapped of an array without elements.
            return np.asarray(np.load(self.path, allow_pickle=False))
        mapped: Array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return mapped

    def read(self, opened: Array, index: tuple[slice, ...]) -> Array:
        """Give a view of the map."""
        found: Array = np.asarray(opened)[index]
        return found


def open_npy(path: str) -> Stored:
    """Look at the header of a file."""
    mark = mark_of(path)
    format = Npy(mark.path)
    array: Any = format.open()
    return Stored(format, mark, array.shape, array.dtype, (1,) * array.ndim)
