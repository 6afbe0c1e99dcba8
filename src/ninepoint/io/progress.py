"""A progress bar for a person who waits, and nothing for a program."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeAlias

from ..notebook import Passing, present

# Between two pictures of the bar [seconds].
PAUSE = 0.2
WIDTH = 30

Advance: TypeAlias = Callable[[int], None]
Progress: TypeAlias = "bool | Callable[[int, int], None] | None"


@contextmanager
def shown(
    progress: Progress, total: int, title: str = "saving", after: float = 0.0
) -> Iterator[Advance]:
    """Give a function that is told how many more of `total` frames are done.

    With None a bar is shown to a person who waits, but only of what takes longer than `after`
    [seconds]; True shows it anywhere and at once, False never; a function is called with the
    numbers of frames done and in all.  `title` stands before them.
    """
    done, bar = 0, Bar(title, 0.0 if progress else after)
    report: Callable[[int, int], None] | None = None
    if callable(progress):
        report = progress
    elif progress or (progress is None and seen()):
        report = bar.show
        report(0, total)

    def advance(frames: int) -> None:
        nonlocal done
        done += frames
        if report is not None:
            report(done, total)

    try:
        yield advance
    finally:
        bar.clear()


def seen() -> bool:
    """Whether a person would see a bar: below the cell of a notebook, or in a terminal."""
    return present() or sys.stderr.isatty()


class Bar:
    """A line that changes a few times a second, once so many seconds are over."""

    def __init__(self, title: str = "saving", after: float = 0.0) -> None:
        self._title, self._after = title, after
        self._line = Passing() if present() else _Terminal()
        self._begin, self._shown = time.monotonic(), float("-inf")

    def show(self, done: int, total: int) -> None:
        """Show the numbers of frames done and in all, and how long the others will take."""
        now = time.monotonic()
        if now - self._begin < self._after or (now - self._shown < PAUSE and done < total):
            return
        self._shown = now
        left = (now - self._begin) / done * (total - done) if done else 0.0
        rest = f", {timedelta(seconds=round(left))} left" if left >= 1 else ""
        self._line.show(f"{self._title} {done}/{total}{rest}", done / max(total, 1))

    def clear(self) -> None:
        """Take the bar away."""
        self._line.clear()


class _Terminal:
    """A line on standard error, which may change and is gone in the end."""

    def __init__(self) -> None:
        self._shown = ""

    def show(self, text: str, done: float) -> None:
        full = int(WIDTH * done)
        line = f"[{'#' * full}{'.' * (WIDTH - full)}] {text}"
        self._put(line[: shutil.get_terminal_size().columns - 1])

    def clear(self) -> None:
        if self._shown:
            self._put("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _put(self, line: str) -> None:
        sys.stderr.write("\r" + line.ljust(len(self._shown)))
        sys.stderr.flush()
        self._shown = line
