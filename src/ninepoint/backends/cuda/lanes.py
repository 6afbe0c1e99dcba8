"""Lanes: streams with memory of their own on the CPU's side, so that copies go on beside work.

    host -> pinned memory        by the calling thread
    pinned memory -> GPU         by the GPU, in the order of the lane's stream
    kernels, GPU -> pinned       likewise
    wait for the stream          and what came is read

While one lane's piece is computed, another's is on its way, and a third's is put into its memory.
Pinned memory is what a GPU reads by itself; it is used again once the stream was waited for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from ..threads import run_parallel, thread_count
from . import driver
from .driver import DeviceArray

# Bytes from which on several threads copy: one reads and writes some 10 GB/s, and a bus moves
# several times as much.
SPREAD = 1 << 22


def copied(target: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
    """Copy between arrays of the CPU, the larger ones by all threads."""
    count = min(thread_count(None), target.nbytes // SPREAD)
    if count < 2:
        _copy(target, source)
        return
    axis = int(np.argmax(target.shape))
    parts = (np.array_split(one, count, axis) for one in (target, source))
    run_parallel((partial(_copy, *pair) for pair in zip(*parts, strict=True)), count)


def _copy(target: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
    """Copy; floats that the target's type does not hold are infinite there, without a word."""
    with np.errstate(over="ignore", invalid="ignore"):
        target[...] = source


class Lane:
    """A stream of the current GPU, and memory for what goes there and what comes back."""

    def __init__(self) -> None:
        self._stream = driver.new_stream()
        self._memory: list[np.ndarray[Any, Any]] = []
        self._taken = 0
        # What is on its way back, and who takes it.
        self._coming: list[tuple[np.ndarray[Any, Any], Callable[[Any], None]]] = []

    @property
    def current(self) -> AbstractContextManager[Any]:
        """Makes the stream the current one for a while."""
        found: AbstractContextManager[Any] = self._stream
        return found

    def send(self, array: np.ndarray[Any, Any]) -> DeviceArray:
        """Begin to copy an array to the GPU; what it was given may change from then on."""
        dtype = array.dtype.newbyteorder("=")
        pinned = self._pinned(array.shape, dtype)
        copied(pinned, array)
        there = driver.empty(array.shape, dtype)
        driver.refill(there, pinned, self._stream)
        return there

    def fetch(self, array: DeviceArray, take: Callable[[Any], None]) -> None:
        """Begin to copy an array back; `take` is given it once it is there."""
        array = driver.contiguous(array)
        pinned = self._pinned(array.shape, array.dtype)
        driver.begin_download(array, pinned, self._stream)
        self._coming.append((pinned, take))

    def finish(self) -> None:
        """Wait for all that was begun, and give away what came."""
        self.wait()
        coming, self._coming = self._coming, []
        for pinned, take in coming:
            take(pinned)
        self._taken = 0

    def wait(self) -> None:
        """Wait for all that was begun: till then its memory must stay."""
        driver.wait_for(self._stream)

    def _pinned(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Give memory that nothing of this lane's piece uses; that of the piece before again."""
        size = math.prod(shape) * dtype.itemsize
        if self._taken == len(self._memory):
            self._memory.append(np.empty(0, np.uint8))
        if self._memory[self._taken].nbytes < size:
            # The next piece may be a little longer.
            self._memory[self._taken] = driver.pinned(size + size // 8 + 512)
        found = self._memory[self._taken][:size].view(dtype).reshape(shape)
        self._taken += 1
        return found
