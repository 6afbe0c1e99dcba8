"""Values of conditions laid in memory, from where machine code makes ghosts (see `shells`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np

from ...backends.compiled import Bound
from ...language.dtypes import short
from ..arranging import Arrangement
from ..borders import Array, Border, Rule
from ..conditions import Condition, weights
from ..executable import Executable
from ..layout import Layout, Shape, layout
from ..parts import itemsize_of, moved_arrays
from ..shells import COPY, FACE, MIX, SLOPE, VALUE, Laid, Shell, Strip
from .sides import CONDITION, Geometry, Sides

# How ghosts are made, and alpha and beta.
_Said: TypeAlias = tuple[int, Any, Any]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where values lie: the first byte, their type, and their shape, the stack's axis first."""

    start: int
    dtype: np.dtype[Any]
    shape: Shape

    def strides(self) -> Shape:
        """The bytes between them along each axis; none where they are all alike."""
        found, size = [], self.dtype.itemsize
        for n in reversed(self.shape):
            found.append(0 if n == 1 else size)
            size *= n
        return tuple(reversed(found))


class LaidCall:
    """Calls of a program on fields of one kind, as one thread does them: it has the values."""

    def __init__(
        self,
        program: Bound,
        fields: Sequence[Array],
        outs: Sequence[Array],
        sides: Sides,
        threads: int | None,
    ) -> None:
        border = border_of(sides.geometry)
        plan = plan_of(program, sides.geometry, border)
        shell = Shell.of(plan)
        self._strips, self._lead = shell.strips, fields[0].shape[: -program.ndim]
        said = [_said(sides, strip) for strip in shell.strips]
        self._places: list[list[tuple[_Place, _Place]]] = []
        size = 0
        for dtype in program.field_dtypes[: len(program.field_dtypes) - len(program.along)]:
            own = []
            for how, alpha, beta in said:
                kind = dtype
                if how not in (VALUE, COPY):
                    kind = np.dtype("complex128" if dtype.kind == "c" else "float64")
                pair = []
                for value in (alpha, beta):
                    shape = self._shape(value, plan)
                    pair.append(_Place(size, kind, shape))
                    size += -(-math.prod(shape) * kind.itemsize // 16) * 16
                own.append((pair[0], pair[1]))
            self._places.append(own)
        self._memory = np.zeros(size, np.uint8)
        address = self._memory.ctypes.data
        laid = tuple(
            tuple(
                _laid(address, sides.rules[strip.axis][strip.side], how, *pair)
                for strip, (how, _, _), pair in zip(shell.strips, said, own, strict=True)
            )
            for own in self._places
        )
        self._filled: Sides | None = None
        self.run = Executable(
            program, fields, border, sides.cval, None, tuple(outs) or None, threads,
            replace(shell, laid=laid, memory=self._memory),
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
            said = [_said(sides, strip) for strip in self._strips]
            for own in self._places:
                for (how, *values), pair in zip(said, own, strict=True):
                    for value, place in zip(values, pair, strict=True):
                        if value is not None and not (how != MIX and place is pair[0]):
                            self._lay(value, place)
        self._filled = sides

    def _lay(self, value: Any, place: _Place) -> None:
        count = math.prod(place.shape)
        target = np.ndarray(place.shape, place.dtype, self._memory, place.start)
        if count > 1 and np.ndim(value) and np.shape(value) != place.shape:
            core = place.shape[1:]
            lead = self._lead if place.shape[0] > 1 else (1,) * max(1, len(self._lead))
            value = np.broadcast_to(value, (*lead, *core)).reshape(place.shape)
        target[...] = value

    def _shape(self, value: Any, plan: Layout) -> Shape:
        """The shape in which values are laid, of which all alike are one."""
        core = len(plan.shape)
        if not np.ndim(value):
            return (1,) * (core + 1)
        if isinstance(value, _Weights):
            return tuple(value.shape)
        shape = (1,) * (len(self._lead) + core - np.ndim(value)) + np.shape(value)
        lead = shape[: len(self._lead)]
        stack = 1 if all(n == 1 for n in lead) else math.prod(self._lead)
        return (stack, *shape[len(self._lead) :])


def takes(
    program: Bound, fields: Sequence[Array], outs: Sequence[Array], geometry: Geometry
) -> bool:
    """Whether machine code makes the ghosts of calls on arrays like these."""
    shape = fields[0].shape
    too_short = any(
        any(rule == CONDITION for rule in rules) and n <= max(reach)
        for rules, n, reach in zip(geometry.rules, geometry.core, geometry.reach, strict=True)
    )
    if too_short or any(map(short, program.field_dtypes)):
        return False
    if not math.prod(shape) or len(program.along) != program.positions:
        return False
    if not program.takes_commands or not Arrangement(program, fields, None, tuple(outs)).plain:
        return False
    if len(shape) - program.ndim > 1 and not all(
        one.flags.c_contiguous for one in (*fields, *outs)
    ):
        return False
    return moved_arrays(program, fields, outs) is not None


def plan_of(program: Bound, geometry: Geometry, border: Border) -> Layout:
    """The layout of a call."""
    every = program.every
    return layout(geometry.core, program.reaches, border, itemsize_of(program), every=every)


def border_of(geometry: Geometry) -> Border:
    """The rules, where conditions are constants of a value of their own for each place."""
    ghosts = tuple((low == CONDITION, high == CONDITION) for low, high in geometry.rules)

    def rule(name: str) -> Rule:
        return cast(Rule, "constant" if name == CONDITION else name)

    pairs = tuple((rule(before), rule(after)) for before, after in geometry.rules)
    return Border(pairs, ghosts=ghosts)


def _laid(address: int, one: Condition, how: int, alpha: _Place, beta: _Place) -> Laid:
    """Where what a condition says lies."""
    at_alpha, strides = address + alpha.start, alpha.strides()
    at_beta = address + beta.start, beta.strides()
    if one.kind != "extrapolate":
        return Laid(how, (at_alpha, strides), at_beta)
    terms = one.order + 1, strides[0]
    return Laid(how, (at_alpha, (0, *strides[1:])), at_beta, terms, from_end=True)


def _said(sides: Sides, strip: Strip) -> _Said:
    """What the condition at a side says of ghosts, for how far they are from what they mirror."""
    one: Condition = sides.rules[strip.axis][strip.side]
    if one.kind == "extrapolate":
        return (MIX, _weights(one.order, strip), 0.0) if one.order else (COPY, None, None)
    if one.at == "cell":
        return VALUE, None, one.c
    if one.kind == "dirichlet":
        return FACE, None, 2 * one.c
    d = _distances(strip) * one.dx if strip.region.shape[strip.axis] > 1 else one.dx
    if one.kind == "neumann":
        return SLOPE, None, one.c * d
    half = one.a * (d / 2)
    below = one.b + half
    return MIX, (one.b - half) / below, one.c * d / below


class _Weights(np.ndarray[Any, Any]):
    """By how much each of the last elements counts for ghosts: these first, then all axes."""


def _weights(order: int, strip: Strip) -> _Weights:
    axis, count = strip.axis, strip.region.shape[strip.axis]
    far = range(1, count + 1) if strip.side else range(count, 0, -1)
    found = np.array([weights(order, distance) for distance in far]).T
    shape = [1] * len(strip.region.shape)
    shape[axis] = count
    return found.reshape(order + 1, *shape).view(_Weights)


def _distances(strip: Strip) -> Any:
    """How far ghosts are from what they mirror, in elements."""
    axis, count = strip.axis, strip.region.shape[strip.axis]
    if count == 1:
        return 1
    steps = np.arange(1, 2 * count, 2)
    steps = steps if strip.side else steps[::-1]
    return steps.reshape([-1 if k == axis else 1 for k in range(len(strip.region.shape))])
