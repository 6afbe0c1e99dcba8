"""The state of an iteration as lazy arrays: several steps in a task, and graphs that end.

T steps     one task a chunk, which takes its neighbours' points once for all of them
a look      the state is computed where it is, and the next steps go on from there
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import limits
from .arrays import accepted
from .arrays.accepted import is_dask, is_expression, library_of
from .arrays.engines import check as check_fields
from .arrays.engines import engine_of, refuse_unknown
from .arrays.grid import grid
from .cadence import Steps
from .graph import has_conditions
from .iteration import Iteration, change, check, state_shape
from .lowering.schedule import Schedule
from .stepping import Record, Scalars

# What a task costs besides its work, with all that is done for it elsewhere [s]: some 0.2 ms on
# threads and 1 ms on a cluster.
TASK = 0.5e-3


class InChunks:
    """The state of an iteration as lazy arrays.

    `call` does as many steps as it gets scalars for, from a first one on, `longest` of them at
    most.
    """

    def __init__(
        self,
        record: Record,
        call: Callable[[Sequence[Any], Sequence[Mapping[str, Any]], int], list[Any]],
        schedule: Schedule,
        fields: Sequence[Any],
        scalars: Scalars,
        plan: Iteration,
    ) -> None:
        self._call, self._scalars, self._plan = call, scalars, plan
        dtypes = [accepted.native(np.dtype(field.dtype)) for field in fields]
        graph, wanted = record(dtypes, scalars.at(0))
        compiled = graph.nodes[-1].compiled
        self._count = len(compiled.out_dtypes)
        check(compiled, dtypes, self._count)
        plan.border(compiled.ndim)
        engine_of(fields)
        check_fields(fields)
        for field in filter(is_dask, fields):
            refuse_unknown(field)
        self._states = self._before = list(fields)
        shape = state_shape(graph, wanted, fields)
        self.chunks = chunks = grid([getattr(field, "chunks", None) for field in fields], shape)
        self._tasks = 2 * self._count * math.prod(map(len, chunks))
        self._later = 0
        part = [max(sizes) for sizes in chunks]
        cut = [
            axis
            for axis in range(-compiled.ndim, 0)
            if len(chunks[axis]) > 1 and Steps(graph, wanted, 1).looks(axis) != (0, 0)
        ]
        steps = Steps.of(graph, wanted, schedule)
        # As little beyond the next chunk as can be, but chunks of a few points are no reason for
        # an exchange at each step.
        row = plan.in_a_row
        self.longest = max(
            steps.between(part, cut, TASK, row), min(steps.together, _least(chunks), max(1, row))
        )
        if has_conditions(graph):
            self.longest = 1
        self.unit = steps.unit(self.longest)

    def forward(self, first: int, length: int) -> int:
        """Do the steps in as few tasks as can be."""
        if self._later >= max(
            limits.current.later_tasks, limits.current.later_steps * self._tasks
        ):
            self._states = _held(self._states)
            self._later = 0
        each = [self._scalars.at(step) for step in range(first, first + length)]
        self._before = self._states
        self._states = [*self._call(self._states, each, first), *self._states[self._count :]]
        self._later += self._tasks
        return length

    def ends(self, step: int) -> bool:
        """Show the state, which is computed for it; the next steps go on from there."""
        if self._plan.until is None and self._plan.callback is None:
            return False
        count = self._count
        before = self._before[:count] if self._plan.until is not None else []
        held = _held([*self._states[:count], *before])
        self._states[:count] = held[:count]
        self._before = held[count:] or self._states
        self._later = 0
        return self._plan.ends(step, self.final(), self._before[:count], far=changed)

    def final(self) -> list[Any]:
        """Give the state without the fields beside it."""
        # Where no step was done these are the arrays that were given.
        return [_native(one) for one in self._states[: self._count]]


def _native(array: Any) -> Any:
    dtype = np.dtype(array.dtype)
    return array if dtype.isnative else array.astype(accepted.native(dtype))


def _least(chunks: Sequence[Sequence[int]]) -> int:
    return min((size for sizes in chunks if len(sizes) > 1 for size in sizes), default=1)


def _held(arrays: Sequence[Any]) -> list[Any]:
    """The arrays, computed where their chunks are, once that is done."""
    lazy = [array for array in arrays if is_dask(array) or is_expression(array)]
    if not lazy:
        # Those of Cubed: they are computed where somebody asks for their elements.
        return list(arrays)
    # Imported here: it is optional, and the caller has it.
    import dask.base

    base: Any = dask.base
    made = iter(base.persist(*lazy))
    held = [next(made) if is_dask(array) or is_expression(array) else array for array in arrays]
    distributed: Any = sys.modules.get("distributed")
    futures = [] if distributed is None else distributed.futures_of(held)
    # Raises what a task has raised.
    for done in distributed.wait(futures).done if futures else []:
        if done.status != "finished":
            done.result()
    return held


def changed(after: Any, before: Any) -> float:
    """The greatest change of an element of lazy arrays; NaN where one is no number."""
    if not after.size:
        return 0.0
    library = library_of(after)
    # The first state may be of another shape, or cut otherwise.
    before = library.broadcast_to(before, after.shape)
    if before.chunks != after.chunks:
        before = before.rechunk(after.chunks)
    chunks = tuple((1,) * len(sizes) for sizes in after.chunks)
    far = library.map_blocks(_far, after, before, dtype="float64", chunks=chunks)
    return float(library.max(far))


def _far(after: Any, before: Any) -> np.ndarray:
    """The same for a chunk, as an array of one element."""
    return np.full((1,) * after.ndim, change(after, before))
