"""What a worker of a Dask cluster has of a state: a part, as an actor; and what tasks do there.

Actors give each other their points themselves, from worker to worker; the client only says how
far to go.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import distributed
import numpy as np

from ..arrays.borders import Array
from ..backends.memory import empty
from ..iteration import Iteration, advance
from .motion import Parts
from .on_cluster import Lost
from .ranks import packed, unpacked
from .slab import Slab

T = TypeVar("T")


class Keeper:
    """The actor that has a part of a state; `plan` has the threads of its kernels."""

    def __init__(self, parts: Parts, part: int, plan: Iteration) -> None:
        self._parts, self._part, self._plan = parts, part, plan
        self._links = _Pushes(part, len(parts.lengths))
        # The scalars of each step of which they differ; the same object each time tells that
        # nothing has changed.
        self._each: dict[int, Mapping[str, Any]] = {}
        self._fixed = dict(parts.motion.call.scalars)
        # The part's own points of the fields, which `put` fills.
        pairs = zip(parts.shapes(parts.lengths[part]), parts.motion.types, strict=True)
        self._fields = [empty(*pair) for pair in pairs]
        self._slab: Slab | None = None
        # Copies of the state of parts after some step.
        self._copies: dict[tuple[int, int], list[Array]] = {}

    def put(self, number: int, place: Sequence[Sequence[int]], block: Array) -> None:
        """Fill the points of a field that stand so in the part."""
        self._fields[number][tuple(slice(*span) for span in place)] = block

    def begin(self, others: Sequence[Any]) -> None:
        """Begin, when all fields are there; `others` are the actors that have the parts."""
        self._links.others = [_proxy(one) for one in others]
        self._slab = Slab(self._parts, self._part, self._links, self._at, self._fields, self._plan)
        self._fields = []

    def _at(self, step: int) -> Mapping[str, Any]:
        return self._each.get(step, self._fixed)

    def go(self, first: int, last: int, numbers: Sequence[Mapping[str, Any]]) -> tuple[int, bool]:
        """Do the steps from the one to before the other; `numbers` are the scalars of each.

        Gives how many steps are done then, and whether the last of them changed so little that
        the iteration ends.
        """
        slab, step = self._slab, first
        assert slab is not None
        self._each = dict(enumerate(numbers, first))
        for done in advance(slab, replace(self._plan, steps=last), first):
            step = done
        return step, slab.ended

    def take(self, part: int, step: int | None, number: int, index: tuple[slice, ...]) -> Array:
        """Give some points of the state of this part, or of a part that was copied at a step."""
        assert self._slab is not None
        state = self._slab.own() if step is None else self._copies[part, step]
        return state[number][index].copy()

    def copy(self, step: int) -> None:
        """Copy the part's state, for itself and for the next part."""
        assert self._slab is not None
        own = self._slab.final()
        self._copies[self._part, step] = own
        others = self._links.others
        following = (self._part + 1) % len(others)
        if following != self._part:
            self._links.ended(others[following].keep(self._part, step, own))

    async def keep(self, part: int, step: int, state: list[Array]) -> None:
        """Keep a copy of the state of another part."""
        self._copies[part, step] = state

    def forget(self, step: int) -> None:
        """Forget the copies of other steps: all parts have one of this step."""
        self._copies = {key: state for key, state in self._copies.items() if key[1] == step}

    async def push(self, turn: int, sender: int, message: Any) -> None:
        """Hear what another part says."""
        self._links.heard(turn, sender, message)

    async def stop(self) -> None:
        """Wait for nobody any more."""
        self._links.stop()


def _proxy(other: Any) -> Any:
    """Give a proxy of an actor that is this worker's own.

    Workers of one process are given the same proxies.  One belongs to one worker, and keeps what
    it stands for, by a future of the client: actors would keep each other for ever.
    """
    own: Any = copy.copy(other)
    own._future = None
    return own


def actor_here(key: str) -> Keeper:
    """The actor of this worker, for tasks that run where it is.

    Raises
    ------
    Lost
        If it is not here.
    """
    get_worker: Any = distributed.get_worker
    found: Keeper | None = get_worker().state.actors.get(key)
    if found is None:
        raise Lost("the part of a state that this worker had is gone.")
    return found


def put(block: Any, key: str, number: int, block_info: Any) -> Array:
    """Fill points of a field; a task of the worker that has them."""
    actor_here(key).put(number, block_info[0]["array-location"], np.asarray(block))
    return np.zeros((1,) * block.ndim, np.bool_)


def take(key: str, what: tuple[Any, ...]) -> Array:
    """Give points of the state; a task of a worker that has them."""
    return actor_here(key).take(*what)


def joined(axis: int, *parts: Array) -> Array:
    """Put points of several parts together."""
    return np.concatenate(parts, axis)


def limit(dask_worker: Any) -> int:
    """How many bytes a worker may have; 0 if nobody says so."""
    return int(dask_worker.memory_manager.memory_limit or 0)


class _Pushes:
    """What actors tell each other; see `slab.Links`.  Each says all in the same order."""

    def __init__(self, part: int, size: int) -> None:
        self.others: Sequence[Any] = ()
        self._part, self._size = part, size
        self._turn = 0
        self._heard: dict[tuple[int, int], Any] = {}
        self._news = threading.Condition()
        self._stopped = False
        self._going: list[Any] = []

    def exchange(self, give: Mapping[int, list[Array]], into: Mapping[int, list[Array]]) -> None:
        """Give arrays to others, and fill arrays with what they give."""
        self._turn += 1
        for other, arrays in give.items():
            # A copy: the points may be others before they have left.
            self._say(other, packed(arrays).copy())
        for other, arrays in into.items():
            unpacked(self._wait(other), arrays)

    def together(self, value: T) -> list[T]:
        """What all parts have to say: the first one hears it, and tells it to all."""
        self._turn += 2
        if self._part:
            self._say(0, value, self._turn - 1)
            told: list[T] = self._wait(0)
            return told
        told = [value, *(self._wait(k, self._turn - 1) for k in range(1, self._size))]
        for other in range(1, self._size):
            self._say(other, told)
        return told

    def ended(self, going: Any) -> None:
        """Wait for the end of a call of another actor, which never comes if that is gone."""
        while True:
            try:
                going.result(timeout=0.5)
                return
            except TimeoutError:
                if self._stopped:
                    raise Lost("another part of the state is gone.") from None

    def heard(self, turn: int, sender: int, message: Any) -> None:
        with self._news:
            self._heard[turn, sender] = message
            self._news.notify_all()

    def stop(self) -> None:
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def _say(self, other: int, message: Any, turn: int = 0) -> None:
        # Raises where what was said before has not come in.
        going = [one for one in self._going if not (one.done() and one.result() is None)]
        going.append(self.others[other].push(turn or self._turn, self._part, message))
        self._going = going

    def _wait(self, other: int, turn: int = 0) -> Any:
        key = turn or self._turn, other
        with self._news:
            while key not in self._heard:
                if self._stopped:
                    raise Lost("another part of the state is gone.")
                self._news.wait(1.0)
            return self._heard.pop(key)
