"""Iterations whose state lies on the workers of a Dask cluster, in actors, from begin to end.

A worker has a part, as an actor.  Actors give each other their points, from worker to worker; the
client says how far to go, looks at the state where somebody asks for that, and begins anew from
the last copies when a worker is lost.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np

from ...arrays.accepted import Arrays, is_dask
from ...backends.threads import in_task
from ...io.progress import described_workers, wait_for, workers_of
from ..iterate import NOBODY, UNMADE, Iteration, Scalars, iterate
from .slab import Keeper, Lost, Motion, Parts, refusal, take

# How much of a worker's memory parts may take.
SHARE = 0.7

# How long a scheduler has to notice that a worker is gone, after nobody can reach it [s].
NOTICED = 10.0

# What is said to actors at once should take about so long [s]: progress is shown then.
LEG = 1.0

# Copies of the state take at most this part of the time.
COPYING = 0.05

# So many workers may be lost one after the other while no step is done.
_TRIES = 5

# Most of the functions of Dask carry no annotations.
_dask: Any = dask
_arrays: Any = da
_delayed: Any = _dask.delayed
_distributed: Any = distributed


def on_cluster(
    motion: Motion,
    fields: Arrays,
    chunks: Sequence[Sequence[int]],
    plan: Iteration,
) -> list[Any] | None:
    """The state after the steps, as Dask arrays on the workers; None if it is not to lie there.

    Raises
    ------
    MemoryError
        If a worker may not have the memory for its part.
    ConnectionError
        If workers are lost again and again.
    """
    lazy = list(filter(is_dask, fields))
    # A task holds a thread of a worker, and that may be the only one which a part could have.
    if not lazy or in_task() or not _dask.config.get("ninepoint.actors", True):
        return None
    client = getattr(_dask.base.get_scheduler(collections=lazy), "__self__", None)
    if not isinstance(client, distributed.Client) or client.asynchronous:
        return None
    fields = [
        field if is_dask(field) else _arrays.from_array(field, name=False) for field in fields
    ]
    shape, parts = tuple(map(sum, chunks)), len(workers_of(client, NOBODY))

    def fits(axis: int) -> bool:
        """Whether an axis may be cut in so many parts."""
        one, shapes = motion.looking(axis), [field.shape for field in fields]
        return shape[axis] >= 4 * parts * max(1, -one.low, one.high) and not refusal(
            motion, shapes, axis
        )

    core = range(-motion.ndim, 0)
    # One that no step looks along needs no exchange; else it is the first, if it is long enough.
    axes = *range(-len(shape), -motion.ndim), core[0], max(core, key=shape.__getitem__)
    axis = next(filter(fits, axes), None)
    if axis is None:
        return None
    state = _Actors(client, motion, axis, fields, plan, tuple(map(tuple, chunks)))
    # The workers look for themselves how much a step changes.
    every = None if plan.callback is None else plan.every
    return iterate(state, replace(plan, until=None, every=every))


@dataclass
class _Actors:
    """A state in actors, one on each worker, whatever happens to these; see `iteration.Advance`.

    When a worker is lost, others begin anew with the last copies of the state, or with the fields.
    """

    client: Any
    motion: Motion
    axis: int
    fields: list[Any]
    plan: Iteration
    chunks: tuple[tuple[int, ...], ...]
    unit = 1

    def __post_init__(self) -> None:
        """Nothing is begun."""
        # What scalars are is told for each step.
        self._scalars: Scalars = self.motion.scalars
        self.motion = replace(self.motion, scalars=Scalars(self.motion.call.scalars))
        self.longest = max(1, self.plan.steps)
        self._leg = self._lost = self._done = 0
        self._ended = False
        # What scalars were at the steps that were begun.
        self._told: list[Mapping[str, Any]] = []
        # The actors, if there are any, and how many steps they have done.
        self._actors, self._futures, self._step = list[Any](), list[Any](), 0
        # The workers that have them, and those that have what they begin with.
        self._addresses, self._holders = list[str](), tuple[str, ...]()
        # The step of which there are copies, if there are: of each of some parts two, by the
        # workers that have them, its own one and the next one; and when others are due.
        self._copied, self._due = 0, 0.0
        self._copies: tuple[Any, list[dict[str, Any]]] = None, []

    def forward(self, first: int, length: int) -> int:
        """Do as many steps as take about a leg's time; none where the state ended by itself."""
        if self._ended:
            return 0
        begun = time.monotonic()

        def go() -> None:
            self._ended = self._go(first + min(length, self._leg))
            self._done = self._step
            if not self._ended:
                self._copy()
            self._lost = 0

        self._surely(go)
        if time.monotonic() - begun < LEG / 2:
            self._leg *= 2
        return self._done - first

    def ends(self, step: int) -> bool:
        """Show the state after so many steps, and say whether it is the last."""
        callback = self.plan.callback
        shown = callback is not None and callback(step, *self._surely(self._state))
        return bool(shown) or self._ended

    def told(self) -> list[str]:
        """What the steps take of each worker, and what the loss of one costs."""
        _, parts = self._divided(self.fields)
        snapshots = self.plan.snapshots
        page = parts.told("worker", self.plan.steps, copies=snapshots != 0)
        lost = {
            None: "the steps since the last copies, which take at most a twentieth of the time",
            0: "all steps before",
        }
        page.add("lost worker", lost.get(snapshots, f"up to {snapshots} steps"))
        return page

    def final(self) -> list[Any]:
        """The state after the steps that are done."""
        state: list[Any] = self._surely(self._state)
        return state

    def _surely(self, act: Callable[[], Any]) -> Any:
        """Act on the state; again where a worker is lost, after the steps that were done."""
        while True:
            try:
                with self._noticing():
                    if not self._actors:
                        self._begin()
                    while self._step < self._done:
                        self._go(min(self._done, self._step + self._leg))
                    return act()
            except CancelledError as error:
                if not self._copies[1]:
                    raise ConnectionError(
                        f"{UNMADE}. {self._done} of {self.plan.steps} steps were done; with "
                        "snapshots= another number than 0 a state goes on from its copies."
                    ) from error
                # Copies are gone: the fields may be there.
                self._copies = None, []
            except Lost as error:
                self._lost += 1
                if self._lost > _TRIES:
                    raise ConnectionError(
                        f"workers were lost {self._lost} times in an iteration ({error}); look at "
                        "their logs, most often they had no memory left."
                    ) from error
            self._stop()

    def _begin(self) -> None:
        """Have actors begin with the last copies of the state, or with the fields."""
        fields, count, plan, self._step = self.fields, self.motion.states, self.plan, 0
        left, (parts, copies) = workers_of(self.client, NOBODY), self._copies
        found = [
            [pair for pair in one.items() if pair[0] in left and pair[1].status == "finished"]
            for one in copies
        ]
        if found and all(found):
            holders, kept = zip(*(one[0] for one in found), strict=True)
            fields = [*self._joined(parts, kept), *fields[count:]]
            self._holders, self._step = holders, self._copied
        workers, self._parts = self._divided(fields)
        self._addresses, threads = list(workers), list(workers.values())
        self._check()
        self._leg = self._leg or 4 * self._parts.longest
        states = [_arrays.broadcast_to(one, self._parts.shape) for one in fields[:count]]
        given = self._pieces([*states, *fields[count:]])
        token = uuid.uuid4().hex[:12]
        quiet = replace(plan, callback=None, progress=None)
        futures = [
            self.client.submit(
                Keeper, self._parts, part, replace(quiet, threads=plan.threads or threads[part]),
                *given[part], actor=True, workers=[address], key=f"slab-{token}-{part}",
            )
            for part, address in enumerate(self._addresses)
        ]  # fmt: skip
        wait_for(futures, self._check_workers)
        self._actors = [future.result() for future in futures]
        self._futures, self._holders = futures, ()

    def _divided(self, fields: Arrays) -> tuple[dict[str, int], Parts]:
        """The workers that are to have parts, with their threads, and these parts."""
        axis, count = self.axis, self.motion.states
        shape = np.broadcast_shapes(*(field.shape for field in fields))
        workers = workers_of(self.client, NOBODY).items()
        threads = dict(itertools.islice(workers, max(1, shape[axis] // 4)))
        ends = [0, *itertools.accumulate(threads.values())]
        cuts = [shape[axis] * end // ends[-1] for end in ends]
        lengths = tuple(b - a for a, b in itertools.pairwise(cuts))
        cut = [
            number
            for number, one in enumerate(fields)
            if number < count or (one.ndim >= -axis and one.shape[axis] == shape[axis])
        ]
        row = self.plan.in_a_row
        return threads, Parts(self.motion, shape, axis, lengths, tuple(cut), row)

    def _go(self, last: int) -> bool:
        """Do steps until so many are done in all, or until one changes little, which it tells."""
        numbers: list[Mapping[str, Any]] = []
        if self._scalars.vary:
            # Once for each step, also of those that are done again.
            self._told += [self._scalars.at(step) for step in range(len(self._told), last)]
            numbers = self._told[self._step : last]
        self._step, ended = self._all("go", self._actors, self._step, last, numbers)[0]
        return bool(ended)

    def _copy(self) -> None:
        """Copy each part's state, there and to the next part's worker, if it is time for that.

        Those of before are kept until all parts have theirs, for a worker may end meanwhile.
        """
        snapshots, begun = self.plan.snapshots, time.monotonic()
        if snapshots is None:
            due = begun >= self._due
        else:
            due = 0 < snapshots <= self._step - self._copied
        if not due or self._step >= self.plan.steps:
            return
        taken, following = self._taken(), [*self._addresses[1:], self._addresses[0]]
        others = [
            self.client.submit(list, one, workers=[other], pure=False)
            for one, other in zip(taken, following, strict=True)
        ]
        wait_for([*taken, *others], self._check_workers)
        pairs = zip(self._addresses, taken, following, others, strict=True)
        self._copies = self._parts, [{own: one, other: two} for own, one, other, two in pairs]
        self._copied, now = self._step, time.monotonic()
        self._due = now + max(LEG, (now - begun) / COPYING)

    def _state(self) -> list[Any]:
        """The state as Dask arrays in the chunks it was given in, which lie on the workers."""
        taken = self._taken()
        wait_for(taken, self._check_workers)
        whole = self._joined(self._parts, taken)
        held: list[Any] = self.client.persist(
            [one.rechunk(self.chunks, method="tasks") for one in whole]
        )
        wait_for(_distributed.futures_of(held), self._check_workers)
        return held

    def _stop(self) -> None:
        """Let actors that wait for others that are gone wait no more, and leave them."""
        with suppress(Lost, CancelledError):
            for future, one in zip(self._futures, self._actors, strict=True):
                if future.status == "finished":
                    one.stop()
        self._actors, self._futures, self._holders = [], [], ()

    def _check(self) -> None:
        """Raise where a worker cannot do its part."""
        held = self._parts.held(copies=self.plan.snapshots != 0)
        told = described_workers(self.client) or {}
        for address, size in zip(self._addresses, held, strict=True):
            most = told.get(address, {}).get("memory_limit")
            if most and size > SHARE * most:
                raise MemoryError(
                    f"the worker {address} would hold {size / 1e9:.1f} GB of "
                    f"the state, and may have {most / 1e9:.1f} GB; start more workers, give "
                    "snapshots=0, or keep the state in chunks: "
                    'dask.config.set({"ninepoint.actors": False}).'
                )

    def _pieces(self, fields: Arrays) -> list[list[Any]]:
        """Of each part its points of the fields, in pieces that lie somewhere on the workers."""
        after = (slice(None),) * (-self._parts.axis - 1)
        pieces = [
            field[(..., slice(*own), *after)] if number in self._parts.cut else field
            for own in self._parts.owned
            for number, field in enumerate(fields)
        ]
        held = self.client.persist(pieces)
        wait_for(_distributed.futures_of(held), self._check_workers)
        given = [_nested(dict(one.dask), one.__dask_keys__()) for one in held]
        count = len(fields)
        return [given[k : k + count] for k in range(0, len(given), count)]

    def _taken(self) -> list[Any]:
        """Copies of the states of each part, where these are.

        A task that may run nowhere else would be waited for without end where its worker is gone;
        if another worker has stolen it, it is tried again.
        """
        options = {"allow_other_workers": True, "retries": _TRIES, "pure": False}
        return [
            self.client.submit(take, one.key, workers=[address], **options)
            for one, address in zip(self._futures, self._addresses, strict=True)
        ]

    def _joined(self, parts: Parts, futures: Sequence[Any]) -> list[Any]:
        """The states as arrays of Dask, of the states of all parts."""
        pairs = [
            (_delayed(one), parts.shape_of(n))
            for one, n in zip(futures, parts.lengths, strict=True)
            if n
        ]
        return [
            _arrays.concatenate(
                [_arrays.from_delayed(one[number], shape, dtype) for one, shape in pairs],
                axis=len(parts.shape) + parts.axis,
            )
            for number, dtype in enumerate(parts.motion.types[: parts.motion.states])
        ]

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of all actors gives."""
        calls = [getattr(one, method)(*arguments) for one in self._actors]
        while True:
            with suppress(TimeoutError):
                return [one.result(timeout=0.5) for one in calls]
            # One that waits for another, which raises, must not be waited for alone.
            for one in calls:
                if one.done():
                    one.result()
            self._check_workers()

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Raise `Lost` in the place of whatever the end of a worker makes Dask raise."""
        try:
            yield
        except (Lost, ConnectionError):
            raise
        except Exception as error:
            self._check_workers(NOTICED if isinstance(error, OSError) else 0.0)
            raise

    def _check_workers(self, patience: float = 0.0) -> None:
        """Raise where a worker is gone, or will be found to be gone soon."""
        until = time.monotonic() + patience
        while True:
            gone = {*self._addresses, *self._holders} - set(workers_of(self.client, NOBODY))
            # One that Dask has started in its place may have its address.
            actors = zip(self._addresses, self._futures, strict=False)
            gone |= {address for address, one in actors if one.status != "finished"}
            if gone:
                raise Lost(f"the workers {sorted(gone)} are gone, with parts of a state.")
            if time.monotonic() >= until:
                return
            time.sleep(0.1)


def _nested(graph: Mapping[Any, Any], keys: Any) -> Any:
    """What a graph has for keys in lists of lists."""
    return [_nested(graph, one) for one in keys] if isinstance(keys, list) else graph[keys]
