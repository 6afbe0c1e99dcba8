"""Chains of a graph: several steps of an iteration, each of which is the graph, as one kernel."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from .arrays.chains import MOST_AXES, Chain, usual_length
from .backends.compiled import Bound, Compiled
from .backends.pipeline import Forms, compile_chain
from .graph import Graph, Node
from .language.box import Box
from .lowering.chain import Edges, unchainable
from .lowering.request import Request
from .lowering.schedule import Schedule
from .planning import (
    MIXED_RINGS,
    TOO_MANY_AXES,
    Group,
    Plan,
    common_margin,
    link_keys,
    linked,
    named_parts,
    rings_of,
)
from .remembered import Remembered

# Compiled chains, by what they were made of.
Chains: TypeAlias = dict[Any, tuple[Compiled, Edges, tuple[Forms, ...]]]

# Those of tasks.
_known: Remembered[Any, tuple[Compiled, Edges, tuple[Forms, ...]]] = Remembered(64)


def unfit(graph: Graph, wanted: Sequence[int], schedule: Schedule) -> str:
    """Why several steps of a graph cannot be done in one pass; empty where they can."""
    nodes = graph.needed(wanted)
    last = nodes[-1]
    whole = {name for name, how in schedule.stages if how == "whole"}
    if any(node.call.boundary.conditions for node in nodes):
        return "values at the border are laid beside the state before each step"
    if last.outputs != tuple(wanted):
        return "the results are not those of the last call"
    for node in nodes:
        forms = _lowered(graph, node)
        if isinstance(forms, str):
            return f"'{node.label}' holds {forms}"
        reason = unchainable(forms.single, node.compiled.out_dtypes)
        if reason:
            return f"'{node.label}': {reason}" if len(nodes) > 1 else reason
        if node.ndim > MOST_AXES:
            return TOO_MANY_AXES
        if node.resizes:
            return f"'{node.label}' gives fewer points than it is given"
        if node.ndim != last.ndim or node.along != tuple(range(-last.ndim, 0)):
            return f"'{node.label}' has other axes"
        if node.compiled.fastmath != last.compiled.fastmath:
            return "some calls are compiled with fastmath, and some are not"
        if node is not last and node.label in whole:
            return f"'{node.label}' is stored whole: the schedule says so"
    if rings_of(nodes) is None:
        return MIXED_RINGS
    return ""


def step_reach(graph: Graph, wanted: Sequence[int]) -> Box:
    """Where one step looks, and the point itself; the calls must have forms."""
    nodes = graph.needed(wanted)
    return common_margin(nodes, _all_lowered(graph, nodes), wanted)


def chain(
    graph: Graph, wanted: Sequence[int], steps: int, schedule: Schedule, known: Chains
) -> Chain:
    """So many steps of a graph that is fit for it, compiled once for all that are `known`."""
    nodes = graph.needed(wanted)
    found = _all_lowered(graph, nodes)
    fields = tuple(range(graph.given))
    names, parts = named_parts(graph, nodes, [one.single for one in found], fields)
    links, borders = linked(nodes, parts)
    key = (
        tuple(map(id, found)),
        tuple((node.fields, node.outputs) for node in nodes),
        tuple(names.values()),
        *link_keys(links),
        steps,
        schedule,
    )
    if key not in known:
        called = {node.label: names[node.outputs[0]] for node in nodes}
        hows = tuple(
            (f"{called.get(label, label)}_{step}", how)
            for label, how in schedule.stages
            for step in range(steps)
        )
        # The forms are kept as well, so that nothing else gets their identity.
        _, compiled, edges = compile_chain(
            nodes[-1].compiled.name,
            links,
            [(names[k], graph.dtypes[k]) for k in fields],
            [names[k] for k in range(len(wanted))],
            steps,
            common_margin(nodes, found, wanted),
            Request(fastmath=nodes[-1].compiled.fastmath, schedule=replace(schedule, stages=hows)),
        )
        known[key] = compiled, edges, found
    compiled, edges, _ = known[key]
    rings = rings_of(nodes)
    assert rings is not None, nodes
    return Chain(compiled, edges, borders, rings, steps)


def in_steps(graph: Graph, found: Plan, wanted: Sequence[int], schedule: Schedule) -> Plan:
    """A plan in which groups that are steps of an iteration are done in one pass, if they can be.

    Steps are groups that do the same calls, each on what the one before has made; the graph says
    that what they make is stored.
    """
    if not graph.stored or schedule.steps == 1:
        return found
    key = tuple(wanted), schedule, "steps"
    if key not in graph.plans:
        groups: list[Group] = []
        left = list(found.groups)
        while left:
            states, count = _alike(graph, left, wanted)
            made = _chained(graph, left[:count], states, schedule) if count > 1 else None
            groups.append(made or left[0])
            left = left[len(made.steps) if made else 1 :]
        graph.plans[key] = replace(found, groups=tuple(groups))
    plan: Plan = graph.plans[key]
    return plan


def _alike(graph: Graph, groups: Sequence[Group], wanted: Sequence[int]) -> tuple[list[int], int]:
    """What the first group takes as its states, and how many from it on are steps."""
    states: list[int] = []
    if not graph.stored.issuperset(groups[0].outputs):
        return states, 1
    for count, (before, after) in enumerate(pairwise(groups), 1):
        found = _states(before, after)
        expected = list(groups[count - 2].outputs) if count > 1 else found
        others = {v for one in groups[count + 1 :] for v in one.fields} | set(wanted)
        if not found or found != expected or not others.isdisjoint(before.outputs):
            return states, count
        states = states or found
    return states, len(groups)


def _states(before: Group, after: Group) -> list[int]:
    """What a group takes where the next one takes what it makes; nothing if they do not match."""
    pairs: dict[int, int] = {}
    if len(before.nodes) != len(after.nodes) or before.nodes[-1].outputs != before.outputs:
        return []
    for one, other in zip(before.nodes, after.nodes, strict=True):
        alike = one.compiled is other.compiled and one.along == other.along
        if not alike or (one.border, repr(one.cval)) != (other.border, repr(other.cval)):
            return []
        fields = zip(one.fields, other.fields, strict=True)
        for value, later in (*fields, *zip(one.outputs, other.outputs, strict=True)):
            if pairs.setdefault(value, later) != later:
                return []
    made = {value for node in before.nodes for value in node.outputs}
    states: dict[int, int] = {}
    for value, later in pairs.items():
        if value in made:
            continue
        if later in before.outputs and later not in states:
            states[later] = value
        elif later != value:
            return []
    return [states[v] for v in before.outputs] if len(states) == len(before.outputs) else []


def _chained(
    graph: Graph, steps: Sequence[Group], states: Sequence[int], schedule: Schedule
) -> Group | None:
    """The first of some steps as one group, several of them; None if they cannot be."""
    part, numbers = graph.part(steps[0].nodes, states)
    wanted = tuple(numbers[value] for value in steps[0].outputs)
    if unfit(part, wanted, schedule):
        return None
    longest = schedule.steps or usual_length(step_reach(part, wanted))
    # Passes of about the same length, so that none is left with a single step.
    passes = -(-len(steps) // longest)
    count = -(-len(steps) // passes)
    if count < 2:
        return None
    steps = steps[:count]
    nodes = tuple(node for step in steps for node in step.nodes)
    bounds = [node.program for node in nodes]
    each = [bound.coefficients for bound in bounds]
    coefficients = [array for some in each[: len(steps[0].nodes)] for array in some]
    again = itertools.cycle(coefficients)
    if not all(map(np.array_equal, (array for some in each for array in some), again)):
        return None
    one = chain(part, wanted, count, schedule, _known)
    scalars = tuple(value for bound in bounds for value in bound.scalars)
    inside = {number: value for value, number in numbers.items()}
    return Group(
        nodes,
        tuple(inside[number] for number in range(part.given)),
        steps[-1].outputs,
        asked=schedule.steps > 1,
        program=Bound(one.compiled, tuple(coefficients), scalars),
        steps=tuple(steps),
        chain=one,
    )


def _lowered(graph: Graph, node: Node) -> Forms | str:
    """The forms of a node's compilation; or why it has none."""
    compiled = node.call.compiled([graph.dtypes[k] for k in node.own])
    found: Forms | str = compiled.as_part
    return found


def _all_lowered(graph: Graph, nodes: Sequence[Node]) -> tuple[Forms, ...]:
    return tuple(one for node in nodes if isinstance(one := _lowered(graph, node), Forms))
