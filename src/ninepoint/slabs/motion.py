"""What the steps of a state in parts are: a call, which pickles, and programs of some steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays.layout import Shape
from ..arrays.numpy import broadcast_shape
from ..arrays.regions import Span, fields_span, hull, mixed
from ..cadence import Steps
from ..calls import Call
from ..graph import Graph, graph_of, repeated
from ..lowering.schedule import Schedule
from ..program import Program
from ..running import reaching


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
        calls = [replace(self.call, scalars=scalars) for scalars in each]
        graph, wanted = repeated(calls, self.types)
        graph = graph.along(tuple(range(-graph.nodes[-1].ndim, 0)))
        part, numbers = graph.part(graph.needed(wanted))
        results = tuple(numbers[value] for value in wanted)
        return Program(part, results, self.schedule, part.token), tuple(numbers)[: part.given]

    def needs(self, steps: int, spans: Sequence[Span], n: int, axis: int) -> list[Span]:
        """What so many steps need of the fields, to give each of these spans along an axis."""
        graph, wanted = repeated([self.call] * steps, self.types)
        graph = graph.along(tuple(range(-graph.nodes[-1].ndim, 0)))
        nodes, count = graph.needed(wanted), graph.given
        return [
            hull(span, fields_span(nodes, wanted, count, span, n, axis))
            if span[0] < span[1]
            else span
            for span in spans
        ]


def same_numbers(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> bool:
    """Whether these are scalars of the same steps, or of none that differ."""
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
