"""What a worker of a Dask cluster has of a state: a part, as an actor; and what a task does there.

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
from ..iteration import Iteration, advance
from .slab import Parts, Slab

T = TypeVar("T")


class Lost(OSError):
    """A part that others wait for is gone."""


class Keeper:
    """The actor that has a part of a state; to that it is its `slab.Links` to the other actors.

    `plan` has the threads of its kernels.  Of each field it is given the part's own points, in
    lists of lists of pieces, as `numpy.block` takes them.
    """

    def __init__(self, parts: Parts, part: int, plan: Iteration, *fields: Any) -> None:
        self._parts, self.part, self._plan = parts, part, plan
        # The scalars of each step of which they differ; the same object each time tells that
        # nothing has changed.
        self._each: dict[int, Mapping[str, Any]] = {}
        self._fixed = dict(parts.motion.call.scalars)
        self._fields: list[Array] = [np.block(pieces) for pieces in fields]
        self._slab: Slab | None = None
        self._others: Sequence[Any] = ()
        # What others said, by the turn, of which all have as many, and the number of the part.
        self._turn = 0
        self._heard: dict[tuple[int, int], Any] = {}
        self._news = threading.Condition()
        self._stopped = False
        self._going: list[Any] = []

    def begin(self, others: Sequence[Any]) -> None:
        """Begin; `others` are the actors that have the parts."""
        self._others = [_proxy(one) for one in others]
        self._slab = Slab(self._parts, self, self._at, self._fields, self._plan)
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
