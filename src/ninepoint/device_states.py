"""The state of an iteration on a GPU: step by step, to and fro between two arrays.

Nothing waits for the GPU between the steps, save where somebody looks at the state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .arrays import cuda
from .arrays import numpy as on_numpy
from .arrays.accepted import native
from .arrays.cuda import understood
from .arrays.run import Block
from .graph import Graph
from .iteration import Iteration, check, is_worth_chains, state_shape
from .lowering.schedule import Schedule
from .onepass import OnePass, longest_steps, steps_together, work_of
from .preparing import Prepared, several
from .program import Program
from .running import STEPS, reaching
from .stepping import Record, Recorded, Scalars


class OnDevice:
    """The state of an iteration as arrays of one GPU; in `out` at the end, if it is given."""

    shorter = False

    def __init__(
        self,
        record: Record,
        schedule: Schedule,
        fields: Sequence[Any],
        scalars: Scalars,
        plan: Iteration,
        out: Any = None,
    ) -> None:
        dtypes = [native(field.dtype) for field in fields]
        self._recorded = recorded = Recorded(record, dtypes, scalars)
        self._schedule, self._plan, self._scalars = schedule, plan, scalars
        last = recorded.nodes[-1].compiled
        count = len(last.out_dtypes)
        check(last, dtypes, count)
        plan.border(last.ndim)
        self._shape = shape = state_shape(recorded.graph, recorded.wanted, fields)
        recorded.core = shape[len(shape) - last.ndim :]
        self._dtypes = dtypes[:count]
        self._given = self._states = self._before = list(fields[:count])
        self._others = list(fields[count:])
        # What the caller gave is never written to, nor what a callback may have kept.
        self._owned = False
        self._spare: list[Any] | None = None
        self._known: dict[Any, Prepared] = {}
        self.longest = 1
        self._chain: OnePass | None = None
        self._passes: dict[Any, cuda.Settled] = {}
        self._settle_chain(fields)
        self._out = out
        self._target: list[Any] = []
        if out is not None:
            with cuda.beside(fields) as device:
                shapes = [shape] * count
                self._target = cuda.checked_out(out, shapes, self._dtypes, None, device)

    def _settle_chain(self, fields: Sequence[Any]) -> None:
        """Find how many steps are done in one pass over memory, if any."""
        recorded, shape, plan = self._recorded, self._shape, self._plan
        size = math.prod(shape) * sum(dtype.itemsize for dtype in self._dtypes)
        asked = self._schedule.steps
        # As many as are done before somebody looks, and one by itself to tell what it changed.
        between = min(plan.every or plan.steps, plan.steps) - (plan.until is not None)
        worth = asked or is_worth_chains(size, plan.steps)
        if not worth or any(field.shape != shape for field in fields):
            return
        for node in recorded.nodes:
            understood(node.compiled)
        graph, wanted, schedule = recorded.graph, recorded.wanted, self._schedule
        found = longest_steps(graph, wanted, min(asked or STEPS, between), schedule)
        if found is None:
            return
        steps = found.steps if asked else fewest_passes(found.steps, between)
        if steps < found.steps:
            found = steps_together(graph, wanted, steps, schedule)
        if found is not None:
            self._chain, self.longest = found, steps

    def forward(self, first: int, length: int) -> None:
        """Do the steps in one pass over memory, or one by one where they cannot be."""
        numbers = self._recorded.over(first, length) if length > 1 else None
        with cuda.beside(self._states):
            if numbers is not None:
                self._follow(lambda fields, out: self._pass(numbers, fields, out))
                return
            for step in range(first, first + length):
                self._follow(partial(self._step, step))

    def _follow(self, do: Callable[[list[Any], list[Any]], None]) -> None:
        """Make the next state, and go on with it."""
        results = self._spare or cuda.empties(self._shape, self._dtypes)
        do([*self._states, *self._others], results)
        self._spare = self._states if self._owned else None
        self._before, self._states, self._owned = self._states, results, True

    def _pass(self, numbers: Any, fields: list[Any], results: list[Any]) -> None:
        """Do several steps in one pass."""
        chain = self._chain
        assert chain is not None
        key = tuple([cuda.array_key(field) for field in fields])
        found = self._passes.get(key)
        if found is None:
            recorded = self._recorded
            work = work_of(chain, recorded.graph, recorded.nodes[-1].compiled)
            found = self._passes[key] = cuda.Settled(work, fields, results)
        coefficients, scalars = numbers
        made = found([fields[k] for k in chain.fields], (*coefficients, *scalars), tuple(results))
        assert made is not None, "the next state lies apart from all that is read"

    def _step(self, step: int, fields: list[Any], results: list[Any]) -> None:
        graph, _ = self._recorded.at(step)
        nodes = graph.needed(self._recorded.wanted)
        key = (
            tuple([id(node.compiled) for node in nodes]),
            tuple([cuda.array_key(field) for field in fields]),
        )
        out = tuple(results)
        prepared = self._known.get(key)
        if prepared is None:
            wanted, at = self._recorded.wanted, range(len(fields))
            prepared = several(graph, wanted, self._schedule, at, fields, out, None)
            self._known[key] = prepared
        if prepared(fields, self._leaves(graph, step), out) is None:
            self._in_general(graph, fields, results)

    def _leaves(self, graph: Graph, step: int) -> list[Any]:
        """The numbers of all calls of a step."""
        if len(graph.nodes) == 1:
            return [self._scalars.at(step)]
        numbers = {node.outputs: node.call.scalars for node in graph.nodes}
        return [numbers[outputs] for outputs in graph.added]

    def _in_general(self, graph: Graph, fields: Sequence[Any], results: Sequence[Any]) -> None:
        """Do one step, from arrays of any shapes."""
        wanted = self._recorded.wanted
        block = Block(tuple(reaching(graph, fields)))
        made = Program(graph, wanted, self._schedule).run(block)
        for result, one in zip(results, made, strict=True):
            result[...] = one

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


def fewest_passes(most: int, steps: int) -> int:
    """How many steps to do in one pass, `most` at most, so that few are left to be done singly."""
    return min(range(most, 1, -1), key=lambda one: steps // one + steps % one)
