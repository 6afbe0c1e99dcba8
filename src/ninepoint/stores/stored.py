"""Stored: an array in a file or a store, which a process opens when it first reads of it.

It pickles as the place where it is and how it is read, so a graph is as small for a terabyte as
for a byte, and no open file goes from process to process.
"""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..files.errors import ImageReadError
from .damage import DAMAGE, said
from .marks import FILES, Mark

Shape: TypeAlias = tuple[int, ...]
Array: TypeAlias = np.ndarray[Any, Any]

# So many pieces are tried one by one for the one that is damaged.
_MOST_TRIED = 10_000


class Format(Protocol):
    """How an array of one kind of store is read; equal ones read the same."""

    def __hash__(self) -> int: ...

    def open(self) -> Any:
        """Open it in this process; of what is given any thread may read at any time."""

    def read(self, opened: Any, index: tuple[slice, ...]) -> Array:
        """Read a box of elements: slices within the array, of step 1."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An array that is read when it is sliced; `chunks` tells what is decoded at once."""

    format: Format
    mark: Mark
    shape: Shape
    dtype: np.dtype[Any]
    chunks: Shape

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> Array:
        entries = index if isinstance(index, tuple) else (index,)
        entries += (slice(None),) * (self.ndim - len(entries))
        boxes = [_box(entry, n) for entry, n in zip(entries, self.shape, strict=True)]
        box = tuple(slice(a, b) for a, b, _ in boxes)
        rest = tuple(left for *_, left in boxes)
        if any(a == b for a, b, _ in boxes):
            found: Array = np.empty([b - a for a, b, _ in boxes], self.dtype)
        else:
            self.mark.check()
            try:
                found = self._read(box)
            except (FileNotFoundError, PermissionError, ImageReadError):
                raise
            except DAMAGE as error:
                raise self._damaged(box, error) from error
        taken: Array = found[rest]
        return taken

    def _read(self, box: tuple[slice, ...]) -> Array:
        return np.asarray(self.format.read(_opened(self.format, self.mark), box))

    def _damaged(self, box: tuple[slice, ...], error: BaseException) -> OSError:
        """The error that says where an array cannot be read."""
        pieces = [
            range(one.start // n, -(-one.stop // n))
            for one, n in zip(box, self.chunks, strict=True)
        ]
        where = ""
        if math.prod(self.chunks) > 1 and math.prod(map(len, pieces)) <= _MOST_TRIED:
            for place in itertools.product(*pieces):
                ends = zip(place, self.chunks, self.shape, strict=True)
                one = tuple(slice(k * n, min(k * n + n, length)) for k, n, length in ends)
                try:
                    self._read(one)
                except DAMAGE as cause:
                    spans = ", ".join(f"{s.start}:{s.stop}" for s in one)
                    where, error = f" in chunk {place}, the elements [{spans}]", cause
                    break
        return OSError(f"{self._name!r} cannot be read{where}: {said(error)}")

    @property
    def _name(self) -> str:
        """Where the array is, as a user would say it."""
        folder, file = os.path.split(self.mark.path)
        inner = getattr(self.format, "name", "")
        path = self.mark.path
        if self.mark.sign:
            inner = inner or getattr(self.format, "path", "")
        elif file in FILES:
            # What describes an array lies in the folder that it is.
            path, inner = folder, ""
        return f"{path}/{inner}" if inner else path

    def __dask_tokenize__(self) -> Any:
        return type(self.format).__name__, repr(self.format), repr(self.mark), self.dtype.str


@lru_cache(maxsize=64)
def _opened(format: Format, mark: Mark) -> Any:
    """Open once in a process what is still the same."""
    return format.open()


def _box(entry: Any, n: int) -> tuple[int, int, Any]:
    """From where to where an entry of an index reads, and what it then takes of that."""
    if not isinstance(entry, slice):
        at = range(n)[entry]
        return at, at + 1, 0
    positions = range(*entry.indices(n))
    if not positions:
        return 0, 0, slice(None)
    first, last = sorted((positions[0], positions[-1]))
    left = slice(None) if positions.step == 1 else slice(None, None, positions.step)
    return first, last + 1, left
