"""Work that runs to its end, whatever happens to the thread that asked for it.

An interrupt reaches Python's main thread wherever it is.  Numba and other large packages that are
cut off while they are imported or set up stay broken until the process ends.  So such work of the
main thread is done by a thread of its own, which no interrupt reaches: the main thread only
waits, stops to wait at once when it is interrupted, and finds what was made when it comes again.

One lock is held meanwhile, and while the process forks: a child never sees half of such work.
"""

from __future__ import annotations

import atexit
import contextvars
import gc
import importlib
import importlib.util
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

_T = TypeVar("_T")

# So long does the end of a process wait for work that nobody waits for any more [s].
_PATIENCE = 10.0

lock = threading.RLock()
# Held by who parses a text: Python up to 3.12 fails where two threads do.
parsing = threading.RLock()
_running: set[threading.Thread] = set()


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock, and let nobody collect cycles meanwhile.

    Nearly all that Numba makes stays, and to look through all of it takes 60 ms each time: of a
    first call 0.2 of 1.7 s (mean 3x3, Zen 4).
    """
    with lock:
        collected = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collected:
                gc.enable()


def undisturbed(work: Callable[[], _T]) -> _T:
    """Do some work to its end, one at a time in the process; the caller may be interrupted."""

    def alone() -> _T:
        with _alone():
            return work()

    if threading.current_thread() is not threading.main_thread():
        return alone()
    context, made = contextvars.copy_context(), Future[_T]()
    # A lock, not an event: those of Python may lose an interrupt that comes while they wait.
    ended = threading.Lock()
    ended.acquire()

    def make() -> None:
        try:
            made.set_result(context.run(alone))
        except BaseException as error:
            made.set_exception(error)
        finally:
            _running.discard(threading.current_thread())
            ended.release()

    # A daemon: work that takes minutes must not keep an interrupted program from ending.
    thread = threading.Thread(target=make, name="ninepoint-setup", daemon=True)
    _running.add(thread)
    try:
        start(thread)
    except RuntimeError:
        # The interpreter is shutting down and starts no threads.
        _running.discard(thread)
        return alone()
    with ended:
        return made.result()


def start(thread: threading.Thread) -> None:
    """Start a thread; an interrupt meanwhile is raised as one, and the thread runs all the same.

    Python waits until it runs, by means that make another error of some interrupts.
    """
    try:
        thread.start()
    except RuntimeError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise


def imported(name: str, package: str | None = None) -> Any:
    """The module of that name, which is imported without being disturbed."""
    absolute = importlib.util.resolve_name(name, package) if package else name
    module = sys.modules.get(absolute)
    if module is not None and not _begun(module):
        return module
    return undisturbed(lambda: importlib.import_module(absolute))


class Later:
    """A module that is imported, undisturbed, when something of it is first asked for."""

    def __init__(self, name: str, package: str | None) -> None:
        self._place = name, package

    def __getattr__(self, name: str) -> Any:
        return getattr(imported(*self._place), name)


def handed_on(
    package: str, path: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, the `__dir__` and the `__all__` of a package that hands on names.

    The stub beside its file at `path` says from where each is imported, one in a line.
    """
    with open(f"{os.path.splitext(path)[0]}.pyi", encoding="utf-8") as stub:
        lines = re.findall(r"^from \.(\S*) import (\w+)", stub.read(), re.MULTILINE)
    known = {name: place for place, name in lines}

    def found(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        place = known[name]
        module = imported(f".{place or name}", package)
        value = getattr(module, name) if place else module
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(known)
    return found, lambda: names, names


def _begun(module: ModuleType) -> bool:
    """Whether a module is being imported just now."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _wait() -> None:
    # Machine code that is being made while the process takes itself apart might crash it.
    end = time.monotonic() + _PATIENCE
    for thread in list(_running):
        # One whose start was interrupted may not be known to run yet.
        if thread.ident is not None:
            thread.join(max(0.0, end - time.monotonic()))


atexit.register(_wait)


# Forks.  What is held here was acquired before a fork, by the thread that forks.

_held: list[Any] = []


def _before_fork() -> None:
    """Hold these locks, and Numba's.

    Python has listed by then what is to be called before the fork.  A module that another thread
    imports while this waits, and that registers a lock of its own, has it released afterwards
    without having been acquired; of those that Numba needs, this package imports the only ones
    (`concurrent.futures.thread` and `logging`) before.
    """
    _held.clear()
    for own in (lock, parsing):
        own.acquire()
        _held.append(own)
    compiler = sys.modules.get("numba.core.compiler_lock")
    theirs = getattr(compiler, "global_compiler_lock", None)
    if theirs is not None:
        theirs.acquire()
        _held.append(theirs)


def _after_fork() -> None:
    while _held:
        _held.pop().release()


def _in_child() -> None:
    global lock, parsing
    held = list(_held)
    _after_fork()
    _running.clear()
    # Interrupted before it had them: threads of the parent may hold them, which are not here.
    if lock not in held:
        lock = threading.RLock()
    if parsing not in held:
        parsing = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
