"""What lies outside an array, in the most literal form: walk there, one bounce at a time.

A neighbour outside is found by the rule of the side on which it lies.  Where two axes
have different rules for an output without neighbours ("fill", "keep"), the first axis says.

Conditions extend the array first, axis by axis; the rules with names hold for what is extended so.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from .number import number

Array: TypeAlias = np.ndarray[Any, Any]
Reach: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
# Names, and conditions: anything that has `kind`, `abc`, `dx`, `at` and `step`.
Rules: TypeAlias = tuple[tuple[Any, Any], ...]

NOTHING_OUTSIDE = ("fill", "keep", "valid")


def outside(position: int, size: int, rule: str) -> int:
    """Where in an axis of `size` elements the neighbour at `position` is found.

    One step at a time: a bounce at an end, or once round.
    """
    while not 0 <= position < size:
        match rule:
            case "wrap":
                position += size if position < 0 else -size
            case "reflect":
                position = -1 - position if position < 0 else 2 * size - 1 - position
            case "mirror" if size > 1:
                position = -position if position < 0 else 2 * (size - 1) - position
            case _:
                position = 0 if position < 0 or rule == "mirror" else size - 1
    return position


def neighbour(array: Array, place: tuple[int, ...], rules: Rules, cval: Any) -> Any:
    """The element at a place that may lie outside, along the last axes of an array."""
    first = array.ndim - len(rules)
    inside = list(place)
    beyond: list[tuple[int, Any]] = []
    for axis, (position, pair) in enumerate(zip(place[first:], rules, strict=True), first):
        size = array.shape[axis]
        if 0 <= position < size:
            continue
        rule = pair[0] if position < 0 else pair[1]
        if rule == "constant":
            return array.dtype.type(cval)
        if isinstance(rule, str):
            inside[axis] = outside(position, size, rule)
        else:
            beyond.append((axis, rule))
    if not beyond:
        return array[tuple(inside)]
    # Later axes extend what earlier ones have extended.
    axis, rule = beyond[-1]
    if rule.kind == "extrapolate":
        return _on_polynomial(array, inside, axis, rule.order, rules, cval)
    source = outside(inside[axis], array.shape[axis], "reflect")
    distance = abs(inside[axis] - source) * rule.dx
    a, b, c = (_on_edge(value, array.shape, inside, first, axis, rule.step) for value in rule.abc)
    if rule.at == "cell":
        return array.dtype.type(c)
    a, b, c = map(_wide, (a, b, c))
    inside[axis] = source
    mirrored = _wide(neighbour(array, tuple(inside), rules, cval))
    match rule.kind:
        case "dirichlet":
            # The value is half way between the two.
            ghost = 2 * c - mirrored
        case "neumann":
            # The slope is that from one to the other.
            ghost = mirrored + c * distance
        case _:
            # a * (ghost + mirrored) / 2 + b * (ghost - mirrored) / distance = c
            half = a * (distance / 2)
            ghost = (b - half) / (b + half) * mirrored + c * distance / (b + half)
    return array.dtype.type(ghost)


def _on_polynomial(
    array: Array, inside: list[int], axis: int, order: int, rules: Rules, cval: Any
) -> Any:
    """What stands at a place on the polynomial through the last elements of an axis."""
    position, size = inside[axis], array.shape[axis]
    nodes = [k if position < 0 else size - 1 - k for k in range(order + 1)]
    elements = [
        neighbour(array, (*inside[:axis], node, *inside[axis + 1 :]), rules, cval)
        for node in nodes
    ]
    if order == 0:
        return elements[0]
    total: Any = None
    for node, element in zip(nodes, elements, strict=True):
        # Lagrange's polynomial of this node, which is 0 at all others.
        others = [other for other in nodes if other != node]
        above = np.prod([position - other for other in others])
        term = above / np.prod([node - other for other in others]) * _wide(element)
        total = term if total is None else total + term
    return array.dtype.type(total)


def _on_edge(
    value: Any, shape: tuple[int, ...], inside: list[int], first: int, axis: int, step: int
) -> Any:
    """What a number of a condition is beside a place: that of the nearest place on the edge."""
    others = [k for k in range(len(shape)) if k != axis]
    if callable(value):
        positions = [np.arange(shape[k]) for k in others if k >= first]
        value = value(step, *np.meshgrid(*positions, indexing="ij"))
    edge = np.broadcast_to(value, [shape[k] for k in others])
    return edge[tuple(min(max(inside[k], 0), shape[k] - 1) for k in others)]


def _wide(value: Any) -> Any:
    """The number with double precision, as ghosts are computed."""
    return np.complex128(value) if np.asarray(value).dtype.kind == "c" else np.float64(value)


def bordered(
    values: Array,
    reach: Reach,
    rules: Rules,
    cval: Any,
    field: Array | None,
    factors: tuple[int, ...],
) -> Array:
    """One output with its points near the border filled, kept as in `field`, or cut off.

    Around each element there are so many results as `factors` say.
    """
    result = values.copy()
    first = values.ndim - len(rules)
    shape = tuple(n // k for n, k in zip(values.shape[first:], factors, strict=True))
    cut = [slice(None)] * first
    for lo, hi, size, (before, after), k in zip(*reach, shape, rules, factors, strict=True):
        start = max(0, -lo) if before == "valid" else 0
        stop = size - max(0, hi) if after == "valid" else size
        cut.append(slice(start * k, max(start, stop) * k))
    for point in np.ndindex(values.shape):
        element = tuple(p // k for p, k in zip(point[first:], factors, strict=True))
        match _rule(element, reach, shape, rules):
            case "fill":
                result[point] = number(cval)
            case "keep":
                if field is None:
                    raise ValueError("'keep' needs a field for each output")
                result[point] = number(field[*point[:first], *element])
    return result[tuple(cut)]


def _rule(point: tuple[int, ...], reach: Reach, shape: tuple[int, ...], rules: Rules) -> str:
    """The first rule by which an output at `point` has no value of its own."""
    for position, lo, hi, size, (before, after) in zip(point, *reach, shape, rules, strict=True):
        if position + lo < 0 and before in ("fill", "keep"):
            return str(before)
        if position + hi >= size and after in ("fill", "keep"):
            return str(after)
    return ""
