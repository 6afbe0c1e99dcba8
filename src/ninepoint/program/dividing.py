"""Tasks of a graph on cut arrays: which calls are one task a chunk.

graph on arrays that are cut     ->     sets of calls, each of which is a program

Calls that ask for positions stay apart: these are fields of one program, for its own arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..arrays.accepted import is_chunked
from ..arrays.every import cut_shapes
from ..arrays.layout import Shape
from ..arrays.numpy import broadcast_shape
from ..arrays.regions import Looking, finer_values, rings
from .graph import Graph, Node, Nodes, Values
from .planning import in_sets

# Points of one call that may be computed beside those of a chunk for each task that this saves:
# they take about a fifth of the least that a task costs, of the schedulers the threaded one (100
# us for a block of 20x20, Zen 4).
FREE = 1 << 17

# The part by which the work may grow besides: two tasks a chunk and the faces of one more value
# cost less than that.
MORE = 0.15


def divided(graph: Graph, wanted: Values, arrays: Sequence[Any]) -> list[list[Node]]:
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
    shapes = graph.shapes([array.shape for array in arrays])
    nodes, fine = _cut(graph.needed(wanted), counts), finer_values(graph.nodes)

    def apart(node: Node, users: Nodes, joined: Nodes) -> str:
        if node.resizes and not node.factors:
            return "it gives fewer points than it is given"
        if any(one.factors for one in joined):
            return "it gives more points than it is given"
        shape, *others = {
            broadcast_shape(cut_shapes([shapes[v] for v in one.fields], one.fields, fine))
            for one in joined
        }
        if others:
            return "it has another shape"
        return _repeats(joined, shape, counts[joined[-1].outputs[0]])

    return in_sets(nodes, apart)[0]


def _cut(nodes: Nodes, counts: dict[int, Shape]) -> list[Node]:
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


def _repeats(nodes: Nodes, shape: Shape, counts: Shape) -> str:
    """Why nodes on fields of a shape, cut in so many chunks, are not one task; empty if they are.

    The first of them compute what all that follow look at, on average half of that.
    """
    count, grown = 1 + max(nodes[-1].outputs), 1.0
    for axis, parts in enumerate(counts, -len(counts)):
        if parts == 1:
            continue
        if len(rings(nodes, axis)) > 1:
            return "some take a cut axis for a ring"
        one = Looking.of(nodes, nodes[-1].outputs, count, axis)
        if one.low < one.high:
            grown *= 1 + (one.high - one.low) / 2 / max(1, shape[axis] / parts)
    again = (grown - 1 - MORE) * len(nodes) * math.prod(shape) / math.prod(counts)
    return "a task of its own takes less" if again > FREE else ""
