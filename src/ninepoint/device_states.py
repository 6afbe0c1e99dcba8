"""The state of an iteration on a GPU: step by step, to and fro between two arrays.

    arrays of a GPU      stay there
    arrays of the CPU    are taken there once, before the first step, and back once, after the last

Nothing waits for the GPU between the steps, save where somebody looks at the state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from . import limits
from .arrays import cuda
from .arrays import numpy as on_numpy
from .arrays.accepted import as_field, native
from .arrays.cuda import understood
from .arrays.executable import Run
from .arrays.keys import device_key
from .arrays.parts import write
from .backends.cuda import driver
from .iteration import Iteration, begun
from .lowering.schedule import Schedule
from .onepass import OnePass, longest_steps, steps_together, work_of
from .stepping import Record, Scalars, Steps

# What a step takes on a GPU at least [s], which is to start it, and bytes that it reads and
# writes in a second.  Neither was measured: CuPy takes some microseconds to start a kernel, and
# GPUs of 2020 to 2025 move 1.5 to 5 TB/s.
_START, _SPEED = 10e-6, 3e12


class OnDevice:
    """The state of an iteration as arrays of one GPU; in `out` at the end, if it is given."""

    def __init__(
        self,
        record: Record,
        schedule: Schedule,
        fields: Sequence[Any],
        scalars: Scalars,
        plan: Iteration,
        out: Any = None,
    ) -> None:
        self._recorded, self._shape = begun(record, fields, scalars, plan)
        self._schedule, self._plan = schedule, plan
        count = len(self._recorded.nodes[-1].compiled.out_dtypes)
        self._dtypes = [native(field.dtype) for field in fields[:count]]
        self._given = self._states = self._before = list(fields[:count])
        self._others = list(fields[count:])
        # What the caller gave is never written to, nor what a callback may have kept.
        self._owned = False
        self._spare: list[Any] | None = None
        self._single = Steps(self._recorded, schedule, None)
        self.longest = self.unit = 1
        # What does so many steps at once.
        self._chains: dict[int, OnePass] = {}
        self._passes: dict[Any, Run] = {}
        self._settle_chain(fields)
        self._out = out
        self._target: list[Any] = []
        if out is not None:
            with cuda.beside(fields) as device:
                shapes = [self._shape] * count
                self._target = cuda.checked_out(out, shapes, self._dtypes, None, device)

    def _settle_chain(self, fields: Sequence[Any]) -> None:
        """Find how many steps are done in one pass over memory, if any."""
        recorded, shape, plan = self._recorded, self._shape, self._plan
        size = math.prod(shape) * sum(dtype.itemsize for dtype in self._dtypes)
        asked = self._schedule.steps
        # As many as are done before somebody looks, and one by itself to tell what it changed.
        between = min(plan.every or plan.steps, plan.steps) - (plan.until is not None)
        looks = plan.steps // max(1, between)
        worth = asked or is_worth_passes(size, plan.steps)
        if not worth or any(field.shape != shape for field in fields):
            return
        for node in recorded.nodes:
            understood(node.compiled)
        graph, wanted, schedule = recorded.graph, recorded.wanted, self._schedule
        found = longest_steps(
            graph, wanted, min(asked or limits.current.recorded_steps, between), schedule
        )
        if found is None:
            return

        def is_worth_text(steps: int) -> bool:
            return steps > 1 and bool(asked or is_worth_passes(size, looks * (steps - 1)))

        steps = found.steps if asked else fewest_passes(found.steps, between, is_worth_text)
        if steps < found.steps:
            found = steps_together(graph, wanted, steps, schedule)
        if found is None:
            return
        self._chains[steps], self.longest = found, steps
        rest = between % steps
        shorter = steps_together(graph, wanted, rest, schedule) if is_worth_text(rest) else None
        if shorter is not None:
            self._chains[rest] = shorter

    def forward(self, first: int, length: int) -> int:
        """Do the steps in one pass over memory, or one by one where they cannot be."""
        chain = self._chains.get(length)
        numbers = None if chain is None else self._recorded.over(first, length)
        with cuda.beside(self._states):
            if chain is not None and numbers is not None:
                self._follow(partial(self._pass, chain, numbers))
                return length
            for step in range(first, first + length):
                self._follow(partial(self._single, step))
        return length

    def _follow(self, do: Callable[[list[Any], list[Any]], None]) -> None:
        """Make the next state, and go on with it."""
        results = self._spare or [driver.empty(self._shape, dtype) for dtype in self._dtypes]
        do([*self._states, *self._others], results)
        self._spare = self._states if self._owned else None
        self._before, self._states, self._owned = self._states, results, True

    def _pass(self, chain: OnePass, numbers: Any, fields: list[Any], results: list[Any]) -> None:
        """Do several steps in one pass."""
        key = chain.steps, *[device_key(field) for field in fields]
        found = self._passes.get(key)
        if found is None:
            recorded = self._recorded
            work = work_of(chain, recorded.graph, recorded.nodes[-1].compiled)
            found = self._passes[key] = cuda.bind(work, fields, results)
        coefficients, scalars = numbers
        found([fields[k] for k in chain.fields], (*coefficients, *scalars), tuple(results))

    def ends(self, step: int) -> bool:
        """Show the state, which is somebody else's from then on."""
        ended = self._plan.ends(step, self._states, self._before)
        self._owned = self._owned and self._plan.callback is None
        return ended

    def final(self) -> list[Any]:
        """Give the state: none of the arrays that were given, save for `out`."""
        if self._out is not None:
            for target, state in zip(self._target, self._states, strict=True):
                target[...] = state
            return on_numpy.each_out(self._out, len(self._target))
        if self._states is self._given:
            return [state.copy() for state in self._states]
        return self._states


