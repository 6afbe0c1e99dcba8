"""Units, which a task computes and writes whole, and the tasks, on the scheduler in use.

shape (5, 7), size (2, 4):      0,0 | 0,1      each pair is a unit; those at the far ends
                               -----+-----     are as short as the array is
                                1,0 | 1,1
                               -----+-----
                                2,0 | 2,1

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
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias

import numpy as np

from ..arrays.accepted import is_cupy
from ..arrays.layout import Shape
from ..backends.memory import of_machine
from ..backends.threads import stop_elsewhere
from ..base.frozen import frozen
from ..base.undisturbed import imported, start, undisturbed
from ..language.dtypes import is_masked
from ..shapes import whole
from .paths import Names, nth, spans
from .progress import Advance, Progress, described_workers, finished

Region: TypeAlias = tuple[slice, ...]
Cut: TypeAlias = "int | Sequence[int] | Mapping[Any, int] | None"


# Where a unit lies in the grid of its variable, whose name comes first.
Unit: TypeAlias = "tuple[Any, ...]"


@frozen
class Units:
    """A grid over an array, whose cells have one size."""

    shape: Shape
    size: Shape

    @property
    def counts(self) -> Shape:
        """How many units lie along each axis."""
        return tuple(-(-n // one) for n, one in zip(self.shape, self.size, strict=True))

    def region(self, place: Shape) -> Region:
        """The elements of the unit at a place."""
        return tuple(
            slice(at * one, min(n, (at + 1) * one))
            for at, one, n in zip(place, self.size, self.shape, strict=True)
        )


def grown(
    lengths: Shape, limits: Sequence[int], most: int, first: Sequence[int] | None = None
) -> Shape:
    """Double lengths, up to their limits, while no more than `most` elements lie in all.

    The shortest of the axes that are `first` grow before the others, which grow from the last on.
    """
    axes = range(len(lengths))
    first = axes if first is None else first
    others = [axis for axis in reversed(axes) if axis not in first]
    sizes = list(lengths)
    while True:
        for axis in (*sorted(first, key=sizes.__getitem__), *others):
            longer = min(2 * sizes[axis], limits[axis])
            if sizes[axis] < longer and math.prod(sizes) // sizes[axis] * longer <= most:
                sizes[axis] = longer
                break
        else:
            return tuple(sizes)


def lengths(
    name: str,
    cut: Any,
    shape: Shape,
    dims: Sequence[Hashable],
    own: Shape,
    known: Collection[Hashable] = (),
) -> Shape:
    """Read lengths: one for all axes, one for each, or for some dimensions by their names.

    What is left out is as long as its `own`; -1 is a whole axis.  Those of others are `known`.

    Raises
    ------
    ValueError, TypeError
        If they do not fit the shape, or are no lengths.
    """
    given = cut
    if isinstance(cut, Mapping):
        known = known or dims
        unknown = [dim for dim in cut if dim not in known]
        if unknown:
            raise ValueError(
                f"{name} names the dimension {unknown[0]!r}, and there are {list(known)}"
            )
        given = [cut.get(dim, n) for dim, n in zip(dims, own, strict=True)]
    elif not isinstance(cut, tuple | list):
        given = [cut] * len(shape)
    if len(given) != len(shape):
        raise ValueError(f"{name} has {len(given)} lengths, and the array {len(shape)} axes")
    found = []
    for one, n in zip(given, shape, strict=True):
        is_all = one in (None, -1) or not n
        found.append(max(1, n if is_all else min(whole(name, one, 1), n)))
    return tuple(found)


@frozen
class How:
    """What `who` was asked for, besides an array and its place.

    Images alone are compressed, PNG and TIFF at a level and JPEG to a `quality`.  Where it is
    `dry` nothing is written, and what would be is told.
    """

    resume: bool = False
    part: tuple[int, int] | None = None
    progress: Progress = None
    overwrite: bool = False
    compression: int | None = None
    quality: int | None = None
    memory: int | str | None = None
    dry: bool = False
    chunks: Cut = None
    shards: Cut = None
    who: str = "save"


# The part of the memory that is there which a run takes where nobody says how much; of a worker
# Python, its packages and LLVM take so many bytes before.
SHARE, TAKEN = 0.25, 300 * 10**6

# How many times its own size a unit takes on a thread: what is read, with what lies around it, the
# result, and both in the form in which they are stored.
HELD = 6


@frozen
class Room:
    """How many bytes a run may take, and on how many threads, which share them.

    There are so many `workers`, each with a part of the bytes; none where threads are all.
    """

    memory: int
    threads: int
    workers: int = 0

    @property
    def unit(self) -> int:
        """How many bytes a unit may have."""
        return self.memory // self.threads // HELD

    @staticmethod
    def of(memory: int | str | None) -> Room:
        """The room on the scheduler in use, of all workers together; by default a share of it."""
        array = imported("dask.array").Array
        client = getattr(scheduler(array), "__self__", None)
        told = described_workers(client) if hasattr(client, "scheduler_info") else None
        workers = (told or {}).values()
        limits = [one["memory_limit"] or 0 for one in workers]
        there = sum(max(most - TAKEN, most // 4) for most in limits)
        own = imported("dask.config").get("num_workers", None)
        threads = sum(one["nthreads"] for one in workers)
        threads = threads or int(own or imported("dask.system").CPU_COUNT)
        most = int(SHARE * (there or of_machine() or 1 << 32))
        if memory is not None:
            try:
                most = int(imported("dask.utils").parse_bytes(memory))
            except (AttributeError, ValueError):
                most = 0
        if most <= 0:
            raise ValueError(f"memory={memory!r} is no number of bytes, such as '2 GB'")
        return Room(most, threads, len(workers))


# What becomes of the other units where one cannot be written.
WHOLE = "the files that are there are whole, and resume=True goes on after them"
STAYS = "what is written stays, and resume=True goes on after it"
LOST = "what was written is of no use, and is written again"


@frozen
class Writer:
    """The task for a unit, by its place in the grid, which `put` writes.

    To which `path` is for what is said, and `rest` is what becomes of the other units where one
    cannot be written.
    """

    units: Units
    dtype: np.dtype
    put: Callable[[np.ndarray, Region], None]
    path: Names
    rest: str

    def __call__(self, block: Any, block_id: Shape) -> int:
        """Write the elements of `block`; `map_blocks` tells its place."""
        region = self.units.region(block_id)
        if is_masked(block):
            raise TypeError("to save it would lose the mask of the array; fill it first")
        shape = tuple(one.stop - one.start for one in region)
        if block.dtype != self.dtype or block.shape != shape:
            raise TypeError(
                f"a chunk of the Dask array is {block.shape} {block.dtype}, but the "
                f"array says {shape} {self.dtype}; give map_blocks its dtype= and "
                "chunks="
            )
        try:
            self.put(block.get() if is_cupy(block) else np.asarray(block), region)
        except OSError as error:
            words = f"{error.strerror or error}: [{spans(region)}] is not written; {self.rest}"
            where = nth(self.path, region[0].start) if self.rest == WHOLE else self.path
            raise OSError(error.errno, words, where) from error
        return 1


def boxes(counts: Mapping[str, Shape], keys: Iterable[Any], most: int) -> list[list[Any]]:
    """Keys in boxes of so many neighbours; those of arrays that are cut alike are together."""
    sizes = {cut: grown((1,) * len(cut), cut, most) for cut in counts.values()}
    found: dict[Any, list[Any]] = {}
    for key in keys:
        cut = counts[key[0]]
        place = tuple([at // n for at, n in zip(key[1:], sizes[cut], strict=True)])
        found.setdefault((cut, place), []).append(key)
    return list(found.values())


# The part of a window's tasks that the next one may have, too, and does once more.
SHARED = 0.15


def scheduler(kind: Any) -> Any:
    """Dask's scheduler for arrays of a kind; to find a cluster's, Dask may import that first."""
    return undisturbed(partial(imported("dask.base").get_scheduler, cls=kind))


def compute(
    arrays: Sequence[Any],
    wanted: Collection[Any],
    advance: Advance,
    threads: int,
    window: int,
) -> None:
    """Run the tasks `wanted` of some arrays on the scheduler in use, window by window.

    What the tasks give stays where it is.  Without a cluster so many threads do them, at most;
    a `window` has about so many tasks.
    """
    kind = type(arrays[0])
    schedule = scheduler(kind)
    client = getattr(schedule, "__self__", None)
    pool = imported("dask.config").get("pool", None)
    graph = imported("dask.highlevelgraph").HighLevelGraph.merge(*(a.dask for a in arrays))
    optimize = partial(kind.__dask_optimize__, graph)
    windows = _windows(arrays, wanted, optimize, window)
    if hasattr(client, "scheduler_info"):
        # The scheduler writes the tasks, as it does for arrays of Dask: it knows its workers.
        rule = partial(imported("dask._expr").HLGExpr, graph, kind.__dask_optimize__)
        graphs = ((rule(keys), keys) for keys in windows)
        for key in finished(client, schedule, graphs):
            advance(key in wanted)
        return
    graphs = ((optimize(keys), keys) for keys in windows)
    told = imported("dask.callbacks").Callback

    def on_threads(tell: Advance) -> None:
        """Run tasks on threads of ours, and begin none that nobody wants any more.

        When a task fails Dask raises at once, while its threads are still writing other frames;
        the end of our pool waits for them, so that nobody leaves a file that is about to appear.
        """
        heard = told(pretask=lambda *_: tell(0), posttask=lambda key, *_: tell(key in wanted))
        with ThreadPoolExecutor(threads) as pool, heard:
            for graph, keys in graphs:
                schedule(graph, keys, pool=pool)

    if schedule is imported("dask.threaded").get and pool is None:
        follow(on_threads, advance, stop_elsewhere)
    else:
        with told(posttask=lambda key, *_: advance(key in wanted)):
            for graph, keys in graphs:
                schedule(graph, keys)


def _windows(
    arrays: Sequence[Any],
    wanted: Collection[Any],
    optimize: Callable[[list[Any]], Any],
    window: int,
) -> list[list[Any]]:
    """The tasks that are wanted, in windows that are done one after the other.

    Where windows have many tasks in common, as what follows from a mean of all, they are larger,
    or there is but one.
    """
    for larger in (1, 4, 16):
        windows = boxes({one.name: one.numblocks for one in arrays}, wanted, larger * window)
        if len(windows) == 1:
            return windows
        own, others = (set(dict(optimize(keys))) for keys in windows[:2])
        if len(own & others) <= SHARED * len(own):
            return windows
    return [list(wanted)]


class Stopped(Exception):
    """Nobody wants the rest of the work."""


def follow(
    do: Callable[[Advance], None],
    hear: Advance,
    halt: Callable[[], None] = lambda: None,
) -> None:
    """Do some work apart, and hear what it tells; whatever happens here, it ends before this.

    It is given what it tells with, which raises `Stopped` once nobody waits any more, also when
    it is told 0; `halt` ends what tells nothing.
    """
    messages: SimpleQueue[int | None] = SimpleQueue()
    stopped = False
    # How it ended, once it has.
    ended: list[BaseException | None] = []

    def tell(number: int) -> None:
        if number:
            messages.put(number)
            # Who hears it may end the work: let that be before more of it is done.
            time.sleep(0)
        if stopped:
            raise Stopped

    def run() -> None:
        try:
            tell(0)
            do(tell)
            ended.append(None)
        except BaseException as error:
            ended.append(error)
        finally:
            messages.put(None)

    thread = threading.Thread(target=run, name="ninepoint-files", daemon=True)
    try:
        start(thread)
        while (told := messages.get()) is not None:
            hear(told)
    finally:
        stopped = True
        # One that does not run yet, where its start was interrupted, will find that it is stopped.
        if thread.ident is not None and not ended:
            halt()
            while messages.get() is not None:
                pass
    if ended[0] is not None:
        raise ended[0]
