"""The actors that have the parts of a state, and the client's team of them.

A worker of a Dask cluster has a part, as an actor.  Actors give each other their points, from
worker to worker; the client begins them, says how far to go, reads them, and may lose them.
"""

from __future__ import annotations

import copy
import importlib.util
import itertools
import math
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import dask.array as da
import distributed
import numpy as np

from ...arrays.accepted import Arrays
from ...arrays.borders import Array
from ...io.progress import patience
from ..iterate import Iteration, Scalars, advance
from ..motion import Motion
from .slab import Parts, Slab

# What an exchange between workers costs, as far as more steps between two of them make up for it
# [s].  (Heat equation, float32, 2000x4000 on each of two workers, 480 steps: 16 steps between two
# exchanges 1.5 s, 40 steps 2.3 s, two processes of MPI 1.1 s, Zen 4.)
EXCHANGE = 0.4e-3

# How much of a worker's memory parts may take.
SHARE = 0.7

# How long a scheduler has to notice that a worker is gone, after nobody can reach it [s].
NOTICED = 10.0

# Most of the functions of Dask carry no annotations.
_arrays: Any = da
_distributed: Any = distributed

T = TypeVar("T")


class Lost(OSError):
    """A part that others wait for is gone."""


class Keeper:
    """The actor that has a part of a state; to that it is its `slab.Links` to the other actors.

    `plan` has the threads of its kernels.  Of each field it is given the part's own points, in
    lists of lists of pieces, as `numpy.block` takes them.
    """

    def __init__(self, parts: Parts, part: int, plan: Iteration, *fields: Any) -> None:
        self.part, self._plan = part, plan
        # Its own scalars, which others of this process do not change.
        self._scalars = Scalars(parts.motion.call.scalars)
        self._parts = replace(parts, motion=replace(parts.motion, scalars=self._scalars))
        self._fields: list[Array] = [np.block(pieces) for pieces in fields]
        self._slab: Slab | None = None
        self._others: Sequence[Any] = ()
        # What others said, by the turn, of which all have as many, and the number of the part.
        self._turn = 0
        self._heard: dict[tuple[int, int], Any] = {}
        self._news = threading.Condition()
        self._stopped = False
        self._going: list[Any] = []

    def begin(self, others: Arrays) -> None:
        """Begin; `others` are the actors that have the parts."""
        self._others = [_proxy(one) for one in others]
        self._slab = Slab(self._parts, self, self._fields, self._plan)
        self._fields = []

    def go(self, first: int, last: int, numbers: Sequence[Mapping[str, Any]]) -> tuple[int, bool]:
        """Do the steps from the one to before the other; `numbers` are the scalars of each.

        Gives how many steps are done then, and whether the last of them changed so little that
        the iteration ends.
        """
        slab, step = self._slab, first
        assert slab is not None
        self._scalars.know(first, numbers)
        for done in advance(slab, replace(self._plan, steps=last), first):
            step = done
        return step, slab.ended

    def take(self, number: int) -> Array:
        """Give the part's own points of a state."""
        assert self._slab is not None
        return self._slab.own()[number].copy()

    async def push(self, turn: int, sender: int, message: Any) -> None:
        """Hear what another part says."""
        with self._news:
            self._heard[turn, sender] = message
            self._news.notify_all()

    async def stop(self) -> None:
        """Wait for nobody any more."""
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def exchange(self, give: Mapping[int, list[Array]], into: Mapping[int, list[Array]]) -> None:
        """Give arrays to others, and fill arrays with what they give."""
        self._turn += 1
        for other, arrays in give.items():
            # Copies: the points may be others before they have left.
            self._say(other, [one.copy() for one in arrays])
        for other, arrays in into.items():
            for one, points in zip(arrays, self._wait(other), strict=True):
                one[...] = points

    def together(self, value: T) -> list[T]:
        """What all parts have to say."""
        self._turn += 1
        parts = range(len(self._others))
        for other in parts:
            if other != self.part:
                self._say(other, value)
        return [value if part == self.part else self._wait(part) for part in parts]

    def _say(self, other: int, message: Any) -> None:
        # Raises where what was said before has not come in.
        going = [one for one in self._going if not (one.done() and one.result() is None)]
        going.append(self._others[other].push(self._turn, self.part, message))
        self._going = going

    def _wait(self, other: int) -> Any:
        key = self._turn, other
        with self._news:
            while key not in self._heard:
                if self._stopped:
                    raise Lost("another part of the state is gone.")
                self._news.wait(1.0)
            return self._heard.pop(key)


def _proxy(other: Any) -> Any:
    """Give a proxy of an actor that is this worker's own.

    Workers of one process are given the same proxies.  One belongs to one worker, and keeps what
    it stands for, by a future of the client: actors would keep each other for ever.
    """
    own: Any = copy.copy(other)
    own._future = None
    return own


