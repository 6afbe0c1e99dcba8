"""Iterations whose state lies on the workers of a Dask cluster, in actors, from begin to end.

The client says how far to go, looks at the state where somebody asks for that, and begins anew
from the last copies when a worker is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any

import dask
import dask.array as da
import distributed

from ...arrays.accepted import Arrays, is_dask
from ...arrays.layout import Shape
from ...backends.threads import in_task
from ...program.program import reaching
from ..iterate import Iteration, Scalars, iterate
from ..motion import Motion
from .slab import refusal
from .team import Lost, Start, Team, workers_of

# What is said to actors at once should take about so long [s]: progress is shown then.
LEG = 1.0

# Copies of the state take at most this part of the time.
COPYING = 0.05

# So many workers may be lost one after the other while no step is done.
_TRIES = 5

# Most of the functions of Dask carry no annotations.
_dask: Any = dask
_arrays: Any = da


def on_cluster(
    motion: Motion,
    fields: Arrays,
    chunks: Sequence[Sequence[int]],
    plan: Iteration,
) -> list[Any] | None:
    """The state after the steps, as Dask arrays on the workers; None if it is not to lie there.

    Raises
    ------
    ModuleNotFoundError
        If a worker has no ninepoint.
    MemoryError
        If a worker may not have the memory for its part.
    ConnectionError
        If workers are lost again and again.
    """
    client = _client_of(fields)
    if client is None:
        return None
    fields = [
        field if is_dask(field) else _arrays.from_array(field, name=False)
        for field in reaching(motion.graph, fields)
    ]
    shape = tuple(map(sum, chunks))
    axis = _axis_of(motion, [field.shape for field in fields], shape, len(workers_of(client)))
    if axis is None:
        return None

    # What scalars are is told for each step.
    still = replace(motion, scalars=Scalars(motion.call.scalars))

    def begin(start: Start) -> Team:
        return Team(client, still, axis, plan, start)

    drive = _Drive(begin, Start(fields), motion.scalars, plan, chunks)
    # The workers look for themselves how much a step changes.
    every = None if plan.callback is None else plan.every
    return iterate(drive, replace(plan, until=None, every=every))


def _client_of(fields: Arrays) -> Any:
    """The client that would compute these arrays, if its workers may hold a state; or None."""
    lazy = list(filter(is_dask, fields))
    # A task holds a thread of a worker, and that may be the only one which a part could have.
    if not lazy or in_task() or not _dask.config.get("ninepoint.actors", True):
        return None
    client = getattr(_dask.base.get_scheduler(collections=lazy), "__self__", None)
    if not isinstance(client, distributed.Client) or client.asynchronous:
        return None
    return client


def _axis_of(motion: Motion, shapes: Sequence[Shape], shape: Shape, parts: int) -> int | None:
    """The axis to cut in so many parts, counted from the end; None if there is no such axis.

    One that no step looks along needs no exchange; else it is the first, if it is long enough.
    """

    def fits(axis: int) -> bool:
        return shape[axis] >= 4 * parts * max(map(abs, (1, *motion.looks(axis))))

    core = range(-motion.ndim, 0)
    longest = max(core, key=shape.__getitem__)
    axes: list[int] = [*range(-len(shape), -motion.ndim), core[0], longest]
    for axis in axes:
        if fits(axis) and not refusal(motion, shapes, axis):
            return axis
    return None


class _Drive:
    """A team that goes on whatever happens to its workers; see `iteration.Advance`."""

    unit = 1

    def __init__(
        self,
        begin: Callable[[Start], Team],
        first: Start,
        scalars: Scalars,
        plan: Iteration,
        chunks: Sequence[Sequence[int]],
    ) -> None:
        self._begin, self._first = begin, first
        self._scalars, self._plan, self._chunks = scalars, plan, chunks
        self._team: Team | None = None
        self.longest = max(1, plan.steps)
        self._leg = 0
        self._copied = 0.0
        self._lost = self._done = 0
        self._ended = False

    def forward(self, first: int, length: int) -> int:
        """Do as many steps as take about a leg's time; none where the state ended by itself."""
        if self._ended:
            return 0
        begun = time.monotonic()

        def go(team: Team) -> bool:
            stop = first + min(length, self._leg)
            ended = team.go(stop, self._numbers(first, stop))
            self._lost, self._done = 0, team.step
            return ended

        self._ended = self._with_team(first, go)
        if time.monotonic() - begun < LEG / 2:
            self._leg *= 2
        if not self._ended:
            self._copy(self._done)
        return self._done - first

    def ends(self, step: int) -> bool:
        """Show the state after so many steps, and say whether it is the last."""
        callback = self._plan.callback
        shown = callback is not None and callback(step, *self._state(step))
        return bool(shown) or self._ended

    def final(self) -> list[Any]:
        """The state after the steps that are done."""
        return self._state(self._done)

    def _state(self, done: int) -> list[Any]:
        """The state after so many steps."""
        state: list[Any] = self._with_team(done, lambda team: team.state(self._chunks))
        return state

    def _with_team(self, done: int, act: Callable[[Team], Any]) -> Any:
        """What the team does that has done so many steps, or another one in its place."""
        while True:
            try:
                return act(self._at(done))
            except Lost as error:
                self._recover(error)

    def _at(self, done: int) -> Team:
        """The team, when it has done so many steps; again what it has done before."""
        if self._team is None:
            try:
                self._team = self._begin(self._first)
            except CancelledError as error:
                raise ConnectionError(
                    "workers are gone that had what the iteration began with, and nothing else "
                    f"can make it anew; {self._done} of {self._plan.steps} steps were done. Give "
                    "fields that can be made again, such as arrays of NumPy or files; with "
                    "snapshots= another number than 0 a state goes on from its copies."
                ) from error
        if not self._leg:
            self._leg = 4 * self._team.parts.longest
        while self._team.step < done:
            stop = min(done, self._team.step + self._leg)
            self._team.go(stop, self._numbers(self._team.step, stop))
        return self._team

    def _numbers(self, first: int, last: int) -> list[Mapping[str, Any]]:
        """The scalars of steps, if they differ."""
        if not self._scalars.vary:
            return []
        return [self._scalars.at(step) for step in range(first, last)]

    def _copy(self, done: int) -> None:
        """Have a copy of the state, if it is time for one."""
        plan, team, begun = self._plan, self._team, time.monotonic()
        assert team is not None
        if plan.snapshots is None:
            due = begun >= self._copied
        else:
            due = plan.snapshots > 0 and done - (team.copied or 0) >= plan.snapshots
        if done >= plan.steps or not due:
            return
        try:
            team.copy()
        except Lost as error:
            self._recover(error)
            return
        now = time.monotonic()
        self._copied = now + max(LEG, (now - begun) / COPYING)

    def _recover(self, error: Exception) -> None:
        """Begin anew on the workers that are left, from the last copies or from the begin."""
        self._lost += 1
        if self._lost > _TRIES:
            raise ConnectionError(
                f"workers were lost {self._lost} times in an iteration ({error}); look at their "
                "logs, most often they had no memory left."
            ) from error
        old, self._team = self._team, None
        if old is None:
            return
        try:
            old.stop()
            start = old.copies()
            if start is not None:
                self._team = self._begin(start)
        except (Lost, CancelledError):
            self._team = None
