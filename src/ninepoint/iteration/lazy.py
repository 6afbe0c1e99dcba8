"""The state of an iteration as lazy arrays: several steps in a task, and graphs that end.

T steps     one task a chunk, which takes its neighbours' points once for all of them
a look      the state is computed where it is, and the next steps go on from there
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..arrays.accepted import Arrays, is_dask, is_expression, native
from ..arrays.blocks import grid_of
from ..base import limits
from ..io.progress import wait_for, workers_of
from ..language.signature import Lines
from ..program.options import Place
from ..running.dividing import check
from .iterate import NOBODY, UNMADE, Iteration
from .motion import Motion


class InChunks:
    """The state of an iteration as lazy arrays; `evaluate` does a program on them."""

    def __init__(
        self, motion: Motion, fields: Arrays, plan: Iteration, evaluate: Callable[..., list[Any]]
    ) -> None:
        self._motion, self._plan, self._evaluate = motion, plan, evaluate
        motion.check()
        check(fields)
        self._states = self._before = list(fields)
        motion.state_shape(fields)
        self.chunks = chunks = grid_of(fields)[1]
        self._tasks = 2 * motion.states * math.prod(map(len, chunks))
        self._later = 0
        part = [max(sizes) for sizes in chunks]
        cut = [
            axis
            for axis in range(-motion.ndim, 0)
            if len(chunks[axis]) > 1 and motion.looks(axis) != (0, 0)
        ]
        self.longest = motion.between(part, cut, plan.in_a_row)
        self.unit = motion.unit(self.longest)

    def forward(self, first: int, length: int) -> int:
        """Do the steps in as few tasks as can be."""
        if self._later >= max(
            limits.current.later_tasks, limits.current.later_steps * self._tasks
        ):
            self._states = _held(self._states)
            self._later = 0
        motion = self._motion
        each = [motion.scalars.at(step) for step in range(first, first + length)]
        program = motion.repeated(each)
        # Whether these are colour images was asked before: the axes are the last ones.
        graph = program.graph.along(tuple(range(-motion.ndim, 0)))
        # Steps that are left over would need kernels of their own if they were joined.
        schedule = replace(motion.schedule, steps=1) if length == 1 else motion.schedule
        place = Place(threads=self._plan.threads, device=self._plan.device)
        program = replace(program, graph=graph, schedule=schedule)
        made = self._evaluate(program, self._states, place)
        self._before, self._states = self._states, [*made, *self._states[len(made) :]]
        self._later += self._tasks
        return length

    def ends(self, step: int) -> bool:
        """Show the state, which is computed for it; the next steps go on from there."""
        if self._plan.until is None and self._plan.callback is None:
            return False
        count = self._motion.states
        before = self._before[:count] if self._plan.until is not None else []
        held = _held([*self._states[:count], *before])
        self._states[:count] = held[:count]
        self._before = held[count:] or self._states
        self._later = 0
        return self._plan.ends(step, self.final(), self._before[:count])

    def told(self) -> list[str]:
        """What the steps take: exchanges, and the tasks up to the first one."""
        steps, later = self._plan.steps, limits.current.later_tasks // self._tasks
        if steps:
            self.forward(0, min(steps, self.longest))
        page = Lines([f"Give each thread room for some chunks: {steps} steps are a graph."])
        arrays = list(filter(is_dask, self.final()))
        if arrays:
            # Imported here: it is optional, and the caller has it.
            from ..arrays.chunked.costs import told

            page = told(arrays) or page
        exchanges = -(-steps // self.longest)
        page.add("steps", f"{exchanges} exchanges like that, of up to {self.longest} each")
        if later < exchanges:
            page.add("state", f"computed, and held, after {max(1, later)} exchanges at the latest")
        page.add("lost worker", "what it had is computed again, from what was held last")
        return page

    def final(self) -> list[Any]:
        """Give the state without the fields beside it."""
        # Where no step was done these are the arrays that were given.
        return [_native(one) for one in self._states[: self._motion.states]]


def _native(array: Any) -> Any:
    dtype = np.dtype(array.dtype)
    return array if dtype.isnative else array.astype(native(dtype))


def _held(arrays: Arrays) -> list[Any]:
    """The arrays, computed where their chunks are, once that is done."""
    # Those of Cubed are computed where somebody asks for their elements.
    if not any(is_dask(array) or is_expression(array) for array in arrays):
        return list(arrays)
    # Imported here: it is optional, and the caller has it.
    import dask.base

    base: Any = dask.base
    held = list(base.persist(*arrays))
    distributed: Any = sys.modules.get("distributed")
    futures = [] if distributed is None else distributed.futures_of(held)
    if futures:
        # Raises what a task has raised, and where nobody is left who could do one.
        try:
            wait_for(futures, partial(workers_of, futures[0].client, NOBODY))
        except CancelledError as error:
            raise ConnectionError(f"{UNMADE}.") from error
    return held
