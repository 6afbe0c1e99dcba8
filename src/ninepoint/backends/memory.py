"""Memory for results, and for what is made on the way to them, that earlier arrays have left.

Memory that is new to the process is zeroed by the system page by page, which takes as long as a
3x3 mean of it.  So a large array that nobody has any more leaves its memory here for a while, and
the next that fits takes it.

An array is a view of all of its memory, as every view of it is: that array lives as long as any
of them, and its end says that the memory is free.  What is kept is bounded, and goes back to the
system when nobody asked for it for some seconds: a thread sees to that, which ends with the last
of it.  What is in use for so long goes with its array.
"""

from __future__ import annotations

import math
import mmap
import os
import sys
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from ..base.limits import number_in

VARIABLE = "NINEPOINT_MEMORY"


# Smaller arrays are NumPy's: `malloc` keeps their memory by itself, where told to (see
# `llvm.native`).
LEAST = 1 << 20


# Bytes of a huge page: a quarter of the time of small ones to get.
_HUGE_PAGE = 1 << 21

# The part of an array's size up to which a last huge page may be left unused.
_UNUSED = 1 / 3

# How far behind the begin of a page arrays begin, in turn.  The processor takes a load for one of
# what was stored just before if both are as far from the begin of their pages.  So a result must
# not lie a little further from there than what it is made of, as it would if all began at 64:
# NumPy's own begin at 16.  (Mean of 3x3, 2048x2048 float64, result 0 to 4032 bytes further than
# the field: 16 to 512 bytes 3.0 to 3.8 ms, all others 2.6 to 2.9 ms, Zen 4.)
_SHIFTS = (3072, 2048, 1024)

# An array takes memory that is at most so many times as large as it is.
_CLOSE = 1.25

# For so long is memory kept that nobody has [s].
_KEPT = 4.0

# So many pieces of memory are known at a time, to find one among them in some microseconds.
_BLOCKS = 64

# The part of the machine's memory, or of what the process may have of it, that is kept at most.
_PART = 8

# Where Linux says how much a group of processes may have.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of any content, as `numpy.empty` gives it."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < LEAST or dtype.hasobject:
        return np.empty(shape, dtype)
    return _pool.empty(shape, dtype, size)


# Columns of an array of other order that are copied at once: of more, the lines of memory in which
# a column lies are gone before the next one is copied.  (2048x2048 float32 in Fortran's order: 50
# ms at once, 16 ms so; 2000x2000 10.6 and 4.3.)
_BAND = 128


