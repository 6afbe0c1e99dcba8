"""The state of an iteration on a GPU: step by step, to and fro between two arrays.

Nothing waits for the GPU between the steps, save where somebody looks at the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arrays import cuda
from .arrays import numpy as on_numpy
from .arrays.accepted import native
from .arrays.run import Block
from .graph import Graph
from .iteration import Iteration, check, state_shape
from .lowering.schedule import Schedule
from .preparing import Prepared, several
from .program import Program
from .running import reaching
from .stepping import Record, Recorded, Scalars


class OnDevice:
    """The state of an iteration as arrays of one GPU; in `out` at the end, if it is given."""

    longest = 1
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
        self._out = out
        self._target: list[Any] = []
        if out is not None:
            with cuda.beside(fields) as device:
                shapes = [shape] * count
                self._target = cuda.checked_out(out, shapes, self._dtypes, None, device)

    def forward(self, first: int, length: int) -> None:
        """Do the steps one by one."""
        with cuda.beside(self._states):
            for step in range(first, first + length):
                results = self._spare or cuda.empties(self._shape, self._dtypes)
                self._step(step, [*self._states, *self._others], results)
                self._spare = self._states if self._owned else None
                self._before, self._states, self._owned = self._states, results, True

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
