"""Graphs: calls of stencils on what other calls give.

    ix = sobel_x(x)             values   0: x   1: ix   2: iy   3: corners
    iy = sobel_y(x)      ->     nodes    sobel_x(0) -> 1   sobel_y(0) -> 2   corners(1, 2) -> 3
    corners(ix, iy)

A value is an array, or what a call gives; a node is a call, whose fields are values.  What
a graph gives is what its calls give one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..arrays.borders import Border, Boundary
from ..arrays.every import cut_shapes, finer, steps_of, thinned_length
from ..arrays.executable import Executable
from ..arrays.layout import Shape, layout
from ..arrays.numpy import Behind, broadcast_shape, check_range, last_of, too_few_axes
from ..arrays.regions import Finer, finer_values
from ..backends.compiled import Bound, Compiled
from ..base.remembered import digest
from ..base.undisturbed import Later
from ..language import errors
from ..language.box import Box
from .calls import Call
from .definition import Definition

if TYPE_CHECKING:
    from ..backends import pipeline
    from ..backends.compiled import Forms
    from ..backends.cuda.source import Source
    from ..language.ir import Lines, Position
else:
    pipeline = Later("..backends.pipeline", __package__)

# Values of a graph, by number.
Values: TypeAlias = Sequence[int]


@dataclass(frozen=True, slots=True)
class Place:
    """What a value is that no call makes and nobody gives: positions, which a node reads.

    `node` is its number.  Beside the value the node reads at least one other.
    """

    node: int
    position: Position


@dataclass(frozen=True, eq=False)
class Node:
    """One call: its fields and its results are values, by number.

    `types` are those of the fields that the call is given; after these come positions.  `axes` are
    those that the call names, counted from the end, or None where it names none.  It pickles as
    the call, which is compiled once somebody asks for it.
    """

    label: str
    call: Call
    fields: tuple[int, ...]
    outputs: tuple[int, ...]
    types: tuple[np.dtype, ...]
    axes: Behind | None = None

    def __reduce__(self) -> Any:
        return Node, (self.label, self.call, self.fields, self.outputs, self.types, self.axes)

    @cached_property
    def compiled(self) -> Compiled:
        """What the call is compiled to."""
        return self.call.compiled(self.types)

    @cached_property
    def part(self) -> Forms | str:
        """The forms of its compilation for being a part of a kernel; or why it has none."""
        schedule = replace(self.call.definition.options.schedule, running=False, stages=(), tile=0)
        forms: Forms | str = self.call.compiled(self.types, schedule).as_part
        return forms

    def text(self, border: Border) -> Source:
        """What does it on a GPU, under a border."""
        # Imported here: what writes texts for a GPU is not needed elsewhere.
        from ..backends.cuda.writing import source_of

        return source_of(self.compiled, border.rules)

    @property
    def ndim(self) -> int:
        """How many core axes it has."""
        return self.compiled.ndim

    @property
    def along(self) -> Behind:
        """The axes that it works along."""
        return self.axes or tuple(range(-self.ndim, 0))

    @property
    def boundary(self) -> Boundary:
        """Its rules and conditions."""
        return self.call.boundary

    @property
    def border(self) -> Border:
        """Its border rules; names in the place of conditions, with which results are as large."""
        return self.call.boundary.on(self.ndim)

    @property
    def thick(self) -> int:
        """How many elements at an end what stands outside depends on, at least."""
        return 1 + max((one.order for one in self.boundary.conditions), default=0)

    @property
    def every(self) -> Shape:
        """Along each axis, of how many points one is made."""
        return steps_of(self.call.every, self.ndim)

    @property
    def thins(self) -> bool:
        """Whether some points are not made, because of `every`."""
        return max(self.every) > 1

    @property
    def resizes(self) -> bool:
        """Whether its results may have another shape than its fields."""
        return self.thins or bool(self.factors) or self.border.uses("valid")

    @property
    def full(self) -> Node:
        """The same call, which makes all points."""
        return replace(self, call=replace(self.call, every=1)) if self.thins else self

    @property
    def cval(self) -> Any:
        """The value of "fill" and "constant"."""
        return self.call.cval

    @property
    def reaches(self) -> tuple[Box, ...]:
        """Where each result looks."""
        return self.compiled.reaches[: len(self.outputs)]

    @property
    def out_dtypes(self) -> tuple[np.dtype, ...]:
        """The types of the results."""
        return self.compiled.out_dtypes[: len(self.outputs)]

    @property
    def factors(self) -> tuple[int, ...]:
        """By how much its results are longer than its fields; nothing if they are not."""
        return self.call.definition.factors

    @property
    def program(self) -> Bound:
        """What computes it, its scalars bound."""
        return self.compiled.bind(self.call.scalars)

    def turned(self, axes: Behind | None) -> Node:
        """The node, where it names no axes along the last of these."""
        if axes is not None:
            axes = last_of(axes, self.ndim, self.call.definition.name)
        return replace(self, axes=axes)


# Some calls, in an order in which they can be done.
Nodes: TypeAlias = Sequence[Node]


class Graph:
    """Calls in an order in which they can be done; equal calls are one."""

    def __init__(
        self,
        names: Sequence[str],
        dtypes: Sequence[np.dtype],
        places: tuple[Place, ...] = (),
    ) -> None:
        self.names = list(names)
        self.dtypes = list(dtypes)
        self.given = len(self.names)
        # What the last of the given values are, which are made for the arrays that come.
        self.places = places
        # The results of each call that was added; of equal calls they are the same.
        self.added: list[tuple[int, ...]] = []
        # Values that end a step: what follows does not become one kernel with what was before.
        self.stored: set[int] = set()
        # What was planned for it: see `planning.plan`.
        self.plans: dict[Any, Any] = {}
        self.nodes: list[Node] = []
        self._known: dict[Any, tuple[int, ...]] = {}
        self._turned: dict[Behind, Graph] = {}

    def __reduce__(self) -> Any:
        state = {"given": self.given, "nodes": self.nodes, "stored": self.stored}
        return Graph, (self.names, self.dtypes, self.places), state

    @property
    def token(self) -> str:
        """Names the meaning: equal tokens, equal values."""
        calls = {id(node.call): node.call for node in self.nodes}
        tokens = {key: call.token for key, call in calls.items()}
        nodes = [(tokens[id(n.call)], n.fields, n.outputs, n.axes) for n in self.nodes]
        return digest(([dtype.str for dtype in self.dtypes[: self.given]], nodes))

    def along(self, axes: Behind | None) -> Graph:
        """The graph, in which calls that name no axes work along the last of these."""
        if axes is None:
            return self
        if axes not in self._turned:
            self._turned[axes] = self.of(
                [n if n.axes is not None else n.turned(axes) for n in self.nodes]
            )
        return self._turned[axes]

    def of(self, nodes: Nodes) -> Graph:
        """The graph with other nodes in the place of its own."""
        graph = Graph(self.names, self.dtypes, self.places)
        graph.given, graph.nodes, graph.stored = self.given, list(nodes), set(self.stored)
        graph.added = self.added
        return graph

    def append(
        self, other: Graph, given: Mapping[int, int], nodes: Nodes | None = None
    ) -> dict[int, int]:
        """Add the calls of another graph, or some of them, on values that it is given.

        Gives the numbers of its values here, of those that it is given as well.
        """
        numbers = dict(given)
        for node in other.nodes if nodes is None else nodes:
            own = replace(node, fields=tuple([numbers[value] for value in node.fields]))
            names = [other.names[value] for value in node.outputs]
            made = self._add(own, names, [other.dtypes[value] for value in node.outputs])
            numbers |= zip(node.outputs, made, strict=True)
            if not other.stored.isdisjoint(node.outputs):
                self.stored.update(made)
        there = (one for one in other.added if numbers.keys() >= {*one})
        self.added += [tuple([numbers[value] for value in one]) for one in there]
        return numbers

    def part(self, nodes: Nodes) -> tuple[Graph, dict[int, int]]:
        """Some of the calls as a graph, and the numbers that the values have there."""
        sources = read_by(nodes)
        graph = Graph([self.names[v] for v in sources], [self.dtypes[v] for v in sources])
        # Equal calls are one, so that a task that has many of them is short.
        calls: dict[str, Call] = {}
        settled = [(node, node.call.settled()) for node in nodes]
        nodes = [replace(node, call=calls.setdefault(call.token, call)) for node, call in settled]
        return graph, graph.append(self, {value: k for k, value in enumerate(sources)}, nodes)

    def _add(
        self, node: Node, names: Sequence[str], dtypes: Sequence[np.dtype]
    ) -> tuple[int, ...]:
        """Add a node, if there is none like it; gives its results, which are called so."""
        key = node.call.key, node.fields, node.axes
        made = self._known.get(key)
        if made is None:
            first = len(self.names)
            made = self._known[key] = tuple(range(first, first + len(dtypes)))
            self.names += names
            self.dtypes += dtypes
            self.nodes.append(replace(node, outputs=made))
        return made

    def add(
        self,
        call: Call,
        fields: Values,
        labels: Sequence[str],
        axes: Behind | None = None,
    ) -> tuple[int, ...]:
        """Add a call; `labels` are what its results are called, as far as they have names.

        A call of fewer axes than `axes` names works on the last of them.
        """
        types = tuple(self.dtypes[k] for k in fields)
        compiled = call.compiled(types)
        for condition in call.boundary.said:
            for name, k in zip(call.definition.fields, fields, strict=False):
                check_range(condition, name, self.dtypes[k])
        # Raises where the steps are not as many as the axes.
        steps_of(call.every, compiled.ndim)
        whole = labels[0] if labels else call.definition.name
        node = Node(whole, call, tuple(fields), (), types).turned(axes)
        dtypes = compiled.out_dtypes[: len(compiled.out_dtypes) // compiled.phases]
        names = [labels[k] if k < len(labels) else whole for k in range(len(dtypes))]
        self.added.append(self._add(node, names, dtypes))
        return self.added[-1]

    def record(
        self,
        call: Call,
        fields: Values,
        labels: Sequence[str] = (),
        axes: Behind | None = None,
    ) -> tuple[int, ...]:
        """Add a call, after those that its definition makes; gives its results, by number."""
        definition, stages = call.definition, call.definition.stages
        if stages is None:
            return self.add(call, fields, labels, axes)
        numbers = dict(zip(definition.fields, fields, strict=True))
        inside = f"{labels[0]}." if labels else ""
        for one in stages.calls:
            callee = one.callee
            assert isinstance(callee, Definition)
            callee = callee.along(definition.rank)
            values = {**callee.defaults, **stages.values(one.scalars, call.scalars)}
            made = self.record(
                Call.of(callee, values, **stages.values(one.options, call.scalars)),
                [numbers[name] for name in one.fields],
                [inside + name for name in one.made],
                axes,
            )
            if len(made) != len(one.made):
                raise errors.stage_outputs(one.span, callee.name, len(made), len(one.made))
            numbers |= zip(one.made, made, strict=True)
        definition.check(call.scalars)
        rest = definition.rest(call.boundary.uses("keep"))
        scalars = {name: call.scalars[name] for name in rest.scalars}
        return self.add(
            replace(call, definition=rest, scalars=scalars),
            [numbers[name] for name in rest.fields],
            labels or [definition.name],
            axes,
        )

    def given_more(
        self, more: Iterable[tuple[Call, Sequence[tuple[str, np.dtype]]]]
    ) -> tuple[Graph, dict[int, int]]:
        """The graph with more given values, which nodes read after their fields.

        Of each node `more` says the call that it is then, and what the values are called, and
        their types.  Values have other numbers there.
        """
        graph = Graph(self.names[: self.given], self.dtypes[: self.given], self.places)
        numbers = {value: value for value in range(self.given)}
        nodes = []
        for node, (call, some) in zip(self.nodes, more, strict=True):
            # Numbers that no value has.
            own = [len(self.names) + len(graph.names) + k for k in range(len(some))]
            numbers |= {value: value - len(self.names) for value in own}
            graph.names += [name for name, _ in some]
            graph.dtypes += [dtype for _, dtype in some]
            nodes.append(replace(node, call=call, fields=(*node.fields, *own)))
        graph.given = len(graph.names)
        return graph, graph.append(self, numbers, nodes)

    def placed(self, wanted: Values) -> Recorded:
        """The graph with positions among what is given, after the fields, and what is wanted.

        Values have other numbers there.

        Raises
        ------
        ValueError
            If one call has border conditions, and some makes more points than its fields have.
        """
        if has_conditions(self) and any(node.factors for node in self.nodes):
            raise ValueError(
                "upsample= and border conditions (values, functions, slopes) cannot be in one "
                "call; call one stencil after the other."
            )
        places = [
            Place(k, one) for k, node in enumerate(self.nodes) for one in node.compiled.positions
        ]
        if not places:
            return self, tuple(wanted)
        more = []
        for node in self.nodes:
            types = node.compiled.field_dtypes[len(node.fields) :]
            words = [one.words for one in node.compiled.positions]
            more.append((node.call, list(zip(words, types, strict=True))))
        graph, numbers = self.given_more(more)
        graph.places = tuple(places)
        return graph, tuple(numbers[value] for value in wanted)

    def warn(self) -> None:
        """Say of each call once if it takes the general path."""
        for node in self.nodes:
            node.call.definition.warn(node.compiled)

    def positions(self, shapes: Iterable[Shape]) -> list[np.ndarray]:
        """What the last of the given values are, for fields of these shapes before them."""
        if not self.places:
            return []
        known = self.shapes(shapes)
        first = self.given - len(self.places)
        return [self._along(place, known[value]) for value, place in enumerate(self.places, first)]

    def _along(self, place: Place, shape: Shape) -> np.ndarray:
        """The positions along an axis, for the shape of their value."""
        node, one = self.nodes[place.node], place.position
        if one.lines is not None:
            made = [
                self._along(replace(place, position=replace(raw, axis=one.axis)), shape).ravel()
                for raw in one.lines.kernel.positions
            ]
            return lines(one.lines, made)[one.number].reshape(shape)
        along = np.arange(shape[node.along[one.axis]])
        if one.among == "results" and node.border.rules[one.axis][0] == "valid":
            looks = {max(0, -reach.lo[one.axis]) for reach in node.reaches}
            if len(looks) > 1:
                raise ValueError(
                    f"'{node.call.definition.name}' asks for its position among the results, but "
                    'with boundary="valid" its results have different shapes; ask for that in a '
                    "field, npt.index(x)."
                )
            along -= looks.pop()
        if one.among == "results":
            along //= node.every[one.axis]
        return along.reshape(shape)

    def shapes(self, given: Iterable[Shape]) -> list[Shape]:
        """The shape of every value, for arrays of these shapes; those of positions follow."""
        found = list(given)
        fields = self.given - len(self.places)
        if len(found) == fields:
            found += [()] * len(self.places)
        smaller: dict[int, Node] = {}
        fine = finer_values(self.nodes)
        for number, node in enumerate(self.nodes):
            own = cut_shapes([found[v] for v in node.fields], node.fields, fine)
            shape = list(self._broadcast(node, own, smaller, fine))
            for value, place in enumerate(self.places, fields):
                if place.node == number:
                    found[value] = _thin(shape, node.along[place.position.axis])
            if len(shape) < -min(node.along):
                raise too_few_axes(node.ndim, tuple(shape))
            core = tuple(shape[axis] for axis in node.along)
            for one in layout(core, node.reaches, node.border).out_shapes:
                made = finer(one, node.factors)
                for axis, length, step in zip(node.along, made, node.every, strict=True):
                    shape[axis] = thinned_length(length, step)
                found.append(tuple(shape))
            if node.resizes and not node.factors:
                smaller |= dict.fromkeys(node.outputs, node)
        return found

    def _broadcast(
        self,
        node: Node,
        shapes: Sequence[Shape],
        smaller: Mapping[int, Node],
        fine: Mapping[int, Finer],
    ) -> Shape:
        """The shape that the fields of a call have together; `smaller` names what made some so."""
        try:
            return broadcast_shape(shapes)
        except ValueError as error:
            made = [value for value in node.fields if value in smaller]
            longer = [value for value in node.fields if value in fine]
            if not made and not longer:
                raise
            listed = " and ".join(
                f"'{self.names[v]}' of shape {shape}"
                for v, shape in zip(node.fields, shapes, strict=True)
            )
            if made:
                one = smaller[made[0]]
                how = 'boundary="valid"; give it another border rule.'
                if one.thins:
                    how = f"every={one.call.every}; give what is read beside it on the same grid."
                why = (
                    f"'{one.call.definition.name}' makes '{self.names[made[0]]}' smaller by {how}"
                )
            else:
                why = (
                    f"'{self.names[longer[0]]}' is longer by upsample=, and is cut to what stands "
                    "beside it only where it has too many points by less than that factor."
                )
            raise ValueError(
                f"'{node.call.definition.name}' takes {listed}, which do not broadcast: {why}"
            ) from error

    def needed(self, wanted: Iterable[int]) -> list[Node]:
        """The nodes that some values depend on, in order."""
        values = set(wanted)
        found: list[Node] = []
        for node in reversed(self.nodes):
            if not values.isdisjoint(node.outputs):
                found.append(node)
                values.update(node.fields)
        return found[::-1]


# A graph of calls, and which of its values are the results.
Recorded: TypeAlias = tuple[Graph, tuple[int, ...]]


def has_conditions(graph: Graph) -> bool:
    """Whether the border of some call has conditions."""
    return any(node.boundary.conditions for node in graph.nodes)


def with_boundaries(nodes: Nodes, change: Callable[[Node], Boundary]) -> list[Node]:
    """The nodes with other borders, where these have conditions."""
    return [
        replace(node, call=replace(node.call, boundary=change(node)))
        if node.boundary.conditions
        else node
        for node in nodes
    ]


def read_by(nodes: Nodes) -> tuple[int, ...]:
    """The values that nodes read and none of them makes, in the order of their use."""
    made = {value for node in nodes for value in node.outputs}
    return tuple(dict.fromkeys(v for node in nodes for v in node.fields if v not in made))


def reads(user: Node, node: Node) -> bool:
    """Whether a node reads what another one makes."""
    return not set(user.fields).isdisjoint(node.outputs)


def graph_of(call: Call, types: Sequence[np.dtype]) -> Recorded:
    """Give the graph of a call on fields of given types, and which of its values are results."""

    def record() -> Recorded:
        graph = Graph(call.definition.fields, types)
        return graph.placed(graph.record(call, range(len(types))))

    return recalled(call, (*types, call), record)


def recalled(call: Call, key: Any, record: Callable[[], Recorded]) -> Recorded:
    """What was recorded of a call that never changes, by a key that names it; once."""
    if not call.is_plain:
        return record()
    found: Recorded | None = call.definition.graphs.get(key)
    if found is None:
        found = call.definition.graphs[key] = record()
    return found


def _thin(shape: Sequence[int], axis: int) -> Shape:
    """A shape that is 1 along all axes but one."""
    return tuple(n if k - len(shape) == axis else 1 for k, n in enumerate(shape))


def lines(found: Lines, positions: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """The numbers along one axis, for the positions there."""
    program = pipeline.compile_lines(found).bind({}).within(positions[0].shape)
    run = Executable(program, positions, Border((("nearest", "nearest"),)), threads=1)
    made = run(positions, (*program.coefficients, *program.scalars))
    return made if isinstance(made, tuple) else (made,)
