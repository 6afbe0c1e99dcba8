"""Tasks of a graph on cut arrays: which calls are one task a chunk, and which follow others.

graph on arrays that are cut     ->     sets of calls, each of which is a program

    y = blur(x)                  z, where nobody asks for y:   sharpen and blur, from x
    z = sharpen(y)        ->     where somebody does:          sharpen, from y

Whether somebody does is known once a graph is asked for its blocks.  So the layer of `z` holds
both, and takes one when it is culled.  Where all that was given is read from sources, the one
program reads regions of these, if that decodes little more than the blocks alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..arrays.accepted import (
    Arrays,
    broadcast_shape,
    is_chunked,
    is_dask,
    is_expression,
    is_there,
)
from ..arrays.blocks import as_dask, grid_of
from ..arrays.chunked import check
from ..arrays.chunked.computation import Computation, lazily, readable, takes_whole
from ..arrays.chunked.layer import Lazy, Origin, known
from ..arrays.ghosts import Edges
from ..arrays.layout import Shape
from ..arrays.regions import FAR, Looking, cut_shapes, finer_values, rings, thinned
from ..program.graph import Graph, Node, Nodes, Values, read_by
from ..program.program import Program, bound, given_on, in_sets

# Points of one call that may be computed beside those of a chunk for each task that this saves:
# they take about a fifth of the least that a task costs, of the schedulers the threaded one (100
# us for a block of 20x20, Zen 4).
FREE = 1 << 17

# The part by which the work may grow besides: two tasks a chunk and the faces of one more value
# cost less than that.
MORE = 0.15

# More calls than these are not made one: a plan of many takes its time, at each call.
MOST = 8


# What makes of a program one whose blocks are sent to a GPU, if they are to be.
Send: TypeAlias = Callable[[Program], Program] | None


def on_chunks(program: Program, arrays: Arrays, send: Send) -> list[Any]:
    """The wanted values, for lazy arrays among those given, by as few tasks a chunk as can be.

    Blocks in the memory of the CPU may be sent to a GPU, each by its task.
    """
    graph, wanted = program.graph, program.wanted
    check(arrays, {axis for node in graph.nodes for axis in node.works_along})
    given = [array for array in arrays if is_expression(array)]
    if given:
        # Imported here: the caller has dask-array.
        from dask_array.io._from_graph import from_graph

        as_expression: Any = from_graph
        # The tasks are written out when the expression is computed; those of the arrays are known
        # by their names.
        results = on_chunks(program, [as_dask(array, {}) for array in arrays], send)
        # Nothing but the name says which keys are the result's: a list of all would be long.
        return [
            as_expression(one.dask, one._meta, one.chunks, (), one.name, given)
            if is_dask(one)
            else one
            for one in results
        ]
    values: dict[int, Any] = dict(enumerate(arrays))
    sets = divided(graph, wanted, arrays)
    later = [node for nodes in sets for node in nodes]
    for node in later:
        # Raises where numbers at the border do not fit.
        Edges(node, (FAR,) * node.ndim).laid(node.boundary)
    # What depends on arrays of NumPy alone is done at once.
    read = {value for node in later for value in node.fields}.union(wanted)
    made_so = {value for node in later for value in node.outputs}
    ready = sorted(value for value in read - made_so if value >= graph.given)
    if ready:
        done, sources = Program.of_calls(graph, graph.needed(ready), ready, program.schedule)
        plain = [values[value] for value in sources]
        values |= zip(ready, bound(done, plain)(plain), strict=True)
    for nodes in sets:
        values |= _task(program, nodes, values, send)
    return [values[value] for value in wanted]


def _task(program: Program, nodes: Nodes, values: dict[int, Any], send: Send) -> dict[int, Any]:
    """What some nodes make that is needed outside of them, by one task a chunk."""
    graph, last = program.graph, nodes[-1]
    # None but the last gives fewer points than it is given.
    thins, finer = last.thins, any(node.factors for node in graph.nodes)
    if thins and send is None and not finer:
        thins = not takes_whole(nodes, [values[value] for value in read_by(nodes)])
    order, full = given_on(program, nodes), [*nodes[:-1], last.full] if thins else nodes
    done, sources = Program.of_calls(graph, full, order, program.schedule)
    arrays = [values[value] for value in sources]
    if send is not None and not any(map(is_there, arrays)):
        done = send(done)
    shapes = cut_shapes([one.shape for one in arrays], sources, finer_values(graph.nodes))
    pairs = zip(arrays, shapes, strict=True)
    cut = [one if one.shape == shape else one[tuple(map(slice, shape))] for one, shape in pairs]
    made = lazily(done, cut)
    if type(done) is Program:
        follow(done, made)
    found = dict(zip(order, made, strict=True))
    for value in found.keys() & set(last.outputs) if thins else ():
        found[value] = thinned(found[value], last.every, last.along)
    return found


def divided(graph: Graph, wanted: Values, arrays: Arrays) -> list[list[Node]]:
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
        one = Looking(nodes, nodes[-1].outputs, count, axis)
        if one.low < one.high:
            grown *= 1 + (one.high - one.low) / 2 / max(1, shape[axis] / parts)
    again = (grown - 1 - MORE) * len(nodes) * math.prod(shape) / math.prod(counts)
    return "a task of its own takes less" if again > FREE else ""


# Calls that follow each other.


def follow(program: Program, made: list[Any]) -> None:
    """Let results of a program be computed from the arrays that its fields are computed from.

    That is done where all these arrays can be read, or their chunks are in the graph.

    Parameters
    ----------
    program : Program
    made : list of dask.array.Array
        What the program makes of them, which nobody else has yet: they get the name of all calls.
    """
    origin = known(made[0], "origin")
    if origin is None:
        return
    own, layer = origin.computation, origin.computation.layer
    if not isinstance(layer, Lazy) or any(map(is_there, own.arrays)):
        return

    def joins(one: Computation) -> bool:
        """Whether what is made so may be one with what it is given to."""
        alike = repr(getattr(one.layer, "annotations", None)) == repr(layer.annotations)
        return alike and type(one.program) is Program and one.program.schedule == program.schedule

    makers = [one if one and joins(one.computation) else None for one in own.makers]
    whole = _composed(own, program, makers) if any(makers) else None
    if whole is None:
        return
    whole.sources = readable(whole.program, whole.arrays, whole.chunks)
    before = [maker.computation for maker in makers if maker]
    if not whole.sources:
        # What Dask makes one with something else is not there for others.
        fused = not all(isinstance(one.layer, Lazy) for one in before)
        there = set() if fused else made[0].dask.layers.keys()
        if not whole.fits or not {array.name for array in whole.held} <= there:
            return
    passed = frozenset().union(*(one.passed for one in before))
    own.title = whole.program.name
    made[:] = own.results(own.asked)
    layer = own.layer
    whole.layer = whole.blocks(layer.name)
    whole.passed = own.passed | passed
    layer.further = whole.layer, passed
    own.further = whole


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
