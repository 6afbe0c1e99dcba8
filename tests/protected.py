"""Arrays between pages that nobody may touch, and machine code that runs on such arrays.

An array that begins right behind a protected page, or ends right before one, turns every look
outside into a crash, where else it goes unseen nearly always.  `Guard` tries each call of compiled
code first with copies of its arrays that lie so, once at each end; the inputs may not be written
either.  Where machine code looks outside, the process ends, and says in which test; what is
Python is tried in a forked child, and told as an `AssertionError` with the text of the kernel.
"""

import ctypes
import mmap
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FunctionType
from typing import Any

import numpy as np

from seams import watched

PAGE = mmap.PAGESIZE
NOBODY, READ = 0, mmap.PROT_READ

# All pages at once, where the system can do that: one by one takes several times as long.
_AT_ONCE = mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0)
_SHARED, _OWN = mmap.MAP_SHARED | _AT_ONCE, mmap.MAP_PRIVATE | _AT_ONCE

_libc = ctypes.CDLL(None, use_errno=True)


def between(
    array: np.ndarray, *, at_end: bool, read_only: bool = False, shared: bool = False
) -> np.ndarray:
    """A copy between two protected pages: flush with the first, or with the last.

    Its elements lie as those of `array` do.  What forked children write is seen if it is `shared`.
    """
    ends = [step * (n - 1) for step, n in zip(array.strides, array.shape, strict=True)]
    before = sum(min(0, end) for end in ends)
    size = sum(map(abs, ends)) + array.itemsize if array.size else 0
    pages = max(1, -(-size // PAGE))
    memory = mmap.mmap(-1, (pages + 2) * PAGE, _SHARED if shared else _OWN)
    first = PAGE + (pages * PAGE - size) * at_end
    start = first - before if size else first
    copy = np.ndarray(array.shape, array.dtype, memory, start, array.strides)
    copy[...] = array
    address = _address(memory)
    _protect(address, PAGE, NOBODY)
    _protect(address + (pages + 1) * PAGE, PAGE, NOBODY)
    if read_only:
        _protect(address + PAGE, pages * PAGE, READ)
        copy.flags.writeable = False
    return copy


def _begin(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _address(memory: mmap.mmap) -> int:
    return _begin(np.frombuffer(memory, np.uint8))


def _protect(address: int, length: int, access: int) -> None:
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(length), access):
        raise OSError(ctypes.get_errno(), "mprotect")


def survives(work: Callable[[], None]) -> int:
    """The signal that ends `work` in a child of this process, or 0."""
    child = os.fork()
    if child == 0:
        try:
            # What a crash prints is of no use to anyone: the parent tells it.
            import faulthandler

            faulthandler.disable()
            signal.alarm(60)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


class Guard:
    """Compiled code, each call of which is tried between protected pages before it is made."""

    lock = threading.Lock()
    active = False
    calls = 0

    def __init__(self, band: Callable[..., None], writes: list[bool], text: str, exact: bool):
        self.band = band
        self.writes = writes
        self.text = text
        self.exact = exact
        self.tried: set[Any] = set()

    def __call__(self, *arguments: Any) -> None:
        # Where it looks depends on shapes, on lists of places and on scalars, and on no element.
        looks = tuple(
            (one.shape, one.tobytes() if one.ndim == 1 else b"")
            if isinstance(one, np.ndarray)
            else one
            for one in arguments
        )
        if not Guard.active or looks in self.tried:
            return self.band(*arguments)
        self.tried.add(looks)
        # Numbers after the others are not written.
        writes = [*self.writes, *[False] * (len(arguments) - len(self.writes))]
        before = [np.array(one) for one in arguments]
        tried = [
            [
                between(one, at_end=at_end, read_only=not written)
                if isinstance(one, np.ndarray)
                else one
                for one, written in zip(arguments, writes, strict=True)
            ]
            for at_end in (False, True)
        ]
        with Guard.lock:
            Guard.calls += 1
            if isinstance(self.band, FunctionType):
                found = survives(lambda: [self.band(*one) for one in tried] and None)
                assert not found, f"touched memory outside, or wrote an input\n{self.text}"
            for placed in tried:
                with suppress(Exception):
                    self.band(*placed)
        self.band(*arguments)
        for placed in tried if self.exact else []:
            for mine, old, real, written in zip(placed, before, arguments, writes, strict=True):
                if written and not np.array_equal(mine, real):
                    # Where it wrote: elsewhere other threads may have.
                    wrote = (mine != old) & ((mine == mine) | (old == old))
                    np.testing.assert_array_equal(mine[wrote], real[wrote], err_msg=self.text)
        return None


@contextmanager
def everything() -> Iterator[None]:
    """Guard whatever is loaded meanwhile, as long as this lasts."""
    Guard.active = True
    try:
        with watched(lambda band, text, writes, exact: Guard(band, writes, text, exact)):
            yield
    finally:
        Guard.active = False
