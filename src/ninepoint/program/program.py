"""Programs: a graph of calls and what is wanted of it, to be run on whole arrays or on blocks.

    graph on arrays that are cut     ->     programs, each of which is one task a chunk
    program, arrays in memory        ->     what does it on arrays of their kind

A program pickles as its calls.  How it is done is planned where it is done, once in a process:

    ix, iy, corners     ->     group: corners, with ix and iy as stages     one pass over memory
    8 steps             ->     as one, with the borders' rules between      one pass over memory

A node is a stage of those that read it wherever they can read stages; else what it makes is
stored whole, and the plan says why.  A group of one node is an ordinary call.  Groups that are
steps of an iteration become one as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np

from ..arrays.accepted import (
    Arrays,
    DTypes,
    are_apart,
    as_field,
    behind,
    check_dtype,
    checked_out,
    is_chunked,
    is_cupy,
    is_device,
    is_xarray,
    listed,
    native,
    too_few_axes,
    write,
)
from ..arrays.chains import KEPT, MOST_AXES, NARROW, Chain, usual_length
from ..arrays.executable import NOTHING, Given
from ..arrays.keys import array_key, array_kind
from ..arrays.launching import Group, Launches
from ..arrays.layout import ABSENT, Array, Axes, Border, Shape
from ..arrays.regions import Block, Looking, check_device, rings
from ..base.remembered import Remembered, cached_property
from ..language.dtypes import short
from ..language.ir import Box, Position
from ..lowering.chain import Link, unchainable
from ..lowering.schedule import Request, Schedule
from ..lowering.sharing import unlike
from .definition import Call
from .graph import Graph, Made, Node, Nodes, Values, pipeline, read_by

# Where nothing is to be made current.
_HERE = nullcontext()


@dataclass(frozen=True, eq=False)
class Program:
    """What is wanted of a graph, and the choices with which it is planned.

    `token` names the meaning, for the processes that receive it; a program that stays where it
    is needs none.
    """

    graph: Graph
    wanted: Made
    schedule: Schedule
    token: str = ""

    @staticmethod
    def of_calls(
        graph: Graph, nodes: Nodes, wanted: Values, schedule: Schedule
    ) -> tuple[Program, Sequence[int]]:
        """Some calls of a graph as a program of their own, and which values that is given."""
        # Equal calls are one, so that a task that has many of them is short.
        calls: dict[str, Call] = {}
        nodes = [
            replace(node, call=calls.setdefault(call.token, call))
            for node in nodes
            for call in [node.call.settled()]
        ]
        sources = read_by(nodes)
        part = Graph([graph.names[v] for v in sources], [graph.dtypes[v] for v in sources])
        numbers = part.append(graph, {value: k for k, value in enumerate(sources)}, nodes)
        own = tuple(numbers[value] for value in wanted)
        return _restored(part, own, schedule, part.token), sources

    def __reduce__(self) -> Any:
        return _restored, (self.graph, self.wanted, self.schedule, self.token)

    @cached_property
    def nodes(self) -> list[Node]:
        """The calls that are needed."""
        return self.graph.needed(self.wanted)

    @cached_property
    def calls(self) -> Remembered[Bound]:
        """What does it on arrays of some kinds, where it is one call."""
        return Remembered(16)

    @property
    def last(self) -> Node:
        """The last of all calls."""
        return self.graph.nodes[-1]

    @property
    def field_dtypes(self) -> list[np.dtype]:
        """The types of the arrays that it is given."""
        return self.graph.dtypes[: self.graph.given]

    def results(self, fields: Arrays) -> list[tuple[Shape, np.dtype]]:
        """The shapes and the types of the wanted values, for arrays that it may be given."""
        shapes = self.graph.shapes(field.shape for field in fields)
        return [(shapes[value], self.graph.dtypes[value]) for value in self.wanted]

    @property
    def name(self) -> str:
        """What its last call is called, and how many there are: blur+2 after two, blur*20."""
        names = [node.call.definition.name.strip("<>") for node in self.nodes]
        last, before = names[-1], len(names) - 1
        steps = names.count(last)
        if steps > 1 and not len(names) % steps:
            return f"{last}*{steps}"
        return f"{last}+{before}" if before else last

    @property
    def held(self) -> int:
        """Bytes of the arrays of coefficients that its calls are given."""
        values = {id(one): one for node in self.nodes for one in node.call.scalars.values()}
        return sum(one.nbytes for one in values.values() if isinstance(one, np.ndarray))

    def run(
        self,
        block: Block,
        outs: Mapping[int, Array] | None = None,
        threads: int | None = None,
        given: Given = NOTHING,
    ) -> list[Array]:
        """Compute the wanted values from a block; see `Launches`."""
        launches = self.bound(block, outs, threads)
        with beside(block.arrays):
            return launches(block.arrays, given._replace(on=block.on), outs)

    def bound(
        self,
        block: Block,
        outs: Mapping[int, Array] | None = None,
        threads: int | None = None,
    ) -> Launches:
        """What does blocks like this one, from memory if there was one before."""
        outs, there = outs or {}, any(map(is_cupy, block.arrays))
        if there:
            check_device(self.nodes)
        planned = plan(self, there)
        key = (
            tuple([array_kind(one) for one in (*block.arrays, *outs.values())]),
            tuple(outs), block.domain, threads,
        )  # fmt: skip
        return planned.launches.made(
            key, lambda: Launches(planned.groups, self.wanted, block, threads)
        )


# What does a program: arrays, what is given besides, out -> the wanted values.
Bound: TypeAlias = Callable[..., Arrays]


def bound(program: Program, arrays: Arrays, out: Any = None, threads: int | None = None) -> Bound:
    """What does a program on arrays in memory of the shapes, strides and types of these.

    Raises
    ------
    TypeError, ValueError
        If the arrays do not go together, or the results cannot be written to what is given for
        them.
    """
    graph, node, there = program.graph, program.last, any(map(is_cupy, arrays))
    # Points are put in, or left out, afterwards.
    after = node.factors or (node.thins and not node.compiled.every)
    several = len(graph.nodes) > 1 or node.outputs != program.wanted or after or there
    kinds = [array_key(one) for one in (*arrays, *listed(out))]
    key = None if several or None in kinds else (threads, *kinds)
    found = program.calls.get(key)
    if found is not None:
        return found
    # Raises, and says what is too small, where the arrays do not go together.
    made = program.results(arrays)
    outs = targets(out, made, arrays)
    if several:
        return _several(program, made, there, threads)
    group = Group((node,), node.fields, node.outputs)
    launches = Launches([group], program.wanted, Block(tuple(arrays)), threads)
    targeted = dict(zip(node.outputs, outs, strict=False))
    step = launches.bind(node, dict(enumerate(arrays)), targeted)
    if step.fields == tuple((k, ()) for k in range(graph.given)):
        step = replace(step, fields=())
    if key is not None:
        program.calls[key] = step.on
    return step.on


def _several(
    program: Program, made: Sequence[tuple[Shape, np.dtype]], there: bool, threads: int | None
) -> Bound:
    """What does several calls on arrays of NumPy, or any on arrays of a GPU; what is made so."""
    # Where results are those that are given, and where they are not.
    known: Remembered[Launches] = Remembered(2)

    def run(fields: Arrays, given: Given = NOTHING, out: Any = None) -> Arrays:
        # Arrays like those that it was bound to fit, but may lie over the fields.
        results = listed(out)
        apart: Callable[..., bool] = are_apart
        if there and results:
            # Imported here: CuPy is optional, and the caller has it.
            from ..arrays import cuda

            results, apart = targets(out, made, fields), cuda.are_apart
        stays = apart(results, fields)
        outs = dict(zip(program.wanted, results, strict=False)) if stays else {}
        launches = known.made(stays, lambda: program.bound(Block(tuple(fields)), outs, threads))
        # No context is made for the CPU: that took a sixth of a call of a small pipeline.
        with beside(fields) if there else _HERE:
            found = launches(fields, given, outs)
        for target, one in zip(results, found, strict=False):
            if target is not one:
                write(target, one)
        return listed(out) or found

    return run


def targets(out: Any, made: Iterable[tuple[Shape, np.dtype]], fields: Arrays) -> list[Any]:
    """The arrays of `out`, for results of these shapes and types, where the fields lie."""
    if out is None:
        return []
    shapes, dtypes = zip(*made, strict=True)
    if not any(map(is_cupy, fields)):
        return checked_out(out, shapes, dtypes)
    # Imported here: CuPy is optional, and the caller has it.
    from ..arrays import cuda

    with cuda.beside(fields) as device:
        return cuda.checked_out(out, shapes, dtypes, device)


# Arrays that go together in a graph.


def typed(names: Sequence[str], fields: Arrays) -> tuple[list[Any], list[np.dtype]]:
    """The fields of a call as arrays that a stencil takes, and their types."""
    fields = as_fields(fields, names)
    return fields, types_of(names, fields)


def types_of(names: Sequence[str], fields: Arrays) -> list[np.dtype]:
    """The types of the fields of a call, which must be those of numbers."""
    types = [native(np.dtype(field.dtype)) for field in fields]
    for dtype, name in zip(types, names, strict=True):
        check_dtype(dtype, name)
    return types


def as_fields(values: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Give arrays of kinds that a stencil takes, all of which can be together in a call."""
    others = [is_chunked(value) or is_xarray(value) for value in values]
    if any(map(is_device, values)) and not any(others):
        # Imported here: CuPy is optional, and the caller has it, or what CuPy can look at.
        from ..arrays import cuda

        return cuda.as_fields(values, names)
    return [
        value if other or is_device(value) else as_field(value, name)
        for value, name, other in zip(values, names, others, strict=True)
    ]


