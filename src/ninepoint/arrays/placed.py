"""Tasks that are to run where their chunks are, if a scheduler is told so."""

from __future__ import annotations

from typing import Any

from dask._task_spec import Task

# Partly typed: Any, or mypy finds the gaps.
_Task: Any = Task


class Placed(_Task):  # type: ignore[misc]
    """A task that takes chunks, and thin faces of others: these come to the chunks.

    `chunks` are the positions of those among its arguments.
    """

    __slots__ = ("chunks",)

    def __init__(
        self, key: Any, run: Any, /, *arguments: Any, chunks: tuple[int, ...] = (), **named: Any
    ) -> None:
        super().__init__(key, run, *arguments, **named)
        self.chunks = chunks

    def takes(self, key: Any) -> bool:
        """Whether the result of a task is one of its chunks."""
        return any(self.args[k].key == key for k in self.chunks)