def take(key: str, number: int) -> Array:
    """Give a state of the part that an actor of this worker has; a task that runs where it is.

    Raises
    ------
    Lost
        If it is not here.
    """
    get_worker: Any = distributed.get_worker
    found: Keeper | None = get_worker().state.actors.get(key)
    if found is None:
        raise Lost("the part of a state that this worker had is gone.")
    return found.take(number)


def limit(dask_worker: Any) -> int:
    """How many bytes a worker may have; 0 if nobody says so."""
    return int(dask_worker.memory_manager.memory_limit or 0)


@dataclass(frozen=True)
class Start:
    """Fields with which a team begins, after so many steps, and the workers that have the state.

    The first fields are the state.
    """

    fields: Arrays
    step: int = 0
    holders: frozenset[str] = frozenset()


class Team:
    """Actors, one on each worker, with the state after `step` steps."""

    def __init__(
        self, client: Any, motion: Motion, axis: int, plan: Iteration, start: Start
    ) -> None:
        self._client, self._plan, self.step = client, plan, start.step
        workers, fields = workers_of(client), list(start.fields)
        shape = np.broadcast_shapes(*(field.shape for field in fields))
        self._addresses = list(workers)[: max(1, shape[axis] // 4)]
        # Those without which there is nothing to be done.
        self._needed = start.holders.union(self._addresses)
        threads = [workers[address] for address in self._addresses]
        ends = [0, *itertools.accumulate(threads)]
        lengths = [
            shape[axis] * b // ends[-1] - shape[axis] * a // ends[-1]
            for a, b in itertools.pairwise(ends)
        ]
        count, self._others = motion.states, fields[motion.states :]
        fields[:count] = [_arrays.broadcast_to(one, shape) for one in fields[:count]]
        cut = [f.ndim >= -axis and f.shape[axis] == shape[axis] for f in fields]
        shapes = [(field.shape, own) for field, own in zip(fields, cut, strict=True)]
        self.parts = parts = Parts.of(motion, axis, lengths, shapes, EXCHANGE, plan)
        with self._noticing():
            self._check()
        token = uuid.uuid4().hex[:12]
        quiet = replace(plan, callback=None, progress=None)
        given = self._pieces(fields)
        self._futures = [
            client.submit(
                Keeper, parts, part, replace(quiet, threads=plan.threads or threads[part]),
                *given[part], actor=True, workers=[address], key=f"slab-{token}-{part}",
            )
            for part, address in enumerate(self._addresses)
        ]  # fmt: skip
        self._wait(self._futures)
        with self._noticing():
            self._actors = [future.result() for future in self._futures]
        self._all("begin", self._actors)
        self._needed = frozenset(self._addresses)
        # The step of which there are copies, if there are; of each state those of all parts, by
        # the workers that have them: its own one and the next one.
        self.copied: int | None = None
        self._copies: list[list[dict[str, Any]]] = []

    def go(self, last: int, numbers: Sequence[Mapping[str, Any]]) -> bool:
        """Do steps until so many are done in all, or until one changes little, which it tells.

        Raises
        ------
        Lost
            If a worker is gone.
        """
        self.step, ended = self._all("go", self.step, last, numbers)[0]
        return bool(ended)

    def copy(self) -> None:
        """Copy each part's state, there and to the next part's worker: two more states.

        Those of before are kept until all parts have theirs, for a worker may end meanwhile.
        """
        following = [*self._addresses[1:], self._addresses[0]]
        copies = [
            [
                {
                    own: one,
                    other: self._client.submit(np.asarray, one, workers=[other], pure=False),
                }
                for one, own, other in zip(futures, self._addresses, following, strict=True)
            ]
            for futures in self._taken()
        ]
        self._wait([one for parts in copies for part in parts for one in part.values()])
        self.copied, self._copies = self.step, copies

    def state(self, chunks: Sequence[Sequence[int]]) -> list[Any]:
        """The state as Dask arrays in these chunks, which lie on the workers."""
        taken = self._taken()
        self._wait(list(itertools.chain(*taken)))
        whole = [self._array(number, futures) for number, futures in enumerate(taken)]
        cut = tuple(map(tuple, chunks))
        held: list[Any] = self._client.persist([one.rechunk(cut, method="tasks") for one in whole])
        self._wait(_distributed.futures_of(held))
        return held

    def copies(self) -> Start | None:
        """The state that was copied, as it lies on the workers that are left, or nothing."""
        if self.copied is None:
            return None
        left = workers_of(self._client)
        state: list[Any] = [*self._others]
        holders: set[str] = set()
        for number, parts in enumerate(self._copies):
            found = [[pair for pair in one.items() if pair[0] in left] for one in parts]
            if not all(found):
                return None
            holders.update(pairs[0][0] for pairs in found)
            state.insert(number, self._array(number, [pairs[0][1] for pairs in found]))
        return Start(state, self.copied, frozenset(holders))

    def stop(self) -> None:
        """Let actors that wait for others that are gone wait no more."""
        left = set(workers_of(self._client))
        for address, one in zip(self._addresses, self._actors, strict=True):
            if address in left:
                one.stop()

    def _check(self) -> None:
        """Raise where a worker cannot do its part."""
        motion, shape, lengths = self.parts.motion, self.parts.shape, self.parts.lengths
        client, addresses = self._client, self._addresses
        found = client.run(importlib.util.find_spec, "ninepoint", workers=addresses)
        for address, spec in found.items():
            if spec is None:
                raise ModuleNotFoundError(
                    f"the worker {address} has no ninepoint; install it there, for example with "
                    "client.register_plugin(distributed.PipInstall(['ninepoint']))."
                )
        size = sum(dtype.itemsize for dtype in motion.types)
        state = sum(dtype.itemsize for dtype in motion.types[: motion.states])
        # Two states, and while it begins the fields; with copies two states more.
        size += 2 * state
        if self._plan.snapshots != 0 and len(addresses) > 1:
            size += 2 * state
        points = math.prod(self.parts.shape_of(shape, 1))
        limits = client.run(limit, workers=addresses)
        for address, length in zip(addresses, lengths, strict=True):
            most = limits[address]
            if most and points * length * size > SHARE * most:
                raise MemoryError(
                    f"the worker {address} would hold {points * length * size / 1e9:.1f} GB of "
                    f"the state, and may have {most / 1e9:.1f} GB; start more workers, give "
                    "snapshots=0, or keep the state in chunks: "
                    'dask.config.set({"ninepoint.actors": False}).'
                )

    def _pieces(self, fields: Arrays) -> list[list[Any]]:
        """Of each part its points of the fields, in pieces that lie somewhere on the workers."""
        after = (slice(None),) * (-self.parts.axis - 1)
        pieces = [
            field[(..., slice(*own), *after)] if number in self.parts.cut else field
            for own in self.parts.owned
            for number, field in enumerate(fields)
        ]
        held = self._client.persist(pieces)
        self._wait(_distributed.futures_of(held))
        given = [_nested(dict(one.dask), one.__dask_keys__()) for one in held]
        count = len(fields)
        return [given[k : k + count] for k in range(0, len(given), count)]

    def _taken(self) -> list[list[Any]]:
        """Copies of each state, part by part, where these are."""
        return [
            [
                self._client.submit(take, one.key, number, workers=[address], pure=False)
                for one, address in zip(self._futures, self._addresses, strict=True)
            ]
            for number in range(self.parts.motion.states)
        ]

    def _array(self, number: int, futures: Sequence[Any]) -> Any:
        """A state as an array of Dask, of its parts."""
        parts = self.parts
        pairs = [pair for pair in zip(futures, parts.lengths, strict=True) if pair[1]]
        arrays = [
            _arrays.from_delayed(one, parts.shape_of(parts.shape, n), parts.motion.types[number])
            for one, n in pairs
        ]
        return _arrays.concatenate(arrays, axis=len(parts.shape) + parts.axis)

    def _wait(self, futures: Sequence[Any]) -> None:
        waiting = True
        while waiting:
            try:
                _distributed.wait(futures, timeout=1.0)
                waiting = False
            except TimeoutError:
                self._check_workers()
        for future in futures:
            if future.status != "finished":
                with self._noticing():
                    future.result()

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of all actors gives."""
        told: dict[int, Any] = {}
        with self._noticing():
            calls = [getattr(one, method)(*arguments) for one in self._actors]
            # One that waits for another, which raises, must not be waited for alone.
            left = list(range(len(calls)))
            while left:
                k = left.pop(0)
                try:
                    told[k] = calls[k].result(timeout=0.5)
                except TimeoutError:
                    left.append(k)
                    self._check_workers()
        return [told[k] for k in range(len(calls))]

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Raise `Lost` in the place of whatever the end of a worker makes Dask raise."""
        try:
            yield
        except Lost:
            raise
        except Exception as error:
            self._check_workers(NOTICED if isinstance(error, OSError) else 0.0)
            raise

    def _check_workers(self, patience: float = 0.0) -> None:
        """Raise where a worker is gone, or will be found to be gone soon."""
        until = time.monotonic() + patience
        while True:
            gone = self._needed - set(workers_of(self._client))
            if gone:
                raise Lost(f"the workers {sorted(gone)} are gone, with parts of a state.")
            if time.monotonic() >= until:
                return
            time.sleep(0.1)


def workers_of(client: Any) -> dict[str, int]:
    """The workers that there are, and how many threads each has; waits for one."""
    until = time.monotonic() + patience()
    while True:
        if client.status in ("closing", "closed"):
            raise ConnectionError(
                "the Dask client was closed before the steps were done; keep it open until then."
            )
        found: dict[str, int] = client.nthreads()
        if found:
            return dict(sorted(found.items()))
        if time.monotonic() > until:
            raise ConnectionError("the Dask cluster has no workers; start some, and try again.")
        time.sleep(0.2)


def _nested(graph: Mapping[Any, Any], keys: Any) -> Any:
    """What a graph has for keys in lists of lists."""
    return [_nested(graph, one) for one in keys] if isinstance(keys, list) else graph[keys]
