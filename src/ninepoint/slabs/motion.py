"""What the steps of a state in parts are: a call, which pickles, programs of some steps, parts.

    owned     |-- 0 --|-- 1 --|-- 2 --|
    part 1 needs    |=============|          of part 0 its end, of part 2 its begin

Along a ring positions count on beyond the ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays.blocks import parts, spans_of
from ..arrays.layout import Shape
from ..arrays.numpy import broadcast_shape
from ..arrays.regions import Span, fields_span, hull, mixed
from ..cadence import Steps
from ..calls import Call
from ..graph import Graph, graph_of, repeated
from ..iteration import Iteration
from ..lowering.schedule import Schedule
from ..program import Program, reaching


@dataclass(frozen=True)
class Motion:
    """The call that each step is, the types of its fields, and how it is planned.

    The first `states` fields are the state.
    """

    call: Call
    types: tuple[np.dtype, ...]
    states: int
    schedule: Schedule

    @cached_property
    def step(self) -> tuple[Graph, tuple[int, ...]]:
        """One step as a graph, and its results."""
        graph, wanted = graph_of(self.call, self.types, looked=True)
        return graph.along(tuple(range(-graph.nodes[-1].ndim, 0))), wanted

    @property
    def ndim(self) -> int:
        """How many core axes the state has."""
        return self.step[0].nodes[-1].ndim

    @property
    def steps(self) -> Steps:
        """One step, as far as exchanges go."""
        graph, wanted = self.step
        return Steps.of(graph, wanted, self.schedule)

    def reaching(self, fields: Sequence[Any]) -> list[Any]:
        """The fields with all axes that the calls work along."""
        return list(reaching(self.step[0], fields))

    def refusal(self, shapes: Sequence[Shape], axis: int) -> str:
        """Why states of these shapes cannot be cut along an axis; empty where they can be."""
        graph, wanted = self.step
        nodes = graph.needed(wanted)
        whole = broadcast_shape(shapes)
        found = graph.shapes(shapes)
        for node in nodes:
            if node.resizes:
                return f"'{node.label}' gives fewer points than it is given"
            if broadcast_shape([found[value] for value in node.fields]) != whole:
                return f"'{node.label}' is given fields that are smaller than the state"
        if mixed(nodes, axis):
            return 'some calls take the axis as a ring, by boundary="wrap", and others do not'
        return ""

    def program(self, each: Sequence[Mapping[str, Any]]) -> tuple[Program, tuple[int, ...]]:
        """Several steps, for the scalars of each, and the fields that the program is given."""
        graph, wanted = self._repeated([replace(self.call, scalars=scalars) for scalars in each])
        part, numbers = graph.part(graph.needed(wanted))
        results = tuple(numbers[value] for value in wanted)
        return Program(part, results, self.schedule, part.token), tuple(numbers)[: part.given]

    def needs(self, steps: int, spans: Sequence[Span], n: int, axis: int) -> list[Span]:
        """What so many steps need of the fields, to give each of these spans along an axis."""
        graph, wanted = self._repeated([self.call] * steps)
        nodes, count = graph.needed(wanted), graph.given
        return [
            hull(span, fields_span(nodes, wanted, count, span, n, axis))
            if span[0] < span[1]
            else span
            for span in spans
        ]

    def _repeated(self, calls: Sequence[Call]) -> tuple[Graph, tuple[int, ...]]:
        graph, wanted = repeated(calls, self.types)
        return graph.along(tuple(range(-graph.nodes[-1].ndim, 0))), wanted


@dataclass(frozen=True)
class Parts:
    """A state of this shape, cut along an axis, counted from the end, in parts of these lengths.

    Each field has a shape, and is cut as the state is, or is the same all along the axis.  Between
    two exchanges there are as many steps as the `longest` block has.
    """

    motion: Motion
    shape: Shape
    axis: int
    lengths: tuple[int, ...]
    fields: tuple[tuple[Shape, bool], ...]
    longest: int

    @staticmethod
    def of(
        motion: Motion,
        axis: int,
        lengths: Sequence[int],
        shapes: Sequence[tuple[Shape, bool]],
        exchange: float,
        plan: Iteration,
    ) -> Parts:
        """Parts of these lengths; an exchange takes so long [s].

        `shapes` are those of each field, or of a part of it, and whether it is cut.
        """
        whole = list(broadcast_shape([shape for shape, _ in shapes]))
        beside = [max(1, n) for n in (max(lengths), *whole[axis:][1:])]
        longest = motion.steps.between(beside, [axis], exchange, plan.in_a_row)
        whole[axis] = sum(lengths)
        return Parts(motion, tuple(whole), axis, tuple(lengths), tuple(shapes), longest)

    @property
    def owned(self) -> list[Span]:
        """What each part has."""
        return spans_of(self.lengths)

    @property
    def cut(self) -> list[int]:
        """The numbers of the fields that are cut, the states among them."""
        return [k for k, (_, cut) in enumerate(self.fields) if cut or k < self.motion.states]

    def shapes(self, length: int) -> list[Shape]:
        """The shapes of the fields where the axis is so long, as that of a part is."""
        return [self.shape_of(shape, length) if cut else shape for shape, cut in self.fields]

    def shape_of(self, shape: Shape, length: int) -> Shape:
        """A shape with another length along the axis."""
        lengths = list(shape)
        lengths[self.axis] = length
        return tuple(lengths)

    def pieces(self, spans: Sequence[Span]) -> list[list[tuple[int, slice, slice]]]:
        """Of each span which part has what of it, where in the span and where in the part."""
        return [
            [(part.chunks[one.chunk], one.target, one.source) for one in part.strips]
            for part in parts(self.lengths, spans, sum(self.lengths))
        ]