def copied(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy in C order, of that dtype."""
    made = empty(array.shape, dtype)
    width = _BAND if abs(array.strides[-1]) > _BAND else max(1, array.shape[-1])
    for first in range(0, array.shape[-1], width):
        made[..., first : first + width] = array[..., first : first + width]
    return made


def limit() -> int:
    """How many bytes are kept at most: NINEPOINT_MEMORY, in MB, else a part of the machine's.

    Raises
    ------
    ValueError
        If the variable holds no number.
    """
    told = number_in(VARIABLE, "MB", 0)
    if sys.platform == "win32":
        return 0
    if told is not None:
        return told * 1_000_000
    return of_machine() // _PART


def of_machine() -> int:
    """The bytes of memory of this machine, or of what this process may take; 0 if none says."""
    if not hasattr(os, "sysconf"):
        return 0
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in _LIMITS:
        with suppress(OSError):
            text = Path(name).read_text().strip()
            if text.isdecimal():
                found.append(int(text))
    return min(found)


@dataclass(slots=True, eq=False)
class _Block:
    """Memory of so many bytes, from a place on; when it was asked for, and the array of all of it.

    Nobody has the memory once that array is gone, which is asked for as `whole()`.
    """

    memory: mmap.mmap
    first: int
    size: int
    asked: float = 0.0
    whole: Any = None


class Pool:
    """The memory that is kept, and that which arrays have got of it not long ago.

    It holds `most` bytes, and for `kept` seconds what nobody asks for.
    """

    def __init__(self, most: int | None = None, kept: float = _KEPT) -> None:
        self._gate = threading.RLock()
        # A signal's handler that calls while its thread is inside gets NumPy's own memory.
        self._inside = False
        # The limit is found out when memory is first asked for.
        self._most: Any = most
        self._kept = kept
        # In the order in which they were asked for.
        self._blocks: list[_Block] = []
        self._mapped = 0
        self._clock: threading.Timer | None = None

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, size: int) -> np.ndarray:
        """An array of any content that has `size` bytes."""
        if self._most is None:
            self._most = limit()
        if size > self._most:
            return np.empty(shape, dtype)
        with self._gate:
            inside, self._inside = self._inside, True
            try:
                whole = None if inside else self._whole(size)
            finally:
                self._inside = inside
        return np.empty(shape, dtype) if whole is None else np.ndarray(shape, dtype, whole)

    def _whole(self, size: int) -> np.ndarray | None:
        """The array of a block that nobody has; nothing if there is none."""
        # The one that was asked for last may still be in a cache.
        fit = (one for one in reversed(self._blocks) if size <= one.size <= size * _CLOSE)
        block = next((one for one in fit if one.whole() is None), None) or self._new(size)
        if block is None:
            return None
        whole = np.frombuffer(block.memory, np.uint8, block.size, block.first)
        block.whole, block.asked = weakref.ref(whole), monotonic()
        self._blocks = [*(one for one in self._blocks if one is not block), block]
        return whole

    def _new(self, size: int) -> _Block | None:
        while (
            len(self._blocks) >= _BLOCKS
            or sum(block.size for block in self._blocks) + size > self._most
        ):
            self._blocks = self._blocks[1:]
        if not self._is_watched():
            return None
        self._mapped += 1
        first = _SHIFTS[self._mapped % len(_SHIFTS)]
        length = size + first
        full, rest = divmod(length, _HUGE_PAGE)
        # So many bytes in huge pages come first, and the rest in small ones.
        huge = _HUGE_PAGE * (full + (0 < _HUGE_PAGE - rest <= _UNUSED * length))
        length = max(length, huge) + _HUGE_PAGE
        try:
            memory = mmap.mmap(-1, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError:
            # Nor will NumPy find any, without that which is kept.
            self.give_back()
            return None
        if huge and hasattr(mmap, "MADV_HUGEPAGE"):
            before = -np.frombuffer(memory, np.uint8).ctypes.data % _HUGE_PAGE
            memory.madvise(mmap.MADV_HUGEPAGE, before, huge)
            first += before
        return _Block(memory, first, size)

    def give_back(self) -> None:
        """Keep nothing: what arrays have goes with them."""
        with self._gate:
            self._blocks = []

    def _is_watched(self) -> bool:
        """Whether a thread will look for what nobody needs any more."""
        if self._clock is None or not self._clock.is_alive():
            clock = threading.Timer(self._kept / 4, self._look)
            clock.name, clock.daemon = "ninepoint-memory", True
            try:
                clock.start()
            except RuntimeError:
                # The interpreter is shutting down, or there are too many threads.
                return False
            self._clock = clock
        return True

    def _look(self) -> None:
        """Drop what nobody asked for for long; look again later if anything is left."""
        with self._gate:
            now = monotonic()
            self._blocks = [one for one in self._blocks if now - one.asked <= self._kept]
            self._clock = None
            if self._blocks:
                self._is_watched()

    def before_fork(self) -> None:
        """Keep nothing, and end the thread that looks: a child has neither."""
        self.give_back()
        clock, self._clock = self._clock, None
        if clock is not None:
            clock.cancel()
            # It ends at once, save where a signal's handler forks while memory is asked for.
            clock.join(1.0)

    def in_child(self) -> None:
        """Begin anew: who held the lock may not be there."""
        self._gate = threading.RLock()


_pool = Pool()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pool.before_fork, after_in_child=_pool.in_child)
