"""What a person sees while waiting, and what is said at the end."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

# Between two pictures of the bar [seconds]: the eye sees no more.
PAUSE = 0.1
WIDTH = 30


@dataclass(slots=True)
class Progress:
    """Counts what is done, frames or others, and shows a bar if `stream` is a terminal."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    visible: bool = True
    what: str = "frames"
    done: int = 0
    began: float = field(default_factory=time.perf_counter)
    shown: float = 0.0

    def __post_init__(self) -> None:
        """Show nothing to a program."""
        self.visible = self.visible and self.stream.isatty()

    def __call__(self, done: int, total: int) -> None:
        """Take the number of frames that are done."""
        self.done = done
        now = time.perf_counter()
        if self.visible and (now - self.shown > PAUSE or done == total):
            self.shown = now
            self.stream.write("\r" + self.line(done, total))
            self.stream.flush()

    def line(self, done: int, total: int) -> str:
        """One picture of the bar."""
        full = WIDTH * done // max(total, 1)
        rest = self.seconds * (total - done) / max(done, 1)
        text = (
            f"[{'#' * full}{'.' * (WIDTH - full)}] {done}/{total} {self.what}, {rest:5.0f} s left"
        )
        return text[: shutil.get_terminal_size().columns - 1]

    def close(self) -> None:
        """Take the bar away."""
        if self.visible and self.shown:
            self.stream.write("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r")
            self.stream.flush()

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.perf_counter() - self.began