def beside(arrays: Arrays) -> AbstractContextManager[Any]:
    """Make the GPU on which arrays lie the current one for a while, if they lie on one."""
    if not any(map(is_cupy, arrays)):
        return _HERE
    # Imported here: CuPy is optional, and the caller has it.
    from ..arrays import cuda

    return cuda.beside(arrays)


def _restored(graph: Graph, wanted: Made, schedule: Schedule, token: str) -> Program:
    """The program that means this: one that has a token is planned once, for all tasks."""
    program = Program(graph, wanted, schedule, token)
    return _known.made((token, wanted, schedule), lambda: program) if token else program


# The programs that came last, by their tokens and what is wanted of them.
_known: Remembered[Program] = Remembered(64)


def program_of(
    call: Call, types: DTypes, axes: Sequence[int] | None = None, arrays: Arrays = ()
) -> Program:
    """The program of a call on fields of given types.

    It works along the last axes, or these of arrays in the place of the fields.
    """

    def record(core: Axes | None = None) -> Program:
        graph = Graph(call.fields, types)
        wanted = graph.record(call, range(len(types)), (), core)
        return Program(graph, wanted, call.definition.schedule_for(types))

    key = *types, call.key
    program = recalled(call, key, record)
    if axes is None:
        return program
    ndim, shape = program.last.ndim, max((array.shape for array in arrays), key=len)
    if len(shape) < ndim:
        raise too_few_axes(ndim, shape)
    core = behind(axes, len(shape), ndim)
    return recalled(call, (*key, core), lambda: record(core))


