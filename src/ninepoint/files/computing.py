"""Run the tasks that write, on the scheduler in use, and tell of each that is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..backends.threads import stop_elsewhere
from ..undisturbed import imported
from . import cluster
from .apart import Work, follow
from .progress import Advance


def compute(
    arrays: Sequence[Any], wanted: Mapping[tuple[Any, ...], int], advance: Advance
) -> None:
    """Run the tasks `wanted` of some Dask arrays on the scheduler in use.

    Their values are what each adds to the progress; what the tasks give stays where it is.
    """
    # Dask is partly typed: Any, or mypy finds the gaps.
    base: Any = imported("dask.base")
    callbacks: Any = imported("dask.callbacks")
    config: Any = imported("dask.config")
    threaded: Any = imported("dask.threaded")
    merge: Any = imported("dask.highlevelgraph").HighLevelGraph.merge
    keys = list(wanted)
    graph = arrays[0].__dask_optimize__(merge(*(array.dask for array in arrays)), keys)
    schedule = base.get_scheduler(cls=type(arrays[0]))
    client = getattr(schedule, "__self__", None)
    if client is None or not hasattr(client, "scheduler_info"):
        if schedule is threaded.get and config.get("pool", None) is None:
            follow(lambda work: _on_threads(graph, wanted, work), advance, halt=stop_elsewhere)
            return
        with callbacks.Callback(posttask=lambda key, *_: advance(wanted.get(key, 0))):
            schedule(graph, keys)
        return

    for key in cluster.finished(client, schedule, graph, keys):
        advance(wanted.get(key, 0))


def _on_threads(graph: Any, wanted: Mapping[tuple[Any, ...], int], work: Work[int]) -> None:
    """Run tasks on threads of ours, and begin none that nobody wants any more.

    When a task fails Dask raises at once, while its threads are still writing other frames; the
    end of our pool waits for them, so that nobody leaves a file that is about to appear.
    """
    callbacks: Any = imported("dask.callbacks")
    threaded: Any = imported("dask.threaded")
    told = callbacks.Callback(
        pretask=lambda *_: work.check(),
        posttask=lambda key, *_: work.tell(wanted.get(key, 0)),
    )
    number = imported("dask.config").get("num_workers", None) or imported("dask.system").CPU_COUNT
    with ThreadPoolExecutor(number) as pool, told:
        threaded.get(graph, list(wanted), pool=pool)
