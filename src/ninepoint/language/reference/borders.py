"""What lies outside an array, in the most literal form: walk there, one bounce at a time.

A neighbour outside is found by the rule of the side on which it lies.  Where two axes
have different rules for an output without neighbours ("fill", "keep"), the first axis says.

Conditions extend the array first, axis by axis; the rules with names hold for what is extended so.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from .number import Array, Point, number

Reach: TypeAlias = tuple[Point, Point]
# Names, and conditions: anything that has `kind`, `order`, `values`, `dx`, `at` and `step`.
Rules: TypeAlias = tuple[tuple[Any, Any], ...]


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


def neighbour(array: Array, place: Point, rules: Rules, cval: Any) -> Any:
    """The element at a place that may lie outside, along the last axes of an array."""
    inside, beyond = list(place), None
    for axis, pair in enumerate(rules, array.ndim - len(rules)):
        position, size = place[axis], array.shape[axis]
        if 0 <= position < size:
            continue
        rule = pair[0] if position < 0 else pair[1]
        if rule == "constant":
            return array.dtype.type(cval)
        if isinstance(rule, str):
            inside[axis] = outside(position, size, rule)
        else:
            # Later axes extend what earlier ones have extended.
            beyond = axis, rule
    if beyond is None:
        return array[tuple(inside)]
    axis, rule = beyond

    def along(position: int) -> Any:
        there = (*inside[:axis], position, *inside[axis + 1 :])
        return neighbour(array, there, rules, cval)

    position, size = inside[axis], array.shape[axis]
    if rule.kind == "extrapolate":
        nodes = [k if position < 0 else size - 1 - k for k in range(rule.order + 1)]
        return array.dtype.type(_on_polynomial([(node, along(node)) for node in nodes], position))
    source = outside(position, size, "reflect")
    edge = np.delete(array.shape, axis)
    at = tuple(np.clip(np.delete(inside, axis), 0, edge - 1))
    places = np.meshgrid(*map(np.arange, edge[array.ndim - len(rules) :]), indexing="ij")
    numbers = []
    for given in rule.values:
        # A function says what stands at each place of the edge.
        laid = given(rule.step, *places) if callable(given) else given
        numbers.append(np.broadcast_to(laid, edge)[at])
    if rule.at == "cell":
        return array.dtype.type(numbers[0])
    wide = map(_wide, (along(source), *numbers))
    return array.dtype.type(_ghost(rule.kind, abs(position - source) * rule.dx, *wide))


def _ghost(kind: str, distance: float, mirrored: Any, *values: Any) -> Any:
    """What stands outside, so that with what is mirrored there it meets a condition."""
    match kind:
        case "dirichlet":
            # The value is half way between the two.
            return 2 * values[0] - mirrored
        case "neumann":
            # The slope is that from one to the other.
            return mirrored + values[0] * distance
        case _:
            # a * (ghost + mirrored) / 2 + b * (ghost - mirrored) / distance = c
            a, b, c = values
            half = a * (distance / 2)
            return (b - half) / (b + half) * mirrored + c * distance / (b + half)


def _on_polynomial(nodes: list[tuple[int, Any]], position: int) -> Any:
    """What stands at a position on the polynomial through some elements."""
    if len(nodes) == 1:
        return nodes[0][1]
    terms = []
    for node, element in nodes:
        # Lagrange's polynomial of this node, which is 0 at all others.
        others = [other for other, _ in nodes if other != node]
        above = np.prod([position - other for other in others])
        terms.append(above / np.prod([node - other for other in others]) * _wide(element))
    return reduce(operator.add, terms)


def _wide(value: Any) -> Any:
    """The number with double precision, as ghosts are computed."""
    return np.result_type(value, np.float64).type(value)


def bordered(
    values: Array,
    reach: Reach,
    rules: Rules,
    cval: Any,
    field: Array | None,
    factors: Point,
) -> Array:
    """One output with its points near the border filled, kept as in `field`, or cut off.

    Around each element there are so many results as `factors` say.
    """
    result, first = values.copy(), values.ndim - len(rules)
    # The rule by which an output has no value of its own: that of the first axis which has one.
    without = np.full(values.shape, "", object)
    cut: list[Any] = [slice(None)] * values.ndim
    axes = zip(range(first, values.ndim), *reach, factors, rules, strict=True)
    for axis, lo, hi, k, (before, after) in reversed([*axes]):
        # From where on there is nothing outside, and up to where.
        size = values.shape[axis]
        start, stop = max(0, -lo * k), max(0, size - max(0, hi * k))
        for rule, part in ((after, slice(stop, None)), (before, slice(start))):
            if rule in ("fill", "keep"):
                without[(slice(None),) * axis + (part,)] = rule
        cut[axis] = slice(start if before == "valid" else 0, stop if after == "valid" else size)
    for point in np.ndindex(values.shape):
        if without[point] == "fill":
            result[point] = number(cval)
        elif without[point] == "keep":
            if field is None:
                raise ValueError("'keep' needs a field for each output")
            element = (p // k for p, k in zip(point[first:], factors, strict=True))
            result[point] = number(field[*point[:first], *element])
    found: Array = result[(*cut, ...)]
    return found