class Sent(OnDevice):
    """The state of an iteration as arrays of NumPy, which is on the current GPU in between.

    What is shown is a copy of it; what is written there goes to the GPU before the next step.
    """

    def __init__(
        self,
        record: Record,
        schedule: Schedule,
        fields: Sequence[Any],
        scalars: Scalars,
        plan: Iteration,
        out: Any = None,
    ) -> None:
        there = [driver.uploaded(as_field(field)) for field in fields]
        super().__init__(record, schedule, there, scalars, plan)
        # What was taken there is nobody else's.
        self._given, self._owned = [], all(one.shape == self._shape for one in self._states)
        self._shown: list[Any] | None = None
        self._back: list[Any] = []
        if out is not None:
            shapes = [self._shape] * len(self._dtypes)
            self._back = on_numpy.checked_out(out, shapes, self._dtypes, None)

    def forward(self, first: int, length: int) -> int:
        """Do the steps, from what was shown of the state, if it was."""
        if self._shown is not None:
            for state, shown in zip(self._states, self._shown, strict=True):
                driver.refill(state, shown)
            self._shown = None
        return super().forward(first, length)

    def ends(self, step: int) -> bool:
        """Show a copy of the state."""
        if self._plan.callback is not None:
            self._shown = [driver.downloaded(state) for state in self._states]
        return self._plan.ends(step, self._states, self._before, self._shown)

    def final(self) -> list[Any]:
        """Give the state back."""
        states = self._shown or [driver.downloaded(state) for state in self._states]
        for target, state in zip(self._back, states, strict=False):
            write(target, state)
        return self._back or states


def is_worth_passes(size: int, steps: int) -> bool:
    """Whether so many steps of states of `size` bytes take longer than is soon, one by one."""
    return steps * (_START + 2 * size / _SPEED) >= limits.current.worth_passes_seconds


def fewest_passes(
    most: int, steps: int, is_worth_text: Callable[[int], bool] = lambda _: False
) -> int:
    """How many steps to do in one pass, `most` at most, so that there are few passes.

    What is left over is one pass where that is worth a text of its own, else steps done singly.
    """

    def passes(one: int) -> tuple[int, int]:
        rest = steps % one
        return steps // one + (1 if rest and is_worth_text(rest) else rest), one

    return min(range(2, most + 1), key=passes)
