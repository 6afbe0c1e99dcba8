"""Scratch: memory of a thread for what it copies together before it computes, over and over.

An array of some hundred kilobytes is new to the process each time where `malloc` was told to give
memory back at once, as it is in workers of `distributed`: that costs more than to fill it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .memory import LEAST, empty

# So many arrays of a thread are kept: a program of more fields is rare.
_ARRAYS = 8

_here = threading.local()


class Scratch:
    """Arrays by number, each of which lasts until the next of that number is asked for.

    Large ones are of the memory that all threads share, which goes when nobody asks for it.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[np.ndarray] = [np.empty(0, np.uint8)] * _ARRAYS

    def array(self, number: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """An array of any content."""
        size = math.prod(shape) * dtype.itemsize
        if size >= LEAST or number >= _ARRAYS or not size:
            return empty(shape, dtype)
        if self._held[number].nbytes < size:
            # A little more, for the next slab may be a little larger.
            self._held[number] = np.empty(min(LEAST, size + size // 4), np.uint8)
        found: np.ndarray = np.ndarray(shape, dtype, self._held[number])
        return found


@contextmanager
def lent() -> Iterator[Scratch]:
    """Give the scratch of this thread for the block; a new one where it is lent already."""
    found = _here.__dict__.pop("scratch", None) or Scratch()
    try:
        yield found
    finally:
        _here.scratch = found
