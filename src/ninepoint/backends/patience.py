"""Say that something takes long, so that nobody takes it for a program that hangs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

# A call that takes no longer needs no word: a kernel of moderate size compiles in 0.5 s to 2 s.
PATIENCE = 2.0

# Silences what is said here; so does the level of the logger.
VARIABLE = "NINEPOINT_QUIET"

_log = logging.getLogger("ninepoint")
_said: set[str] = set()


@contextmanager
def announced(name: str, dtypes: Sequence[np.dtype], after: float = PATIENCE) -> Iterator[None]:
    """Say once that a kernel is compiled, if that takes longer than `after` [s]."""
    kinds = ", ".join(map(str, dtypes))
    words = f"ninepoint: compiling '{name}' for {kinds} ..., which is kept on disk for other runs"
    if os.environ.get(VARIABLE) or words in _said:
        yield
        return
    clock = threading.Timer(after, _say, (words,))
    clock.daemon = True
    clock.start()
    try:
        yield
    finally:
        clock.cancel()
        clock.join()


def _say(words: str) -> None:
    _said.add(words)
    # A warning, because whoever has not set up logging sees nothing less than that.
    _log.warning(words)
