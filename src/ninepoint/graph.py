"""Graphs: calls of stencils on what other calls give.

    ix = sobel_x(x)             values   0: x   1: ix   2: iy   3: corners
    iy = sobel_y(x)      ->     nodes    sobel_x(0) -> 1   sobel_y(0) -> 2   corners(1, 2) -> 3
    corners(ix, iy)

A value is an array, or what a call gives; a node is a call, whose fields are values.  What
a graph gives is what its calls give one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .arrays.axes import Behind, last_of
from .arrays.borders import Border
from .arrays.layout import layout
from .arrays.numpy import broadcast_shape, too_few_axes
from .backends.compiled import Compiled
from .calls import Call
from .definition import Definition
from .language import errors

# Graphs that a definition keeps, for calls that differ in nothing but the data.
_REMEMBERED = 16


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One call: its fields and its results are values, by number.

    `axes` are those that the call names, counted from the end, or None where it names none.
    """

    label: str
    call: Call
    fields: tuple[int, ...]
    outputs: tuple[int, ...]
    compiled: Compiled
    axes: Behind | None = None

    @property
    def ndim(self) -> int:
        """How many core axes it has."""
        return self.compiled.ndim

    @property
    def along(self) -> Behind:
        """The axes that it works along."""
        return self.axes or tuple(range(-self.ndim, 0))

    @property
    def border(self) -> Border:
        """Its border rule."""
        return self.call.boundary.on(self.ndim)


class Graph:
    """Calls in an order in which they can be done; equal calls are one."""

    def __init__(self, names: Sequence[str], dtypes: Sequence[np.dtype]) -> None:
        self.names = list(names)
        self.dtypes = list(dtypes)
        self.nodes: list[Node] = []
        self.given = len(self.names)
        self._known: dict[Any, tuple[int, ...]] = {}
        # The results of each call that was added; of equal calls they are the same.
        self.added: list[tuple[int, ...]] = []
        # What was planned for it: see `planning.plan`.
        self.plans: dict[Any, Any] = {}

    def add(
        self,
        call: Call,
        fields: Sequence[int],
        labels: Sequence[str],
        axes: Behind | None = None,
    ) -> tuple[int, ...]:
        """Add a call; `labels` are what its results are called, as far as they have names.

        A call of fewer axes than `axes` names works on the last of them.
        """
        compiled, _, reason = call.compiled([self.dtypes[k] for k in fields])
        call.definition.warn(compiled, reason)
        if axes is not None:
            axes = last_of(axes, compiled.ndim, call.definition.name)
        key = call.key, tuple(fields), axes
        known = self._known.get(key)
        if known is not None:
            self.added.append(known)
            return known
        outputs = tuple(range(len(self.names), len(self.names) + len(compiled.out_dtypes)))
        whole = labels[0] if labels else call.definition.name
        self.nodes.append(Node(whole, call, tuple(fields), outputs, compiled, axes))
        for k, dtype in enumerate(compiled.out_dtypes):
            self.names.append(labels[k] if k < len(labels) else whole)
            self.dtypes.append(dtype)
        self._known[key] = outputs
        self.added.append(outputs)
        return outputs

    def record(
        self,
        call: Call,
        fields: Sequence[int],
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
            callee = one.callee.definition
            assert isinstance(callee, Definition)
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
        rest = definition.rest(call.boundary.keeps)
        scalars = {name: call.scalars[name] for name in rest.scalars}
        return self.add(
            replace(call, definition=rest, scalars=scalars),
            [numbers[name] for name in rest.fields],
            labels or [definition.name],
            axes,
        )

    def shapes(self, given: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The shape of every value, for arrays of these shapes."""
        found = list(given)
        for node in self.nodes:
            shape = list(broadcast_shape([found[value] for value in node.fields]))
            if len(shape) < -min(node.along):
                raise too_few_axes(node.ndim, tuple(shape))
            core = tuple(shape[axis] for axis in node.along)
            for one in layout(core, node.compiled.reaches, node.border).out_shapes:
                for axis, length in zip(node.along, one, strict=True):
                    shape[axis] = length
                found.append(tuple(shape))
        return found

    def needed(self, wanted: Iterable[int]) -> list[Node]:
        """The nodes that some values depend on, in order."""
        values = set(wanted)
        found: list[Node] = []
        for node in reversed(self.nodes):
            if not values.isdisjoint(node.outputs):
                found.append(node)
                values.update(node.fields)
        return found[::-1]


def reads(user: Node, node: Node) -> bool:
    """Whether a node reads what another one makes."""
    return not set(user.fields).isdisjoint(node.outputs)


def graph_of(call: Call, types: Sequence[np.dtype]) -> tuple[Graph, tuple[int, ...]]:
    """Give the graph of a call on fields of given types, and which of its values are results."""
    kept, key = call.definition.kept, None
    if call.is_plain:
        key = (*types, call)
        found = kept.get(key)
        if found is not None:
            graph, wanted = found
            return graph, wanted
    graph = Graph(call.definition.fields, types)
    wanted = graph.record(call, range(len(types)))
    if key is not None:
        if len(kept) >= _REMEMBERED:
            kept.clear()
        kept[key] = graph, wanted
    return graph, wanted
