"""Chains of a graph: several steps of an iteration, each of which is the graph, as one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .arrays.borders import ABSENT, Border
from .arrays.iterating import Chain
from .backends.compiled import Compiled
from .backends.pipeline import Forms, compile_chain
from .graph import Graph, Node
from .language.box import Box
from .lowering.chain import Edges, Link, unchainable
from .lowering.passes import Request
from .lowering.schedule import Schedule
from .planning import common_margin, named_parts

# Compiled chains, by what they were made of.
Chains = dict[Any, tuple[Compiled, Edges, tuple[Forms, ...]]]


def unfit(graph: Graph, wanted: Sequence[int], schedule: Schedule) -> str:
    """Why several steps of a graph cannot be done in one pass; empty where they can."""
    nodes = graph.needed(wanted)
    last = nodes[-1]
    whole = {name for name, how in schedule.stages if how == "whole"}
    if last.outputs != tuple(wanted):
        return "the results are not those of the last call"
    for node in nodes:
        forms = _lowered(graph, node)
        if isinstance(forms, str):
            return f"'{node.label}' takes the general path, because of {forms}"
        reason = unchainable(forms.single, node.compiled.out_dtypes)
        if reason:
            return f"'{node.label}': {reason}" if len(nodes) > 1 else reason
        if node.border.uses("valid"):
            return f"'{node.label}' gives fewer points than it is given"
        if node.ndim != last.ndim or node.along != tuple(range(-last.ndim, 0)):
            return f"'{node.label}' has other axes"
        if node.compiled.fastmath != last.compiled.fastmath:
            return "some calls are compiled with fastmath, and some are not"
        if node is not last and node.label in whole:
            return f"'{node.label}' is stored whole: the schedule says so"
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
    borders: list[tuple[Border, Any]] = []
    numbers: dict[Any, int] = {}
    links: list[Link] = []
    for node, part in zip(nodes, parts, strict=True):
        border, cval = node.border, node.call.cval
        number = numbers.setdefault((border, type(cval), repr(cval)), len(borders))
        if number == len(borders):
            borders.append((border, cval))
        zero = type(cval) in (int, float) and cval == 0
        asked = border.uses("fill") or border.uses("constant")
        links.append(
            Link(
                part,
                node.compiled.out_dtypes,
                node.compiled.reaches,
                number,
                border.uses("keep"),
                _leaves(node),
                border.uses("keep") or (asked and not zero),
            )
        )
    key = (
        tuple(map(id, found)),
        tuple((node.fields, node.outputs) for node in nodes),
        tuple(names.values()),
        tuple((one.border, one.keeps, one.leaves, one.unbounded) for one in links),
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
        compiled, edges = compile_chain(
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
    return Chain(compiled, edges, tuple(borders))


def _lowered(graph: Graph, node: Node) -> Forms | str:
    """The forms of a node's compilation; or why it has none."""
    _, forms, reason = node.call.compiled([graph.dtypes[k] for k in node.fields])
    return forms if forms is not None else reason


def _all_lowered(graph: Graph, nodes: Sequence[Node]) -> tuple[Forms, ...]:
    return tuple(one for node in nodes if isinstance(one := _lowered(graph, node), Forms))


def _leaves(node: Node) -> bool:
    """Whether its border's rule leaves out points near the ends of rows, or rows of a plane."""
    closed = -1 if node.ndim == 2 else -2
    reach = node.compiled.reach
    sides = zip(node.border.rules[closed:], reach.lo[closed:], reach.hi[closed:], strict=True)
    return any((a in ABSENT and lo < 0) or (b in ABSENT and hi > 0) for (a, b), lo, hi in sides)
