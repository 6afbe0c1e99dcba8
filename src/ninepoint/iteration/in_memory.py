"""The state of an iteration as arrays in memory: step by step, or several steps at once.

Several steps are done in one pass over memory where that is worth it, and steps of small arrays
of NumPy are repeated by machine code.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays.accepted import Arrays, as_field, native, write
from ..arrays.chains import block_length, even_length
from ..arrays.executable import Executable, Repeats
from ..arrays.regions import Block
from ..arrays.strided import plain
from ..arrays.work import taken
from ..backends.memory import copied, empty
from ..program.graph import Graph
from ..program.program import reaching, targets
from .iterate import Iteration
from .motion import Motion

# Steps for which it is not worth finding out how machine code could repeat them.
FEW = 8


class InMemory:
    """The state of an iteration as NumPy arrays: the first of the fields, in the shape of all."""

    unit = 1
    # Whether they lie on a GPU.
    there = False

    def __init__(self, motion: Motion, fields: Arrays, plan: Iteration) -> None:
        self._motion, self._plan = motion, plan
        motion.check()
        graph = motion.graph
        arrays = self._taken(fields)
        if graph.places:
            # As long as the arrays are alone: positions have all axes.
            arrays = list(reaching(graph, arrays))
        self._shape = motion.state_shape(arrays)
        count = motion.states
        self._dtypes = [native(array.dtype) for array in arrays[:count]]
        self._target = targets(plan.out, [(self._shape, one) for one in self._dtypes], fields)
        fields = arrays
        if len(motion.nodes) == 1 and not self.there:
            # The calls of a graph are given the fields as they are.
            fields = self._stretched(arrays)
        # How many steps are done in one pass, if that is not one.
        self._lengths: set[int] = set()
        if all(field.shape == self._shape for field in fields):
            size = math.prod(self._shape) * sum(dtype.itemsize for dtype in self._dtypes)
            self._lengths = {length for length in self._passes(size) if length > 1}
        # As many as somebody lets pass by, where steps are done one by one.
        self.longest = max(self._lengths, default=max(1, plan.steps))
        if self._lengths:
            fields = fields if self.there else self._laid(fields)
            schedule = replace(motion.schedule, steps=self.longest)
            self._motion = replace(motion, schedule=schedule)
        self._given = self._states = self._before = list(fields[:count])
        self._others = [*fields[count:], *self._positions(graph, arrays)]
        # Whether nobody else has the states, and arrays that may be written to.
        self._owned = False
        self._spare: list[Any] | None = None
        # What repeats steps, and from which arrays to which; nothing before it was asked for, or
        # where it cannot be.
        self._repeats: Repeats | None = None
        self._turns: list[int] = []
        self._repeatable = not motion.scalars.vary
        if self._target and not self.there:
            # On a GPU the state is written there at the end.
            self._aim(arrays[:count])

    # What is done with arrays of one kind or another.

    def _taken(self, fields: Arrays) -> list[Any]:
        """The fields as arrays of this kind."""
        return [as_field(field) for field in fields]

    def _stretched(self, arrays: Arrays) -> list[Any]:
        """The fields, each in the shape of the state."""
        return [np.broadcast_to(array, self._shape) for array in arrays]

    def _positions(self, graph: Graph, arrays: Arrays) -> Sequence[Any]:
        """What the last fields of a step are, which nobody gives."""
        return graph.positions([array.shape for array in arrays])

    def _passes(self, size: int) -> Sequence[int]:
        """How many steps to do in one pass over memory, for states of `size` bytes."""
        plan, motion = self._plan, self._motion.sized(size, self._plan.steps)
        asked = motion.schedule.steps
        if motion.together == 1:
            return []
        reach = motion.margin
        itemsize = sum(dtype.itemsize for dtype in self._dtypes)
        core = self._shape[len(self._shape) - motion.ndim :]
        length = block_length(reach, core, itemsize, asked)
        return [length if asked else even_length(length, plan.in_a_row)]

    def _laid(self, fields: Arrays) -> list[Any]:
        """The fields as several steps in one pass take them.

        Axes in another order, gaps, other bytes: one copy costs less than single steps.
        """
        return [
            field
            if plain(field, native(field.dtype), self._motion.ndim)
            else copied(field, native(field.dtype))
            for field in fields
        ]

    def _empty(self, dtype: np.dtype) -> Any:
        return empty(self._shape, dtype)

    def _aim(self, given: Arrays) -> None:
        """Do the steps where the state is to be at the end, if nobody sees that."""
        target, core = self._target, self._motion.ndim
        whole = all(
            plain(one, dtype, core) for one, dtype in zip(target, self._dtypes, strict=True)
        )
        # What a callback gets is its own, and what steps read must stay.
        if self._plan.callback is None and whole and not _shared(target, self._others):
            if all(one is other for one, other in zip(target, given, strict=True)):
                self._states, self._owned = target, True
            elif not _shared(target, given):
                self._spare = target

    # Steps.

    def forward(self, first: int, length: int) -> int:
        """Do the steps in one pass over memory, or the first of them where they cannot be."""
        if length not in self._lengths:
            done = self._repeat(first, length)
            if done:
                return done
            length = 1
        program, given = self._motion.program(first, length)
        graph, fields = program.graph, [*self._states, *self._others]
        if len(graph.nodes) > 1:
            fields = list(reaching(graph, fields))
        results = self._results()
        outs = dict(zip(program.wanted, results, strict=True))
        made = program.run(Block(tuple(fields)), outs, self._plan.threads, given)
        for result, one in zip(results, made, strict=True):
            if one is not result:
                result[...] = one
        # What the caller gave, or has kept from a callback, is never written to.
        self._spare = self._states if self._owned else None
        self._before, self._states, self._owned = self._states, results, True
        return length

    def _results(self) -> list[Any]:
        """Arrays for the next state."""
        return self._spare or [self._empty(dtype) for dtype in self._dtypes]

    def _repeat(self, first: int, most: int) -> int:
        """Do some steps, `most` at the most, without coming back for each; how many they were."""
        few = most < (2 if self._repeats else FEW)
        if few or self._lengths or not self._owned or not self._repeatable:
            return 0
        spare = self._spare = self._results()
        turns = [self._states, spare], [spare, self._states]
        places = list(map(_places, turns))
        if self._repeats is None or self._turns not in places:
            self._repeats, self._turns = self._repeated(first, turns), places[0]
        self._repeatable = self._repeats is not None
        if self._repeats is None:
            return 0
        self._repeats.turn = places.index(self._turns)
        done = self._repeats(most)
        self._states, self._spare = turns[done % 2]
        self._before = self._spare
        return done

    def _repeated(self, step: int, turns: Sequence[Sequence[Sequence[Any]]]) -> Repeats | None:
        """All steps like one, from some states to others and back, if they can be repeated."""
        program, given = self._motion.program(step, 1)
        graph, wanted, threads = program.graph, program.wanted, self._plan.threads
        each = [reaching(graph, [*states, *self._others]) for states, _ in turns]
        shapes = graph.shapes(field.shape for field in each[0])
        # What calls make for others stays where it is.
        between = {
            value: empty(shapes[value], graph.dtypes[value])
            for node in program.nodes
            for value in node.outputs
            if value not in wanted
        }
        targets = [dict(zip(wanted, made, strict=True)) for _, made in turns]
        launches = program.bound(Block(tuple(each[0])), targets[0], threads)
        calls = launches.calls(each[0], targets[0] | between)
        if calls is None:
            return None
        repeated = []
        for fields, made in zip(each, targets, strict=True):
            arrays = dict(enumerate(fields)) | between | made
            repeated.append(
                [
                    (call.run, taken(arrays, call.fields), [arrays[k] for k in call.outputs], told)
                    for call in calls
                    if isinstance(call.run, Executable)
                    for told in [call.numbers.told(given)]
                ]
            )
        return Repeats.of(repeated, threads)

    # Looks.

    def ends(self, step: int) -> bool:
        """Show the state, which is somebody else's from then on if it is kept."""
        # The first may be of another shape, if calls are given the fields as they are.
        before = self._stretched(self._before)
        counts = [sys.getrefcount(state) for state in self._states]
        ended = self._plan.ends(step, self._states, before)
        # A view of an array refers to it as well.
        self._owned = counts == [sys.getrefcount(state) for state in self._states]
        return ended

    def final(self) -> list[Any]:
        """Give the state: none of the arrays that were given, save for `out`."""
        for array, state in zip(self._target, self._states, strict=False):
            if array is not state:
                write(array, state)
        if self._target or self._states is not self._given:
            return self._target or self._states
        return [np.array(state, native(state.dtype)) for state in self._states]


def _places(states: Sequence[Sequence[np.ndarray]]) -> list[int]:
    """Which arrays these are; those that repeated steps know are kept by them."""
    return [id(array) for some in states for array in some]


def _shared(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    return any(np.may_share_memory(one, other) for one in some for other in others)
