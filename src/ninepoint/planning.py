"""Plans: which nodes of a graph are done together, as stages of one kernel.

    ix, iy, corners     ->     group: corners, with ix and iy as stages     one pass over memory

A node is a stage of those that read it wherever they can read stages; else what it makes is
stored whole, and the plan says why.  A group of one node is an ordinary call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .analysis.footprint import extents
from .arrays.borders import ABSENT, Border
from .arrays.chains import KEPT, MOST_AXES, NARROW, Chain, Layout
from .arrays.launching import Launches
from .arrays.regions import look, rules
from .arrays.work import AtOnce
from .backends.compiled import Bound, Compiled
from .backends.pipeline import Forms, compile_chain
from .graph import Graph, Node, reads
from .language.box import Box, joined
from .language.dtypes import short
from .language.ir import Kernel
from .language.text import kernel_text
from .lowering.chain import Edges, Link
from .lowering.fusion import Part, unfit
from .lowering.kept import rows_kept
from .lowering.names import unlike
from .lowering.request import Request
from .lowering.schedule import Schedule
from .remembered import Remembered

# Why calls are done one by one.
MIXED_RINGS = "of the calls that look along an axis some take it for a ring"
TOO_MANY_AXES = f"of more than {MOST_AXES} axes no rows are kept beyond the ends"


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that are done together: the values they read, and those that others need.

    Several are a `chain`, of which `program` has the numbers; they may be `steps` of an iteration.
    `kernel` and `compiled` are those of all nodes in one, and `names` says what the values are
    called there.  `asked` tells that the schedule names one of them, so that arrays of any size
    are done so.  `at_once` does all nodes on arrays of a GPU, if that can be.
    """

    nodes: tuple[Node, ...]
    fields: tuple[int, ...]
    outputs: tuple[int, ...]
    kernel: Kernel | None = None
    compiled: Compiled | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    asked: bool = False
    program: Bound | None = None
    steps: tuple[Group, ...] = ()
    chain: Chain | None = None
    at_once: AtOnce | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The groups in order; and of each result that is stored whole to be read, why it is."""

    groups: tuple[Group, ...]
    whole: Mapping[str, str]
    # What does blocks of some kind, by all that this depends on.
    launches: Remembered[Any, Launches] = field(
        default_factory=lambda: Remembered(256), init=False, repr=False, compare=False
    )


def plan(graph: Graph, wanted: Sequence[int], schedule: Schedule) -> Plan:
    """Choose which nodes become stages of others, and compile the groups; once for a graph."""
    key = tuple(wanted), schedule
    found = graph.plans.get(key)
    if found is None:
        found = graph.plans[key] = _planned(graph, wanted, schedule)
    return found


def sets(graph: Graph, wanted: Sequence[int], across: bool = False) -> list[list[Node]]:
    """The nodes in sets that can be done in one pass, in order; nothing is compiled for it.

    Steps of an iteration are apart, unless one goes `across` them.
    """
    return _grouped(graph, wanted, {}, across)[0]


def _planned(graph: Graph, wanted: Sequence[int], schedule: Schedule) -> Plan:
    forced = {name: "the schedule says so" for name, how in schedule.stages if how == "whole"}
    while True:
        sets, whole = _grouped(graph, wanted, forced)
        mixed = next((nodes for nodes in sets if rings_of(nodes) is None), None)
        if mixed is not None:
            forced |= dict.fromkeys([node.label for node in mixed[:-1]], MIXED_RINGS)
            continue
        groups = [_compiled(graph, nodes, wanted, schedule) for nodes in sets]
        wide = [g for g in groups if g.compiled and g.compiled.module.kept * NARROW > 2 * KEPT]
        if not wide:
            return Plan(tuple(groups), whole)
        node = _tallest(wide[0].nodes)
        forced |= {node.label: f"{_height(node, wide[0].nodes)} of its rows would have to be kept"}


def _grouped(
    graph: Graph, wanted: Sequence[int], forced: Mapping[str, str], across: bool = False
) -> tuple[list[list[Node]], dict[str, str]]:
    """Sets of nodes to do together, in order, and why some nodes are no stages."""

    def apart(node: Node, users: Sequence[Node], homes: Sequence[Sequence[Node]]) -> str:
        return forced.get(node.label, "") or _reason(graph, node, users, across)

    return in_sets(graph.needed(wanted), apart)


def in_sets(
    nodes: Sequence[Node],
    apart: Callable[[Node, Sequence[Node], Sequence[list[Node]]], str],
) -> tuple[list[list[Node]], dict[str, str]]:
    """Nodes, each done with those that read it wherever it can be, in sets, in order.

    `apart` says why a node must not be in one set with its users, which are in the sets that it
    is given; it gives nothing where the node can.  Of those that are apart the reason is told.
    """
    whole: dict[str, str] = {}
    stored: list[Node] = []
    sets: list[list[Node]] = []
    for position in reversed(range(len(nodes))):
        node = nodes[position]
        users = [user for user in nodes[position + 1 :] if reads(user, node)]
        homes = [one for one in sets if any(user in one for user in users)]
        joined = sorted([node, *(one for home in homes for one in home)], key=nodes.index)
        reason = apart(node, users, homes) if users else ""
        if not reason and len(homes) > 1 and not _joinable(joined, nodes, stored):
            reason = "what reads it cannot be done in one pass"
        if reason:
            whole[node.label] = reason
            stored.append(node)
            sets.append([node])
        else:
            sets = [*(one for one in sets if one not in homes), joined]
    return _in_order(sets), whole


def _joinable(some: Sequence[Node], nodes: Sequence[Node], stored: Sequence[Node]) -> bool:
    """Whether some nodes can be done together.

    No way from one of them to another may leave them, nor lead through what is stored whole.
    """
    if any(reads(user, node) for node in some if node in stored for user in some):
        return False
    inside = {id(node) for node in some}
    after = {value for node in some for value in node.outputs}
    for node in nodes:
        if id(node) in inside:
            continue
        if not after.isdisjoint(node.fields):
            after.update(node.outputs)
    outside = {v for n in nodes if id(n) not in inside for v in n.outputs} & after
    return all(outside.isdisjoint(node.fields) for node in some)


def _in_order(sets: list[list[Node]]) -> list[list[Node]]:
    """The sets in an order in which they can be done."""
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
            raise AssertionError("groups depend on each other")
    return done


def _reason(graph: Graph, node: Node, users: Sequence[Node], across: bool) -> str:
    """Why a node cannot be a stage of those that read it; empty if it can."""
    for one in (node, *users):
        if one.factors:
            return f"'{one.label}' gives more points than it is given"
        forms = lowered(graph, one)
        reason = forms if isinstance(forms, str) else unfit(forms.single)
        if reason:
            return reason if one is node else f"'{one.label}' reads it: {reason}"
        if one.call.boundary.conditions:
            words = "values at the border are laid beside what it reads"
            return words if one is node else f"'{one.label}' reads it: {words}"
        if one.resizes:
            return f"'{one.label}' gives fewer points than it is given"
        if one.ndim != node.ndim or one.along != node.along:
            return "it has other axes"
        if one.ndim > MOST_AXES:
            return TOO_MANY_AXES
        if _fastmath(graph, one) != _fastmath(graph, node):
            return "one of them is compiled with fastmath"
    if not across and not graph.stored.isdisjoint(node.outputs):
        return "the next step begins with it"
    if any(map(short, node.compiled.out_dtypes)):
        return "floats of 16 bits are rounded when they are stored"
    return ""


def rings_of(nodes: Sequence[Node]) -> tuple[bool, ...] | None:
    """Along which axes nodes look as along a ring; None if some do, and others do not."""
    found = []
    for axis in nodes[0].along:
        looking = [rules(node, axis) or () for node in nodes if any(look(node, axis))]
        kinds = {"wrap" in pair for pair in looking}
        if len(kinds) > 1:
            return None
        found.append(True in kinds)
    return tuple(found)


def lowered(graph: Graph, node: Node) -> Forms | str:
    """The forms of a node's compilation for being a part; or why it has none."""
    schedule = replace(node.call.definition.options.schedule, running=False, stages=(), tile=0)
    dtypes = [graph.dtypes[k] for k in node.own]
    compiled = node.call.compiled(dtypes, schedule)
    part = compiled.as_part
    return f"it holds {part}" if isinstance(part, str) else part


