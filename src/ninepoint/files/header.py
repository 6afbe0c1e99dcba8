"""What a file claims about its image, believed only within limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

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


def check_claim(header: Header, max_pixels: int | None) -> None:
    """Raise `ValueError` for an image without pixels or with more than `max_pixels`."""
    rows, columns = header.shape[:2]
    if rows < 1 or columns < 1:
        raise ValueError(f"it claims to be {rows} x {columns} pixels")
    if max_pixels is not None and rows * columns > max_pixels:
        raise ValueError(
            f"it claims {rows} x {columns} pixels, more than max_pixels={max_pixels}; "
            "if you trust the file, raise max_pixels or pass max_pixels=None"
        )
