"""A progress bar for a person who waits, and nothing for a program."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TypeAlias

from ..notebook import Passing, present

# Between two pictures of a notebook's bar [seconds].
PAUSE = 0.2

Advance: TypeAlias = Callable[[int], None]
Progress: TypeAlias = "bool | Callable[[int, int], None] | None"


@contextmanager
def shown(
    progress: Progress, total: int, title: str = "saving", after: float = 0.0
) -> Iterator[Advance]:
    """Give a function that is told how many more of `total` frames are done.

    With None a bar is shown in a notebook, and where standard error is a terminal and Rich is
    installed, but only of what takes longer than `after` [seconds]; True shows it anywhere and
    at once, False never; a function is called with the numbers of frames done and in all.
    `title` stands before the bar.
    """
    if progress is True:
        after = 0.0
    if callable(progress):
        report, done = progress, 0

        def count(frames: int) -> None:
            nonlocal done
            done += frames
            report(done, total)

        yield count
    elif progress is not False and present():
        with _passing(total, title, after) as advance:
            yield advance
    elif progress or (progress is None and sys.stderr.isatty() and find_spec("rich")):
        with _bar(total, title, after) as advance:
            yield advance
    else:
        yield lambda frames: None


@contextmanager
def _passing(total: int, title: str, after: float) -> Iterator[Advance]:
    """Show a bar below the cell of a notebook, which is gone in the end."""
    line = Passing()
    begin = told = time.monotonic()
    done = 0

    def show(now: float) -> None:
        left = (now - begin) / done * (total - done) if done else 0.0
        rest = f", {_clock(left)} left" if left >= 1 else ""
        line.show(f"{title} {done}/{total}{rest}", done / max(total, 1))

    def advance(frames: int) -> None:
        nonlocal done, told
        done += frames
        now = time.monotonic()
        if now - begin >= after and now - told >= PAUSE:
            told = now
            show(now)

    if not after:
        show(begin)
    try:
        yield advance
    finally:
        line.clear()


def _clock(seconds: float) -> str:
    """So many seconds, in minutes and hours where there are some."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


@contextmanager
def _bar(total: int, title: str, after: float) -> Iterator[Advance]:
    try:
        from rich import progress
        from rich.console import Console
    except ImportError as error:
        raise ImportError("progress=True needs Rich: pip install rich") from error
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    )
    begin = time.monotonic()
    bar = progress.Progress(*columns, console=Console(stderr=True))
    task = bar.add_task(title, total=total)
    begun = False

    def advance(frames: int) -> None:
        nonlocal begun
        bar.advance(task, frames)
        if not begun and time.monotonic() - begin >= after:
            begun = True
            bar.start()

    if not after:
        advance(0)
    try:
        yield advance
    finally:
        if begun:
            bar.stop()
