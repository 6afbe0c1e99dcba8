"""Tasks of a graph on cut arrays: which calls are one task a chunk, and which follow others.

graph on arrays that are cut     ->     sets of calls, each of which is a program

    y = blur(x)                  z, where nobody asks for y:   sharpen and blur, from x
    z = sharpen(y)        ->     where somebody does:          sharpen, from y

Whether somebody does is known once a graph is asked for its blocks.  So the layer of `z` holds
both, and takes one when it is culled.  Where all that was given is read from sources, the one
program reads regions of these, if that decodes little more than the blocks alone.

Calls that ask for positions stay apart: these are fields of one program, for its own arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..arrays.accepted import is_chunked, is_cupy
from ..arrays.chunked.computation import Computation, readable
from ..arrays.chunked.layer import Lazy, Origin, known
from ..arrays.every import cut_shapes
from ..arrays.grid import grid_of
from ..arrays.layout import Shape
from ..arrays.numpy import broadcast_shape
from ..arrays.regions import finer_values, look, needed, rings
from .graph import Graph, Node, Nodes, Values
from .planning import in_sets
from .program import Program

# Points of one call that may be computed beside those of a chunk for each task that this saves:
# they take about a fifth of the least that a task costs, of the schedulers the threaded one (100
# us for a block of 20x20, Zen 4).
FREE = 1 << 17

# The part by which the work may grow besides: two tasks a chunk and the faces of one more value
# cost less than that.
MORE = 0.15

# More calls than these are not made one: a plan of many takes its time, at each call.
MOST = 8

# Stands for a length that nobody knows.
_LONG = 1 << 20

# Far from all ends.
_MIDDLE = 1 << 40


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
    nodes = _cut(graph.needed(wanted), counts)
    shapes = graph.shapes([array.shape for array in arrays])
    one = _Division(graph, frozenset(wanted), shapes, counts)

    def apart(node: Node, users: Nodes, joined: Nodes) -> str:
        if node.resizes and not node.factors:
            return "it gives fewer points than it is given"
        if any(one.factors for one in joined):
            return "it gives more points than it is given"
        if not one.together(joined):
            return "a task of its own takes less"
        return ""

    sets = in_sets(nodes, apart)[0]
    for k in range(len(sets) - 1):
        sets[k : k + 2] = one.cut_thin(sets[k], sets[k + 1])
    return sets


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
            if bytes_ < best and self.together(first):
                best, found = bytes_, (first, second)
        return found

    def _between(self, first: Nodes, second: Nodes) -> int:
        """Bytes for each point of what some nodes make for others alone."""
        made = {value for node in first for value in node.outputs} - self.wanted
        read = {value for node in second for value in node.fields}
        return sum(self.graph.dtypes[value].itemsize for value in made & read)

    def together(self, nodes: Nodes) -> bool:
        """Whether nodes can be one task a chunk, and better are than one task more."""
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
        if any(n > 1 and len(rings(nodes, k)) > 1 for k, n in enumerate(counts, -len(counts))):
            return math.prod(shape) == 0
        most = (1 + MORE) * len(nodes) * math.prod(shape) + FREE * math.prod(counts)
        return self._points(nodes, shape, counts) <= most

    def _points(self, nodes: Nodes, shape: Shape, counts: Sequence[int]) -> float:
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


# Calls that follow each other.


def follow(program: Program, made: Sequence[Any]) -> None:
    """Let what a program gives be made from what its fields were made from.

    That is done where all of that can be read, or has chunks that the graph has.

    Parameters
    ----------
    program : Program
    made : sequence of dask.array.Array
        What the program makes of them, whose layers nobody else has yet.
    """
    origin = known(made[0], "origin")
    if origin is None or _asks(program):
        return
    own, layer = origin.computation, origin.computation.layer
    if not isinstance(layer, Lazy) or any(is_cupy(array._meta) for array in own.arrays):
        return
    makers = [_maker(array, program, layer) for array in own.arrays]
    whole = _composed(own, program, makers) if any(makers) else None
    if whole is None:
        return
    whole.sources = readable(whole.program, whole.arrays, whole.chunks)
    before = [maker.computation for maker in makers if maker]
    if not whole.sources:
        # What Dask makes one with something else is not there for others.
        fused = not all(isinstance(one.layer, Lazy) for one in before)
        there = set() if fused else made[0].dask.layers.keys()
        if not whole.fits or not {array.name for array in whole.arrays} <= there:
            return
    passed = frozenset().union(*(one.passed for one in before))
    whole.layer = whole.blocks(layer.name)
    whole.passed = own.passed | passed
    layer.further = whole.layer, passed, bool(whole.sources)
    own.further = whole


def _maker(array: Any, program: Program, layer: Any) -> Origin | None:
    """What made a field, and as which result, where that may be one with what it is given to."""
    found: Origin | None = known(array, "origin")
    if found is None:
        return None
    one = found.computation
    if (
        type(one.program) is not Program
        or _asks(one.program)
        or one.program.schedule != program.schedule
        or repr(getattr(one.layer, "annotations", None)) != repr(layer.annotations)
    ):
        return None
    return Origin(one.further or one, found.which)


def _asks(program: Program) -> bool:
    """Whether calls of a program have fields that nobody names: positions, and border values."""
    return any(len(node.fields) > len(node.types) for node in program.graph.nodes)


def _composed(
    one: Computation, program: Program, makers: Sequence[Origin | None]
) -> Computation | None:
    """What makers and a program do, as one program of what these were given.

    There is none where the calls are better done in several tasks a block.
    """
    given = [
        maker.computation.inputs if maker else [field]
        for field, maker in zip(one.inputs, makers, strict=True)
    ]
    inputs = {array.name: (array, dtype) for some in given for array, dtype in some}
    arrays, dtypes = zip(*inputs.values(), strict=True)
    places = {name: k for k, name in enumerate(inputs)}
    graph = Graph([f"f{k}" for k in places.values()], dtypes)
    starts: list[int] = []
    for some, maker in zip(given, makers, strict=True):
        values = [places[array.name] for array, _ in some]
        if maker is not None:
            made = maker.computation.program
            numbers = graph.append(made.graph, dict(enumerate(values)))
            values = [numbers[made.wanted[maker.which]]]
        starts += values
    numbers = graph.append(program.graph, dict(enumerate(starts)))
    wanted = [numbers[value] for value in program.wanted]
    nodes = graph.needed(wanted)
    if len(nodes) > MOST or len(divided(graph, wanted, arrays)) > 1:
        return None
    whole, sources = Program.of_calls(graph, nodes, wanted, program.schedule)
    order = [arrays[value] for value in sources]
    if grid_of(order)[0] != one.shape:
        # A longer one is cut where a call takes it with a shorter one.
        return None
    return Computation(whole, one.shape, one.chunks, order)
