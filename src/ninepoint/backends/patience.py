"""Say that something takes long, so that nobody takes it for a program that hangs."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import numpy as np

from ..base import limits

# Silences what is said here.
VARIABLE = "NINEPOINT_QUIET"


@contextmanager
def announced(name: str, dtypes: Sequence[np.dtype]) -> Iterator[None]:
    """Say once that a kernel is compiled, if that takes longer than nobody minds."""
    if os.environ.get(VARIABLE):
        yield
        return
    words = f"compiling '{name}' for {', '.join(map(str, dtypes))}"
    clock = threading.Timer(limits.current.announced_seconds, _say, [words])
    clock.daemon = True
    clock.start()
    try:
        yield
    finally:
        clock.cancel()
        clock.join()


@cache
def _say(words: str) -> None:
    print(f"ninepoint: {words} ..., which is kept on disk for other runs", file=sys.stderr)
