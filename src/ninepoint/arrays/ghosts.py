"""Ghosts: calls whose border has conditions, on arrays of NumPy that are alike: bound once.

A ghost is `alpha * mirrored + beta`.  Conditions extend the fields axis by axis, the later ones
what the earlier ones have extended; the rules with names hold for what is extended so.  What they
say is laid in memory along the edges, and machine code makes the ghosts of that (`layout`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.compiled import Bound
from .arranging import core_last
from .borders import Array, Boundary, Sides
from .commands import Single
from .conditions import Condition, weights
from .executable import Executable
from .layout import (
    COPY,
    FACE,
    MIX,
    SLOPE,
    VALUE,
    Extension,
    Extensions,
    source_indices,
)
from .numpy import whole_shape
from .regions import Node
from .sides import Edges, turned


class _Laid:
    """What conditions say, in memory, of which machine code makes the ghosts of all fields."""

    def __init__(self, edges: Edges, rules: Boundary, dtypes: Sequence[np.dtype]) -> None:
        self._edges, self._dtypes = edges, dtypes
        # Those of a type, beyond a side of an axis.
        self._known: dict[tuple[np.dtype, int, int], Extension] = {}
        self.fill(rules)
        axes, known = range(len(edges.reach)), self._known
        # What is laid of each field, before and after each axis.
        self.ghosts: tuple[Extensions, ...] = tuple(
            tuple((known.get((dtype, axis, 0)), known.get((dtype, axis, 1))) for axis in axes)
            for dtype in dtypes
        )

    def fill(self, rules: Boundary) -> None:
        """Lay values, or others in their place."""
        self.filled = rules
        # To enter this takes as long as to lay a side.
        with np.errstate(all="ignore"):
            for axis, pair in enumerate(rules.entries):
                for side, one in enumerate(pair):
                    if isinstance(one, Condition):
                        self._lay(axis, side, one)

    def _lay(self, axis: int, side: int, one: Condition) -> None:
        how, alpha, beta = self._said(axis, side, one)
        ndim, from_end = len(self._edges.reach), one.kind == "extrapolate"
        alpha, beta = alpha if from_end else self._stacked(alpha), self._stacked(beta)
        for dtype in dict.fromkeys(self._dtypes):
            known = self._known.get((dtype, axis, side))
            if known is not None:
                if how == MIX:
                    known.alpha[...] = alpha
                known.beta[...] = beta
                continue
            own = dtype
            if how not in (VALUE, COPY):
                own = np.dtype("complex128" if dtype.kind == "c" else "float64")
            terms, more = np.array(alpha, own, ndmin=ndim + 2), np.array(beta, own, ndmin=ndim + 1)
            self._known[dtype, axis, side] = Extension(how, terms, more, from_end)

    def _said(self, axis: int, side: int, one: Condition) -> tuple[int, Any, Any]:
        """How ghosts are made beyond a side, alpha of each term, and beta."""
        ndim, ghosts = len(self._edges.reach), self._edges.reach[axis][side]

        def line(numbers: Array) -> Array:
            # For ghosts in the order of positions, of that beside the array first.
            shape = [ghosts if k == axis else 1 for k in range(ndim)]
            return (numbers if side else numbers[::-1]).reshape(shape)

        if one.kind == "extrapolate":
            # By how much each of the last elements counts, for each ghost.
            each = zip(*(weights(one.order, k + 1) for k in range(ghosts)), strict=True)
            alpha = np.stack([line(np.array(own))[None] for own in each])
            return MIX if one.order else COPY, alpha, 0.0
        if one.at == "cell":
            return VALUE, 0.0, one.c
        if one.kind == "dirichlet":
            return FACE, 0.0, 2 * one.c
        # How far ghosts are from what they mirror: a number where there is but one.
        d: Any = one.dx
        if ghosts > 1:
            elements = self._edges.shape[axis - ndim]
            mirrored = source_indices(-ghosts, 0, elements, "reflect", "reflect")
            d = line(mirrored[::-1] + np.arange(1, ghosts + 1)) * d
        if one.kind == "neumann":
            return SLOPE, 0.0, one.c * d
        half = one.a * (d / 2)
        below = one.b + half
        return MIX, (one.b - half) / below, one.c * d / below

    def _stacked(self, value: Any) -> Any:
        """A number, or values along an edge, of which all alike are one; the stack is one axis."""
        if not np.ndim(value):
            return value
        ndim = len(self._edges.reach)
        lead = self._edges.shape[:-ndim]
        value = value[(None,) * (len(lead) + ndim - value.ndim)]
        rest = value.shape[len(lead) :]
        if any(n != 1 for n in value.shape[: len(lead)]):
            value = np.broadcast_to(value, (*lead, *rest))
        return value.reshape(math.prod(value.shape[: len(lead)]), *rest)


class GhostCall:
    """Calls of a node whose border has conditions, on fields like some.

    Beyond sides that are not `closed` there are no neighbours.  Of the fields the last ones,
    behind those of the program, are values along edges.
    """

    def __init__(
        self,
        node: Node,
        program: Bound,
        fields: Sequence[Array],
        closed: Sequence[Sides],
        threads: int | None,
    ) -> None:
        self.boundary, self._closed, self._cval = node.boundary, closed, node.cval
        self._program, self._along, self._threads = program, node.along, threads
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
        conditions = self.boundary.conditions
        if not all(map(all, self._closed)) or not all(one.plain for one in conditions):
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
        call = Single(program, border, self._cval, laid.ghosts)
        return laid, Executable(call, fields, self._along, out, self._threads)

    def _rules(self, boundary: Boundary, fields: Sequence[Array]) -> Boundary:
        """The rules with their values laid, of which some may be among the fields."""
        known = self._known
        if known is not None and known[0] is boundary:
            return known[1]
        own = turned(boundary.opened(self._closed), self._shape, self._along)
        rules = self._edges.laid(own, fields=fields)
        self._known = (boundary, rules) if all(one.plain for one in boundary.conditions) else None
        return rules
