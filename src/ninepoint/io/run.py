"""Run the tasks that write, on the scheduler in use, and tell of each that is done.

    array, cut to units  ->  Writer  ->  what it writes to; a 1 for the scheduler

Only the 1 travels back, so what is in memory is what the scheduler holds: about a unit for each
worker.

Python's pools and their futures are not made for interrupts: one that comes while a thread is
started leaves it at work with nobody to wait for it, and one that comes while a result is
waited for may be lost.  So the main thread, which alone is interrupted, has nothing to do with
them: it waits for messages, and when it leaves, it waits until nobody works any more.
"""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import numpy as np

from ..arrays.accepted import is_cupy
from ..backends.threads import stop_elsewhere
from ..undisturbed import imported, start
from . import cluster
from .progress import Advance, Progress
from .units import Region, Shape, Units

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class How:
    """What one was asked for besides an array and its place."""

    resume: bool = False
    part: tuple[int, int] | None = None
    progress: Progress = None
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Writer:
    """The task for a unit, which has a place in the grid; `who` writes, for what is said."""

    units: Units
    put: Callable[[np.ndarray, Shape, Region], None]
    dtype: np.dtype[Any]
    who: str = "save"

    def __call__(self, block: Any, block_id: Shape | None = None) -> np.ndarray:
        """Write the elements of `block`."""
        assert block_id is not None, "map_blocks passes it"
        region = self.units.region(block_id)
        if isinstance(block, np.ma.MaskedArray):
            raise TypeError(f"{self.who} would lose the mask of this array; fill it first")
        shape = tuple(one.stop - one.start for one in region)
        if block.dtype != self.dtype or block.shape != shape:
            # A frame is what imsave's users know of.
            first = 1 if self.who == "imsave" else 0
            raise TypeError(
                f"a chunk of the Dask array is {block.shape[first:]} {block.dtype}, but the array "
                f"says {shape[first:]} {self.dtype}; give map_blocks its dtype= and chunks="
            )
        self.put(block.get() if is_cupy(block) else np.asarray(block), block_id, region)
        return np.ones((1,) * block.ndim, np.int8)


@dataclass(frozen=True, slots=True)
class Item:
    """A lazy array, what writes it, and the units to write by number, with what each counts."""

    array: Any
    writer: Writer
    numbers: Mapping[int, int]


def write(items: Iterable[Item], advance: Advance) -> None:
    """Compute and write the units that are to be written."""
    wanted: dict[tuple[Any, ...], int] = {}
    arrays = []
    for item in items:
        if not item.numbers:
            continue
        units = item.writer.units
        name = f"{item.writer.who}-{secrets.token_hex(16)}"
        arrays.append(
            _cut(item.array, units.chunks).map_blocks(
                item.writer,
                name=name,
                dtype=np.int8,
                chunks=tuple((1,) * count for count in units.counts),
                meta=np.empty((0,) * item.array.ndim, np.int8),
            )
        )
        wanted |= {(name, *units.place(one)): n for one, n in item.numbers.items()}
    if wanted:
        _compute(arrays, wanted, advance)


def _cut(array: Any, chunks: tuple[Shape, ...]) -> Any:
    """The same values in other chunks: by other reads of the sources, where that can be.

    Else Dask puts pieces of chunks together; never by sending all chunks through all workers
    ("p2p"), which is lost with one of them.
    """
    if array.chunks == chunks:
        return array
    made = None
    # Imported here, and only where there may be arrays that know their sources.
    if "ninepoint.arrays.chunked.layer" in sys.modules:
        from ..arrays.chunked.computation import recut

        made = recut(array, chunks)
    return array.rechunk(chunks, method="tasks") if made is None else made


def _compute(
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
            follow(lambda work: _on_threads(graph, wanted, work), advance, stop_elsewhere)
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


class Stopped(Exception):
    """Nobody wants the rest of the work."""


def follow(
    do: Callable[[Work[_T]], None],
    hear: Callable[[_T], None],
    halt: Callable[[], None] = lambda: None,
) -> None:
    """Do some work apart, and hear what it tells; whatever happens here, it ends before this."""
    with closing(Work(do, halt).messages()) as told:
        for message in told:
            hear(message)


class Work(Generic[_T]):
    """Something to do, which tells how far it is; `halt` ends what cannot ask whether to go on."""

    def __init__(self, do: Callable[[Work[_T]], None], halt: Callable[[], None]) -> None:
        self._do = do
        self._halt = halt
        self._messages: SimpleQueue[tuple[_T, ...]] = SimpleQueue()
        self._gate = threading.Lock()
        self._begun = self._ended = self._stopped = False
        self._error: BaseException | None = None

    def tell(self, message: _T) -> None:
        """Give a message to who waits for them; raise `Stopped` if nobody does any more."""
        self._messages.put((message,))
        self.check()

    def check(self) -> None:
        """Raise `Stopped` if nobody wants the rest."""
        if self._stopped:
            raise Stopped

    def messages(self) -> Generator[_T]:
        """Do it, and yield what it tells; who leaves early waits until it has ended."""
        try:
            start(threading.Thread(target=self._run, name="ninepoint-files", daemon=True))
            while told := self._messages.get():
                yield told[0]
        finally:
            self._end()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        with self._gate:
            if self._stopped:
                return
            self._begun = True
        try:
            self._do(self)
        except Stopped:
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._ended = True
            self._messages.put(())

    def _end(self) -> None:
        with self._gate:
            self._stopped = True
        if self._begun and not self._ended:
            self._halt()
            while self._messages.get():
                pass
