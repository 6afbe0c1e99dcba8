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

# What somebody says of a task who chooses its workers.
_CHOSEN = {"workers", "restrictions", "resources"}

# Most of the functions of Dask carry no annotations.
_Plugin: Any = distributed.SchedulerPlugin
_Scheduler: Any = distributed.Scheduler


def tell() -> int:
    """Tell the schedulers in this process, for one of which a graph is written; their workers."""
    most = 0
    for scheduler in list(getattr(_Scheduler, "_instances", ())):
        most = max(most, len(scheduler.workers))
        if Placement.name not in scheduler.plugins:
            # The graph is written by a thread of its own, after which the scheduler goes on.
            scheduler.loop.add_callback(
                scheduler.register_scheduler_plugin, Placement(), idempotent=True
            )
    return most


class Placement(_Plugin):  # type: ignore[misc]
    """See the module."""

    name = "ninepoint-placement"
    idempotent = True

    def start(self, scheduler: Any) -> None:  # type: ignore[override]
        """Hear of the tasks of a scheduler."""
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
