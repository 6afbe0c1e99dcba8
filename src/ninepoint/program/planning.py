"""Plans: which nodes of a graph are done together, as stages of one kernel.

    ix, iy, corners     ->     group: corners, with ix and iy as stages     one pass over memory

A node is a stage of those that read it wherever they can read stages; else what it makes is
stored whole, and the plan says why.  A group of one node is an ordinary call.  Groups that are
steps of an iteration become one as well.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ..arrays.chains import KEPT, NARROW, usual_length
from ..arrays.launching import Launches
from ..arrays.layout import Region
from ..arrays.work import Group
from ..backends.compiled import Forms
from ..base.remembered import Remembered
from ..language.dtypes import short
from ..language.ir import Kernel
from ..language.text import kernel_text
from ..lowering.kept import rows_kept
from .chaining import (
    MIXED_RINGS,
    Pipeline,
    apart,
    bound,
    common_margin,
    rings_of,
    unfit,
)
from .graph import Graph, Node, Nodes, read_by, reads

if TYPE_CHECKING:
    from .program import Program


@dataclass(frozen=True, slots=True)
class Plan:
    """The groups in order; and of each result that is stored whole to be read, why it is."""

    groups: tuple[Group, ...]
    whole: Mapping[str, str]
    # What does blocks of some kind, by all that this depends on.
    launches: Remembered[Any, Launches] = field(
        default_factory=lambda: Remembered(256), init=False, repr=False, compare=False
    )


def plan(program: Program, there: bool = False) -> Plan:
    """Choose which nodes become stages of others, and compile the groups; once for a graph.

    It is for arrays of the CPU, or for those that are `there`, on a GPU.
    """
    key = program.wanted, program.schedule, there
    found: Plan = program.graph.plans.made(key, lambda: (_on_gpu if there else _planned)(program))
    return found


def _planned(program: Program) -> Plan:
    schedule = program.schedule
    forced = {name: "the schedule says so" for name, how in schedule.stages if how == "whole"}
    while True:
        sets, whole = _grouped(program, forced)
        mixed = next((nodes for nodes in sets if rings_of(nodes) is None), None)
        if mixed is not None:
            forced |= dict.fromkeys([node.label for node in mixed[:-1]], MIXED_RINGS)
            continue
        groups = [_group(program, nodes) for nodes in sets]
        wide = [g for g in groups if g.chain and g.chain.compiled.module.kept * NARROW > KEPT // 2]
        if not wide:
            if program.graph.stored and schedule.steps != 1:
                groups = _in_steps(program, groups)
            return Plan(tuple(groups), whole)
        height, node = _tallest(wide[0].nodes)
        forced |= {node.label: f"{height} of its rows would have to be kept"}


def _grouped(
    program: Program, forced: Mapping[str, str], across: bool = False
) -> tuple[list[list[Node]], dict[str, str]]:
    """Sets of nodes that can be done in one pass, in order, and why some are no stages.

    Some are not because it is `forced`.  Steps of an iteration are apart, unless one goes `across`
    them.  Nothing is compiled for it.
    """

    def parted(node: Node, users: Nodes, joined: Nodes, fewer: int) -> str:
        if node.label in forced:
            return forced[node.label]
        for one in (node, *users):
            reason = apart(one, one.part, node)
            if reason:
                return reason if one is node else f"'{one.label}' reads it: {reason}"
        if not across and not program.graph.stored.isdisjoint(node.outputs):
            return "the next step begins with it"
        if any(map(short, node.compiled.out_dtypes)):
            return "floats of 16 bits are rounded when they are stored"
        return ""

    return in_sets(program.nodes, parted)


def in_sets(
    nodes: Nodes,
    apart: Callable[[Node, Nodes, Nodes, int], str],
) -> tuple[list[list[Node]], dict[str, str]]:
    """Nodes, each done with those that read it wherever it can be, in sets, in order.

    `apart` says why a node must not be in one set with its users, or nothing where it can: all of
    them joined, which are so many sets fewer.  Of those that are apart the reason is told.
    """
    whole: dict[str, str] = {}
    sets: list[list[Node]] = []
    for position in reversed(range(len(nodes))):
        node = nodes[position]
        users = [user for user in nodes[position + 1 :] if reads(user, node)]
        homes = [one for one in sets if any(user in one for user in users)]
        joined = sorted([node, *(one for home in homes for one in home)], key=nodes.index)
        reason = apart(node, users, joined, len(homes)) if users else ""
        some = [*(one for one in sets if one not in homes), joined]
        # Of several homes none may need what is made of another one.
        if not reason and len(homes) > 1 and _in_order(some) is None:
            reason = "what reads it cannot be done in one pass"
        if reason:
            whole[node.label] = reason
            some = [*sets, [node]]
        sets = some
    found = _in_order(sets)
    assert found is not None, "groups depend on each other"
    return found, whole


def _in_order(sets: Sequence[list[Node]]) -> list[list[Node]] | None:
    """The sets in an order in which they can be done; None if there is none."""
    done: list[list[Node]] = []
    pending = list(sets)
    while pending:
        made = {value for one in pending for node in one for value in node.outputs}
        for one in pending:
            own = {value for node in one for value in node.outputs}
            if all((made - own).isdisjoint(node.fields) for node in one):
                done.append(one)
                pending.remove(one)
                break
        else:
            return None
    return done


def _tallest(nodes: Nodes) -> tuple[int, Node]:
    """The node that most rows are read of at a point, and how many those are."""
    heights = [
        (max(one.hi[0] - one.lo[0] + 1 for one in reaches), node)
        for node in nodes
        if (reaches := [user.compiled.reach for user in nodes if reads(user, node)])
    ]
    return max(heights, key=operator.itemgetter(0))


def given_on(program: Program, nodes: Nodes) -> tuple[int, ...]:
    """What some nodes make that others need, or that is wanted."""
    others = (v for node in program.nodes if node not in nodes for v in node.fields)
    outside = {*program.wanted, *others}
    return tuple(v for node in nodes for v in node.outputs if v in outside)


def _group(program: Program, nodes: Nodes) -> Group:
    if len(nodes) == 1:
        return Group(tuple(nodes), read_by(nodes), nodes[0].outputs)
    outputs, schedule = given_on(program, nodes), program.schedule
    if any(not program.graph.stored.isdisjoint(node.outputs) for node in nodes[:-1]):
        # Sums of steps may run down the rows: Life took 0.8 times as long so (3000 x 3000, Zen 4).
        kernels = [node.compiled.as_part.single for node in nodes]
    else:
        kernels = [_rolling(node.part) for node in nodes]
    pipeline = Pipeline.of(program.graph, nodes, kernels, outputs, schedule)
    kernel, chain = pipeline.done()
    chosen = {name for name, how in schedule.stages if how != "whole"}
    asked = any(node.label in chosen for node in nodes)
    bounds = bound(chain.compiled, nodes)
    return Group(
        tuple(nodes), pipeline.read, outputs, kernel, pipeline.names, asked, bounds, chain=chain
    )


def _rolling(forms: Forms) -> Kernel:
    """The kernel of a call whose rows roll; several in place where others would be one by one."""
    lowered = forms.lowered
    if lowered.ndim < 3 and lowered.rows > 1 and not lowered.stages:
        return replace(lowered, rows=1)
    return forms.single


# On a GPU.  Each pass gives the bits that the calls give one after the other.  Fields, and what
# calls make, have one shape; where they have others, and where there is no text, the calls are
# done one by one.


def _on_gpu(program: Program) -> Plan:
    """All calls for arrays of a GPU, in groups that are done in one pass wherever they can be.

    Steps of an iteration are in one set as well, unless the schedule has them apart.
    """
    sets, _ = _grouped(program, {}, across=program.schedule.steps != 1)
    return Plan(tuple(group for nodes in sets for group in _divided(program, nodes)), {})


def _divided(program: Program, nodes: Nodes) -> list[Group]:
    """Calls in halves, and these again, until there are registers enough for each."""
    if len(nodes) == 1:
        return [_group(program, nodes)]
    whole = _one_pass(program, nodes)
    if whole is not None:
        return [whole]
    half = len(nodes) // 2
    return [*_divided(program, nodes[:half]), *_divided(program, nodes[half:])]


def _one_pass(program: Program, nodes: Nodes) -> Group | None:
    """Calls that are fit to be done at once; None where registers are few."""
    # Imported here: what writes texts for a GPU is not needed elsewhere.
    from ..arrays.cuda import Work
    from ..backends.cuda.writing import title, together

    graph, outputs = program.graph, given_on(program, nodes)
    kernels = [node.part.single for node in nodes]
    pipeline = Pipeline.of(graph, nodes, kernels, outputs, program.schedule)
    types = tuple(graph.dtypes[value] for value in outputs)
    name = title(nodes[-1].compiled.name)
    steps = sum(not graph.stored.isdisjoint(node.outputs) for node in nodes)
    source = together(
        f"{name}_{steps}" if steps > 1 else name,
        pipeline.links,
        pipeline.fields,
        pipeline.outputs,
        types,
        (program.schedule, tuple(border.rules for border, _ in pipeline.borders)),
    )
    if source is None:
        return None
    work = Work(
        [node.compiled for node in nodes],
        [graph.dtypes[value] for value in pipeline.read],
        types,
        lambda core: [Region(tuple((0, n) for n in core))] * len(outputs),
        source,
        [cval for _, cval in pipeline.borders],
        margin=pipeline.margin,
    )
    bounds = bound(nodes[-1].compiled, nodes)
    return Group(tuple(nodes), pipeline.read, outputs, program=bounds, at_once=work)


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
    longest = schedule.steps
    if not longest and not unfit(first.nodes, first.outputs, schedule):
        longest = usual_length(common_margin(first.nodes, first.outputs))
    # Passes of about the same length, so that none is left with a single step.
    passes = -(-len(steps) // max(1, longest))
    steps = steps[: -(-len(steps) // passes)]
    nodes = [node for step in steps for node in step.nodes]
    if len(steps) < 2 or unfit(nodes, steps[-1].outputs, schedule):
        return None
    return replace(_group(program, nodes), steps=tuple(steps), asked=schedule.steps > 1)


# In words.


def graph_text(graph: Graph, nodes: Nodes) -> str:
    """The intermediate forms of nodes, each under what it is called."""
    texts: list[str] = []
    for node in nodes:
        texts.append(f"{_call_text(graph, node)}:")
        text = f"it holds {node.part}"
        if not isinstance(node.part, str):
            text = kernel_text(node.part.simplified)
        texts.append("\n".join(f"    {line}" for line in text.split("\n")))
    return "\n".join(texts)


def plan_text(name: str, graph: Graph, found: Plan) -> str:
    """What is done in which pass over memory, how each stage is kept, and why."""
    given = ", ".join(
        f"{n} {d}" for n, d in zip(graph.names, graph.dtypes[: graph.given], strict=False)
    )
    results = ", ".join(map(str, found.groups[-1].nodes[-1].compiled.out_dtypes))
    lines = [f"{name}: {given} -> {results}"]
    for number, group in enumerate(found.groups, start=1):
        inside = sum(graph.dtypes[value].itemsize for value in group.fields)
        outside = sum(graph.dtypes[value].itemsize for value in group.outputs)
        reads_ = ", ".join(graph.names[value] for value in group.fields)
        lines.append(
            f"  pass {number}      reads {reads_}: {inside + outside} bytes a point "
            f"with what it writes"
        )
        rows = rows_kept(group.kernel) if group.kernel is not None else {}
        for node in group.nodes:
            shown = node.call.boundary if node.call.boundary.conditions else node.border
            border = "" if node.call.definition.pointwise else f", border {shown}"
            every = f", every {node.call.every}" if node.thins else ""
            lines.append(f"    {_call_text(graph, node)}{border}{every}")
            lines.append(f"      {_kept_text(node, group, rows, found)}")
    return "\n".join(lines)


def _kept_text(node: Node, group: Group, rows: Mapping[str, int], found: Plan) -> str:
    """How what a node makes is kept."""
    if node.label in found.whole:
        return f"stored whole: {found.whole[node.label]}"
    if set(node.outputs) <= set(group.outputs):
        return "the result"
    kept = [rows[n] for value in node.outputs if (n := group.names.get(value, "")) in rows]
    if not kept:
        return "computed again where it is read: that costs less than to keep it"
    count = max(kept)
    return (
        f"kept in {count} {'row' if count == 1 else 'rows'}, until they are read for the last time"
    )


def _call_text(graph: Graph, node: Node) -> str:
    fields = ", ".join(graph.names[value] for value in node.fields)
    made = ", ".join(graph.names[value] for value in node.outputs)
    return f"{made} = {node.call.definition.name}({fields})"
