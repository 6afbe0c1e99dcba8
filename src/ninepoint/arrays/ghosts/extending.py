"""Parts of fields with their ghosts, the elements outside that conditions give."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from ...backends.memory import empty
from ..borders import Rule
from ..conditions import Condition, weights
from ..fitting import fitting_cval
from ..gathering import source_indices
from .sides import CONDITION, Sides, wide


def all_extended(
    fields: Sequence[Any],
    positions: int,
    sides: Sides,
    start: Sequence[int],
    stop: Sequence[int],
) -> list[Any]:
    """The same part of some fields, of which the last ones are positions, with their ghosts."""
    given = len(fields) - positions
    return [
        extended(field, sides if k < given else sides.nearest, start, stop)
        for k, field in enumerate(fields)
    ]


def extended(
    field: Any,
    sides: Sides,
    start: Sequence[int],
    stop: Sequence[int],
) -> Any:
    """The part of a field from `start` to `stop` along its last axes, with ghosts outside it."""
    dtype, geometry = field.dtype.newbyteorder("="), sides.geometry
    sources = [
        [_source(p, n, pair) for p in (*range(a, 0), *range(n, b))]
        for a, b, n, pair in zip(
            start, stop, sides.geometry.core, sides.geometry.rules, strict=True
        )
    ]
    # What is read of each axis: the part itself, and what ghosts are made of.
    has = []
    for a, b, n, read, pair in zip(start, stop, geometry.core, sources, sides.rules, strict=True):
        there = [*(p for p in read if p >= 0), max(a, 0), min(b, n) - 1]
        orders = [one.order if isinstance(one, Condition) else 0 for one in pair]
        there += [min(orders[0], n - 1)] if a < 0 else []
        there += [max(0, n - 1 - orders[1])] if b > n else []
        has.append((min(there), max(there) + 1))
    made = field[(..., *(slice(a, b) for a, b in has))]
    if made.dtype != dtype:
        made = made.astype(dtype)
    # Rules with names hold for what conditions have extended along all axes.
    for k, (n, rules) in enumerate(zip(geometry.core, geometry.rules, strict=True)):
        (a, b), (low, high) = has[k], rules
        a = start[k] if low == CONDITION and start[k] < 0 else a
        b = stop[k] if high == CONDITION and stop[k] > n else b
        made = _with_ghosts(made, sides, has, k, (a, b), dtype)
    for k, (a, b) in enumerate(zip(start, stop, strict=True)):
        made = _with_ghosts(made, sides, has, k, (a, b), dtype)
    return made


def _with_ghosts(
    made: Any,
    sides: Sides,
    has: list[tuple[int, int]],
    k: int,
    wanted: tuple[int, int],
    dtype: np.dtype,
) -> Any:
    """The same from one position to another along an axis, with ghosts where it has none."""
    (a, b), (first, last) = wanted, has[k]
    axis = made.ndim - len(has) + k
    begin, end = max(a, first), min(b, last)
    low = [_ghost(made, sides, has, k, axis, p, dtype) for p in range(a, begin)]
    high = [_ghost(made, sides, has, k, axis, p, dtype) for p in range(end, b)]
    inside = made[_at(made, axis, slice(begin - first, end - first))]
    has[k] = a, b
    return np.concatenate([*low, inside, *high], axis) if low or high else inside


@lru_cache(maxsize=4096)
def _source(position: int, n: int, pair: tuple[str, str]) -> int:
    """The element that a ghost is made of; -1 for none."""
    rule = pair[0] if position < 0 else pair[1]
    name = cast(Rule, "reflect" if rule == CONDITION else rule)
    return int(source_indices(position, position + 1, n, name, name)[0])


def _ghost(
    made: Any,
    sides: Sides,
    has: Sequence[tuple[int, int]],
    k: int,
    axis: int,
    position: int,
    dtype: np.dtype,
) -> Any:
    """The ghosts at a position of an axis, beside all that the other axes have by now."""
    one = sides.rules[k][0 if position < 0 else 1]
    source = _source(position, sides.geometry.core[k], sides.geometry.rules[k])
    shape = (*made.shape[:axis], 1, *made.shape[axis + 1 :])
    if source < 0:
        return _filled(shape, fitting_cval(sides.cval, dtype, "the field"), dtype)
    at = source - has[k][0]
    if not isinstance(one, Condition):
        return made[_at(made, axis, slice(at, at + 1))]

    def part(value: Any) -> Any:
        return _part(value, sides.geometry.core, has, axis - k, k)

    if one.kind == "extrapolate":
        return _extrapolated(made, one.order, position, sides.geometry.core[k], has[k][0], axis)
    if one.at == "cell":
        return _filled(shape, part(one.c), dtype)
    mirrored = wide(made[_at(made, axis, slice(at, at + 1))])
    distance = abs(position - source) * one.dx
    with np.errstate(all="ignore"):
        match one.kind:
            case "dirichlet":
                ghost = 2 * part(one.c) - mirrored
            case "neumann":
                ghost = mirrored + part(one.c) * distance
            case _:
                b, half = part(one.b), part(one.a) * (distance / 2)
                ghost = (b - half) / (b + half) * mirrored + part(one.c) * distance / (b + half)
        return ghost.astype(dtype)


def _extrapolated(made: Any, order: int, position: int, n: int, first: int, axis: int) -> Any:
    """What stands at a position on the polynomial through the last elements of an axis."""
    end, step = (0, 1) if position < 0 else (n - 1, -1)
    elements = [
        made[_at(made, axis, slice(at, at + 1))]
        for at in (end + step * k - first for k in range(order + 1))
    ]
    if not order:
        return elements[0]
    with np.errstate(all="ignore"):
        terms = [
            weight * wide(one)
            for weight, one in zip(weights(order, abs(position - end)), elements, strict=True)
        ]
        total = terms[0] + terms[1]
        for one in terms[2:]:
            total = total + one
        return total.astype(made.dtype)


def _part(
    value: Any, core: Sequence[int], has: Sequence[tuple[int, int]], first: int, own: int
) -> Any:
    """Values beside what the other axes have; beyond the ends of an edge its last value stands."""
    if not getattr(value, "ndim", 0):
        return value
    for k, ((a, b), n) in enumerate(zip(has, core, strict=True)):
        axis = first + k
        if k == own or value.shape[axis] == 1:
            continue
        if a >= 0 and b <= n:
            value = value[_at(value, axis, slice(a, b))]
        else:
            places = np.clip(np.arange(a, b), 0, n - 1)
            value = value[_at(value, axis, places)]
    return value


def _at(array: Any, axis: int, index: Any) -> Any:
    return (*(slice(None),) * axis, index, *(slice(None),) * (array.ndim - axis - 1))


def _filled(shape: tuple[int, ...], value: Any, dtype: np.dtype) -> Any:
    """An array of one value, or of values along an edge."""
    with np.errstate(all="ignore"):
        result = empty(shape, dtype)
        result[...] = value
    return result
