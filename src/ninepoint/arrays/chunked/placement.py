"""Placement: a scheduler of `distributed` runs blocks, and copies faces, where their chunks are.

    chunk is in memory on some worker   ->   tasks that take it as theirs run there, if they can

By itself a scheduler weighs the bytes that a task needs against what its workers have to do, and
moves whole chunks to the faces of others, or to workers that have nothing to do for a moment: how
long a task takes it learns from the first ones, which load kernels.  So these stay.  Of a worker
that has far more to do than others these take some as ever, and one that is gone, paused or about
to close binds nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import distributed
from dask._task_spec import Task

from .layer import Own

# So many tasks a thread may a worker have to do, and so many times as many as there are for each
# thread of all workers; of more, those without work may take some, with the chunks.
KEPT, MORE = 4, 1.5

# What somebody says of a task who chooses its workers.
_CHOSEN = {"workers", "restrictions", "resources"}

# Most of the functions of Dask carry no annotations.
_Plugin: Any = distributed.SchedulerPlugin
_Scheduler: Any = distributed.Scheduler


def tell() -> int:
    """Tell the schedulers in this process, for one of which a graph is written; their workers."""
    most = 0
    for scheduler in list(getattr(_Scheduler, "_instances", ())):
        if scheduler.status.name != "running":
            continue
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

    def start(self, scheduler: Any) -> None:
        """Hear of the tasks of a scheduler."""
        self._scheduler = scheduler
        # Those that were placed and are not done, by workers.
        self._due: defaultdict[str, set[Any]] = defaultdict(set)

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        """Place what waits for a chunk, once that is in memory; and let nobody steal it."""
        task = self._scheduler.tasks[key]
        if finish == "processing":
            self._keep(task)
        elif finish == "waiting":
            self._place(task)
        else:
            self._forget(task)
        if finish == "memory":
            for other in task.dependents:
                if other.state == "waiting":
                    self._place(other)

    def log_event(self, topic: Any, msg: Any) -> None:
        """Keep nothing on a worker that is paused, or about to close."""
        if isinstance(msg, dict) and msg.get("action") == "worker-status-change":
            for key in self._due[topic]:
                self._scheduler.tasks[key].loose_restrictions = True

    def _place(self, task: Any) -> None:
        if not _CHOSEN.isdisjoint(task.annotations or ()):
            return
        # Of two fields either chunk may stay.
        own = set(_own(task.run_spec))
        chunks = [chunk for chunk in task.dependencies if chunk.key in own]
        workers = {worker.address for chunk in chunks for worker in chunk.who_has or ()}
        if workers:
            self._forget(task)
            task.worker_restrictions, task.loose_restrictions = workers, True
            self._due[min(workers)].add(task.key)

    def _keep(self, task: Any) -> None:
        """Let nobody steal a task from where its chunk is, unless much more is to do there."""
        worker = task.processing_on
        due = self._due[worker.address]
        if task.key in due:
            usual = sum(map(len, self._due.values())) / self._scheduler.total_nthreads
            task.loose_restrictions = len(due) > worker.nthreads * (KEPT + MORE * usual)

    def _forget(self, task: Any) -> None:
        for worker in task.worker_restrictions or ():
            if task.key in self._due[worker]:
                self._due[worker].remove(task.key)
                task.loose_restrictions = True


def _own(task: Any) -> Iterator[Any]:
    """The chunks where a task is to run, or one of those that Dask made one."""
    if isinstance(task, Task) and task.has_subgraph():
        for one in task.args[0].values():
            yield from _own(one)
    elif isinstance(task, Task):
        yield from (one.key for one in task.args if isinstance(one, Own))
