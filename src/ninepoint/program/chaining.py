"""Chains: calls of a graph as one kernel, or several steps, each of which is the graph.

ix, iy, corners     ->     corners, with ix and iy as stages          one pass over memory
8 steps             ->     as one, with the borders' rules between    one pass over memory
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..analysis.footprint import extents
from ..arrays.borders import ABSENT, Border
from ..arrays.chains import MOST_AXES, Chain, How, turn_of
from ..arrays.regions import rings
from ..backends.compiled import Bound, Compiled
from ..base.remembered import Remembered
from ..base.undisturbed import Later
from ..language.box import Box, joined
from ..language.ir import Kernel
from ..lowering.chain import Edges, Link, unchainable
from ..lowering.fusion import unlike
from ..lowering.schedule import Request, Schedule
from .graph import Graph, Node, Nodes, Values, read_by

if TYPE_CHECKING:
    from ..backends import pipeline
    from ..backends.compiled import Forms
else:
    # Single calls whose machine code is on disk need no compiler.
    pipeline = Later("..backends.pipeline", __package__)

T = TypeVar("T")

# Why calls are done one by one.
MIXED_RINGS = "of the calls that look along an axis some take it for a ring"
TOO_MANY_AXES = f"of more than {MOST_AXES} axes no rows are kept beyond the ends"

# What was made of pipelines, by what it depends on.  The forms are kept as well, so that nothing
# else gets their identity.
_made: Remembered[Any, tuple[Any, tuple[Forms, ...]]] = Remembered(256)


def unfit(nodes: Nodes, wanted: Values, schedule: Schedule) -> str:
    """Why steps of these calls cannot be done several in one pass; empty where they can."""
    last = nodes[-1]
    whole = {name for name, how in schedule.stages if how == "whole"}
    if last.outputs != tuple(wanted):
        return "the results are not those of the last call"
    for node in nodes:
        reason = apart(node, node.compiled.as_part, last, node.compiled.out_dtypes)
        if not reason and node.along != tuple(range(-last.ndim, 0)):
            reason = "it has other axes"
        if not reason and node.label != last.label and node.label in whole:
            reason = "it is stored whole: the schedule says so"
        if reason:
            return f"'{node.label}': {reason}" if len(nodes) > 1 else reason
    if rings_of(nodes) is None:
        return MIXED_RINGS
    return ""


def apart(node: Node, forms: Forms | str, other: Node, stored: Sequence[np.dtype] = ()) -> str:
    """Why a call cannot be done in one pass with another one; empty where it can.

    Types of its results are `stored` that are kept for a call.
    """
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
        return TOO_MANY_AXES
    if node.ndim != other.ndim or node.along != other.along:
        return "it has other axes"
    if node.compiled.fastmath != other.compiled.fastmath:
        return "some calls are compiled with fastmath, and some are not"
    return ""


def rings_of(nodes: Nodes) -> tuple[bool, ...] | None:
    """Along which axes nodes look as along a ring; None if some do, and others do not."""
    found = []
    for axis in nodes[0].along:
        kinds = rings(nodes, axis)
        if len(kinds) > 1:
            return None
        found.append(True in kinds)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Calls that are done at once.

    They are links, whose values are called as `names` says, and given the values `read`; the
    `margin` is where all of them look, and along `rings` they look as along a ring, if they agree.
    """

    name: str
    names: Mapping[int, str]
    forms: tuple[Forms, ...]
    links: tuple[Link, ...]
    borders: tuple[tuple[Border, Any], ...]
    read: tuple[int, ...]
    fields: tuple[tuple[str, np.dtype], ...]
    outputs: tuple[str, ...]
    margin: Box
    rings: tuple[bool, ...] | None
    request: Request

    @staticmethod
    def of(
        graph: Graph, nodes: Nodes, forms: tuple[Any, ...], outputs: Values, schedule: Schedule
    ) -> Pipeline:
        """Calls of a graph, of which others need the outputs; some may end steps."""
        ends = [v for node in nodes[:-1] for v in node.outputs if v in graph.stored]
        positions = range(graph.given - len(graph.places), graph.given)
        read = tuple(sorted(read_by(nodes), key=lambda value: value in positions))
        taken: set[str] = set()
        names = {
            value: unlike(graph.names[value], taken)
            for value in (*read, *(v for node in nodes for v in node.outputs))
        }
        links, borders = _linked(nodes, [one.single for one in forms], names, taken)
        called = {node.label: names[node.outputs[0]] for node in nodes}
        stages = [(called.get(label, label), how) for label, how in schedule.stages]
        # To compute a step again, or some rows of it at once, takes longer to compile than it
        # gains.
        stages += [(names[value], "rows") for value in ends]
        schedule = replace(schedule, stages=tuple(stages), rows=1 if ends else schedule.rows)
        return Pipeline(
            nodes[-1].label,
            names,
            forms,
            tuple(links),
            tuple(borders),
            read,
            tuple((names[value], graph.dtypes[value]) for value in read),
            tuple(names[value] for value in outputs),
            common_margin(nodes, outputs),
            rings_of(nodes),
            Request(fastmath=forms[0].request.fastmath, schedule=schedule),
        )

    def once(self, more: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What is made of it, and depends on `more`, from memory if there was one like it."""
        links = tuple(
            (tuple(one.sources.values()), one.made, one.border, one.keeps, one.leaves,
             one.unbounded)
            for one in self.links
        )  # fmt: skip
        forms = tuple(map(id, self.forms))
        key = forms, links, self.fields, self.outputs, self.request.schedule, more
        if key not in _made:
            _made[key] = make(), self.forms
        found: T = _made[key][0]
        return found

    def in_place(self) -> Pipeline:
        """The same calls, of which some make several rows in place, where their rows roll.

        Others would be made one by one.
        """
        links = []
        for link, one in zip(self.links, self.forms, strict=True):
            if one.lowered.ndim < 3 and one.lowered.rows > 1 and not one.lowered.stages:
                link = replace(link, kernel=replace(one.lowered, rows=1))
            links.append(link)
        return replace(self, links=tuple(links))

    def done(self) -> tuple[Kernel, Chain]:
        """The kernel of all calls, and what does it."""
        kernel, made, edges = self.once((), self.compiled)
        return kernel, self.chain(made, edges)

    def compiled(self) -> tuple[Kernel, Compiled, Edges]:
        """The kernel of all calls, what it is compiled to, and the ends of its arrays."""
        return pipeline.compile_chain(
            self.name, self.links, self.fields, self.outputs, self.margin,
            self.request, self.borders[0][0].deciding,
        )  # fmt: skip

    def chain(self, compiled: Compiled, edges: Edges) -> Chain:
        """What is compiled, with the borders and their constants, which no text depends on."""
        assert self.rings is not None, self.names
        tile = self.request.schedule.tile
        return Chain(compiled, edges, self.borders, self.rings, tile, self.laid)

    def laid(self, how: How) -> Chain | None:
        """The same for arrays that lie in another way, if all calls have such a form."""
        turn, rings, links = turn_of(how), self.rings, []
        if rings is not None and isinstance(how, tuple):
            rings = tuple(rings[axis] for axis in how)
        elif rings is not None and how == 0:
            rings = (*rings, False)
        for link in self.links:
            kernel = turn.kernel(link.kernel)
            if kernel is None:
                return None
            links.append(replace(link, kernel=kernel, reaches=tuple(map(turn.box, link.reaches))))
        turned = replace(
            self,
            links=tuple(links),
            borders=tuple((border.turned(how), cval) for border, cval in self.borders),
            margin=turn.box(self.margin),
            rings=rings,
        )
        return turned.chain(*turned.compiled()[1:])


def bound(whole: Compiled, nodes: Nodes) -> Bound:
    """What calls are compiled to, all in one, with the numbers of all of them."""
    bounds = [node.program for node in nodes]
    return Bound(
        whole,
        tuple(array for one in bounds for array in one.coefficients),
        tuple(value for one in bounds for value in one.scalars),
    )


def _linked(
    nodes: Nodes, kernels: Sequence[Kernel], names: Mapping[int, str], taken: set[str]
) -> tuple[list[Link], list[tuple[Border, Any]]]:
    """The nodes as links of a chain, and their borders with the constants, each once.

    Values are called as `names` says, and what nodes have besides as nothing that is `taken`.
    """
    borders: list[tuple[Border, Any]] = []
    numbers: dict[Any, int] = {}
    links: list[Link] = []
    for node, kernel in zip(nodes, kernels, strict=True):
        border, cval = node.border, node.call.cval
        number = numbers.setdefault((border, type(cval), repr(cval)), len(borders))
        if number == len(borders):
            borders.append((border, cval))
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
                number,
                border.uses("keep"),
                _leaves(node),
                border.uses("keep") or (asked and not zero),
            )
        )
    return links, borders


def _leaves(node: Node) -> bool:
    """Whether its border's rule leaves out points near the ends of an axis."""
    reach = node.compiled.reach
    sides = zip(node.border.rules, reach.lo, reach.hi, strict=True)
    return any((a in ABSENT and lo < 0) or (b in ABSENT and hi > 0) for (a, b), lo, hi in sides)


def common_margin(nodes: Nodes, outputs: Values) -> Box:
    """Where the nodes look, all together, to give one point of the outputs.

    Each counts as if it looked at the point itself too: at a border a neighbour to the one side
    may stand on the other, and from there the next node looks on.
    """
    here = Box((0,) * nodes[0].ndim, (0,) * nodes[0].ndim)
    need = dict.fromkeys(outputs, here)
    margin = here
    for node in reversed(nodes):
        boxes = [need[value] for value in node.outputs if value in need]
        if not boxes:
            continue
        reach, box = node.compiled.reach | here, joined(boxes)
        wanted = Box(
            tuple(map(operator.add, box.lo, reach.lo)), tuple(map(operator.add, box.hi, reach.hi))
        )
        margin = margin | wanted
        kernel = node.compiled.as_part.simplified
        read = {f for a in kernel.body for f, _, _ in extents(a.value)}
        for (name, _), value in zip(kernel.fields, node.fields, strict=True):
            if name in read:
                need[value] = need[value] | wanted if value in need else wanted
    return margin
