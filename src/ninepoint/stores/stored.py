"""Stored: an array in a file or a store, which a process opens when it first reads of it.

It pickles as the place where it is and how it is read, so a graph is as small for a terabyte as
for a byte, and no open file goes from process to process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np

from .marks import Mark

Shape: TypeAlias = tuple[int, ...]
Array: TypeAlias = np.ndarray[Any, Any]


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
            found = np.asarray(self.format.read(_opened(self.format, self.mark), box))
        taken: Array = found[rest]
        return taken

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
