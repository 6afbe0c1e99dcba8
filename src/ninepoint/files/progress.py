"""A progress bar for a person who waits, and nothing for a program."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TypeAlias

# Between two pictures of a line of text [seconds].
PAUSE = 0.2

Advance: TypeAlias = Callable[[int], None]
Progress: TypeAlias = "bool | Callable[[int, int], None] | None"


@contextmanager
def shown(progress: Progress, total: int, title: str = "saving") -> Iterator[Advance]:
    """Give a function that is told how many more of `total` frames are done.

    With None a bar is shown if standard error is a terminal and Rich is installed, and a line of
    text in a notebook; True shows them anywhere, False never; a function is called with the
    numbers of frames done and in all. `title` stands before the bar.
    """
    if callable(progress):
        report, done = progress, 0

        def count(frames: int) -> None:
            nonlocal done
            done += frames
            report(done, total)

        yield count
    elif progress is not False and _in_notebook():
        with line(total, title) as advance:
            yield advance
    elif progress or (progress is None and sys.stderr.isatty() and find_spec("rich")):
        with _bar(total, title) as advance:
            yield advance
    else:
        yield lambda frames: None


def _in_notebook() -> bool:
    """Whether a person waits in front of a notebook: only its kernels import this."""
    return "ipykernel.zmqshell" in sys.modules


@contextmanager
def line(total: int, title: str) -> Iterator[Advance]:
    """Count in one line of text, which a notebook keeps; a bar of widgets would leave a hole."""
    done, told = 0, -math.inf

    def advance(frames: int) -> None:
        nonlocal done, told
        done += frames
        now = time.monotonic()
        if now - told > PAUSE or done == total:
            told = now
            print(f"\r{title} {done}/{total}", end="", file=sys.stderr, flush=True)

    yield advance
    if done:
        print(file=sys.stderr)


@contextmanager
def _bar(total: int, title: str) -> Iterator[Advance]:
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
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda frames: bar.advance(task, frames)
