"""The state of an iteration on a GPU, step by step.

    arrays of a GPU      stay there
    arrays of the CPU    are taken there once, before the first step, and back once, after the last

Nothing waits for the GPU between the steps, save where somebody looks at the state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import cuda
from ..arrays.accepted import Arrays, as_field, is_cupy, listed, write
from ..arrays.executable import Given
from ..arrays.regions import Block
from ..backends.cuda import driver
from ..program.program import Bound, Program
from .iterate import Iteration
from .motion import InMemory, Motion


class OnDevice(InMemory):
    """The state of an iteration as arrays of one GPU.

    Arrays of NumPy are on the current GPU in between.  What is shown is a copy of them then; what
    is written there goes to the GPU before the next step.
    """

    there = True

    def __init__(self, motion: Motion, fields: Arrays, plan: Iteration) -> None:
        self._sent = not any(map(is_cupy, fields))
        self._shown: list[Any] | None = None
        super().__init__(motion, fields, plan)
        # What the caller gave is never written to, nor what a callback may have kept.
        self._owned = self._sent and all(one.shape == self._shape for one in self._states)

    def _taken(self, fields: Arrays) -> list[Any]:
        if self._sent:
            return [driver.uploaded(as_field(field)) for field in fields]
        return list(fields)

    def _in_one_pass(self) -> int:
        """Each step is done by itself: a GPU saves little where it does several in one pass."""
        return 1

    def _empty(self, dtype: np.dtype) -> Any:
        return driver.empty(self._shape, dtype)

    def _bound(self, program: Program, arrays: Arrays, results: Arrays) -> Bound:
        # Nobody has to look for memory that arrays made here share.
        outs = dict(zip(program.wanted, results, strict=True))
        launches = program.bound(Block(tuple(arrays)), outs)

        def run(fields: Arrays, given: Given, results: Arrays) -> list[Any]:
            return launches(fields, given, dict(zip(program.wanted, results, strict=True)))

        return run

    def forward(self, first: int, length: int) -> int:
        """Do some steps; they go on from what was shown of a state that was sent."""
        with cuda.beside(self._states):
            for state, shown in zip(self._states, self._shown or (), strict=False):
                driver.refill(state, shown)
            self._shown = None
            return super().forward(first, length)

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
            write(target, state)
        return listed(self._plan.out) or states
