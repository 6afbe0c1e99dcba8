"""Calls whose border has conditions, on arrays of NumPy that are alike: bound once.

Values of conditions are laid in memory; ghosts are made from them (see `gathering`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ...backends.compiled import Bound
from ..borders import Array, Boundary
from ..conditions import Condition, Slot, weights
from ..executable import Executable
from ..gathering import (
    COPY,
    FACE,
    MIX,
    SLOPE,
    VALUE,
    Extension,
    Extensions,
    source_indices,
)
from ..lanes import core_last
from ..layout import Shape
from ..numpy import Behind, whole_shape
from ..regions import Node
from .sides import AtEdge, Edges, Rules, turned

# How ghosts are made, alpha and beta, and whether alpha is of the elements from the end on.
_Said: TypeAlias = tuple[int, Any, Any, bool]


@dataclass(frozen=True, slots=True)
class _End:
    """A side of an axis of so many elements, with ghosts beyond it."""

    axis: int
    side: int
    ghosts: int
    elements: int
    ndim: int

    def line(self, numbers: Array) -> Array:
        """Numbers for ghosts, of that beside the array first, in the order of their positions."""
        shape = [self.ghosts if k == self.axis else 1 for k in range(self.ndim)]
        return (numbers if self.side else numbers[::-1]).reshape(shape)

    @property
    def distances(self) -> Array:
        """How far ghosts are from what they mirror, in elements."""
        mirrored = source_indices(-self.ghosts, 0, self.elements, "reflect", "reflect")
        return self.line(mirrored[::-1] + np.arange(1, self.ghosts + 1))

    def weights(self, order: int) -> Array:
        """By how much each of the last elements counts, one axis more than the array has."""
        found = [weights(order, distance) for distance in range(1, self.ghosts + 1)]
        return np.stack([self.line(np.array(one)) for one in zip(*found, strict=True)])

    def said(self, rules: Rules) -> _Said:
        """What the condition says of ghosts, for how far they are from what they mirror."""
        one: Condition = rules[self.axis][self.side]
        if one.kind == "extrapolate":
            return MIX if one.order else COPY, self.weights(one.order), 0.0, True
        if one.at == "cell":
            return VALUE, 0.0, one.c, False
        if one.kind == "dirichlet":
            return FACE, 0.0, 2 * one.c, False
        # A number where there is but one ghost.
        d = (self.distances if self.ghosts > 1 else 1) * one.dx
        if one.kind == "neumann":
            return SLOPE, 0.0, one.c * d, False
        half = one.a * (d / 2)
        below = one.b + half
        return MIX, (one.b - half) / below, one.c * d / below, False


class _Laid:
    """Values of conditions in memory, of which machine code makes the ghosts of all fields."""

    def __init__(self, edges: Edges, rules: Rules, dtypes: Sequence[np.dtype[Any]]) -> None:
        self._ndim = ndim = len(edges.reach)
        axes = zip(edges.conditions, edges.reach, edges.core, strict=True)
        self._ends = [
            _End(axis, side, far, n, ndim)
            for axis, (own, reach, n) in enumerate(axes)
            for side, (is_made, far) in enumerate(zip(own, reach, strict=True))
            if is_made and far
        ]
        self._lead = edges.shape[:-ndim]
        said = [end.said(rules) for end in self._ends]
        self._fields = [[self._allocated(dtype, one) for one in said] for dtype in dtypes]
        self.fill(rules)

    def fill(self, rules: Rules) -> None:
        """Lay the values of conditions."""
        with np.errstate(all="ignore"):
            said = [end.said(rules) for end in self._ends]
            for own in self._fields:
                for (how, alpha, beta, _), extension in zip(said, own, strict=True):
                    if how == MIX:
                        self._lay(alpha, extension.alpha)
                    if how != COPY:
                        self._lay(beta, extension.beta)
        self.filled = rules

    def _allocated(self, dtype: np.dtype[Any], said: _Said) -> Extension:
        """Memory for what is said of the ghosts of a field."""
        how, alpha, beta, from_end = said
        if how not in (VALUE, COPY):
            dtype = np.dtype("complex128" if dtype.kind == "c" else "float64")
        alpha = np.zeros(np.shape(alpha) if from_end else self._shape(alpha), dtype)
        return Extension(how, alpha, np.zeros(self._shape(beta), dtype), from_end)

    def _shape(self, value: Any) -> Shape:
        """The shape in which values are laid, of which all alike are one, the stack one axis."""
        if not np.ndim(value):
            return (1,) * (self._ndim + 1)
        shape = (1,) * (len(self._lead) + self._ndim - np.ndim(value)) + np.shape(value)
        lead = shape[: len(self._lead)]
        stack = 1 if all(n == 1 for n in lead) else math.prod(self._lead)
        return (stack, *shape[len(self._lead) :])

    def _lay(self, value: Any, target: Array) -> None:
        if np.ndim(value) and np.shape(value) != target.shape:
            lead = self._lead if target.shape[0] > 1 else (1,) * max(1, len(self._lead))
            value = np.broadcast_to(value, (*lead, *target.shape[1:])).reshape(target.shape)
        target[...] = value

    @property
    def ghosts(self) -> tuple[Extensions, ...]:
        """What is laid of each field, before and after each axis."""
        found = []
        for own in self._fields:
            sides = {(end.axis, end.side): one for end, one in zip(self._ends, own, strict=True)}
            axes = range(self._ndim)
            found.append(tuple((sides.get((axis, 0)), sides.get((axis, 1))) for axis in axes))
        return tuple(found)


class GhostCall:
    """Calls of a node whose border has conditions, on fields like some; sides may be open.

    Of the fields the last ones, behind those of the program, are values along edges.
    """

    def __init__(
        self,
        node: Node,
        program: Bound,
        fields: Sequence[Array],
        opened: Sequence[tuple[bool, bool]],
        axes: Behind | None,
        threads: int | None,
    ) -> None:
        self.boundary, self._opened = node.boundary, opened
        self._program, self._axes, self._threads = program, axes, threads
        boundary = _on_block(node.boundary, opened, fields)
        # Whether no side is open, and all values are those of the boundary.
        self._is_whole = boundary is node.boundary
        self._shape = shape = whole_shape(fields[: len(program.field_dtypes)])
        self._along = axes or tuple(range(-program.ndim, 0))
        turned = tuple(shape[axis] for axis in core_last(len(shape), self._along))
        self._edges = Edges.of(node, turned, boundary)
        # Numbers that stay the same are laid once.
        self._known: tuple[Boundary, Rules] | None = None
        # What does calls on each thread: values of the border lie in memory of its own.
        self._here = threading.local()

    def __call__(
        self,
        fields: Sequence[Array],
        numbers: Sequence[Any],
        out: Any = None,
        boundary: Boundary | None = None,
    ) -> Any:
        """What a call gives: one array for each output, bare if there is one.

        Another boundary may have other values than that of the node.
        """
        boundary = boundary or self.boundary
        if not self._is_whole:
            boundary = _on_block(boundary, self._opened, fields)
            fields = fields[: len(self._program.field_dtypes)]
        # Values that do not fit are wrong beside an array without elements as well.
        rules = self._rules(boundary)
        known: tuple[_Laid, Executable] | None = getattr(self._here, "known", None)
        if known is None:
            known = self._here.known = self._bound(fields, rules, out)
        laid, run = known
        if rules is not laid.filled:
            laid.fill(rules)
        return run(fields, numbers, out)

    def fixed(self, fields: Sequence[Array], outs: Sequence[Array]) -> Executable | None:
        """What does calls to these arrays whose values at the border stay the same."""
        if not self._is_whole or not all(one.plain for one in self.boundary.conditions):
            return None
        return self._bound(fields, self._rules(self.boundary), tuple(outs))[1]

    def _bound(self, fields: Sequence[Array], rules: Rules, out: Any) -> tuple[_Laid, Executable]:
        """What does calls on fields, and the values that it reads."""
        program, edges = self._program, self._edges
        made = edges.made and 0 not in self._shape
        dtypes = program.field_dtypes[: len(program.field_dtypes) - len(program.along)]
        laid = _Laid(edges, rules, dtypes if made else ())
        border = edges.border if made else edges.names
        return laid, Executable(
            program, fields, border, edges.cval, self._axes, out, self._threads, laid.ghosts
        )

    def _rules(self, boundary: Boundary) -> Rules:
        known = self._known
        if known is not None and known[0] is boundary:
            return known[1]
        rules = self._edges.laid(turned(boundary, self._shape, self._along))
        self._known = (boundary, rules) if all(one.plain for one in boundary.conditions) else None
        return rules


def _on_block(
    boundary: Boundary, opened: Sequence[tuple[bool, bool]], fields: Sequence[Array]
) -> Boundary:
    """The rules on a part of arrays, of which some sides are open, and values among `fields`."""
    if not any(map(any, opened)) and not boundary.has_slots:
        return boundary

    def laid(value: Any) -> Any:
        return AtEdge(fields[value.number]) if isinstance(value, Slot) else value

    pairs = []
    for pair, sides in zip(boundary.sides(len(opened)), opened, strict=True):
        before, after = (
            "valid" if open_ else one.of(laid) if isinstance(one, Condition) else one
            for one, open_ in zip(pair, sides, strict=True)
        )
        pairs.append((before, after))
    return Boundary(tuple(pairs), False)


def given_boundary(given: Any) -> Boundary:
    """A border that was written so, of which a call like it went well."""
    if isinstance(given, Condition):
        return Boundary(((given, given),), True)
    pairs = [(one, one) if isinstance(one, str | Condition) else tuple(one) for one in given]
    return Boundary(tuple(pairs), False)
