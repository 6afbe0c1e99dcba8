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
from ..accepted import check_writable, listed
from ..arranging import Arrangement, may_overlap
from ..borders import Array, Boundary
from ..conditions import Condition, weights
from ..executable import Executable
from ..gathering import (
    COPY,
    FACE,
    MIX,
    SLOPE,
    VALUE,
    Extension,
    Extensions,
    copied,
    source_indices,
)
from ..layout import Shape, layout
from ..numpy import Behind, broadcast_shape, checked_out
from ..parts import write
from ..regions import Node
from .sides import Edges, Rules, moved, turned

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
    """Calls of a node on fields like some; called with fields, numbers, a boundary and `out`."""

    def __init__(
        self,
        node: Node,
        program: Bound,
        fields: Sequence[Array],
        boundary: Boundary,
        axes: Behind | None,
        out: Any,
        threads: int | None,
    ) -> None:
        self._program, self._threads, ndim = program, threads, program.ndim
        self._ends = tuple(range(-ndim, 0))
        self._axes = None if axes == self._ends else axes
        self._whole = broadcast_shape([field.shape for field in fields])
        fields = self._given(fields)
        shape = fields[0].shape
        self._edges = edges = Edges.of(node, shape, boundary)
        # Numbers that stay the same are laid once.
        self._known: tuple[Boundary, Rules] | None = None
        self._plain = None
        if not edges.made or 0 in shape:
            self._plain = Executable(program, fields, edges.names, edges.cval, None, None, threads)
        outs = [self._moved(one) for one in listed(out)]
        if out is not None:
            plan = layout(edges.core, program.reaches, edges.border, every=program.every)
            shapes = [(*shape[: len(shape) - ndim], *one) for one in plan.out_shapes]
            checked_out(tuple(outs), shapes, program.out_dtypes, None)
        # Whether fields are copied, for ghosts are counted along their axes as they come.
        stacked = len(shape) - ndim > 1
        self._copies = not Arrangement(program, fields, None, tuple(outs) or None).plain or (
            stacked and not all(one.flags.c_contiguous for one in (*fields, *outs))
        )
        # What does calls on each thread: values of the border lie in memory of its own.
        self._here = threading.local()

    def __call__(
        self, fields: Sequence[Array], numbers: Sequence[Any], boundary: Boundary, out: Any
    ) -> Any:
        """What a call gives: one array for each output, bare if there is one."""
        targets = listed(out)
        check_writable(targets)
        apart = not any(may_overlap(one, field) for one in targets for field in fields)
        results = [self._moved(one) for one in targets] if apart and not self._copies else []
        made = self._made(self._given(fields), numbers, boundary, results)
        if not results:
            made = [moved(one, self._ends, self._axes) if self._axes else one for one in made]
        for target, one in zip(targets, made, strict=False):
            if not results:
                write(target, one)
        found = targets or made
        return found[0] if len(found) == 1 else tuple(found)

    def fixed(
        self, fields: Sequence[Array], boundary: Boundary, outs: Sequence[Array]
    ) -> Executable | None:
        """What does calls whose border stays the same, if machine code can by itself."""
        if self._plain is not None or self._copies or self._axes is not None:
            return None
        return self._bound(self._given(fields), self._rules(boundary), outs)[1]

    def _bound(
        self, fields: Sequence[Array], rules: Rules, outs: Sequence[Array]
    ) -> tuple[_Laid, Executable]:
        """What does calls on fields, and the values that it reads."""
        program, edges = self._program, self._edges
        dtypes = program.field_dtypes[: len(program.field_dtypes) - len(program.along)]
        laid = _Laid(edges, rules, dtypes)
        return laid, Executable(
            program, fields, edges.border, edges.cval, None, tuple(outs) or None, self._threads,
            laid.ghosts,
        )  # fmt: skip

    def _made(
        self,
        fields: Sequence[Array],
        numbers: Sequence[Any],
        boundary: Boundary,
        results: Sequence[Array],
    ) -> list[Array]:
        """What it gives for fields whose core axes come last, in `results` if there are some."""
        # Values that do not fit are wrong beside an array without elements as well.
        rules = self._rules(boundary)
        if self._plain is not None:
            made = listed(self._plain(fields, numbers, None))
            for result, one in zip(results, made, strict=False):
                result[...] = one
            return list(results) or list(made)
        if self._copies:
            types = self._program.field_dtypes
            fields = [copied(one, dtype) for one, dtype in zip(fields, types, strict=True)]
        # Results that are given may lie otherwise than those that are made.
        known, name = self._here.__dict__, "given" if results else "made"
        if name not in known:
            known[name] = self._bound(fields, rules, results)
        laid, run = known[name]
        if rules is not laid.filled:
            laid.fill(rules)
        return list(listed(run(fields, numbers, tuple(results) or None)))

    def _rules(self, boundary: Boundary) -> Rules:
        known = self._known
        if known is not None and known[0] is boundary:
            return known[1]
        given = boundary
        if self._axes is not None:
            boundary = turned(boundary, self._whole, self._axes)
        rules = self._edges.laid(boundary)
        self._known = (given, rules) if all(one.plain for one in given.conditions) else None
        return rules

    def _given(self, fields: Sequence[Array]) -> list[Array]:
        """The fields, of one shape, with core axes last."""
        if self._axes is None and all(field.shape == self._whole for field in fields):
            return list(fields)
        whole = [
            field if field.shape == self._whole else np.broadcast_to(field, self._whole)
            for field in fields
        ]
        return [self._moved(field) for field in whole]

    def _moved(self, array: Array) -> Array:
        return np.moveaxis(array, self._axes, self._ends) if self._axes else array


def given_boundary(given: Any) -> Boundary:
    """A border that was written so, of which a call like it went well."""
    if isinstance(given, Condition):
        return Boundary(((given, given),), True)
    pairs = [(one, one) if isinstance(one, str | Condition) else tuple(one) for one in given]
    return Boundary(tuple(pairs), False)
