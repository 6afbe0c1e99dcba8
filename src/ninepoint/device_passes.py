"""Passes on a GPU: calls of a graph, or several steps of it, as one text and a few launches.

    ix, iy, corners     ->     corners, with ix and iy in registers       one pass over memory
    8 steps             ->     as one, with the borders' rules between    one pass over memory

Each gives the bits that the calls give one after the other.  Fields, and what calls make, have one
shape; where they have others, and where there is no text, the calls are done one by one.

`arrays.launching` starts the text on whole arrays, and on blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arrays.cuda import Work
from .arrays.layout import Region
from .backends.cuda.source import Source
from .backends.cuda.strips import strips
from .backends.cuda.writing import title
from .backends.pipeline import Forms
from .chaining import Pipeline, all_lowered, bound, unfit
from .graph import Graph, Node
from .lowering.chain import chained
from .lowering.schedule import Schedule
from .planning import Group, sets
from .remembered import Remembered


def passes(graph: Graph, wanted: Sequence[int], schedule: Schedule) -> list[Group]:
    """All calls for arrays of a GPU, in groups that are done in one pass wherever they can be.

    Steps of an iteration are in one set as well, unless the schedule has them apart.
    """
    found = sets(graph, wanted, across=schedule.steps != 1)
    return [group for nodes in found for group in _divided(graph, nodes, wanted, schedule)]


def _divided(
    graph: Graph, nodes: Sequence[Node], wanted: Sequence[int], schedule: Schedule
) -> list[Group]:
    """Calls in halves, and these again, until there are registers enough for each."""
    if len(nodes) == 1:
        return [Group(tuple(nodes), tuple(dict.fromkeys(nodes[0].fields)), nodes[0].outputs)]
    others = {v for node in graph.needed(wanted) if node not in nodes for v in node.fields}
    outside = {*wanted, *others}
    outputs = [value for node in nodes for value in node.outputs if value in outside]
    whole = _one_pass(graph, nodes, outputs, schedule)
    if whole is not None:
        return [whole]
    half = len(nodes) // 2
    return [
        group
        for some in (nodes[:half], nodes[half:])
        for group in _divided(graph, some, wanted, schedule)
    ]


def longest_steps(
    graph: Graph, wanted: Sequence[int], longest: int, schedule: Schedule
) -> Group | None:
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
) -> Group | None:
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
) -> Group | None:
    """Calls, or so many steps, that are fit to be done at once; None where registers are few."""
    forms = all_lowered(graph, nodes)
    pipeline = Pipeline.of(graph, nodes, forms, outputs, schedule, steps)
    rules = tuple(border.rules for border, _ in pipeline.borders)
    key = *pipeline.key, rules, schedule
    types = [graph.dtypes[value] for value in outputs]
    found = _texts.get(key)
    if found is None:
        links, given, made = pipeline.links, pipeline.fields, pipeline.outputs
        name = title(nodes[-1].compiled.name)
        if steps:
            name = f"{name}_{steps}"
        whole = chained(links, given, made, steps, schedule)
        found = _texts[key] = strips(*whole, rules, name, types), forms
    source, _ = found
    if source is None:
        return None
    work = Work(
        [node.compiled for node in nodes],
        [graph.dtypes[value] for value in pipeline.read],
        types,
        lambda core: [Region(tuple((0, n) for n in core))] * len(outputs),
        source,
        [cval for _, cval in pipeline.borders],
        steps=max(1, steps),
        margin=pipeline.margin,
    )
    program = bound(nodes[-1].compiled, nodes)
    return Group(tuple(nodes), pipeline.read, tuple(outputs), program=program, at_once=work)
