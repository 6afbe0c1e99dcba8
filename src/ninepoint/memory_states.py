"""The state of an iteration as NumPy arrays: step by step, or several steps at once.

Several steps are done in one pass over memory where that is worth it, and steps of small arrays
are repeated by machine code.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .arrays import accepted
from .arrays import numpy as on_numpy
from .arrays.accepted import copied, is_cupy, write
from .arrays.chains import Numbers, Pass, block_length, even_length, plain, stacked
from .arrays.layout import Shape, layout
from .arrays.repeating import Repeats
from .backends.memory import empty
from .backends.threads import thread_count
from .chaining import chained, step_reach, unfit
from .iteration import Iteration, Scalars
from .motion import Motion
from .program import positions, reaching
from .stepping import Steps, begun

# Bytes of all states that are made, below which no chain is compiled: that takes one to four
# seconds, once on each machine, and as many bytes less than a tenth of a second (Zen 4).
WORTH = 1 << 28

# Steps for which it is not worth finding out how machine code could repeat them.
FEW = 8


def in_memory(
    motion: Motion, fields: Sequence[Any], scalars: Scalars, plan: Iteration, out: Any
) -> InMemory:
    """The state of an iteration as NumPy arrays; in `out` at the end, if it is given."""
    arrays = [accepted.as_field(field) for field in fields]
    steps, shape = begun(motion, arrays, scalars, plan)
    state = InMemory(steps, shape, arrays, plan)
    if out is not None:
        state.aim(out, arrays)
    return state


class InMemory:
    """The state of an iteration as NumPy arrays; it has the `shape`, and is the first of these."""

    def __init__(
        self,
        steps: Steps,
        shape: Shape,
        arrays: Sequence[np.ndarray],
        plan: Iteration,
    ) -> None:
        self._steps, self._shape, self._plan = steps, shape, plan
        count = len(steps.wanted)
        self._dtypes = [accepted.native(array.dtype) for array in arrays[:count]]
        whole = list(arrays)
        if len(steps.nodes) == 1:
            # The calls of a graph are given the fields as they are.
            whole = [np.broadcast_to(array, shape) for array in arrays]
        self.longest = 1
        if all(array.shape == shape for array in whole):
            size = math.prod(shape) * sum(dtype.itemsize for dtype in self._dtypes)
            self.longest = _longest(steps, size, plan)
        self._chained, self.unit = self.longest > 1, self.longest
        if self._chained:
            whole = self._laid_for_passes(whole)
        else:
            # As many as somebody lets pass by: those that end soon are done in one go.
            self.longest, self.unit = max(1, plan.steps), 1
        given, self._others = whole[:count], whole[count:]
        # What does so many steps in one pass.
        self._passes: dict[int, Pass] = {}
        # What repeats steps, and from which arrays to which; nothing before it was asked for, or
        # where it cannot be.
        self._repeats: Repeats | None = None
        self._turns: list[int] = []
        self._repeatable = True
        self._given = self._states = self._before = given
        # Whether nobody else has the states, and arrays that may be written to.
        self._owned = False
        self._spare: list[np.ndarray] | None = None
        self._target: list[np.ndarray] = []

    def _laid_for_passes(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The arrays as several steps in one pass take them; raises where values do not fit.

        Axes in another order, gaps, other bytes: one copy costs less than single steps.
        """
        steps = self._steps
        for node in steps.nodes:
            one = node.compiled
            geometry = layout(steps.core, one.reaches, node.border)
            on_numpy.check_values(
                geometry, node.call.cval, one.field_dtypes, one.out_dtypes, len(one.positions)
            )
        placed = len(arrays) - len(steps.graph.places)
        return [
            array
            if k >= placed or plain(array, accepted.native(array.dtype), len(steps.core))
            else copied(array, accepted.native(array.dtype))
            for k, array in enumerate(arrays)
        ]

    def aim(self, out: Any, arrays: Sequence[np.ndarray]) -> None:
        """Write the state to `out` at the end, or do the steps there, where nobody sees that."""
        count = len(self._dtypes)
        target = on_numpy.checked_out(out, [self._shape] * count, self._dtypes, None)
        self._target = target
        whole = all(
            plain(array, dtype, len(self._steps.core))
            for array, dtype in zip(target, self._dtypes, strict=True)
        )
        # What a callback gets is its own, and what steps read must stay.
        if self._plan.callback is None and whole and not _shared(target, arrays[count:]):
            if all(one is other for one, other in zip(target, arrays, strict=False)):
                self._states, self._owned = target, True
            elif not _shared(target, arrays[:count]):
                self._spare = target

    def forward(self, first: int, length: int) -> int:
        """Do steps in one pass over memory, or one by one where they cannot be a chain."""
        if not self._chained:
            done = self._repeat(first, length) if self._owned and length > 1 else 0
            if done:
                return done
            length = 1
        numbers = self._steps.over(first, length) if length > 1 else None
        if numbers is not None:
            self._pass(length, numbers)
            return length
        for step in range(first, first + length):
            results = self._results()
            self._steps(step, [*self._states, *self._others], results)
            self._follow(results)
        return length

    def _repeat(self, first: int, most: int) -> int:
        """Do some steps, `most` at the most, without coming back for each; how many they were."""
        if not self._repeatable or (self._repeats is None and most < FEW):
            return 0
        spare = self._results()
        turns = [self._states, spare], [spare, self._states]
        if self._repeats is not None and self._turns in map(_places, turns):
            self._repeats.turn = int(self._turns == _places(turns[1]))
        else:
            self._repeats = self._steps.repeats(first, self._states, spare, self._others)
            self._turns, self._repeatable = _places(turns[0]), self._repeats is not None
        self._spare = spare
        if self._repeats is None:
            return 0
        done = self._repeats(most)
        self._states, self._spare = turns[done % 2]
        self._before = self._spare
        return done

    def _pass(self, length: int, numbers: Numbers) -> None:
        steps = self._steps
        if length not in self._passes:
            chain = chained(steps.graph, steps.wanted, length, steps.schedule)
            threads = thread_count(self._plan.threads)
            self._passes[length] = Pass(chain, steps.core, threads)
        run = self._passes[length]
        over = self._owned and run.takes_place
        results = self._states if over else self._results()
        one, two, three = (
            [stacked(array, len(steps.core)) for array in part]
            for part in (self._states, self._others, results)
        )
        run(numbers, [*one, *two], one if over else three)
        if not over:
            self._follow(results)

    def _results(self) -> list[np.ndarray]:
        """Arrays for the next state."""
        return self._spare or [empty(self._shape, dtype) for dtype in self._dtypes]

    def _follow(self, results: list[np.ndarray]) -> None:
        """Go on with the next state."""
        # What the caller gave, or has kept from a callback, is never written to.
        self._spare = self._states if self._owned else None
        self._before, self._states, self._owned = self._states, results, True

    def ends(self, step: int) -> bool:
        """Show the state, which is somebody else's from then on if it is kept."""
        # The first may be of another shape, if calls are given the fields as they are.
        before = [np.broadcast_to(state, self._shape) for state in self._before]
        counts = [sys.getrefcount(state) for state in self._states]
        ended = self._plan.ends(step, self._states, before)
        # A view of an array refers to it as well.
        self._owned = counts == [sys.getrefcount(state) for state in self._states]
        return ended

    def final(self) -> list[np.ndarray]:
        """Give the state: none of the arrays that were given, save for `out`."""
        for array, state in zip(self._target, self._states, strict=False):
            if array is not state:
                write(array, state)
        if self._target or self._states is not self._given:
            return self._target or self._states
        return [np.array(state, accepted.native(state.dtype)) for state in self._states]


