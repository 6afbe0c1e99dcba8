"""What lies outside an array, in the most literal form: walk there, one bounce at a time.

A neighbour outside is found by the rule of the side on which it lies.  Where two axes
have different rules for an output without neighbours ("fill", "keep"), the first axis says.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from .arguments import number

Array: TypeAlias = np.ndarray[Any, Any]
Reach: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
Rules: TypeAlias = tuple[tuple[str, str], ...]

ALIASES = {
    "edge": "nearest",
    "symmetric": "reflect",
    "periodic": "wrap",
    "grid-wrap": "wrap",
    "grid-mirror": "reflect",
    "grid-constant": "constant",
}
NOTHING_OUTSIDE = ("fill", "keep", "valid")


def parsed_rules(boundary: Any, ndim: int) -> Rules:
    """Give the rules before and after each axis, under our names."""
    entries = [boundary] * ndim if isinstance(boundary, str) else list(boundary)
    pairs = [(entry, entry) if isinstance(entry, str) else tuple(entry) for entry in entries]
    if len(pairs) != ndim:
        raise ValueError(f"{len(pairs)} border rules for {ndim} axes")
    return tuple((ALIASES.get(a, a), ALIASES.get(b, b)) for a, b in pairs)


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


def bordered(values: Array, reach: Reach, rules: Rules, cval: Any, field: Array | None) -> Array:
    """One output with its points near the border filled, kept as in `field`, or cut off."""
    result = values.copy()
    first = values.ndim - len(rules)
    cut = [slice(None)] * first
    for lo, hi, size, (before, after) in zip(*reach, values.shape[first:], rules, strict=True):
        start = max(0, -lo) if before == "valid" else 0
        stop = size - max(0, hi) if after == "valid" else size
        cut.append(slice(start, max(start, stop)))
    for point in np.ndindex(values.shape):
        match _rule(point[first:], reach, values.shape[first:], rules):
            case "fill":
                result[point] = number(cval)
            case "keep":
                if field is None:
                    raise ValueError("'keep' needs a field for each output")
                result[point] = number(field[point])
    return result[tuple(cut)]


def _rule(point: tuple[int, ...], reach: Reach, shape: tuple[int, ...], rules: Rules) -> str:
    """The first rule by which an output at `point` has no value of its own."""
    for position, lo, hi, size, (before, after) in zip(point, *reach, shape, rules, strict=True):
        if position + lo < 0 and before in ("fill", "keep"):
            return before
        if position + hi >= size and after in ("fill", "keep"):
            return after
    return ""
