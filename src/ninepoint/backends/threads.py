"""Threads: one pool and one crew for the process, and the rule when a call uses them.

The pool does any work, and hears of interrupts between its tasks.  The crew does parts of machine
code that end soon: its threads wait in machine code.

A call is split over threads only when nobody else is doing so already: inside our own pool
and inside a Dask task it stays serial. The caller's own thread always works too, so a full
pool slows a call down and can never block it.

To hand work to threads that wait in Python takes 40 to 120 us: each must wake, and get the
interpreter's lock.  Therefore there is a crew: its threads hold no such lock and run no Python.
After a job they look for the next one for a moment, and only then sleep.

A job of the crew has parts: each thread, and the caller too, does the next one that nobody has
begun (see `llvm.entries`).  A crew does one job at a time: who calls meanwhile does all parts
alone.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.limits import number_in
from ..base.undisturbed import Later, undisturbed

if TYPE_CHECKING:
    from .llvm import entries, native
else:
    # Loaded where machine code is.
    native = Later(".llvm.native", __package__)
    entries = Later(".llvm.entries", __package__)

# How long a thread looks for work, or for the end of work, before it sleeps [s].
SPIN = 50e-6


def cores() -> int:
    """How many cores this process may use."""
    # What the scheduler lets it use: containers often get fewer than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Where there are more cores than this, it costs little if one thread waits for the caller's.
FEW_CORES = 8


VARIABLE = "NINEPOINT_THREADS"

# No call asks for more threads than this, whatever is written in the variable.
_MOST = 1024

# What takes one thread longer is shared with the crew [s].  To share takes 4 us while its threads
# look for work and 20 us once they sleep (Zen 4), but some of them wake late: calls of 40 us took
# 70 us on two threads of a virtual machine, those of 120 us took 75.
CREW_HANDOFF = 80e-6


class Threads:
    """The threads that there are: a pool, and a crew; a forked child has none of its parent's.

    When they are woken to help they are kept off the core of who wakes them.  The kernel of a
    virtual machine may take a core that has slept for one that it lost, and wakes a thread on the
    caller's, where it waits until the caller is done.  (Harris corners of 2560 x 3072 float32 on
    two cores, after 30 ms without work: 11 ms, and 6 ms with this.)
    """

    def __init__(self) -> None:
        self._gate = threading.Lock()
        # Threads are started as they are needed, and idle ones are used again.
        self.pool = ThreadPoolExecutor(
            _MOST, "ninepoint", lambda: self._add(threading.get_ident())
        )
        # Where the crew is, and how many threads it has beside the caller's.
        self._crew = self._count = 0
        # All of them, by what `pthread_self` gives; which core they have left, and of which.
        self._members: list[int] = []
        self._left: Any = None

    def submit(self, work: Callable[[], None], count: int) -> list[Future[None]]:
        """Have so many threads of the pool do some work."""
        self._settle()
        helpers: list[Future[None]] = []
        # Where the interpreter is shutting down and starts no threads, the caller does the rest.
        with suppress(RuntimeError):
            helpers.extend(self.pool.submit(work) for _ in range(count))
        return helpers

    def crew(self, threads: int) -> int:
        """The crew for a job of so many threads, the caller's among them; 0 if there is none."""
        if self._count + 1 < threads or not self._crew:
            undisturbed(lambda: self._grow(threads))
        self._settle()
        return self._crew

    def _grow(self, threads: int) -> None:
        if sys.platform == "win32":
            return
        with self._gate:
            if not self._crew:
                memory = ctypes.create_string_buffer(entries.LENGTH + 64)
                # Threads stay until the process ends, after the interpreter has.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
                self._crew = -(-ctypes.addressof(memory) // 64) * 64
                native.function("begin")(self._crew)
            # If there are too many threads already, the job is shared among fewer.
            with suppress(RuntimeError):
                while self._count + 1 < threads:
                    member = threading.Thread(
                        target=native.function("member"), args=(self._crew,),
                        name="ninepoint-crew", daemon=True,
                    )  # fmt: skip
                    member.start()
                    self._add(member.ident or 0)
                    self._count += 1
            # With more threads than cores, to look for work takes time from who does it.
            spin = SPIN if self._count < cores() else 0.0
            ctypes.c_int64.from_address(self._crew + entries.SPIN).value = int(spin * 1e9)

    def _add(self, member: int) -> None:
        self._members.append(member)
        self._left = None

    def _settle(self) -> None:
        """Let all leave the core that this thread is on."""
        if not hasattr(os, "sched_getaffinity"):
            return
        # The process's own functions are there as well.
        process, usable = ctypes.pythonapi, os.sched_getaffinity(0)
        left = process.sched_getcpu(), usable
        if left == self._left or not 1 < len(usable) <= FEW_CORES:
            return
        self._left = left
        mask = sum(1 << core for core in usable - {left[0]}).to_bytes(128, "little")
        for member in self._members:
            process.pthread_setaffinity_np(ctypes.c_void_p(member), len(mask), mask)


_threads: Threads


class _Here(threading.local):
    """What a thread does: whether its calls stay on it, and for whom it runs machine code."""

    serial = False
    running: _Running | None = None


_here = _Here()


def thread_count(threads: int | None = None) -> int:
    """Say how many threads a call may use: `threads`, else NINEPOINT_THREADS, else every core.

    A call inside a task of Dask uses one, unless it is told otherwise by `threads`.

    Raises
    ------
    ValueError
        If the number is less than 1, or the variable holds no number.
    TypeError
        If `threads` is not an integer.
    """
    if _here.serial:
        return 1
    if threads is not None:
        if isinstance(threads, bool) or not hasattr(threads, "__index__"):
            raise TypeError(f"threads must be a whole number, not {threads!r}.")
        count = operator.index(threads)
        if count < 1:
            raise ValueError(f"threads={count} is less than 1; leave it out to use every core.")
        return min(count, _MOST)
    if in_task():
        return 1
    return min(number_in(VARIABLE, "threads", 1) or cores(), _MOST)


def in_task() -> bool:
    """Whether this thread runs a task of Dask's, or of `distributed`'s.

    Nothing is imported for it.  A task on the main thread of a program, as `scheduler="sync"` runs
    them, is the only one at a time, and does not count.
    """
    modules = sys.modules
    if "dask" not in modules:
        return False
    thread = threading.current_thread()
    if thread is threading.main_thread():
        # Of a pool of processes this is the thread that works.
        return multiprocessing.parent_process() is not None and _in_local_task()
    found = modules.get("distributed.utils")
    if found is not None and hasattr(getattr(found, "thread_state", None), "key"):
        return True
    return _in_local_task()


def _in_local_task() -> bool:
    """Whether a function that runs just now was called by a scheduler of this machine's.

    Its pools' threads have no mark; they may be anybody's who gave Dask a pool of his own.
    """
    local = sys.modules.get("dask.local")
    code = getattr(getattr(local, "execute_task", None), "__code__", None)
    if code is None:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


class Stopped(RuntimeError):
    """Machine code ended before its time, because nobody wants its result any more."""


class _Running:
    """The machine code of one call that runs just now; each reads a flag in its own `notes`."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._notes = dict[int, np.ndarray]()
        self.stopped = False

    def stop(self, for_good: bool = True) -> None:
        """Let all that runs end soon, and what begins later as well."""
        with self._gate:
            self.stopped = for_good
            for notes in self._notes.values():
                notes[STOP] = 1

    @contextmanager
    def noted(self, notes: np.ndarray) -> Iterator[None]:
        """Know of a run inside the block."""
        with self._gate:
            self._notes[id(notes)] = notes
            notes[STOP] = self.stopped
        try:
            yield
        finally:
            with self._gate:
                del self._notes[id(notes)]


# Where in the notes of a run it is told to stop.
STOP = 1

# What runs on threads of others, as Dask's, that no call of ours waits for.
_elsewhere: _Running


def stop_elsewhere() -> None:
    """End what runs on threads that are not ours: who asked for it was interrupted."""
    _elsewhere.stop(for_good=False)


def interruptible(work: Callable[[], None], notes: np.ndarray) -> None:
    """Run machine code that may never end, but ends when `notes[STOP]` is set.

    Machine code hears of no signal.  So another thread runs it, if this is the one that signals
    come to, which waits for it.
    """
    running = _here.running
    if threading.current_thread() is not threading.main_thread():
        with (running or _elsewhere).noted(notes):
            work()
        return
    running = running or _Running()
    with running.noted(notes):
        helpers = _threads.submit(work, 1)
        if not helpers:
            work()
            return
        _wait(helpers, running)
        helpers[0].result()


def _wait(helpers: Iterable[Future[None]], running: _Running) -> None:
    """Wait for helpers, which end soon if an interrupt comes meanwhile."""
    try:
        wait(helpers)
    except BaseException:
        running.stop()
        wait(helpers)
        raise


def run_parallel(tasks: Iterable[Callable[[], object]], threads: int) -> None:
    """Run `tasks` in any order on up to `threads` threads, and return when all have ended.

    They are taken one by one as threads get free, so they may be made on the way.
    The first exception is raised here after the running tasks ended; the others are not begun.
    """
    if threads <= 1 or _here.serial:
        for task in tasks:
            task()
        return
    todo, gate, running = iter(tasks), threading.Lock(), _Running()
    errors: list[BaseException] = []

    def work() -> None:
        before = _here.running, _here.serial
        _here.running, _here.serial = running, True
        try:
            while not running.stopped:
                with gate:
                    task = next(todo, None)
                if task is None:
                    return
                task()
        except BaseException as error:
            running.stop()
            errors.append(error)
        finally:
            _here.running, _here.serial = before

    helpers = _threads.submit(work, threads - 1)
    try:
        work()
    finally:
        # A helper that has not started is not needed: the tasks are all taken.
        _wait([helper for helper in helpers if not helper.cancel()], running)
    if errors:
        # Those that were stopped were so because of another.
        raise next((error for error in errors if not isinstance(error, Stopped)), errors[0])


def crew_address(threads: int) -> int:
    """The crew for jobs of machine code on so many threads, the caller's among them.

    0 if there is none, or if this thread is to do all by itself.
    """
    if threads <= 1 or _here.serial:
        return 0
    return _threads.crew(threads)


def _begin() -> None:
    """Begin with no threads, as a forked child does."""
    global _threads, _elsewhere
    _threads, _elsewhere = Threads(), _Running()
    _here.serial = False
    _here.running = None


_begin()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)


def _end() -> None:
    _elsewhere.stop()
    # `concurrent.futures` does not know of a thread that an interrupt found starting.
    _threads.pool.shutdown(wait=False)


# Before Python waits, at its end, for threads that may never end: of what it has registered it
# calls the last first, and `concurrent.futures` above has registered that it waits.
if hasattr(threading, "_register_atexit"):
    threading._register_atexit(_end)
