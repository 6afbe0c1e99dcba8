"""Memory for results, and for what is made on the way to them, that earlier arrays have left.

Memory that is new to the process is zeroed by the system page by page, which takes as long as a
3x3 mean of it.  So a large array that nobody has any more leaves its memory here for a while, and
the next that fits takes it.  An array's own end says that it is free.

What is kept is bounded, and goes back to the system when nobody asked for it for some seconds: a
thread sees to that, which ends with the last of it.  What is in use for so long is left to its
array for good.

`Pool` keeps that memory.  `Allocator` has NumPy make an array in it, and learns when the array is
gone.  NumPy lets a thread choose who allocates (`PyDataMem_SetHandler`).  An array remembers who
did, and frees its memory there; in all else it is as any other array: it owns its data, has no
base, and is resized, pickled and copied in the usual way.

The memory of an array begins behind a head of 64 bytes, which says what becomes of it:

    USED     an array has it; once that is gone, it is FREE
    FREE     nobody has it, and it is kept
    OWN      an array has it, with which it goes
    PLAIN    an array has it from `malloc`, to which it goes back

The functions that NumPy calls are machine code made here: they may be called at any time, even
when the interpreter ends, and run no Python.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import struct
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from ..base.undisturbed import undisturbed
from .llvm import native
from .llvm.layout import numpys
from .llvm.runtime import FREE, HEAD, OWN, USED

# Where functions are in the table of NumPy's C interface, which never changes.
_SET, _DEFAULT = 304, 306

_NAME = b"ninepoint"


class Allocator:
    """What arrays are made of memory with, and memory is asked for and given back with."""

    def __init__(self) -> None:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self._default = ctypes.py_object.from_address(numpys("_ARRAY_API", _DEFAULT)).value

        self._next = ctypes.c_int64(0)
        functions = [native.address(name) for name in ("malloc", "calloc", "realloc", "free")]
        # `PyDataMem_Handler` of NumPy's binary interface.
        held = struct.pack("127sB5q", _NAME, 1, ctypes.addressof(self._next), *functions)
        handler = ctypes.create_string_buffer(held, len(held))
        label = ctypes.c_char_p(b"mem_handler")
        self._handler = new(ctypes.addressof(handler), label, None)
        # Arrays outlive this module when the interpreter ends.
        for one in (self._next, handler, label, self._handler):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
        # Only what may take long lets other threads run: to get on again may take 5 ms.
        kind = ctypes.PYFUNCTYPE
        self._choose = kind(ctypes.py_object, ctypes.py_object)(numpys("_ARRAY_API", _SET))
        self._swap = native.function("swap", 3, kind)
        self._map = native.function("mapped", 4, kind)
        # Gives the memory of nobody back to the system.
        self.unmap = native.function("unmap", 1)

    def array(self, at: int, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """An array whose memory begins at `at`; nothing where the user chose another allocator.

        One thread at a time may ask for one.
        """
        before = self._choose(self._handler)
        try:
            if before is not self._default and before is not self._handler:
                return None
            self._next.value = at
            made = np.empty(shape, dtype)
            # An interrupt's own call may have come between, and taken it.
            taken, self._next.value = not self._next.value, 0
            return made if taken and made.ctypes.data == at else None
        finally:
            self._choose(self._default if before is self._handler else before)

    def state(self, at: int) -> int:
        """What becomes of the memory at `at`."""
        return ctypes.c_int64.from_address(at - HEAD).value

    def changed(self, at: int, before: int, after: int) -> bool:
        """Say that the memory becomes something else, if it was what it is thought to be."""
        return bool(self._swap(at, before, after) == before)

    def mapped(self, size: int, shift: int, huge: int, count: int) -> int | None:
        """Memory of the process's own for an array, which is USED; nothing if there is none.

        It begins `shift` bytes, HEAD or more, behind the begin of a page.  The first `count` of
        its pages are `huge` bytes long, as far as the system has them.
        """
        return self._map(size, shift, huge, count) or None


def allocator() -> Allocator | None:
    """The allocator; nothing where NumPy, or the system, is not as it needs them."""
    if struct.calcsize("P") != 8 or sys.platform == "win32":
        return None
    if sys.implementation.name != "cpython" or native.shared() is None:
        return None
    return Allocator()


VARIABLE = "NINEPOINT_MEMORY"


def _least() -> int:
    """Bytes of the smallest arrays that `malloc` does not keep the memory of by itself.

    A process that was told how much of it to keep, as `distributed` tells its workers, maps every
    array of more than 128 KiB anew.  (An array of 360 kB made and touched: 1 us where `malloc`
    chooses, 160 us so, 4 us here, Zen 4.)
    """
    told = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    keeps = "MALLOC_MMAP_THRESHOLD_" in os.environ
    return 1 << 17 if told.isdecimal() and int(told) < 1 << 20 and not keeps else 1 << 20


# Smaller arrays are NumPy's.
LEAST = _least()

# Bytes of a huge page: a quarter of the time of small ones to get.
_HUGE_PAGE = 1 << 21 if hasattr(mmap, "MADV_HUGEPAGE") else 0

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
    text = os.environ.get(VARIABLE, "").strip()
    if text:
        if not text.isdecimal():
            raise ValueError(f"{VARIABLE}={text!r} is no number of MB; set it to 0 or more.")
        return int(text) * 1_000_000
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return 0
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in _LIMITS:
        with suppress(OSError):
            text = Path(name).read_text().strip()
            if text.isdecimal():
                found.append(int(text))
    return min(found) // _PART


def _huge_pages(size: int) -> int:
    """How many huge pages memory of so many bytes begins with; the rest is in small ones."""
    if not _HUGE_PAGE:
        return 0
    full, rest = divmod(size, _HUGE_PAGE)
    return full + (0 < _HUGE_PAGE - rest <= _UNUSED * size)


@dataclass(slots=True)
class _Block:
    """Memory for an array: where that begins, what fits, and when something last became of it."""

    at: int
    size: int
    touched: float


class Pool:
    """The memory that is kept, and that which arrays have got of it not long ago.

    It holds `most` bytes, and for `kept` seconds what nobody has.
    """

    def __init__(self, most: int | None = None, kept: float = _KEPT) -> None:
        # A signal's handler may call while this thread is inside.
        self._gate = threading.RLock()
        self._most: Any = most
        self._kept = kept
        # Found out when memory is first asked for, as is the limit.
        self._allocator: Any = None
        # In the order in which they were asked for.
        self._blocks: list[_Block] = []
        self._mapped = 0
        # Where what was free lies that a thread saw, which looks once in a while.
        self._free: set[int] = set()
        self._clock: threading.Timer | None = None

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, size: int) -> np.ndarray:
        """An array of any content that has `size` bytes."""
        if self._most is None:
            self._most = limit()
        if self._most and self._allocator is None:
            self._allocator = undisturbed(allocator)
            if self._allocator is None:
                self._most = 0
        made = None
        if size <= self._most and self._allocator is not None:
            with self._gate:
                made = self._made(shape, dtype, size)
        return np.empty(shape, dtype) if made is None else made

    def _made(self, shape: tuple[int, ...], dtype: np.dtype, size: int) -> np.ndarray | None:
        """An array in a block; nothing if there is none."""
        block = self._used_again(size) or self._new(size)
        if block is None:
            return None
        block.touched = monotonic()
        self._blocks.append(block)
        made: np.ndarray | None = None
        try:
            made = self._allocator.array(block.at, shape, dtype)
        finally:
            if made is None:
                self._allocator.changed(block.at, USED, FREE)
        return made

    def _used_again(self, size: int) -> _Block | None:
        changed = self._allocator.changed
        # The one that was asked for last may still be in a cache.
        for block in reversed(self._blocks):
            if size <= block.size <= size * _CLOSE and changed(block.at, FREE, USED):
                self._blocks.remove(block)
                return block
        return None

    def _new(self, size: int) -> _Block | None:
        while (
            len(self._blocks) >= _BLOCKS
            or sum(block.size for block in self._blocks) + size > self._most
        ):
            self._drop(self._blocks[0])
        if not self._is_watched():
            return None
        self._mapped += 1
        shift = _SHIFTS[self._mapped % len(_SHIFTS)]
        at = self._allocator.mapped(size, shift, _HUGE_PAGE, _huge_pages(size + shift))
        if at is None:
            # Nor will NumPy find any, without that which is kept.
            self.give_back()
            return None
        return _Block(at, size, 0.0)

    def _drop(self, block: _Block) -> None:
        """Give a block back to the system; if an array has it, as soon as that is gone."""
        self._blocks.remove(block)
        if not self._allocator.changed(block.at, USED, OWN):
            self._allocator.unmap(block.at)

    def give_back(self) -> None:
        """Keep nothing."""
        with self._gate:
            for block in list(self._blocks):
                self._drop(block)

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
        """Drop what nobody touched for long; look again later if anything is left."""
        with self._gate:
            state, now = self._allocator.state, monotonic()
            free = {block.at for block in self._blocks if state(block.at) == FREE}
            for block in list(self._blocks):
                if block.at in free - self._free:
                    block.touched = now
                if now - block.touched > self._kept:
                    self._drop(block)
            self._free, self._clock = free, None
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
