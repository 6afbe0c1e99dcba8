"""What a notebook shows while somebody waits, and what is gone when the waiting ends.

A front end is told to show something, then to show something else in its place, and at last to
show nothing there.  What a cell prints is left alone.
"""

from __future__ import annotations

import importlib
import os
import sys
from html import escape
from typing import Any

# A child that is forked has the parent's session, and cannot speak through it.
_process = os.getpid()


def present() -> bool:
    """Whether a person waits in front of a notebook, or of what shows cells as one does."""
    if os.getpid() != _process:
        return False
    # Who has a notebook has imported IPython: a program that has not is not made to.
    session = getattr(sys.modules.get("IPython"), "get_ipython", None)
    # The shell of a terminal has no kernel, and cannot change what it showed.
    return session is not None and hasattr(session(), "kernel")


class Passing:
    """A line below a cell, which may change and is gone in the end."""

    def __init__(self) -> None:
        self._shown: Any = None

    def show(self, text: str, done: float | None = None) -> None:
        """Show a line, in place of the one before; with a bar of which the part `done` is full."""
        bar = "" if done is None else f'<progress max="1" value="{done:.4f}"></progress> '
        self._put({"text/plain": text, "text/html": f"{bar}<code>{escape(text)}</code>"})

    def clear(self) -> None:
        """Show nothing any more."""
        if self._shown is not None:
            self._put({"text/html": ""})

    def _put(self, data: dict[str, str]) -> None:
        if self._shown is None:
            # Imported here: only a notebook needs it, and has it.
            front = importlib.import_module("IPython.display")
            self._shown = front.display(data, raw=True, display_id=True)
        else:
            self._shown.update(data, raw=True)
