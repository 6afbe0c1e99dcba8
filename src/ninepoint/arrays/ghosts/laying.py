"""Values of conditions laid in memory, from which ghosts are made (see `gathering`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from ...backends.compiled import Bound
from ..borders import Array, Border, Rule
from ..conditions import Condition, weights
from ..executable import Executable
from ..gathering import COPY, FACE, MIX, SLOPE, VALUE, Extension, source_indices
from ..layout import Shape
from .sides import CONDITION, Geometry, Sides

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


class ExtendedCall:
    """Calls of a program on fields of one kind, as one thread does them: it has the values."""

    def __init__(
        self,
        program: Bound,
        fields: Sequence[Array],
        outs: Sequence[Array],
        sides: Sides,
        threads: int | None,
    ) -> None:
        geometry, ndim = sides.geometry, program.ndim
        self._ndim = ndim
        axes = zip(geometry.rules, geometry.reach, geometry.core, strict=True)
        self._ends = [
            _End(axis, side, far, n, ndim)
            for axis, (rules, reach, n) in enumerate(axes)
            for side, (rule, far) in enumerate(zip(rules, reach, strict=True))
            if rule == CONDITION and far
        ]
        self._lead = fields[0].shape[:-ndim]
        said = [_said(sides, end) for end in self._ends]
        self._laid = [
            [self._allocated(dtype, one) for one in said]
            for dtype in program.field_dtypes[: len(program.field_dtypes) - len(program.along)]
        ]
        self._filled: Sides | None = None
        self.run = Executable(
            program, fields, border_of(geometry), sides.cval, None, tuple(outs) or None, threads,
            tuple(map(self._pairs, self._laid)),
        )  # fmt: skip

    def __call__(
        self, fields: Sequence[Array], numbers: Sequence[Any], sides: Sides, outs: Sequence[Array]
    ) -> Any:
        """What a call gives, in `outs` if there are some."""
        if sides is not self._filled:
            self.fill(sides)
        return self.run(fields, numbers, tuple(outs) or None)

    def fill(self, sides: Sides) -> None:
        """Lay the values of conditions."""
        with np.errstate(all="ignore"):
            said = [_said(sides, end) for end in self._ends]
            for own in self._laid:
                for (how, alpha, beta, _), extension in zip(said, own, strict=True):
                    if how == MIX:
                        self._lay(alpha, extension.alpha)
                    if how != COPY:
                        self._lay(beta, extension.beta)
        self._filled = sides

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

    def _pairs(
        self, own: Sequence[Extension]
    ) -> tuple[tuple[Extension | None, Extension | None], ...]:
        """What is laid of a field, before and after each axis."""
        pairs: list[list[Extension | None]] = [[None, None] for _ in range(self._ndim)]
        for end, extension in zip(self._ends, own, strict=True):
            pairs[end.axis][end.side] = extension
        return tuple((before, after) for before, after in pairs)


def border_of(geometry: Geometry) -> Border:
    """The rules, where conditions are constants of a value of their own for each place."""
    ghosts = tuple((low == CONDITION, high == CONDITION) for low, high in geometry.rules)

    def rule(name: str) -> Rule:
        return cast(Rule, "constant" if name == CONDITION else name)

    pairs = tuple((rule(before), rule(after)) for before, after in geometry.rules)
    return Border(pairs, ghosts=ghosts)


def _said(sides: Sides, end: _End) -> _Said:
    """What the condition at a side says of ghosts, for how far they are from what they mirror."""
    one: Condition = sides.rules[end.axis][end.side]
    if one.kind == "extrapolate":
        return MIX if one.order else COPY, end.weights(one.order), 0.0, True
    if one.at == "cell":
        return VALUE, 0.0, one.c, False
    if one.kind == "dirichlet":
        return FACE, 0.0, 2 * one.c, False
    # A number where there is but one ghost.
    d = (end.distances if end.ghosts > 1 else 1) * one.dx
    if one.kind == "neumann":
        return SLOPE, 0.0, one.c * d, False
    half = one.a * (d / 2)
    below = one.b + half
    return MIX, (one.b - half) / below, one.c * d / below, False
