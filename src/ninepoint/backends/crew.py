"""Jobs of machine code: a crew of threads that share them, and calls that are repeated.

To hand work to threads that wait in Python takes 40 to 120 us: each must wake, and get the
interpreter's lock.  Those of a crew hold no such lock and run no Python.  After a job they look
for the next one for a moment, and only then sleep.

A job is a function of machine code, `part(argument, k)`, which gives 0 if all went well, and how
many parts there are.  Who comes to a part first does it, the caller as well.  A crew does one job
at a time: who calls meanwhile does all parts alone.

In memory a crew begins with the address of the function that does jobs:

    do(crew, threads, part, argument, count)  ->  0 if all went well

The steps of an iteration on small arrays are repeated by machine code, without Python:

    held(entry, arguments, lists)       what one call of machine code is given, kept in memory
    repeat(calls of a step, steps)      all calls of a step, then those of the next one

A call is kept by having its entry hand its work to a crew of nobody, which notes down what it is
given and does nothing.  Steps go from one half of some arrays to the other and back, so that the
calls of even steps and those of odd ones are kept.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..undisturbed import Later, undisturbed

if TYPE_CHECKING:
    from .llvm import runtime
else:
    # `import ninepoint` must not import LLVM.
    runtime = Later(".llvm.runtime", __package__)

# How long a thread looks for work, or for the end of work, before it sleeps [s].
SPIN = 50e-6


def cores() -> int:
    """How many cores this process may use."""
    # What the scheduler lets it use: containers often get fewer than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Crew:
    """Threads for jobs; there are as many as were ever asked for."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._count = 0
        self._address = 0
        self._member = 0

    def address(self, threads: int) -> int:
        """The crew for a job of so many threads, the caller's among them; 0 if there is none."""
        if self._count + 1 < threads or not self._address:
            undisturbed(lambda: self._grow(threads))
        return self._address

    def _grow(self, threads: int) -> None:
        with self._gate:
            if sys.platform == "win32":
                return
            if not self._address:
                self._begin()
            process = ctypes.CDLL(None)
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                while self._count + 1 < threads:
                    thread = ctypes.c_void_p()
                    function, crew = ctypes.c_void_p(self._member), ctypes.c_void_p(self._address)
                    if process.pthread_create(ctypes.byref(thread), None, function, crew):
                        # There are too many threads already: the job is shared among fewer.
                        break
                    process.pthread_detach(thread)
                    self._count += 1
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            # With more threads than cores, to look for work takes time from who does it.
            spin = SPIN if self._count < cores() else 0.0
            ctypes.c_int64.from_address(self._address + runtime.SPIN).value = int(spin * 1e9)

    def _begin(self) -> None:
        assembly = runtime.crew()
        memory = ctypes.create_string_buffer(runtime.SIZE + 64)
        # Threads stay until the process ends, after the interpreter has.
        for one in (assembly, memory):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
        address = -(-ctypes.addressof(memory) // 64) * 64
        ctypes.CFUNCTYPE(None, ctypes.c_int64)(assembly.address("begin"))(address)
        ctypes.c_int64.from_address(address + runtime.DO).value = assembly.address("do")
        self._member, self._address = assembly.address("member"), address


class Held:
    """A call of machine code: the arrays and lists that it is given, which stay where they are."""

    def __init__(
        self,
        together: Callable[..., None],
        arguments: Sequence[Any],
        lists: Sequence[np.ndarray],
    ) -> None:
        self._arguments = arguments
        self._lists = lists
        # An array takes its address and strides, or all that Numba knows of it; a number less.
        each = [6 + 2 * (one.ndim if isinstance(one, np.ndarray) else 0) for one in arguments]
        self._memory = np.zeros(runtime.HELD + sum(each) + len(lists) + 8, np.int64)
        self._memory[0] = _repeating()[0]
        self.address = self._memory.__array_interface__["data"][0]
        together(self.address, len(self._memory), *arguments, *lists)


def repeat(
    turns: Sequence[Sequence[Held]], first: int, steps: int, crew: int, threads: int
) -> None:
    """Do so many steps from `first` on; the calls of each are those of its turn.

    Lists of commands are shared among a crew, if there is one.

    Raises
    ------
    MemoryError
        If there was not enough memory for what a call needs beside its arrays.
    """
    calls = np.array([[one.address for one in turn] for turn in turns], np.int64)
    address = calls.__array_interface__["data"][0]
    if _repeating()[1](address, calls.shape[1], first, steps, crew, threads):
        raise MemoryError


@cache
def _repeating() -> tuple[int, Any]:
    """Where that begins which keeps a call, and what repeats calls.

    The latter as ctypes calls it, which lets go of the interpreter's lock.
    """
    assembly = runtime.repeat()
    # A thread may be running it when the interpreter ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(assembly))
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)
    return assembly.address("hold"), kind(assembly.address("repeat"))
