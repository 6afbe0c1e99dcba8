"""Whether a call is made inside a task of Dask, which runs others on threads beside it."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from types import FrameType


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
