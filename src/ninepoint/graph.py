"""Graphs: calls of stencils on what other calls give.

    ix = sobel_x(x)             values   0: x   1: ix   2: iy   3: corners
    iy = sobel_y(x)      ->     nodes    sobel_x(0) -> 1   sobel_y(0) -> 2   corners(1, 2) -> 3
    corners(ix, iy)

A value is an array, or what a call gives; a node is a call, whose fields are values.  What
a graph gives is what its calls give one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays.axes import Behind, last_of
from .arrays.borders import Border
from .arrays.layout import layout
from .arrays.numpy import broadcast_shape, too_few_axes
from .backends.numba.cpu import Compiled
from .calls import Call


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
        call.stencil._warn(compiled, reason)
        if axes is not None:
            axes = last_of(axes, compiled.ndim, call.stencil.__name__)
        key = (*_key(call, fields), axes)
        known = self._known.get(key)
        if known is not None:
            return known
        outputs = tuple(range(len(self.names), len(self.names) + len(compiled.out_dtypes)))
        whole = labels[0] if labels else call.stencil.__name__
        self.nodes.append(Node(whole, call, tuple(fields), outputs, compiled, axes))
        for k, dtype in enumerate(compiled.out_dtypes):
            self.names.append(labels[k] if k < len(labels) else whole)
            self.dtypes.append(dtype)
        self._known[key] = outputs
        return outputs

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


def _key(call: Call, fields: Sequence[int]) -> Any:
    others = tuple((n, identity(v)) for n, v in call.others.items())
    options = (call.boundary, repr(call.cval), call.dtypes, call.overflow)
    return (id(call.stencil), tuple(fields), others, options)


def identity(value: Any) -> Any:
    """What tells a number from others, or one array from others while it is there."""
    return id(value) if isinstance(value, np.ndarray) else (type(value), repr(value))


def reads(user: Node, node: Node) -> bool:
    """Whether a node reads what another one makes."""
    return not set(user.fields).isdisjoint(node.outputs)
