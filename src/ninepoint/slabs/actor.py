"""What a worker of a Dask cluster has of a state: a part, as an actor; and what tasks do there.

Actors give each other their points themselves, from worker to worker; the client only says how
far to go.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import distributed
import numpy as np

from ..arrays.borders import Array
from ..arrays.regions import Span
from ..backends.memory import empty
from ..iteration import Iteration, blocks
from .cut import Cut
from .motion import Motion
from .ranks import packed, unpacked
from .slab import Slab

T = TypeVar("T")


class Lost(OSError):
    """A part that others wait for is gone."""


class Keeper:
    """The actor that has a part of a state; `threads` are those of its kernels."""

    def __init__(
        self,
        motion: Motion,
        cut: Cut,
        part: int,
        longest: int,
        cut_too: Sequence[bool],
        plan: Iteration,
    ) -> None:
        self._motion, self._cut, self._part = motion, cut, part
        self._longest, self._cut_too, self._plan = longest, cut_too, plan
        self._links = _Pushes(part, len(cut.owned))
        self._numbers = _Leg()
        self._fields: list[Array] = []
        self._slab: Slab | None = None
        # Copies of the state of parts after some step.
        self._copies: dict[tuple[int, int], list[Array]] = {}

    def room(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Have arrays for the part's own points of the fields, which `put` fills."""
        self._fields = [
            empty(shape, dtype) for shape, dtype in zip(shapes, self._motion.types, strict=True)
        ]

    def put(self, number: int, first: Sequence[int], block: Array) -> None:
        """Fill the points of a field that begin there."""
        index = tuple(slice(a, a + n) for a, n in zip(first, block.shape, strict=True))
        self._fields[number][index] = block

    def begin(self, others: Sequence[Any]) -> None:
        """Begin, when all fields are there; `others` are the actors that have the parts."""
        self._links.others = [_proxy(one) for one in others]
        self._slab = Slab(
            self._motion, self._cut, self._part, self._links, self._numbers, self._fields,
            self._cut_too, self._longest, self._plan,
        )  # fmt: skip
        self._fields = []

    def go(
        self, first: int, last: int, numbers: Sequence[Mapping[str, Any]], watched: bool
    ) -> tuple[int, bool]:
        """Do the steps from the one to before the other; `numbers` are the scalars of each.

        Gives how many steps are done then, and whether the last of them changed so little that
        the iteration ends, if that is `watched`.
        """
        slab, plan = self._slab, self._plan
        assert slab is not None
        self._numbers.known(first, numbers, self._motion.call.scalars)
        apart = watched and plan.until is not None
        every = plan.every if apart else None
        for start, length, _ in blocks(last, every, self._longest, apart, slab.unit, first):
            slab.forward(start, length)
            step = start + length
            looked = apart and (step == plan.steps or not step % (every or 1))
            if looked and slab.ends(step):
                return step, True
        return last, False

    def take(self, number: int, spans: Sequence[Span]) -> Array:
        """Give some points of the state, in positions of the whole."""
        assert self._slab is not None
        return self._cut_out(self._slab.own()[number], spans)

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

    def copied(self, part: int, step: int, number: int) -> Array:
        """Give what was copied of a part."""
        return self._copies[part, step][number]

    async def push(self, turn: int, sender: int, message: Any) -> None:
        """Hear what another part says."""
        self._links.heard(turn, sender, message)

    async def stop(self) -> None:
        """Wait for nobody any more."""
        self._links.stop()

    def _cut_out(self, array: Array, spans: Sequence[Span]) -> Array:
        axis = self._cut.axis
        first = [0] * array.ndim
        first[axis] = self._cut.owned[self._part][0]
        index = tuple(slice(a - f, b - f) for (a, b), f in zip(spans, first, strict=True))
        return array[index].copy()


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


def put(key: str, number: int, first: Sequence[int], block: Any) -> None:
    """Fill points of a field; a task of the worker that has them."""
    actor_here(key).put(number, first, np.asarray(block))


def take(key: str, number: int, spans: Sequence[Span]) -> Array:
    """Give points of the state; a task of the worker that has them."""
    return actor_here(key).take(number, spans)


def copied(key: str, part: int, step: int, number: int) -> Array:
    """Give the copy of a part; a task of a worker that has one."""
    return actor_here(key).copied(part, step, number)


def joined(axis: int, *parts: Array) -> Array:
    """Put points of several parts together."""
    return np.concatenate(parts, axis)


def limit(dask_worker: Any) -> int:
    """How many bytes a worker may have; 0 if nobody says so."""
    return int(dask_worker.memory_manager.memory_limit or 0)


class _Leg:
    """The scalars of the steps that are being done."""

    def __init__(self) -> None:
        self._first = 0
        self._each: Sequence[Mapping[str, Any]] = ()
        self._fixed: dict[str, Any] = {}

    def known(
        self, first: int, each: Sequence[Mapping[str, Any]], fixed: Mapping[str, Any]
    ) -> None:
        self._first, self._each = first, each
        # The same object each time tells that nothing has changed.
        self._fixed = self._fixed or dict(fixed)

    def at(self, step: int) -> dict[str, Any]:
        return dict(self._each[step - self._first]) if self._each else self._fixed


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
