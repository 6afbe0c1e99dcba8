"""Plans: which nodes of a graph are done together, as stages of one kernel.

    ix, iy, corners     ->     group: corners, with ix and iy as stages     one pass over memory

A node is a stage of those that read it wherever they can read stages; else what it makes is
stored whole, and the plan says why.  A group of one node is an ordinary call.  Groups that are
steps of an iteration become one as well.

    8 steps             ->     as one, with the borders' rules between      one pass over memory
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.chains import KEPT, MOST_AXES, NARROW, Chain, usual_length
from ..arrays.launching import Group, Launches
from ..arrays.layout import ABSENT, Border
from ..arrays.regions import Looking, rings
from ..base.remembered import Remembered, cached_property
from ..language.dtypes import short
from ..language.ir import Box
from ..lowering.chain import Link, unchainable
from ..lowering.fusion import unlike
from ..lowering.schedule import Request, Schedule
from .graph import Made, Node, Nodes, Values, pipeline, read_by

if TYPE_CHECKING:
    from .program import Program

# Why calls, or steps, are done one by one.
MIXED_RINGS = "of the calls that look along an axis some take it for a ring"


@dataclass(frozen=True)
class Plan:
    """The groups in order; and of each result that is stored whole to be read, why it is."""

    groups: tuple[Group, ...]
    whole: Mapping[str, str]

    @cached_property
    def launches(self) -> Remembered[Launches]:
        """What does blocks of some kind, by all that this depends on."""
        return Remembered(256)


def plan(program: Program, there: bool = False) -> Plan:
    """Choose which nodes become stages of others, and compile the groups; once for a graph.

    It is for arrays of the CPU, or for those that are `there`, on a GPU, where each node is done
    by itself.
    """
    key = program.wanted, program.schedule, there
    found: Plan = program.graph.plans.made(key, lambda: _planned(program, there))
    return found


def _planned(program: Program, there: bool) -> Plan:
    """Nodes in sets that can be done in one pass; steps of an iteration are put together after."""
    if there:
        return Plan(tuple(_group(program, [node]) for node in program.nodes), {})
    schedule, stored = program.schedule, program.graph.stored
    forced = {name for name, how in schedule.stages if how == "whole"}

    def parted(node: Node, users: Nodes, joined: Nodes) -> str:
        if node.label in forced:
            return "the schedule says so"
        for one in (node, *users):
            reason = apart(one, node)
            if reason:
                return reason if one is node else f"'{one.label}' reads it: {reason}"
        if not stored.isdisjoint(node.outputs):
            return "the next step begins with it"
        if any(map(short, node.compiled.out_dtypes)):
            return "floats of 16 bits are rounded when they are stored"
        rows = max(one.hi[0] - one.lo[0] + 1 for one in (user.compiled.reach for user in users))
        if node.ndim > 1 and rows * node.out_dtypes[0].itemsize * NARROW > KEPT // 2:
            return f"{rows} of its rows would have to be kept"
        return MIXED_RINGS if rings_of(joined) is None else ""

    sets, whole = in_sets(program.nodes, parted)
    groups = [_group(program, nodes) for nodes in sets]
    if stored and schedule.steps != 1:
        groups = _in_steps(program, groups)
    return Plan(tuple(groups), whole)


def in_sets(
    nodes: Nodes, apart: Callable[[Node, Nodes, Nodes], str]
) -> tuple[list[list[Node]], dict[str, str]]:
    """Nodes, each done with those that read it wherever these are one set; in order.

    `apart` says why a node must not be in one set with its users, or nothing where it can, all of
    them joined.  Of those that are apart the reason is told.  Nobody reads what the nodes of a set
    make but these, save for the last: so the sets can be done in the order of their last nodes.
    """
    whole: dict[str, str] = {}
    sets: list[list[Node]] = []
    for position in reversed(range(len(nodes))):
        node = nodes[position]
        users = [n for n in nodes[position + 1 :] if not set(n.fields).isdisjoint(node.outputs)]
        homes = [one for one in sets if any(user in one for user in users)]
        reason = "what reads it is not done in one pass" if len(homes) > 1 else ""
        if len(homes) == 1:
            reason = apart(node, users, [node, *homes[0]])
        if homes and not reason:
            homes[0].insert(0, node)
            continue
        sets.insert(0, [node])
        if reason:
            whole[node.label] = reason
    return sets, whole


def given_on(program: Program, nodes: Nodes) -> Made:
    """What some nodes make that others need, or that is wanted."""
    others = (v for node in program.nodes if node not in nodes for v in node.fields)
    outside = {*program.wanted, *others}
    return tuple(v for node in nodes for v in node.outputs if v in outside)


def _group(program: Program, nodes: Nodes) -> Group:
    """Nodes that are done together; of which some may end steps."""
    if len(nodes) == 1:
        return Group(tuple(nodes), read_by(nodes), nodes[0].outputs)
    graph, schedule, outputs = program.graph, program.schedule, given_on(program, nodes)
    places = graph.places
    read = tuple(sorted(read_by(nodes), key=lambda value: value in places))
    taken: set[str] = set()
    names = {
        value: unlike(graph.names[value], taken)
        for value in (*read, *(v for node in nodes for v in node.outputs))
    }
    links, borders = _linked(nodes, names, taken)
    called = {node.label: names[node.outputs[0]] for node in nodes}
    stages = [(called.get(label, label), how) for label, how in schedule.stages]
    # To compute a step again, or some rows of it at once, takes longer to compile than it gains.
    ends = [v for node in nodes[:-1] for v in node.outputs if v in graph.stored]
    stages += [(names[value], "rows") for value in ends]
    own = replace(schedule, stages=tuple(stages), rows=1 if ends else schedule.rows)
    # The borders and their constants are no part of what is compiled.
    kernel, compiled, edges = pipeline.compile_chain(
        nodes[-1].label,
        tuple(links),
        tuple((names[value], graph.dtypes[value]) for value in read),
        tuple(names[value] for value in outputs),
        common_margin(nodes, outputs),
        Request(fastmath=nodes[0].compiled.fastmath, schedule=own),
    )
    chain = Chain(compiled, edges, tuple(borders), rings_of(nodes) or (), own.tile)
    positions = len(places.keys() & set(read))
    return Group(tuple(nodes), read, outputs, positions, kernel, names, chain=chain)


# Steps of an iteration.


def _in_steps(program: Program, groups: Sequence[Group]) -> list[Group]:
    """Groups of which those that are steps are done in one pass, if they can be.

    Steps are groups that end with what the graph says is stored.
    """
    found: list[Group] = []
    left = list(groups)
    while left:
        steps = list(takewhile(lambda one: program.graph.stored.issuperset(one.outputs), left))
        made = _together(program, steps) if len(steps) > 1 else None
        found.append(made or left[0])
        left = left[len(made.steps) if made else 1 :]
    return found


def _together(program: Program, steps: Sequence[Group]) -> Group | None:
    """The first of some steps as one group, several of them; None if they cannot be."""
    first, schedule = steps[0], program.schedule
    if unfit([node for step in steps for node in step.nodes], steps[-1].outputs, schedule):
        return None
    longest = schedule.steps or usual_length(common_margin(first.nodes, first.outputs))
    # Passes of about the same length, so that none is left with a single step.
    passes = -(-len(steps) // longest)
    steps = steps[: -(-len(steps) // passes)]
    made = _group(program, [node for step in steps for node in step.nodes])
    return replace(made, steps=tuple(steps), asked=schedule.steps > 1)


# Calls as one kernel, or several steps, each of which is the graph.


def unfit(nodes: Nodes, wanted: Values, schedule: Schedule) -> str:
    """Why steps of these calls cannot be done several in one pass; empty where they can."""
    last = nodes[-1]
    whole = {name for name, how in schedule.stages if how == "whole"}
    if last.outputs != tuple(wanted):
        return "the results are not those of the last call"
    for node in nodes:
        reason = apart(node, last, node.compiled.out_dtypes)
        if not reason and node.label != last.label and node.label in whole:
            reason = "it is stored whole: the schedule says so"
        if reason:
            return f"'{node.label}': {reason}" if len(nodes) > 1 else reason
    if rings_of(nodes) is None:
        return MIXED_RINGS
    return ""


def apart(node: Node, other: Node, stored: Sequence[np.dtype] = ()) -> str:
    """Why a call cannot be done in one pass with another one; empty where it can.

    Types of its results are `stored` that are kept for a call.
    """
    forms = node.compiled.as_part
    if isinstance(forms, str):
        return f"it holds {forms}"
    reason = unchainable(forms.single, stored)
    if reason:
        return reason
    if node.boundary.conditions:
        return "values at the border are laid beside what it reads"
    if node.factors:
        return "it gives more points than it is given"
    if node.resizes:
        return "it gives fewer points than it is given"
    if node.ndim > MOST_AXES:
        return f"of more than {MOST_AXES} axes no rows are kept beyond the ends"
    if node.along != other.along:
        return "it has other axes"
    if node.compiled.fastmath != other.compiled.fastmath:
        return "some calls are compiled with fastmath, and some are not"
    return ""


def rings_of(nodes: Nodes) -> tuple[bool, ...] | None:
    """Along which axes nodes look as along a ring; None if some do, and others do not."""
    kinds = [rings(nodes, axis) for axis in nodes[0].along]
    return None if any(len(one) > 1 for one in kinds) else tuple(True in one for one in kinds)


def _linked(
    nodes: Nodes, names: Mapping[int, str], taken: set[str]
) -> tuple[list[Link], list[tuple[Border, Any]]]:
    """The nodes as links of a chain, and their borders with the constants, each once.

    Values are called as `names` says, and what nodes have besides as nothing that is `taken`.
    """
    kinds = [(node.border, type(node.cval), repr(node.cval)) for node in nodes]
    borders = {kind: (node.border, node.cval) for kind, node in zip(kinds, nodes, strict=True)}
    links: list[Link] = []
    for kind, node in zip(kinds, nodes, strict=True):
        kernel, border, cval = node.compiled.as_part.single, node.border, node.cval
        zero = type(cval) in (int, float) and cval == 0
        asked = border.uses("fill") or border.uses("constant")
        fields = zip(kernel.fields, node.fields, strict=True)
        own = [n for n, _ in kernel.scalars] + [n for n, _, _ in kernel.coefficients]
        links.append(
            Link(
                kernel,
                {name: names[value] for (name, _), value in fields},
                tuple(names[value] for value in node.outputs),
                {name: unlike(name, taken) for name in own},
                node.compiled.out_dtypes,
                node.compiled.reaches,
                list(borders).index(kind),
                border.uses("keep"),
                _leaves(node),
                border.uses("keep") or (asked and not zero),
            )
        )
    return links, list(borders.values())


def _leaves(node: Node) -> bool:
    """Whether its border's rule leaves out points near the ends of an axis."""
    axes = zip(node.border.rules, node.compiled.reach.sides, strict=True)
    return any(rule in ABSENT and far for axis in axes for rule, far in zip(*axis, strict=True))


def common_margin(nodes: Nodes, outputs: Values) -> Box:
    """Where the nodes look, all together, to give one point of the outputs.

    Each counts as if it looked at the point itself too: at a border a neighbour to the one side
    may stand on the other, and from there the next node looks on.
    """
    count, wanted = 1 + max(nodes[-1].outputs), tuple(outputs)
    looks = [Looking(nodes, wanted, count, axis) for axis in nodes[0].along]
    return Box(tuple(one.low for one in looks), tuple(one.high for one in looks))
