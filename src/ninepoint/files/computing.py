"""Run the tasks that write, on the scheduler in use, and tell of each that is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from ..backends.threads import stop_elsewhere
from ..undisturbed import imported
from . import cluster
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
    merge: Any = imported("dask.highlevelgraph").HighLevelGraph.merge
    keys = list(wanted)
    graph = arrays[0].__dask_optimize__(merge(*(array.dask for array in arrays)), keys)
    schedule = base.get_scheduler(cls=type(arrays[0]))
    client = getattr(schedule, "__self__", None)
    if client is None or not hasattr(client, "scheduler_info"):

        def finished(key: Any, *_: Any) -> None:
            advance(wanted.get(key, 0))

        with callbacks.Callback(posttask=finished), _pool(schedule) as pool:
            schedule(graph, keys, **pool)
        return

    for key in cluster.finished(client, schedule, graph, keys):
        advance(wanted.get(key, 0))


@contextmanager
def _pool(schedule: Any) -> Iterator[dict[str, Any]]:
    """Give the threaded scheduler threads of ours, unless the user has chosen some.

    When a task fails Dask raises at once, while its threads are still writing other frames; the
    end of our pool waits for them, so that nobody leaves a file that is about to appear.
    """
    config: Any = imported("dask.config")
    threaded: Any = imported("dask.threaded")
    system: Any = imported("dask.system")
    if schedule is not threaded.get or config.get("pool", None) is not None:
        yield {}
        return
    with ThreadPoolExecutor(config.get("num_workers", None) or system.CPU_COUNT) as pool:
        try:
            yield {"pool": pool}
        except KeyboardInterrupt:
            # Kernels may be running there that never end by themselves.
            stop_elsewhere()
            raise
