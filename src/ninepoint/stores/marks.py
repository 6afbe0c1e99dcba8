"""Marks: by what one tells whether a store is still the one that was opened.

A file is told by its size and the time of its last change, a Zarr array by those of the file that
describes it, and what lies elsewhere by what describes it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

# The files that describe an array or a group of Zarr, of version 3 and 2.
FILES = ("zarr.json", ".zarray", ".zgroup")


@dataclass(frozen=True, slots=True)
class Mark:
    """A file as it was: size [bytes] and time of the last change [ns]; or another `sign`."""

    path: str
    size: int = 0
    changed: int = 0
    sign: str = ""

    def check(self) -> None:
        """Raise where the file is another one by now, or gone."""
        if self.sign:
            return
        try:
            status = os.stat(self.path)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{self.path!r} was there when it was opened, and is not any more, or is not on "
                "this machine."
            ) from error
        if (status.st_size, status.st_mtime_ns) != (self.size, self.changed):
            raise OSError(f"{self.path!r} has changed since it was opened; open it again.")


def mark_of(path: str) -> Mark:
    """Mark a file, which is there and may be read, else raise what Python says of it."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
    return Mark(os.path.abspath(path), status.st_size, status.st_mtime_ns)
