"""Ghosts: calls whose border has conditions, on arrays of NumPy that are alike: bound once.

A ghost is `alpha * mirrored + beta`.  Conditions extend the fields axis by axis, the later ones
what the earlier ones have extended; the rules with names hold for what is extended so.  What they
say is laid in memory along the edges, and machine code makes the ghosts of that (`gathering`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..backends.compiled import Bound
from .borders import Array, Border, Boundary
from .conditions import Condition, weights
from .executable import Executable
from .gathering import (
    COPY,
    FACE,
    MIX,
    SLOPE,
    VALUE,
    Extension,
    Extensions,
    source_indices,
)
from .lanes import core_last
from .numpy import whole_shape
from .regions import Node
from .sides import Edges, turned

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

    def _line(self, numbers: Array) -> Array:
        """Numbers for ghosts, of that beside the array first, in the order of their positions."""
        shape = [self.ghosts if k == self.axis else 1 for k in range(self.ndim)]
        return (numbers if self.side else numbers[::-1]).reshape(shape)

    @property
    def _distances(self) -> Array:
        """How far ghosts are from what they mirror, in elements."""
        mirrored = source_indices(-self.ghosts, 0, self.elements, "reflect", "reflect")
        return self._line(mirrored[::-1] + np.arange(1, self.ghosts + 1))

    def said(self, boundary: Boundary) -> _Said:
        """What the condition says of ghosts, for how far they are from what they mirror."""
        one = boundary.entries[self.axis][self.side]
        assert isinstance(one, Condition), one
        if one.kind == "extrapolate":
            # By how much each of the last elements counts, for each ghost.
            each = zip(*(weights(one.order, k + 1) for k in range(self.ghosts)), strict=True)
            alpha = np.stack([self._line(np.array(own)) for own in each])
            return MIX if one.order else COPY, alpha, 0.0, True
        if one.at == "cell":
            return VALUE, 0.0, one.c, False
        if one.kind == "dirichlet":
            return FACE, 0.0, 2 * one.c, False
        # A number where there is but one ghost.
        d = (self._distances if self.ghosts > 1 else 1) * one.dx
        if one.kind == "neumann":
            return SLOPE, 0.0, one.c * d, False
        half = one.a * (d / 2)
        below = one.b + half
        return MIX, (one.b - half) / below, one.c * d / below, False


class _Laid:
    """What conditions say, in memory, of which machine code makes the ghosts of all fields."""

    def __init__(self, edges: Edges, rules: Boundary, dtypes: Sequence[np.dtype]) -> None:
        self._ndim = ndim = len(edges.reach)
        self._lead, core = edges.shape[:-ndim], edges.shape[-ndim:]
        self._ends = [
            _End(axis, side, edges.reach[axis][side], n, ndim)
            for axis, (n, pair) in enumerate(zip(core, rules.entries, strict=True))
            for side, one in enumerate(pair)
            if isinstance(one, Condition)
        ]
        self._fields = [(dtype, dict[tuple[int, int], Extension]()) for dtype in dtypes]
        self.fill(rules)

    def fill(self, rules: Boundary) -> None:
        """Lay values, or others in their place."""
        self.filled = rules
        # To enter this takes as long as to lay a side.
        with np.errstate(all="ignore"):
            for end in self._ends:
                how, alpha, beta, from_end = end.said(rules)
                alpha, beta = alpha if from_end else self._stacked(alpha), self._stacked(beta)
                for dtype, sides in self._fields:
                    known = sides.get((end.axis, end.side))
                    if known is None:
                        if how not in (VALUE, COPY):
                            dtype = np.dtype("complex128" if dtype.kind == "c" else "float64")
                        laid = [
                            np.array(one, dtype, ndmin=self._ndim + 1) for one in (alpha, beta)
                        ]
                        sides[end.axis, end.side] = Extension(how, laid[0], laid[1], from_end)
                        continue
                    if how == MIX:
                        known.alpha[...] = alpha
                    known.beta[...] = beta

    def _stacked(self, value: Any) -> Any:
        """A number, or values along an edge, of which all alike are one; the stack is one axis."""
        if not np.ndim(value):
            return value
        count = len(self._lead)
        value = value[(None,) * (count + self._ndim - value.ndim)]
        rest = value.shape[count:]
        if any(n != 1 for n in value.shape[:count]):
            value = np.broadcast_to(value, (*self._lead, *rest))
        return value.reshape(math.prod(value.shape[:count]), *rest)

    @property
    def ghosts(self) -> tuple[Extensions, ...]:
        """What is laid of each field, before and after each axis."""
        axes = range(self._ndim)
        return tuple(
            tuple((sides.get((axis, 0)), sides.get((axis, 1))) for axis in axes)
            for _, sides in self._fields
        )


class GhostCall:
    """Calls of a node whose border has conditions, on fields like some.

    Sides that are open are "valid" in the border, which has names in the place of conditions.
    Of the fields the last ones, behind those of the program, are values along edges.
    """

    def __init__(
        self,
        node: Node,
        program: Bound,
        fields: Sequence[Array],
        border: Border,
        threads: int | None,
    ) -> None:
        self.boundary, self._border, self._cval = node.boundary, border, node.cval
        self._program, self._along, self._threads = program, node.along, threads
        self._is_whole = border == node.border
        self._shape = shape = whole_shape(fields[: len(program.field_dtypes)])
        order = core_last(len(shape), self._along)
        self._edges = Edges.of(node, tuple(shape[axis] for axis in order))
        # Numbers that stay the same are laid once.
        self._known: tuple[Boundary, Boundary] | None = None
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
        # Values that do not fit are wrong beside an array without elements as well.
        rules = self._rules(boundary or self.boundary, fields)
        fields = fields[: len(self._program.field_dtypes)]
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
        return self._bound(fields, self._rules(self.boundary, fields), tuple(outs))[1]

    def _bound(
        self, fields: Sequence[Array], rules: Boundary, out: Any
    ) -> tuple[_Laid, Executable]:
        """What does calls on fields, and the values that it reads."""
        program, ndim = self._program, len(self._along)
        count = len(program.field_dtypes) - len(program.along)
        made = 0 not in self._shape and bool(rules.conditions)
        laid = _Laid(self._edges, rules, program.field_dtypes[:count] if made else ())
        border = rules.bordered(ndim, "ghost" if made else "nearest")
        return laid, Executable(
            program, fields, border, self._cval, self._along, out, self._threads, laid.ghosts
        )

    def _rules(self, boundary: Boundary, fields: Sequence[Array]) -> Boundary:
        """The rules with their values laid, of which some may be among the fields."""
        known = self._known
        if known is not None and known[0] is boundary:
            return known[1]
        own = boundary if self._is_whole else self._opened(boundary)
        rules = self._edges.laid(turned(own, self._shape, self._along), fields=fields)
        self._known = (boundary, rules) if all(one.plain for one in boundary.conditions) else None
        return rules

    def _opened(self, boundary: Boundary) -> Boundary:
        """The rules on a part of arrays, of which some sides are open."""
        pairs = zip(boundary.sides(self._border.ndim), self._border.rules, strict=True)
        rules = (
            ("valid" if low == "valid" else before, "valid" if high == "valid" else after)
            for (before, after), (low, high) in pairs
        )
        return Boundary(tuple(rules), False)
