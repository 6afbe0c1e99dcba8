"""Regions: how much of its fields a sequence of nodes needs, for a part of what it gives.

    domain     |=========================================|
    block      |================|                          low side closed, high side open
    result     |=============|

A side of a block is *closed* where the array ends there too, so that border rules apply, and
*open* where only the block ends: there a result is smaller by what the nodes look at.  All that
a rule puts outside an array lies inside of it, no further from its end than the point outside
is.  So a block that is closed at a side holds all that is needed if it is longer than a node
looks.  Along an axis that wraps no point is different from others: a block has neighbours
from the other end of the array, its positions then count on beyond the array, and both its
sides are open; or it is the whole axis, and both are closed.

Axes are independent of each other, so all is said for one axis at a time, counted from the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from ..language.box import Box, joined
from .borders import Border, Boundary, Rule
from .layout import Region, Shape
from .numpy import Behind

# The positions first <= i < last along an axis.
Span: TypeAlias = tuple[int, int]

# A position far from all ends.
_FAR = 1 << 40


def along(shape: Shape, axis: int, span: Span) -> Region:
    """The points of a part of an axis, which is counted from the end."""
    spans = [(0, n) for n in shape]
    spans[axis] = span
    return Region(tuple(spans))


def spans_of(sizes: Sequence[int]) -> list[Span]:
    """From where to where each chunk of an axis is."""
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))


class Node(Protocol):
    """One call: its fields and its results are values, by number."""

    @property
    def fields(self) -> tuple[int, ...]: ...

    @property
    def outputs(self) -> tuple[int, ...]: ...

    @property
    def along(self) -> Behind:
        """The axes that it works along."""

    @property
    def border(self) -> Border: ...

    @property
    def boundary(self) -> Boundary:
        """The same with its conditions."""

    def text(self, border: Border) -> Any:
        """What does it on a GPU, under a border."""

    @property
    def thick(self) -> int:
        """How many elements at an end what stands outside depends on, at least."""

    @property
    def every(self) -> Shape:
        """Along each axis, of how many points one is made."""

    @property
    def thins(self) -> bool:
        """Whether some points are not made, because of `every`."""

    @property
    def full(self) -> Node:
        """The same call, which makes all points."""

    @property
    def cval(self) -> Any: ...

    @property
    def factors(self) -> Sequence[int]:
        """By how much the results are longer along these axes; nothing if they are not."""

    @property
    def reaches(self) -> tuple[Box, ...]:
        """Where each output looks."""

    @property
    def out_dtypes(self) -> Sequence[Any]: ...

    @property
    def program(self) -> Any:
        """What computes it, its scalars bound."""


def look(node: Node, axis: int) -> Span:
    """From where to where a node looks along an axis, the point itself always among it."""
    if axis not in node.along:
        return 0, 0
    before, after = joined(node.reaches).sides[node.along.index(axis)]
    return -before, after


def rules(node: Node, axis: int) -> tuple[Rule, Rule] | None:
    """The border's rules along an axis, or None where the node does not work along it."""
    return node.border.rules[node.along.index(axis)] if axis in node.along else None


def rings(nodes: Iterable[Node], axis: int) -> set[bool]:
    """Whether the nodes that look along an axis take it as a ring."""
    return {"wrap" in (rules(node, axis) or ()) for node in nodes if any(look(node, axis))}


def wraps(nodes: Iterable[Node], axis: int) -> bool:
    """Whether some nodes that look along an axis take it as a ring."""
    return True in rings(nodes, axis)


def mixed(nodes: Iterable[Node], axis: int) -> bool:
    """Whether some nodes that look along an axis take it as a ring, and others do not."""
    return len(rings(nodes, axis)) > 1


def hull(one: Span | None, other: Span) -> Span:
    """The least span that holds both."""
    return other if one is None else (min(one[0], other[0]), max(one[1], other[1]))


def needed(
    nodes: Sequence[Node], wanted: Iterable[int], span: Span, n: int, axis: int
) -> tuple[dict[int, Span], list[Span | None]]:
    """What must be known to give `span` of the wanted values along an axis of length `n`.

    Returns
    -------
    dict, list
        The span of each value, and the span of the fields of each node; None for nodes that
        are not needed.
    """
    values: dict[int, Span] = dict.fromkeys(wanted, span)
    taken: list[Span | None] = [None] * len(nodes)
    ring = wraps(nodes, axis)
    whole = span == (0, n)
    for position in reversed(range(len(nodes))):
        node = nodes[position]
        made: Span | None = None
        for value in node.outputs:
            if value in values:
                made = hull(made, values[value])
        if made is None:
            continue
        read = (0, n) if whole else grown(made, n, look(node, axis), ring, node.thick)
        if ring and not whole and read[1] - read[0] >= n:
            # The same points again and again: the axis is done as a whole.
            return needed(nodes, wanted, (0, n), n, axis)
        taken[position] = read
        for value in node.fields:
            values[value] = hull(values.get(value), read)
    return values, taken


def fields_span(
    nodes: Sequence[Node], wanted: Iterable[int], count: int, span: Span, n: int, axis: int
) -> Span:
    """What is needed of the fields, the first `count` values, all of them alike."""
    values, _ = needed(nodes, wanted, span, n, axis)
    found: Span | None = None
    for value in range(count):
        if value in values:
            found = hull(found, values[value])
    return span if found is None else found


def grown(span: Span, n: int, looks: Span, ring: bool, least: int = 1) -> Span:
    """What a node that looks so far needs of its fields, along an axis of length `n`.

    At an end of the axis these are `least` so many.
    """
    low, high = looks
    first, last = span[0] + low, span[1] + high
    if ring or low == high == 0:
        return first, last
    thick = max(high - low + 1, least)
    if first <= 0:
        first, last = 0, max(last, thick)
    if last >= n:
        first, last = max(0, min(first, n - thick)), n
    return first, last


def closed(node: Node, axis: int, span: Span, n: int) -> tuple[bool, bool]:
    """At which sides of a span of its fields the node's border rule applies."""
    if "wrap" in (rules(node, axis) or ()):
        return (span == (0, n),) * 2
    return span[0] == 0, span[1] == n


def reach(nodes: Sequence[Node], wanted: Iterable[int], sources: Iterable[int], axis: int) -> Span:
    """From where to where the wanted values look in the sources, far from any border."""
    values, _ = needed(nodes, wanted, (_FAR, _FAR + 1), 2 * _FAR, axis)
    spans = [values[value] for value in sources if value in values]
    low, high = min((a for a, _ in spans), default=_FAR), max((b for _, b in spans), default=0)
    return min(0, low - _FAR), max(0, high - _FAR - 1)