def _fastmath(graph: Graph, node: Node) -> bool:
    forms = lowered(graph, node)
    return not isinstance(forms, str) and forms.request.fastmath


def _tallest(nodes: Sequence[Node]) -> Node:
    read = [node for node in nodes if _height(node, nodes)]
    return max(read, key=lambda node: _height(node, nodes))


def _height(node: Node, nodes: Sequence[Node]) -> int:
    """How many rows of what a node makes are read at a point."""
    reaches = [user.compiled.reach for user in nodes if reads(user, node)]
    return max((one.hi[0] - one.lo[0] + 1 for one in reaches), default=0)


_compiled_groups: Remembered[Any, tuple[Kernel, Compiled, Edges, tuple[Forms, ...]]] = Remembered(
    256
)


def _compiled(
    graph: Graph, nodes: Sequence[Node], wanted: Sequence[int], schedule: Schedule
) -> Group:
    made = {value for node in nodes for value in node.outputs}
    fields: dict[int, None] = {}
    for node in nodes:
        fields |= dict.fromkeys(value for value in node.fields if value not in made)
    outside = set(wanted) | {
        value for node in graph.nodes if node not in nodes for value in node.fields
    }
    outputs = tuple(v for node in nodes for v in node.outputs if v in outside)
    if len(nodes) == 1:
        return Group(tuple(nodes), tuple(fields), nodes[0].outputs)
    known = [lowered(graph, node) for node in nodes]
    forms = tuple(one for one in known if isinstance(one, Forms))
    assert len(forms) == len(nodes), known
    flat = nodes[0].ndim < 3
    kernels = [
        # In place only where rows roll, for else they would be made one by one.
        replace(one.lowered, rows=1)
        if flat and one.lowered.rows > 1 and not one.lowered.stages
        else one.single
        for one in forms
    ]
    names, parts = named_parts(graph, nodes, kernels, tuple(fields))
    links, borders = linked(nodes, parts)
    key = (
        tuple(map(id, forms)),
        tuple(tuple(part.sources.values()) for part in parts),
        tuple(part.made for part in parts),
        tuple(names[v] for v in outputs),
        *link_keys(links),
        schedule,
    )
    called = {one.label: names[one.outputs[0]] for one in nodes}
    hows = tuple((called.get(label, label), how) for label, how in schedule.stages)
    rings = rings_of(nodes)
    assert rings is not None, nodes
    whole = Pipeline(
        nodes[-1].label,
        tuple(links),
        tuple(borders),
        tuple((names[v], graph.dtypes[v]) for v in fields),
        tuple(names[v] for v in outputs),
        common_margin(nodes, forms, outputs),
        rings,
        Request(fastmath=forms[0].request.fastmath, schedule=replace(schedule, stages=hows)),
    )
    found = _compiled_groups.get(key)
    if found is None:
        # The forms are kept as well, so that nothing else gets their identity.
        found = _compiled_groups[key] = (*whole.compiled(), forms)
    kernel, compiled, edges, _ = found
    chain = whole.chain(compiled, edges)
    chosen = {name for name, how in schedule.stages if how != "whole"}
    asked = any(node.label in chosen for node in nodes)
    bounds = [one.compiled.bind(n.call.scalars) for n, one in zip(nodes, forms, strict=True)]
    program = Bound(
        chain.compiled,
        tuple(array for bound in bounds for array in bound.coefficients),
        tuple(value for bound in bounds for value in bound.scalars),
    )
    return Group(
        tuple(nodes), tuple(fields), outputs, kernel, chain.compiled, names, asked, program, (),
        chain,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Calls that are done at once: links, what they read and give, and where all of them look."""

    name: str
    links: tuple[Link, ...]
    borders: tuple[tuple[Border, Any], ...]
    fields: tuple[tuple[str, np.dtype], ...]
    outputs: tuple[str, ...]
    margin: Box
    rings: tuple[bool, ...]
    request: Request

    def compiled(self) -> tuple[Kernel, Compiled, Edges]:
        """The kernel of all calls, what it is compiled to, and the ends of its arrays."""
        return compile_chain(
            self.name, self.links, self.fields, self.outputs, 0, self.margin, self.request,
            self.borders[0][0].deciding,
        )  # fmt: skip

    def chain(self, compiled: Compiled, edges: Edges) -> Chain:
        """What is compiled, with the borders and their constants, which no text depends on."""
        tile = self.request.schedule.tile
        return Chain(compiled, edges, self.borders, self.rings, tile=tile, laid=self.laid)

    def laid(self, layout: Layout) -> Chain | None:
        """The same for arrays that lie in another layout, if all calls have such a form."""
        links = []
        for link in self.links:
            kernel = layout.turn.kernel(link.part.kernel)
            if kernel is None:
                return None
            part = replace(link.part, kernel=kernel)
            links.append(
                replace(link, part=part, reaches=tuple(map(layout.turn.box, link.reaches)))
            )
        turned = replace(
            self,
            links=tuple(links),
            borders=tuple((layout.border(border), cval) for border, cval in self.borders),
            margin=layout.turn.box(self.margin),
            rings=layout.rings(self.rings),
        )
        return turned.chain(*turned.compiled()[1:])


def linked(
    nodes: Sequence[Node], parts: Sequence[Part]
) -> tuple[list[Link], list[tuple[Border, Any]]]:
    """The nodes as links of a chain, and their borders with the constants, each once."""
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
    return links, borders


def link_keys(links: Sequence[Link]) -> tuple[Any, ...]:
    """What a text depends on of links, besides their parts."""
    return tuple((one.border, one.keeps, one.leaves, one.unbounded) for one in links)


def _leaves(node: Node) -> bool:
    """Whether its border's rule leaves out points near the ends of an axis."""
    reach = node.compiled.reach
    sides = zip(node.border.rules, reach.lo, reach.hi, strict=True)
    return any((a in ABSENT and lo < 0) or (b in ABSENT and hi > 0) for (a, b), lo, hi in sides)


def named_parts(
    graph: Graph, nodes: Sequence[Node], kernels: Sequence[Kernel], fields: Sequence[int]
) -> tuple[dict[int, str], list[Part]]:
    """The nodes as parts of one kernel, and what the values are called in it."""
    taken: set[str] = set()
    names = {
        value: unlike(graph.names[value], taken)
        for value in (*fields, *(v for node in nodes for v in node.outputs))
    }
    parts: list[Part] = []
    for node, kernel in zip(nodes, kernels, strict=True):
        sources = {
            name: names[value] for (name, _), value in zip(kernel.fields, node.fields, strict=True)
        }
        own = [n for n, _ in kernel.scalars] + [n for n, _, _ in kernel.coefficients]
        renamed = {name: unlike(name, taken) for name in own}
        parts.append(Part(kernel, sources, tuple(names[v] for v in node.outputs), renamed))
    return names, parts


def common_margin(nodes: Sequence[Node], forms: Sequence[Forms], outputs: Sequence[int]) -> Box:
    """Where the nodes look, all together, to give one point of the outputs.

    Each counts as if it looked at the point itself too: at a border a neighbour to the one side
    may stand on the other, and from there the next node looks on.
    """
    here = Box((0,) * nodes[0].ndim, (0,) * nodes[0].ndim)
    need = dict.fromkeys(outputs, here)
    margin = here
    for node, one in zip(reversed(nodes), reversed(forms), strict=True):
        boxes = [need[value] for value in node.outputs if value in need]
        if not boxes:
            continue
        reach, box = node.compiled.reach | here, joined(boxes)
        wanted = Box(
            tuple(map(operator.add, box.lo, reach.lo)), tuple(map(operator.add, box.hi, reach.hi))
        )
        margin = margin | wanted
        read = {f for a in one.simplified.body for f, _, _ in extents(a.value)}
        for (name, _), value in zip(one.simplified.fields, node.fields, strict=True):
            if name in read:
                need[value] = need[value] | wanted if value in need else wanted
    return margin


# In words.


def graph_text(graph: Graph, nodes: Sequence[Node]) -> str:
    """The intermediate forms of nodes, each under what it is called."""
    texts: list[str] = []
    for node in nodes:
        texts.append(f"{_call_text(graph, node)}:")
        forms = lowered(graph, node)
        text = forms if isinstance(forms, str) else kernel_text(forms.simplified)
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
