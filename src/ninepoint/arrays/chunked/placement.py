"""Placement: a scheduler of `distributed` runs blocks, and copies faces, where their chunks are.

    chunk is in memory on some worker   ->   tasks that take it as theirs run there, if they can

By itself a scheduler weighs the bytes that a task needs against what its workers have to do, and
moves whole chunks to the faces of others.  A worker that is gone, paused or about to close binds
nobody, and one that has nothing to do may steal tasks as ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import distributed
from dask._task_spec import Task

from ..placed import Placed

_NAME = "ninepoint-placement"

# What somebody says of a task who chooses its workers.
_CHOSEN = {"workers", "restrictions", "resources"}

# Most of the functions of Dask carry no annotations.
_Plugin: Any = distributed.SchedulerPlugin
_Scheduler: Any = distributed.Scheduler


def place() -> None:
    """Tell the schedulers in this process, in which graphs are written out for them."""
    for scheduler in list(getattr(_Scheduler, "_instances", ())):
        if _NAME not in scheduler.plugins:
            # A thread of its own writes the graph; the scheduler goes on with it after this.
            scheduler.loop.add_callback(_register, scheduler)


def _register(scheduler: Any) -> None:
    scheduler.add_plugin(Placement(scheduler), idempotent=True)


class Placement(_Plugin):  # type: ignore[misc]
    """See the module."""

    name = _NAME

    def __init__(self, scheduler: Any) -> None:
        self._tasks = scheduler.tasks

    def update_graph(self, scheduler: Any, *, tasks: Iterable[Any], **_: Any) -> None:
        """Place what takes chunks that are in memory already."""
        for key in tasks:
            self._place(key)

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        """Place what takes a chunk that comes into memory."""
        if finish == "memory":
            self._place(key)

    def _place(self, key: Any) -> None:
        chunk = self._tasks[key]
        workers = {worker.address for worker in chunk.who_has or ()}
        for task in chunk.dependents if workers else ():
            if _takes(task.run_spec, key) and _CHOSEN.isdisjoint(task.annotations or ()):
                # Of two fields either chunk may stay.
                known = task.worker_restrictions
                task.worker_restrictions = workers if known is None else known | workers
                task.loose_restrictions = True


def _takes(task: Any, key: Any) -> bool:
    """Whether a task, or one of those that Dask made one, is to run where a chunk is."""
    if isinstance(task, Task) and task.has_subgraph():
        return any(_takes(one, key) for one in task.args[0].values())
    return isinstance(task, Placed) and task.takes(key)
