"""Units, which a task computes and writes whole, and the tasks, on the scheduler in use.

shape (5, 7), size (2, 4):      0 | 1        each number is a unit; those at the far ends
                               ---+---       are as short as the array is
                                2 | 3
                               ---+---
                                4 | 5

    array, cut to units  ->  Writer  ->  what it writes to; a 1 for the scheduler

Only the 1 travels back, so what is in memory is what the scheduler holds: about a unit for each
worker.

Python's pools and their futures are not made for interrupts: one that comes while a thread is
started leaves it at work with nobody to wait for it, and one that comes while a result is
waited for may be lost.  So the main thread, which alone is interrupted, has nothing to do with
them: it waits for messages, and when it leaves, it waits until nobody works any more.
"""

from __future__ import annotations

import math
import secrets
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np

from ..arrays.accepted import is_cupy
from ..backends.threads import stop_elsewhere
from ..undisturbed import imported, start
from .progress import Advance, Progress, finished

Shape: TypeAlias = tuple[int, ...]
Region: TypeAlias = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class Units:
    """A grid over an array, whose cells have one size and are numbered as they lie in memory."""

    shape: Shape
    size: Shape

    @property
    def counts(self) -> Shape:
        """How many units lie along each axis."""
        return tuple(-(-n // one) for n, one in zip(self.shape, self.size, strict=True))

    @property
    def count(self) -> int:
        """How many units there are."""
        return math.prod(self.counts)

    def number(self, place: Shape) -> int:
        """The number of the unit at a place of the grid."""
        return int(np.ravel_multi_index(place, self.counts)) if place else 0

    def place(self, number: int) -> Shape:
        """Where in the grid the unit of that number lies."""
        return tuple(map(int, np.unravel_index(number, self.counts))) if self.counts else ()

    def region(self, place: Shape) -> Region:
        """The elements of the unit at a place."""
        return tuple(
            slice(at * one, min(n, (at + 1) * one))
            for at, one, n in zip(place, self.size, self.shape, strict=True)
        )


def share(count: int, part: tuple[int, int] | None) -> range:
    """The units of one part: neighbours, so that parts read little beside their own."""
    number, parts = part or (0, 1)
    return range(count * number // parts, count * (number + 1) // parts)


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
    put: Callable[[np.ndarray, int, Region], None]
    dtype: np.dtype
    who: str = "save"

    def __call__(self, block: Any, block_id: Shape | None = None) -> int:
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
        block = block.get() if is_cupy(block) else np.asarray(block)
        self.put(block, self.units.number(block_id), region)
        return 1


@contextmanager
def not_written(what: str, rest: str, path: str) -> Iterator[None]:
    """Say of an error of the system what is not written, and what of the `rest`."""
    try:
        yield
    except OSError as error:
        words = f"{error.strerror or error}: {what} is not written; {rest}"
        raise OSError(error.errno, words, path) from error


# A lazy array, what writes it, and the units to write by number, with what each counts.
Job: TypeAlias = tuple[Any, Writer, Mapping[int, int]]


def write(jobs: Iterable[Job], advance: Advance) -> None:
    """Compute and write the units that are to be written."""
    wanted: dict[tuple[Any, ...], int] = {}
    arrays = []
    for array, writer, numbers in jobs:
        if numbers:
            name = f"{writer.who}-{secrets.token_hex(16)}"
            cut, meta = _cut(array, writer.units.size), np.empty((0,) * array.ndim, np.int8)
            arrays.append(cut.map_blocks(writer, name=name, dtype=np.int8, meta=meta))
            wanted |= {(name, *writer.units.place(one)): n for one, n in numbers.items()}
    if wanted:
        _compute(arrays, wanted, advance)


def _cut(array: Any, size: Shape) -> Any:
    """The same values in chunks of a size: by other reads of the sources, where that can be.

    Else Dask puts pieces of chunks together; never by sending all chunks through all workers
    ("p2p"), which is lost with one of them.
    """
    chunks = imported("dask.array").core.normalize_chunks(size, array.shape)
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
    if hasattr(client, "scheduler_info"):
        for key in finished(client, schedule, graph, keys):
            advance(wanted.get(key, 0))
    elif schedule is threaded.get and config.get("pool", None) is None:
        follow(lambda work: _on_threads(graph, wanted, work), advance, stop_elsewhere)
    else:
        with callbacks.Callback(posttask=lambda key, *_: advance(wanted.get(key, 0))):
            schedule(graph, keys)


def _on_threads(graph: Any, wanted: Mapping[tuple[Any, ...], int], work: Work) -> None:
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
    do: Callable[[Work], None],
    hear: Callable[[int], None],
    halt: Callable[[], None] = lambda: None,
) -> None:
    """Do some work apart, and hear what it tells; whatever happens here, it ends before this.

    `halt` ends what cannot ask whether to go on.
    """
    work = Work()
    thread = threading.Thread(target=work.run, args=(do,), name="ninepoint-files", daemon=True)
    try:
        start(thread)
        while (told := work.messages.get()) is not None:
            hear(told)
    finally:
        work.stopped = True
        # One that does not run yet, where its start was interrupted, will find that it is stopped.
        if thread.ident is not None and not work.ended:
            halt()
            while work.messages.get() is not None:
                pass
    if work.error is not None:
        raise work.error


class Work:
    """Something to do, which tells how far it is; None is told at the end."""

    def __init__(self) -> None:
        self.stopped = self.ended = False
        self.messages: SimpleQueue[int | None] = SimpleQueue()
        self.error: BaseException | None = None

    def tell(self, message: int) -> None:
        """Give a message to who waits for them; raise `Stopped` if nobody does any more."""
        self.messages.put(message)
        self.check()

    def check(self) -> None:
        """Raise `Stopped` if nobody wants the rest."""
        if self.stopped:
            raise Stopped

    def run(self, do: Callable[[Work], None]) -> None:
        """Do it, unless it is stopped before it begins."""
        try:
            self.check()
            do(self)
        except Stopped:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self.ended = True
            self.messages.put(None)
