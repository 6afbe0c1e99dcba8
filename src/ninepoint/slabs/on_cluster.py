"""Iterations whose state lies on the workers of a Dask cluster, in actors, from begin to end.

The client says how far to go, looks at the state where somebody asks for that, and begins anew
from the last copies when a worker is lost.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

from ..arrays.recognise import is_dask, is_expression
from ..backends.threads import in_task
from ..files.progress import shown
from ..iteration import Iteration
from ..stepping import Scalars
from .motion import Motion

# What is said to actors at once should take about so long [s]: progress is shown then.
LEG = 1.0

# Copies of the state take at most this part of the time.
COPYING = 0.05

# A progress bar is worth it after so long [s].
_SOON = 1.0

# So many workers may be lost one after the other while no step is done.
_TRIES = 5


def client_of(fields: Sequence[Any]) -> Any:
    """The client that would compute these arrays, if its workers may hold a state; or None."""
    if "distributed" not in sys.modules or not any(map(is_dask, fields)):
        return None
    if any(map(is_expression, fields)):
        return None
    if in_task():
        # It holds a thread of a worker, and that may be the only one which a part could have.
        return None
    # Imported here: they are optional, and the caller has them.
    import dask.base
    import dask.config
    import distributed

    config: Any = dask.config
    if not config.get("ninepoint.actors", True):
        return None
    base: Any = dask.base
    schedule = base.get_scheduler(collections=[one for one in fields if is_dask(one)])
    client = getattr(schedule, "__self__", None)
    if not isinstance(client, distributed.Client) or client.asynchronous:
        return None
    return client


def on_cluster(
    client: Any,
    motion: Motion,
    fields: Sequence[Any],
    chunks: Sequence[Sequence[int]],
    scalars: Scalars,
    plan: Iteration,
) -> list[Any] | None:
    """The state after the steps, as Dask arrays on the workers; None if it cannot be cut.

    Raises
    ------
    ModuleNotFoundError
        If a worker has no ninepoint.
    MemoryError
        If a worker may not have the memory for its part.
    ConnectionError
        If workers are lost again and again.
    """
    # Imported here: Dask and distributed are optional.
    import dask.array as da

    from .team import Team, axis_of, workers_of

    arrays: Any = da
    fields = [
        field if is_dask(field) else arrays.from_array(field, name=False)
        for field in motion.reaching(fields)
    ]
    shapes = [field.shape for field in fields]
    shape = tuple(map(sum, chunks))
    axis = axis_of(motion, shapes, shape, len(workers_of(client)))
    if axis is None:
        return None
    drive = _Drive(
        lambda state, step: Team(
            client, motion, axis, [*state, *fields[len(state) :]], plan, step
        ),
        motion.states,
        fields,
        scalars,
        plan,
    )
    return drive.steps(chunks)


class _Drive:
    """A team that goes on whatever happens to its workers."""

    def __init__(
        self, begin: Any, states: int, fields: Sequence[Any], scalars: Scalars, plan: Iteration
    ) -> None:
        self._begin, self._source = begin, list(fields[:states])
        self._scalars, self._plan = scalars, plan
        self._team: Any = None
        self._leg = 0
        self._copied = 0.0
        self._lost = self._done = 0

    def steps(self, chunks: Sequence[Sequence[int]]) -> list[Any]:
        """Do all steps; gives the state after the last."""
        plan = self._plan
        done = 0
        with shown(plan.progress, plan.steps, "steps", _SOON) as advanced:
            while done < plan.steps:
                look = plan.steps
                if plan.every is not None and plan.callback is not None:
                    look = min(look, (done // plan.every + 1) * plan.every)
                begun = time.monotonic()
                stop, ended = self._go(done, look)
                took = time.monotonic() - begun
                if took < LEG / 2:
                    self._leg *= 2
                advanced(stop - done)
                done = self._done = stop
                shown_now = done == look or ended
                if plan.callback is not None and shown_now:
                    ended = bool(plan.callback(done, *self._state(done, chunks))) or ended
                if ended:
                    break
                self._copy(done)
        return self._state(done, chunks)

    def _go(self, done: int, look: int) -> tuple[int, bool]:
        """Go on from so many steps, at most to the next look."""
        # Imported here: distributed is optional.
        from .actor import Lost

        while True:
            try:
                team = self._at(done)
                stop = min(look, done + self._leg)
                ended = team.go(stop, self._numbers(done, stop), True)
                self._lost = 0
                return team.step, ended
            except Lost as error:
                self._recover(error)

    def _state(self, done: int, chunks: Sequence[Sequence[int]]) -> list[Any]:
        """The state after so many steps."""
        # Imported here: distributed is optional.
        from .actor import Lost

        while True:
            try:
                state: list[Any] = self._at(done).state(chunks)
                return state
            except Lost as error:
                self._recover(error)

    def _at(self, done: int) -> Any:
        """The team, when it has done so many steps; again what it has done before."""
        if self._team is None:
            try:
                self._team = self._begin(self._source, 0)
            except CancelledError as error:
                raise ConnectionError(
                    "workers are gone that had what the iteration began with, and nothing else "
                    f"can make it anew; {self._done} of {self._plan.steps} steps were done. Give "
                    "fields that can be made again, such as arrays of NumPy or files; with "
                    "snapshots= another number than 0 a state goes on from its copies."
                ) from error
        if not self._leg:
            self._leg = 4 * self._team.longest
        while self._team.step < done:
            stop = min(done, self._team.step + self._leg)
            self._team.go(stop, self._numbers(self._team.step, stop), False)
        return self._team

    def _numbers(self, first: int, last: int) -> list[dict[str, Any]]:
        """The scalars of steps, if they differ."""
        if not self._scalars.varying:
            return []
        return [self._scalars.at(step) for step in range(first, last)]

    def _copy(self, done: int) -> None:
        """Have a copy of the state, if it is time for one."""
        # Imported here: distributed is optional.
        from .actor import Lost

        plan, team = self._plan, self._team
        since = done - (team.copied or 0)
        if plan.snapshots == 0 or done >= plan.steps:
            return
        begun = time.monotonic()
        if plan.snapshots is None and begun < self._copied:
            return
        if plan.snapshots is not None and since < plan.snapshots:
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
        # Imported here: distributed is optional.
        from .actor import Lost

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
            state = old.copies()
            if state is not None:
                self._team = self._begin(state, old.copied)
        except (Lost, CancelledError):
            self._team = None
