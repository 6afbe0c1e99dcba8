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
from .arrays.accepted import as_field, is_cupy, native, write
from .arrays.keys import device_key
from .backends.cuda import driver
from .device_passes import longest_steps, steps_together
from .iteration import Iteration, Scalars
from .motion import Motion
from .stepping import Steps, begun

# What a step takes on a GPU at least [s], which is to start it, and bytes that it reads and
# writes in a second.  Neither was measured: CuPy takes some microseconds to start a kernel, and
# GPUs of 2020 to 2025 move 1.5 to 5 TB/s.
_START, _SPEED = 10e-6, 3e12


def on_device(
    motion: Motion, arrays: Sequence[Any], scalars: Scalars, plan: Iteration, out: Any
) -> OnDevice:
    """The state of an iteration on a GPU, whose first fields it is; in `out` if that is given."""
    steps, shape = begun(motion, arrays, scalars, plan)
    state = OnDevice(steps, shape, arrays, plan)
    if out is not None:
        state.aim(out)
    return state


class OnDevice:
    """The state of an iteration as arrays of one GPU: the first fields, in the `shape`.

    Arrays of NumPy are on the current GPU in between.  What is shown is a copy of them then; what
    is written there goes to the GPU before the next step.
    """

    unit = 1

    def __init__(
        self,
        steps: Steps,
        shape: tuple[int, ...],
        fields: Sequence[Any],
        plan: Iteration,
    ) -> None:
        self._steps, self._shape, self._plan = steps, shape, plan
        self._sent = not any(map(is_cupy, fields))
        if self._sent:
            fields = [driver.uploaded(as_field(field)) for field in fields]
        count = len(steps.wanted)
        self._dtypes = [native(field.dtype) for field in fields[:count]]
        self._given = self._states = self._before = list(fields[:count])
        self._others = list(fields[count:])
        # What the caller gave is never written to, nor what a callback may have kept.
        self._owned = self._sent and all(one.shape == shape for one in self._states)
        self._shown: list[Any] | None = None
        self._spare: list[Any] | None = None
        # What does so many steps at once, and that bound to arrays of one kind.
        same = all(field.shape == shape for field in fields)
        self._chains = self._at_once() if same else {}
        self.longest = max(self._chains, default=1)
        self._passes: dict[Any, cuda.Executable] = {}
        self._target: list[Any] = []

    def aim(self, out: Any) -> None:
        """Write the state to `out` at the end."""
        shapes = [self._shape] * len(self._dtypes)
        self._out = out
        if self._sent:
            self._target = on_numpy.checked_out(out, shapes, self._dtypes, None)
            return
        with cuda.beside(self._states) as device:
            self._target = cuda.checked_out(out, shapes, self._dtypes, None, device)

    def _at_once(self) -> dict[int, cuda.Work]:
        """What does several steps in one pass over memory, if that is worth it.

        As many as are done before somebody looks, and one by itself to tell what it changed; what
        is left over is a shorter pass.
        """
        plan, schedule = self._plan, self._steps.schedule
        graph, wanted = self._steps.graph, self._steps.wanted
        size = math.prod(self._shape) * sum(dtype.itemsize for dtype in self._dtypes)
        asked, between = schedule.steps, plan.in_a_row
        looks = plan.steps // max(1, between)
        if not asked and not is_worth_passes(size, plan.steps):
            return {}
        for node in self._steps.nodes:
            cuda.understood(node.compiled)
        most = min(asked or limits.current.recorded_steps, between)
        longest = longest_steps(graph, wanted, most, schedule)
        if longest is None:
            return {}
        # Passes of about the same length, so that few steps are left.
        passes = -(-between // longest.at_once.steps)
        length = longest.at_once.steps if asked else -(-between // passes)
        rest = between % length
        worth = rest > 1 and (asked or is_worth_passes(size, looks * (rest - 1)))
        tried = {
            steps: steps_together(graph, wanted, steps, schedule)
            for steps in ((length, rest) if worth else (length,))
        }
        return {steps: one.at_once for steps, one in tried.items() if one is not None}

    def forward(self, first: int, length: int) -> int:
        """Do the steps in one pass over memory, or one by one where they cannot be.

        They go on from what was shown of a state that was sent.
        """
        chain = self._chains.get(length)
        numbers = None if chain is None else self._steps.over(first, length)
        with cuda.beside(self._states):
            for state, shown in zip(self._states, self._shown or (), strict=False):
                driver.refill(state, shown)
            self._shown = None
            if chain is not None and numbers is not None:
                coefficients, scalars = numbers
                self._follow(partial(self._pass, chain, (*coefficients, *scalars)))
                return length
            for step in range(first, first + length):
                self._follow(partial(self._steps, step))
        return length

    def _follow(self, do: Callable[[list[Any], list[Any]], None]) -> None:
        """Make the next state, and go on with it."""
        results = self._spare or [driver.empty(self._shape, dtype) for dtype in self._dtypes]
        do([*self._states, *self._others], results)
        self._spare = self._states if self._owned else None
        self._before, self._states, self._owned = self._states, results, True

    def _pass(
        self, work: cuda.Work, numbers: Sequence[Any], fields: list[Any], results: list[Any]
    ) -> None:
        """Do several steps in one pass."""
        key = work.steps, *[device_key(field) for field in fields]
        if key not in self._passes:
            self._passes[key] = cuda.Executable(work, fields, results)
        self._passes[key](fields, numbers, results)

    def ends(self, step: int) -> bool:
        """Show the state, which is somebody else's from then on; or a copy of it."""
        looks = self._plan.callback is not None
        if looks and self._sent:
            self._shown = [driver.downloaded(state) for state in self._states]
        ended = self._plan.ends(step, self._states, self._before, self._shown)
        self._owned = self._owned and (self._sent or not looks)
        return ended

    def final(self) -> list[Any]:
        """Give the state: none of the arrays that were given, save for `out`."""
        states = self._states
        if self._sent:
            states = self._shown or [driver.downloaded(state) for state in states]
        elif not self._target and states is self._given:
            return [state.copy() for state in states]
        for target, state in zip(self._target, states, strict=False):
            if self._sent:
                write(target, state)
            else:
                target[...] = state
        return on_numpy.each_out(self._out, len(states)) if self._target else states


def is_worth_passes(size: int, steps: int) -> bool:
    """Whether so many steps of states of `size` bytes take longer than is soon, one by one."""
    return steps * (_START + 2 * size / _SPEED) >= limits.current.worth_passes_seconds
