"""Graphs: calls of stencils on what other calls give.

    ix = sobel_x(x)             values   0: x   1: ix   2: iy   3: corners
    iy = sobel_y(x)      ->     nodes    sobel_x(0) -> 1   sobel_y(0) -> 2   corners(1, 2) -> 3
    corners(ix, iy)

A value is an array, or what a call gives; a node is a call, whose fields are values.  What
a graph gives is what its calls give one after the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..arrays.accepted import DTypes, broadcast_shape, steps_of
from ..arrays.blocks import results_of
from ..arrays.borders import Boundary, check_range
from ..arrays.layout import Axes, Border, Shape
from ..arrays.regions import check_device, cut_shapes, finer_values
from ..backends.compiled import Compiled, recalled
from ..base.remembered import Remembered, cached_property, digest
from ..base.undisturbed import Later
from ..language.decorated import with_room
from ..language.errors import mistake
from ..language.ir import Argument, Box
from ..lowering.schedule import Request
from .definition import Call, Definition

if TYPE_CHECKING:
    from ..backends import pipeline as pipeline
    from ..backends.cuda.patches import Source
else:
    # What was compiled before is not lowered.
    pipeline = Later("..backends.pipeline", __package__)

# Values of a graph, by number; those of a call.
Values: TypeAlias = Sequence[int]
Made: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Node:
    """One call: its fields and its results are values, by number.

    `types` are those of the fields.  `axes` are those that the call names, counted from the end,
    or None where it names none.  It is the call of this `number` that was recorded.  Where it
    makes all points for a call that takes some of them, that counts them as `thinned`.  It pickles
    as the call, which is compiled once somebody asks for it.
    """

    label: str
    call: Call
    fields: Made
    outputs: Made
    types: tuple[np.dtype, ...]
    axes: Axes | None = None
    number: int = 0
    thinned: Shape = ()

    def __reduce__(self) -> Any:
        own = (
            self.label,
            self.call,
            self.fields,
            self.outputs,
            self.types,
            self.axes,
            0,
            self.thinned,
        )
        return Node, own

    @cached_property
    def compiled(self) -> Compiled:
        """What the call is compiled to."""
        return compiled(self.call, self.types)

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
    def along(self) -> Axes:
        """The axes that it works along."""
        return self.axes or tuple(range(-self.ndim, 0))

    @property
    def works_along(self) -> Axes:
        """The same; none where each element is computed by itself: then all axes are alike."""
        program = self.compiled
        # The others are lengths of the whole array.
        named = all(isinstance(scalar, str) for scalar in program.scalars)
        return () if program.at_points and named and not program.positions else self.along

    @property
    def boundary(self) -> Boundary:
        """Its rules and conditions."""
        return self.call.options.boundary

    @property
    def border(self) -> Border:
        """Its border rules; names in the place of conditions, with which results are as large."""
        return self.boundary.on(self.ndim)

    @property
    def every(self) -> Shape:
        """Along each axis, of how many points one is made."""
        return steps_of(self.call.options.every, self.ndim)

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
        return replace(self, call=self.call.with_options(every=1), thinned=self.every)

    @property
    def cval(self) -> Any:
        """The value of "fill" and "constant"."""
        return self.call.options.cval

    @property
    def reaches(self) -> tuple[Box, ...]:
        """Where each result looks."""
        return self.compiled.reaches[: len(self.outputs)]

    @property
    def out_dtypes(self) -> tuple[np.dtype, ...]:
        """The types of the results."""
        return self.compiled.out_dtypes[: len(self.outputs)]

    @property
    def factors(self) -> Shape:
        """By how much its results are longer than its fields; nothing if they are not."""
        return self.call.factors


# Some calls, in an order in which they can be done.
Nodes: TypeAlias = Sequence[Node]


class Graph:
    """Calls in an order in which they can be done; equal calls are one."""

    def __init__(self, names: Sequence[str], dtypes: DTypes) -> None:
        self.names = list(names)
        self.dtypes = list(dtypes)
        self.given = len(self.names)
        # How many calls were recorded, of which equal ones are one node.
        self.calls = 0
        # Values that end a step: what follows does not become one kernel with what was before.
        self.stored: set[int] = set()
        # What was planned for it: see `program.plan`.
        self.plans: Remembered[Any] = Remembered(16)
        self.nodes: list[Node] = []
        self._known: dict[Any, Made] = {}

    def __reduce__(self) -> Any:
        state = {"given": self.given, "nodes": self.nodes, "stored": self.stored}
        return Graph, (self.names, self.dtypes), state

    @property
    def token(self) -> str:
        """Names the meaning: equal tokens, equal values."""
        nodes = [(n.call.token, n.fields, n.outputs, n.axes) for n in self.nodes]
        return digest(([dtype.str for dtype in self.dtypes[: self.given]], nodes))

    def append(
        self,
        other: Graph,
        given: Mapping[int, int],
        nodes: Nodes | None = None,
    ) -> dict[int, int]:
        """Add the calls of another graph, or some of them, on values that it is given.

        Gives the numbers of the other's values here, of those that it is given as well.
        """
        numbers, before = dict(given), self.calls
        for node in other.nodes if nodes is None else nodes:
            fields = tuple(numbers[value] for value in node.fields)
            own = replace(node, fields=fields, number=before + node.number)
            names = [other.names[value] for value in node.outputs]
            made = self._add(own, names, [other.dtypes[value] for value in node.outputs])
            numbers |= zip(node.outputs, made, strict=True)
            if not other.stored.isdisjoint(node.outputs):
                self.stored.update(made)
        self.calls += other.calls
        return numbers

    def _add(self, node: Node, names: Sequence[str], dtypes: DTypes) -> Made:
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

    def record(
        self,
        call: Call,
        fields: Values,
        labels: Sequence[str] = (),
        axes: Axes | None = None,
    ) -> Made:
        """Add a call, after those that its definition makes; gives its results, by number.

        `labels` are what its results are called, if they have names.  A call of fewer axes than
        `axes` names works on the last of them.
        """
        definition = call.definition
        numbers = dict(zip(call.fields, fields, strict=True))
        inside = f"{labels[0]}." if labels else ""
        for one in definition.calls(call.scalars, call.factors):
            values, options = one.given(call.scalars)
            made = self.record(
                Call.of(one.callee, values, **options).along(definition.rank),
                [numbers[name] for name in one.fields],
                [inside + name for name in one.made],
                axes,
            )
            if len(made) != len(one.made):
                raise mistake("stage-outputs", one.span, one.callee.name, len(made), len(one.made))
            numbers |= zip(one.made, made, strict=True)
        if definition.calls():
            call = replace(call, fields=definition.left(call.options.boundary.uses("keep")))
        given = tuple(numbers[name] for name in call.fields)
        types = tuple(self.dtypes[value] for value in given)
        program = compiled(call, types)
        for condition in call.options.boundary.said:
            for name, dtype in zip(call.fields, types, strict=True):
                check_range(condition, name, dtype)
        # Raises where the steps are not as many as the axes.
        steps_of(call.options.every, program.ndim)
        dtypes = program.out_dtypes[: len(program.out_dtypes) // program.phases]
        names = labels or [definition.name] * len(dtypes)
        if axes is not None and len(axes) < program.ndim:
            raise ValueError(
                f"the call names {len(axes)} axes, but the stage '{definition.name}' of it works "
                f"on {program.ndim}."
            )
        along = axes and axes[-program.ndim :]
        node = Node(names[0], call, given, (), types, along, self.calls)
        for place in program.positions:
            looks = {max(0, -reach.lo[place.axis]) for reach in program.reaches[: len(dtypes)]}
            valid = node.border.rules[place.axis][0] == "valid"
            if place.among == "results" and valid and len(looks) > 1:
                raise ValueError(
                    f"'{definition.name}' asks for its position among the results, but with "
                    'boundary="valid" its results have different shapes; ask for that in a '
                    "field, npt.index(x)."
                )
        self.calls += 1
        made = self._add(node, names, dtypes)
        if self.has_conditions and any(one.factors for one in self.nodes):
            raise ValueError(
                "upsample= and border conditions (values, functions, slopes) cannot be in one "
                "call; call one stencil after the other."
            )
        return made

    @property
    def has_conditions(self) -> bool:
        """Whether the border of some call has conditions."""
        return any(node.boundary.conditions for node in self.nodes)

    def check_target(self, there: bool, cut: bool) -> None:
        """Raise where a GPU, or tasks of lazy arrays, cannot do what is asked."""
        if there:
            check_device(self.nodes)
        for node in self.nodes if cut else ():
            if not all(one.plain for one in node.boundary.conditions):
                raise TypeError(
                    "border values of lazy arrays are numbers, not arrays or functions; compute "
                    "the arrays first, or name a border rule."
                )

    def warn(self) -> None:
        """Say of each call once if it takes the general path."""
        for node in self.nodes:
            node.call.definition.warn(node.compiled)

    def shapes(self, given: Iterable[Shape]) -> list[Shape]:
        """The shape of every value, for arrays of these shapes."""
        found = list(given)
        fine = finer_values(self.nodes)
        for node in self.nodes:
            own = cut_shapes([found[v] for v in node.fields], node.fields, fine)
            try:
                shape = broadcast_shape(own)
            except ValueError as error:
                raise self._apart(node, own, fine) or error from None
            found += [one.shape for one in results_of(node, shape)]
        return found

    def _apart(self, node: Node, shapes: Iterable[Shape], fine: Collection[int]) -> Any:
        """What is wrong where fields do not broadcast since calls have resized some; else None."""
        makers = {v: one for one in self.nodes for v in one.outputs if one.resizes}
        resized = [v for v in node.fields if v in makers or v in fine]
        if not resized:
            return None
        name, one = self.names[resized[0]], makers.get(resized[0])
        why = (
            f"'{name}' is longer by upsample=, and is cut to what stands beside it only where "
            "it has too many points by less than that factor."
        )
        if one and not one.factors:
            how = 'boundary="valid"; give it another border rule.'
            if one.thins:
                every = one.call.options.every
                how = f"every={every}; give what is read beside it on the same grid."
            why = f"'{one.call.definition.name}' makes '{name}' smaller by {how}"
        pairs = zip(node.fields, shapes, strict=True)
        listed = " and ".join(f"'{self.names[v]}' of shape {shape}" for v, shape in pairs)
        label = node.call.definition.name
        return ValueError(f"'{label}' takes {listed}, which do not broadcast: {why}")

    def needed(self, wanted: Iterable[int]) -> list[Node]:
        """The nodes that some values depend on, in order."""
        values = set(wanted)
        found: list[Node] = []
        for node in reversed(self.nodes):
            if not values.isdisjoint(node.outputs):
                found.append(node)
                values.update(node.fields)
        return found[::-1]


def read_by(nodes: Nodes) -> Made:
    """The values that nodes read and none of them makes, in the order of their use."""
    made = {value for node in nodes for value in node.outputs}
    return tuple(dict.fromkeys(v for node in nodes for v in node.fields if v not in made))


def compiled(call: Call, types: DTypes) -> Compiled:
    """What a call on fields of these types is compiled to."""
    definition, options = call.definition, call.options
    request = Request(
        options.neighborhood,
        options.dtype,
        options.overflow,
        # What a stage made is not kept.
        len(definition.fields) if options.boundary.uses("keep") else 0,
        options.fastmath,
        # What was tuned is a call with all it calls.
        options.schedule if definition.calls() else definition.schedule_for(types),
        call.factors,
        () if options.every == 1 else steps_of(options.every, definition.rank),
    )
    kinds = definition.kinds(call.fields, types, call.scalars)
    found = _compiled(definition, kinds, request)
    if request.every and len(found.out_dtypes) > 1 and options.boundary.uses("valid"):
        # Each result may have a first point of its own: all points are made, and then cut.
        return _compiled(definition, kinds, replace(request, every=()))
    return found


def _compiled(definition: Definition, kinds: tuple[Argument, ...], request: Request) -> Compiled:
    """What a definition is compiled to for arguments of these kinds, once."""
    key = kinds, request

    def compile() -> Compiled:
        function, arguments = definition.function, {kind.name: kind for kind in kinds}
        return with_room(lambda: pipeline.compile_kernel(function, arguments, request), function)

    found = definition.compiled.get(key)
    if found is not None:
        return found
    with definition.compiling:
        found = definition.compiled.get(key)
        if found is None:
            found = recalled(definition.name, definition.token, key, compile)
            definition.compiled[key] = found
    return found