def _places(states: Sequence[Sequence[np.ndarray]]) -> list[int]:
    """Which arrays these are; those that repeated steps know are kept by them."""
    return [id(array) for some in states for array in some]


def _shared(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    return any(np.may_share_memory(one, other) for one in some for other in others)


def with_positions(motion: Motion, arrays: Sequence[Any], steps: int) -> Sequence[Any]:
    """The arrays, and the positions that each step asks for as fields that stay."""
    graph, wanted = motion.step
    if not graph.places:
        return arrays
    # As long as the arrays are alone: positions have all axes.
    arrays = reaching(graph, arrays)
    shape = motion.state_shape(arrays)
    made = positions(graph, arrays)
    # Several steps in one pass take arrays of one shape.
    if is_worth_chains(math.prod(shape) * arrays[0].dtype.itemsize, steps):
        made = [np.broadcast_to(one, shape) for one in made]
        read = sum(len(node.compiled.positions) for node in graph.needed(wanted))
        if read < len(made) or any(map(is_cupy, arrays)):
            # A chain takes those that nobody needs for ordinary fields.
            made = [np.ascontiguousarray(one) for one in made]
    return [*arrays, *made]


def is_worth_chains(size: int, steps: int) -> bool:
    """Whether so many steps of states of `size` bytes take longer than to compile a chain."""
    return size * steps >= WORTH


def _longest(steps: Steps, size: int, plan: Iteration) -> int:
    """How many steps to do in one pass over memory, for states of `size` bytes."""
    asked = steps.schedule.steps
    worth = asked or is_worth_chains(size, plan.steps)
    if not worth or unfit(steps.graph, steps.wanted, steps.schedule):
        return 1
    reach = step_reach(steps.graph, steps.wanted)
    itemsize = sum(dtype.itemsize for dtype in steps.nodes[-1].compiled.out_dtypes)
    if asked:
        return block_length(reach, steps.core, itemsize, asked)
    return even_length(block_length(reach, steps.core, itemsize), plan.in_a_row)
