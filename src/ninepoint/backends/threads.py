"""Threads: one pool for the process, and the rule when a call uses it.

A call is split over threads only when nobody else is doing so already: inside our own pool
and inside a Dask task it stays serial. The caller's own thread always works too, so a full
pool slows a call down and can never block it.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

VARIABLE = "NINEPOINT_THREADS"

# No call asks for more threads than this, whatever is written in the variable.
_MOST = 1024

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_here = threading.local()


def thread_count(threads: int | None = None) -> int:
    """Say how many threads a call may use: `threads`, else NINEPOINT_THREADS, else every core.

    Raises
    ------
    ValueError
        If the number is less than 1, or the variable holds no number.
    TypeError
        If `threads` is not an integer.
    """
    if getattr(_here, "serial", False):
        return 1
    if threads is not None:
        if isinstance(threads, bool):
            raise TypeError(f"threads must be a whole number, not {threads!r}.")
        try:
            count = operator.index(threads)
        except TypeError as error:
            raise TypeError(f"threads must be a whole number, not {threads!r}.") from error
        if count < 1:
            raise ValueError(f"threads={count} is less than 1; leave it out to use every core.")
        return min(count, _MOST)
    text = os.environ.get(VARIABLE)
    if text is None or not text.strip():
        return _cores()
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"{VARIABLE}={text!r} is no number of threads; set it to 1 or more.")
    return min(int(text), _MOST)


def _cores() -> int:
    # What the scheduler lets this process use: containers often get fewer than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def serial() -> Iterator[None]:
    """Keep every call made by this thread inside the block on this thread."""
    before = getattr(_here, "serial", False)
    _here.serial = True
    try:
        yield
    finally:
        _here.serial = before


def run_parallel(tasks: Iterable[Callable[[], object]], threads: int) -> None:
    """Run `tasks` in any order on up to `threads` threads, and return when all have ended.

    They are taken one by one as threads get free, so they may be made on the way.
    The first exception is raised here after the running tasks ended; the others are not begun.
    """
    if threads <= 1 or getattr(_here, "serial", False):
        for task in tasks:
            task()
        return
    todo = iter(tasks)
    gate = threading.Lock()
    stopped = threading.Event()

    def work() -> None:
        while not stopped.is_set():
            with gate:
                task = next(todo, None)
            if task is None:
                return
            try:
                task()
            except BaseException:
                stopped.set()
                raise

    def help_out() -> None:
        with serial():
            work()

    helpers = _submit(help_out, threads - 1)
    try:
        with serial():
            work()
    finally:
        # A helper that has not started is not needed: the tasks are all taken.
        running = [helper for helper in helpers if not helper.cancel()]
        errors = [error for helper in running if (error := helper.exception()) is not None]
    if errors:
        raise errors[0]


def _submit(work: Callable[[], None], count: int) -> list[Future[None]]:
    global _pool
    with _lock:
        if _pool is None:
            # Threads are started as they are needed, and idle ones are used again.
            _pool = ThreadPoolExecutor(_MOST, thread_name_prefix="ninepoint")
        pool = _pool
    helpers: list[Future[None]] = []
    try:
        helpers.extend(pool.submit(work) for _ in range(count))
    except RuntimeError:
        # The interpreter is shutting down and starts no threads: the caller does the rest.
        return helpers
    return helpers


def _forget() -> None:
    # A forked child has the pool object but none of its threads.
    global _pool, _lock
    _pool = None
    _lock = threading.Lock()
    _here.serial = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
