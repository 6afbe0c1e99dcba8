"""Say that something takes long, so that nobody takes it for a program that hangs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from ..base import limits
from ..base.notebook import Passing, present

# Silences what is said here; so does the level of the logger.
VARIABLE = "NINEPOINT_QUIET"

_log = logging.getLogger("ninepoint")
_said: set[str] = set()


@contextmanager
def announced(name: str, dtypes: Sequence[np.dtype]) -> Iterator[None]:
    """Say once that a kernel is compiled, if that takes longer than nobody minds.

    In a notebook it is said each time, sooner, and only for as long as it lasts.
    """
    if os.environ.get(VARIABLE) or not _log.isEnabledFor(logging.WARNING):
        yield
        return
    kinds, line = ", ".join(map(str, dtypes)), Passing()
    words = f"ninepoint: compiling '{name}' for {kinds} ..., which is kept on disk for other runs"
    if present():
        after = limits.current.announced_below_cells_seconds
        say = partial(line.show, f"compiling {name} for {kinds} ...")
    elif words in _said:
        yield
        return
    else:
        after, say = limits.current.announced_seconds, partial(_say, words)
    clock = threading.Timer(after, say)
    clock.daemon = True
    clock.start()
    try:
        yield
    finally:
        clock.cancel()
        clock.join()
        line.clear()


def _say(words: str) -> None:
    _said.add(words)
    # A warning, because whoever has not set up logging sees nothing less than that.
    _log.warning(words)