def recalled(call: Call, key: Any, record: Callable[[], Program]) -> Program:
    """What is recorded of a call: once for each key where it is given numbers only, else anew."""
    if not call.is_plain:
        return record()
    found: Program = call.definition.programs.made(key, record)
    return found


# Plans: which nodes are done together.

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

    def parted(node: Node, users: Nodes, joined: Nodes) -> str:
        if (node.label, "whole") in schedule.stages:
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
    read, taken = read_by(nodes), set[str]()
    names = {
        value: unlike(graph.names[value], taken)
        for value in (*read, *(v for node in nodes for v in node.outputs))
    }
    # Equal positions are one field, for nodes that are done together have the same axes.
    asked = [one for node in nodes for one in node.compiled.placed]
    placed = {one: (unlike(one.words, taken), dtype) for one, dtype in dict.fromkeys(asked)}
    links, borders = _linked(nodes, names, placed, taken)
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
        (*((names[value], graph.dtypes[value]) for value in read), *placed.values()),
        tuple(names[value] for value in outputs),
        common_margin(nodes, outputs),
        Request(fastmath=nodes[0].compiled.fastmath, schedule=own),
    )
    chain = Chain(compiled, edges, tuple(borders), rings_of(nodes) or (), own.tile)
    return Group(tuple(nodes), read, outputs, kernel, names, chain=chain)


