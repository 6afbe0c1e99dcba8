"""Strips: the ghosts around arrays of NumPy, each computed at once from what it mirrors.

    the field, and strips before          alpha * mirrored + beta          the strip

A strip of a later axis mirrors the strips of the earlier ones as well, where it stands beside
them; there the values of its condition are those at the end of the edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..borders import Array
from ..conditions import Condition
from ..layout import Region, Shape
from ..shells import Shell, Strip
from .sides import Sides

Index: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a strip, what it mirrors (of the field, -1, or of a strip), and values for it.

    `values` say for axes other than that of the strip, counted from the end, from where to where
    the part is, and how long the array is.
    """

    target: Index
    source: int
    mirrored: Index
    values: tuple[tuple[int, int, int, int], ...]


class Strips:
    """How the strips of a shell are computed, for fields with these stacks and types."""

    def __init__(self, shell: Shell, lead: Shape, dtypes: Sequence[np.dtype]) -> None:
        self._shell = shell
        self._parts = [_parts(shell, number) for number in range(len(shell.strips))]
        self._views = [
            [
                ((*lead, *strip.region.shape), dtype, begin)
                for strip, begin in zip(shell.strips, begins, strict=True)
            ]
            for dtype, begins in zip(dtypes, shell.begins, strict=True)
        ]
        self._wide = [np.dtype("complex128" if d.kind == "c" else "float64") for d in dtypes]
        self._distances = [_distances(strip) for strip in shell.strips]

    def fill(self, fields: Sequence[Array], sides: Sides, memory: Array, begin: int) -> None:
        """Compute the ghosts of fields, in memory that begins at some byte."""
        rules = [sides.rules[strip.axis][strip.side] for strip in self._shell.strips]
        with np.errstate(all="ignore"):
            known = [_said(*pair) for pair in zip(rules, self._distances, strict=True)]
            for field, views, wide in zip(fields, self._views, self._wide, strict=True):
                strips: list[Array] = []
                for said, (shape, dtype, at), parts in zip(known, views, self._parts, strict=True):
                    strip: Array = np.ndarray(shape, dtype, memory, begin + at)
                    strips.append(strip)
                    _fill(strip, parts, [*strips, field], said, wide)


# What a condition says: its kind, alpha and beta.
_Said: TypeAlias = tuple[str, Any, Any]


def _said(one: Condition, distance: Any) -> _Said:
    """What a condition says of ghosts at these distances from what they mirror."""
    if one.at == "cell":
        return "value", None, one.c
    if one.kind == "dirichlet":
        return "face", None, 2 * one.c
    if one.kind == "neumann":
        return "slope", None, one.c * distance(one.dx)
    d = distance(one.dx)
    half = one.a * (d / 2)
    below = one.b + half
    return "mix", (one.b - half) / below, one.c * d / below


def _fill(
    strip: Array, parts: Sequence[_Part], sources: Sequence[Array], said: _Said, wide: np.dtype
) -> None:
    kind, alpha, beta = said
    if kind == "value" and not np.ndim(beta):
        strip[...] = beta
        return
    for part in parts:
        target = strip[part.target] if len(parts) > 1 else strip
        c = _beside(beta, part)
        if kind == "value":
            target[...] = c
            continue
        one = sources[part.source][part.mirrored]
        if kind == "face":
            np.subtract(c, one, out=target, dtype=wide, casting="unsafe")
        else:
            if kind == "mix":
                one = np.multiply(_beside(alpha, part), one, dtype=wide)
            np.add(one, c, out=target, dtype=wide, casting="unsafe")


def _beside(value: Any, part: _Part) -> Any:
    """Values along a part of an edge; beyond its ends the last ones stand."""
    if not np.ndim(value) or not part.values:
        return value
    index: list[Any] = [slice(None)] * value.ndim
    for axis, start, stop, n in part.values:
        if value.shape[axis] == 1 or (start == 0 and stop == n):
            continue
        if start < 0 < stop or start < n < stop:
            value = value.take(np.clip(np.arange(start, stop), 0, n - 1), axis)
        else:
            at = 0 if start < 0 else n - 1
            index[axis] = slice(at, at + 1)
    return value[tuple(index)]


def _distances(strip: Strip) -> Any:
    """Gives the distances between ghosts and what they mirror, for a distance of neighbours."""
    axis, count = strip.axis, strip.region.shape[strip.axis]
    if count == 1:
        return lambda dx: dx
    steps = np.arange(1, 2 * count, 2)
    steps = steps if strip.side else steps[::-1]
    steps = steps.reshape([-1 if k == axis else 1 for k in range(len(strip.region.shape))])
    return lambda dx: steps * dx


def _parts(shell: Shell, number: int) -> list[_Part]:
    """The parts of a strip: beside the array, and beside each strip of the axes before."""
    strip = shell.strips[number]
    axis, region, n = strip.axis, strip.region, shell.shape[strip.axis]
    count = region.shape[axis]
    # The elements that are mirrored, the last of them first where the strip begins far outside.
    low = 0 if strip.side == 0 else n - count
    boxes = [(-1, Region((0,) * len(shell.shape), shell.shape))]
    boxes += [
        (k, other.region) for k, other in enumerate(shell.strips[:number]) if other.axis < axis
    ]
    found = []
    for source, box in boxes:
        target: list[Any] = []
        mirrored: list[Any] = []
        values: list[tuple[int, int, int, int]] = []
        for k, (a, b) in enumerate(zip(box.start, box.stop, strict=True)):
            if k == axis:
                target.append(slice(None))
                mirrored.append(_backward(low - a, count))
                continue
            target.append(slice(a - region.start[k], b - region.start[k]))
            mirrored.append(slice(None))
            values.append((k - len(shell.shape), a, b, shell.shape[k]))
        found.append(_Part((..., *target), source, (..., *mirrored), tuple(values)))
    return found


def _backward(first: int, count: int) -> slice:
    """So many elements from a first one on, the last of them first."""
    return slice(first + count - 1, first - 1 if first else None, -1)
