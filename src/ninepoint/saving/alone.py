"""One at a time: for files into which only one process can write."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..undisturbed import imported

_lock = threading.Lock()


@contextmanager
def alone(path: str) -> Iterator[None]:
    """Keep others from writing to a file meanwhile: threads, processes, workers of a cluster."""
    with _lock:
        distributed: Any = sys.modules.get("distributed")
        try:
            worker = None if distributed is None else distributed.get_worker()
        except ValueError:
            worker = None
        if worker is not None:
            with distributed.Lock(f"ninepoint-{path}"):
                yield
        else:
            with _of_this_machine(os.path.dirname(path)):
                yield


@contextmanager
def _of_this_machine(folder: str) -> Iterator[None]:
    """Lock a folder against other processes, as those of Dask's scheduler "processes"."""
    if os.name == "nt":
        # No folder can be locked there; HDF5 says if two processes write at once.
        yield
        return
    fcntl: Any = imported("fcntl")
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Some file systems of networks have no such locks.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
