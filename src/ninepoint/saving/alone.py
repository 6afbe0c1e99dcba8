"""One at a time: for files into which only one process can write."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()


@contextmanager
def alone(path: str) -> Iterator[None]:
    """Keep others from writing to a file meanwhile: threads, and workers of the same cluster."""
    with _lock:
        distributed: Any = sys.modules.get("distributed")
        try:
            worker = None if distributed is None else distributed.get_worker()
        except ValueError:
            worker = None
        if worker is None:
            yield
            return
        with distributed.Lock(f"ninepoint-{path}"):
            yield
