"""Passes on a GPU: calls of a graph, or several steps of it, as one text and a few launches.

    ix, iy, corners     ->     corners, with ix and iy in registers       one pass over memory
    8 steps             ->     as one, with the borders' rules between    one pass over memory

Each gives the bits that the calls give one after the other.  Fields, and what calls make, have one
shape; where they have others, and where there is no text, the calls are done one by one.

On a whole array the text is started as it is.  On a block its open sides are taken for ends of the
array: what is computed wrongly there, as far in as the calls look, is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays.accepted import listed
from .arrays.cuda import Executable, Work, fitted
from .arrays.layout import Region, Shape
from .arrays.single import lengths_of, told
from .backends.cuda.source import Source
from .backends.cuda.writing import rolled, title
from .backends.pipeline import Forms
from .chaining import Pipeline, all_lowered, bound, unfit
from .graph import Graph, Node
from .language.box import Box
from .lowering.chain import chained
from .lowering.schedule import Schedule
from .planning import Group, sets
from .remembered import Remembered


@dataclass(frozen=True, slots=True)
class OnePass:
    """Calls, or steps, that are done at once on arrays of a GPU: the text, and what it is given.

    `fields` and `outputs` are values of the graph: `out0` is the first of the outputs.  The
    constants of the text are those of borders, whose values are `cvals`.  The calls look as far as
    the `margin`, all together.
    """

    source: Source
    graph: Graph
    nodes: tuple[Node, ...]
    fields: tuple[int, ...]
    outputs: tuple[int, ...]
    cvals: tuple[Any, ...]
    margin: Box
    steps: int = 1

    @property
    def out_dtypes(self) -> list[np.dtype]:
        """The types of the outputs."""
        return [self.graph.dtypes[value] for value in self.outputs]

    @property
    def work(self) -> Work:
        """What the text does."""
        return Work(
            [node.compiled for node in self.nodes],
            [self.graph.dtypes[value] for value in self.fields],
            self.out_dtypes,
            lambda core: [Region((0,) * len(core), core)] * len(self.outputs),
            lambda: (self.source, fitted(self.source, self.cvals)),
            self.steps,
        )

    def bind(
        self, values: Mapping[int, Any], outs: Mapping[int, Any], whole: Shape | None
    ) -> Callable[..., dict[int, Any]] | None:
        """What does the calls, on arrays that have the lengths `whole` along their axes.

        None if they are done one by one: where fields have several shapes, or there is a target
        for some outputs only.
        """
        if len({value in outs for value in self.outputs}) > 1:
            return None
        inputs = [values[value] for value in self.fields]
        shape, along = inputs[0].shape, self.nodes[-1].along
        if any(array.shape != shape for array in inputs) or len(shape) < -min(along):
            return None
        into = [outs[value] for value in self.outputs if value in outs]
        run = Executable(self.work, inputs, into or None, along)
        members = [node.outputs[0] for node in self.nodes]
        program = bound(self.nodes[-1].compiled, self.nodes)
        core = whole or tuple(shape[axis] for axis in along)
        own = program.within(core)
        known, lengths = (*own.coefficients, *own.scalars), lengths_of(program, core)

        def do(
            values: Mapping[int, Any], numbers: Mapping[int, Any] | None, outs: Mapping[int, Any]
        ) -> dict[int, Any]:
            given = known if numbers is None else told(numbers, members, lengths)
            out = [outs[value] for value in self.outputs] if into else None
            made = listed(run([values[value] for value in self.fields], given, out))
            return dict(zip(self.outputs, made, strict=True))

        return do


def on_gpu(graph: Graph, wanted: Sequence[int], schedule: Schedule) -> list[Group]:
    """All calls for arrays of a GPU, in groups that are done in one pass wherever they can be."""
    return [
        Group(nodes, tuple(dict.fromkeys(nodes[0].fields)), nodes[0].outputs)
        if one is None
        else Group(nodes, one.fields, one.outputs, at_once=one)
        for nodes, one in passes(graph, wanted, schedule)
    ]


def passes(
    graph: Graph, wanted: Sequence[int], schedule: Schedule
) -> list[tuple[tuple[Node, ...], OnePass | None]]:
    """The calls in sets, in order, and what does each in one pass, if it is not one call.

    Steps of an iteration are in one set as well, unless the schedule has them apart.
    """
    found = sets(graph, wanted, across=schedule.steps != 1)
    return [part for nodes in found for part in _divided(graph, nodes, wanted, schedule)]


def _divided(
    graph: Graph, nodes: Sequence[Node], wanted: Sequence[int], schedule: Schedule
) -> list[tuple[tuple[Node, ...], OnePass | None]]:
    """Calls in halves, and these again, until there are registers enough for each."""
    whole = tuple(nodes)
    one = _together(graph, whole, wanted, schedule) if len(whole) > 1 else None
    if one is not None or len(whole) == 1:
        return [(whole, one)]
    half = len(whole) // 2
    return [
        part
        for some in (whole[:half], whole[half:])
        for part in _divided(graph, some, wanted, schedule)
    ]


def _together(
    graph: Graph, nodes: Sequence[Node], wanted: Sequence[int], schedule: Schedule
) -> OnePass | None:
    """Calls that are done at once, each of which is fit to be a part; None if they cannot be."""
    others = {v for node in graph.needed(wanted) if node not in nodes for v in node.fields}
    outside = {*wanted, *others}
    outputs = [value for node in nodes for value in node.outputs if value in outside]
    return _one_pass(graph, nodes, outputs, schedule)


def longest_steps(
    graph: Graph, wanted: Sequence[int], longest: int, schedule: Schedule
) -> OnePass | None:
    """As many steps at once as registers are there for, `longest` at most; None below two."""
    steps = longest
    while steps > 1:
        found = steps_together(graph, wanted, steps, schedule)
        if found is not None:
            return found
        steps //= 2
    return None


def steps_together(
    graph: Graph, wanted: Sequence[int], steps: int, schedule: Schedule
) -> OnePass | None:
    """So many steps at once, each of which is the graph; None if they cannot be.

    The states are the first of its fields.  Scalars are given step by step.
    """
    if unfit(graph, wanted, schedule):
        return None
    return _one_pass(graph, graph.needed(wanted), wanted, schedule, steps)


# Texts, by what they were made of; the forms are kept, so that nothing else gets their identity.
_texts: Remembered[Any, tuple[Source | None, tuple[Forms, ...]]] = Remembered(256)


def _one_pass(
    graph: Graph,
    nodes: Sequence[Node],
    outputs: Sequence[int],
    schedule: Schedule,
    steps: int = 0,
) -> OnePass | None:
    """Calls, or so many steps, that are fit to be done at once; None where registers are few."""
    forms = all_lowered(graph, nodes)
    pipeline = Pipeline.of(graph, nodes, forms, outputs, schedule, steps)
    rules = tuple(border.rules for border, _ in pipeline.borders)
    key = *pipeline.key, rules, schedule
    found = _texts.get(key)
    if found is None:
        links, given, made = pipeline.links, pipeline.fields, pipeline.outputs
        name = title(nodes[-1].compiled.name)
        if steps:
            name = f"{name}_{steps}"
        whole = chained(links, given, made, steps, schedule)
        types = [graph.dtypes[value] for value in outputs]
        found = _texts[key] = rolled(*whole, rules, name, types), forms
    source, _ = found
    if source is None:
        return None
    return OnePass(
        source,
        graph,
        tuple(nodes),
        pipeline.read,
        tuple(outputs),
        tuple(cval for _, cval in pipeline.borders),
        pipeline.margin,
        max(1, steps),
    )