# Steps of an iteration.


def _in_steps(program: Program, groups: Sequence[Group]) -> list[Group]:
    """Groups of which those that are steps are done in one pass, if they can be.

    Steps are groups that end with what the graph says is stored.
    """
    found, left, schedule = list[Group](), list(groups), program.schedule
    while left:
        made = left[0]
        steps = list(takewhile(lambda one: program.graph.stored.issuperset(one.outputs), left))
        nodes = [node for step in steps for node in step.nodes]
        if len(steps) > 1 and not unfit(nodes, steps[-1].outputs, schedule):
            longest = schedule.steps or usual_length(common_margin(made.nodes, made.outputs))
            # Passes of about the same length, so that none is left with a single step.
            passes = -(-len(steps) // longest)
            steps = steps[: -(-len(steps) // passes)]
            made = _group(program, [node for step in steps for node in step.nodes])
            made = replace(made, steps=tuple(steps), asked=schedule.steps > 1)
        found.append(made)
        left = left[len(made.steps) or 1 :]
    return found


# Calls as one kernel, or several steps, each of which is the graph.


def unfit(nodes: Nodes, wanted: Values, schedule: Schedule) -> str:
    """Why steps of these calls cannot be done several in one pass; empty where they can."""
    last = nodes[-1]
    if last.outputs != tuple(wanted):
        return "the results are not those of the last call"
    for node in nodes:
        reason = apart(node, last, node.compiled.out_dtypes)
        if not reason and node.label != last.label and (node.label, "whole") in schedule.stages:
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
    nodes: Nodes,
    names: Mapping[int, str],
    placed: Mapping[Position, tuple[str, np.dtype]],
    taken: set[str],
) -> tuple[list[Link], list[tuple[Border, Any]]]:
    """The nodes as links of a chain, and their borders with the constants, each once.

    Values are called as `names` says, positions as `placed` says, and what nodes have besides as
    nothing that is `taken`.
    """
    borders: dict[Any, tuple[Border, Any]] = {}
    links: list[Link] = []
    for node in nodes:
        kernel, border, cval = node.compiled.as_part.single, node.border, node.cval
        kind = border, type(cval), repr(cval)
        borders.setdefault(kind, (border, cval))
        zero = type(cval) in (int, float) and cval == 0
        asked = border.uses("fill") or border.uses("constant")
        # Whether the rule leaves out points near the ends of an axis.
        ends = zip(border.rules, node.compiled.reach.sides, strict=True)
        leaves = any(r in ABSENT and far for axis in ends for r, far in zip(*axis, strict=True))
        positions = (placed[one][0] for one in node.compiled.positions)
        sources = *(names[value] for value in node.fields), *positions
        links.append(
            Link(
                kernel,
                {name: s for (name, _), s in zip(kernel.fields, sources, strict=True)},
                tuple(names[value] for value in node.outputs),
                {
                    name: unlike(name, taken)
                    for name, *_ in (*kernel.scalars, *kernel.coefficients)
                },
                node.compiled.out_dtypes,
                node.compiled.reaches,
                list(borders).index(kind),
                border.uses("keep"),
                leaves,
                border.uses("keep") or (asked and not zero),
            )
        )
    return links, list(borders.values())


def common_margin(nodes: Nodes, outputs: Values) -> Box:
    """Where the nodes look, all together, to give one point of the outputs.

    Each counts as if it looked at the point itself too: at a border a neighbour to the one side
    may stand on the other, and from there the next node looks on.
    """
    count, wanted = 1 + max(nodes[-1].outputs), tuple(outputs)
    looks = [Looking(nodes, wanted, count, axis) for axis in nodes[0].along]
    return Box(tuple(one.low for one in looks), tuple(one.high for one in looks))
