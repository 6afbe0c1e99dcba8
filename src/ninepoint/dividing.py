"""Dividing a graph on arrays that are cut: which calls are one task a chunk.

graph on arrays that are cut     ->     sets of calls, each of which is a program
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .arrays.accepted import is_chunked
from .arrays.layout import Shape
from .arrays.numpy import broadcast_shape
from .arrays.phases import cut_shapes, finer_values
from .arrays.regions import look, mixed, needed
from .graph import Graph, Node
from .planning import in_sets

# Points of one call that may be computed beside those of a chunk for each task that this saves:
# they take about a fifth of the least that a task costs, of the schedulers the threaded one (100
# us for a block of 20x20, Zen 4).
FREE = 1 << 17

# The part by which the work may grow besides: two tasks a chunk and the faces of one more value
# cost less than that.
MORE = 0.15

# Stands for a length that nobody knows.
_LONG = 1 << 20

# Far from all ends.
_MIDDLE = 1 << 40


def divided(graph: Graph, wanted: Sequence[int], arrays: Sequence[Any]) -> list[list[Node]]:
    """The calls of a graph that are given something cut, in sets each of which is a task a chunk.

    `arrays` are what the graph is given.  A node is done with those that read it; it is apart from
    them where

    - it gives fewer points than it is given ("valid", `every`), so that what reads it counts
      from another point,
    - its results are of another shape: they may be there once for many chunks,
    - the axis that it takes as a ring is cut, and another one of the nodes does not: no block
      of neighbours then serves both,
    - more would be computed again than tasks saved are worth.
    """
    counts = {k: tuple(map(len, one.chunks)) for k, one in enumerate(arrays) if is_chunked(one)}
    nodes = _cut(graph.needed(wanted), counts)
    shapes = graph.shapes([array.shape for array in arrays])
    one = _Division(graph, frozenset(wanted), shapes, counts)

    def apart(node: Node, users: Sequence[Node], homes: Sequence[list[Node]]) -> str:
        joined = sorted([node, *(one for home in homes for one in home)], key=nodes.index)
        if node.resizes and not node.factors:
            return "it gives fewer points than it is given"
        if any(one.factors for one in joined):
            return "it gives more points than it is given"
        if not one.together(joined, len(homes)):
            return "a task of its own takes less"
        return ""

    sets = in_sets(nodes, apart)[0]
    for k in range(len(sets) - 1):
        sets[k : k + 2] = one.cut_thin(sets[k], sets[k + 1])
    return sets


def _cut(nodes: Sequence[Node], counts: dict[int, Shape]) -> list[Node]:
    """The nodes that are given something cut; adds how many chunks their results have."""
    found = []
    for node in nodes:
        given = [counts[value] for value in node.fields if value in counts]
        if given:
            ends = range(-max(map(len, given)), 0)
            most = tuple(max(one[k] for one in given if len(one) >= -k) for k in ends)
            counts |= dict.fromkeys(node.outputs, most)
            found.append(node)
    return found


@dataclass(frozen=True, slots=True)
class _Division:
    """A graph on arrays that are cut: what is wanted, and of all values how they are cut.

    `counts` are how many chunks a value has along each axis.
    """

    graph: Graph
    wanted: frozenset[int]
    shapes: Sequence[Shape]
    counts: Mapping[int, Shape]

    def cut_thin(self, before: list[Node], after: list[Node]) -> tuple[list[Node], list[Node]]:
        """Two sets, one of which reads the other, cut where the fewest bytes lie between them."""
        best = self._between(before, after)
        found = before, after
        if not best or any(node.resizes for node in (*before, *after)):
            return found
        for k in range(1, len(after)):
            first, second = [*before, *after[:k]], after[k:]
            bytes_ = self._between(first, second)
            if bytes_ < best and self.together(first, 1):
                best, found = bytes_, (first, second)
        return found

    def _between(self, first: Sequence[Node], second: Sequence[Node]) -> int:
        """Bytes for each point of what some nodes make for others alone."""
        made = {value for node in first for value in node.outputs} - self.wanted
        read = {value for node in second for value in node.fields}
        return sum(self.graph.dtypes[value].itemsize for value in made & read)

    def together(self, nodes: Sequence[Node], fewer: int) -> bool:
        """Whether nodes can be one task a chunk, and better are than so many more tasks."""
        fine = finer_values(self.graph.nodes)
        whole = {
            broadcast_shape(cut_shapes([self.shapes[v] for v in node.fields], node.fields, fine))
            for node in nodes
        }
        if len(whole) > 1:
            return False
        # A length that is not known is that of an axis that no node works along: any will do.
        shape = tuple(_LONG if math.isnan(n) else n for n in next(iter(whole)))
        own = self.counts[nodes[-1].outputs[0]]
        counts = [1] * (len(shape) - len(own)) + list(own)
        if any(n > 1 and mixed(nodes, axis) for axis, n in enumerate(counts, -len(counts))):
            return math.prod(shape) == 0
        most = (1 + MORE) * len(nodes) * math.prod(shape) + FREE * fewer * math.prod(counts)
        return self._points(nodes, shape, counts) <= most

    def _points(self, nodes: Sequence[Node], shape: Shape, counts: Sequence[int]) -> float:
        """The points that all tasks compute."""
        made = {value for node in nodes for value in node.outputs}
        others = (node for node in self.graph.nodes if node not in nodes)
        outside = self.wanted.union(*(node.fields for node in others))
        points = [1.0] * len(nodes)
        for axis, (n, count) in enumerate(zip(shape, counts, strict=True), -len(shape)):
            end = _MIDDLE + max(1, n // count)
            _, taken = needed(nodes, made & outside, (_MIDDLE, end), 2 * _MIDDLE, axis)
            for k, (node, span) in enumerate(zip(nodes, taken, strict=True)):
                if span is not None:
                    low, high = look(node, axis)
                    points[k] *= count * min(n, span[1] - high - span[0] + low)
        return sum(points)
