"""Calls that follow each other on lazy arrays, as one program.

    y = blur(x)                  z, where nobody asks for y:   sharpen and blur, from x
    z = sharpen(y)        ->     where somebody does:          sharpen, from y

Whether somebody does is known once a graph is asked for its blocks.  So the layer of `z` holds
both, and takes one when it is culled.  Where all that was given is read from sources, the one
program reads regions of these, if that decodes little more than the blocks alone.

Calls that ask for positions stay apart: these are fields of one program, for its own arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arrays.accepted import is_cupy
from .arrays.chunked.computation import Computation
from .arrays.chunked.layer import Lazy, known
from .arrays.chunked.sources import readable
from .arrays.grid import Chunks, grid_of
from .dividing import divided
from .graph import Graph
from .program import Program

# More calls than these are not made one: a plan of many takes its time, at each call.
MOST = 8


def follow(program: Program, made: Sequence[Any]) -> None:
    """Let what a program gives be made from what its fields were made from.

    That is done where all of that can be read, or has chunks that the graph has.

    Parameters
    ----------
    program : Program
    made : sequence of dask.array.Array
        What the program makes of them, whose layers nobody else has yet.
    """
    found = known(made[0]).origin
    if found is None or _asks(program):
        return
    own, layer = found[0], found[0].layer
    if not isinstance(layer, Lazy) or any(is_cupy(array._meta) for array in own.arrays):
        return
    makers = [_maker(array, own) for array in own.arrays]
    whole = _composed(own, layer.rule.chunks, makers) if any(makers) else None
    if whole is None:
        return
    whole.sources = readable(whole.work, whole.arrays, whole.chunks)
    if not whole.sources:
        # What Dask makes one with something else is not there for others.
        fused = any(maker and not isinstance(maker[0].layer, Lazy) for maker in makers)
        there = set() if fused else made[0].dask.layers.keys()
        if not whole.fits or not {array.name for array in whole.arrays} <= there:
            return
    passed = frozenset().union(*(maker[0].passed for maker in makers if maker is not None))
    whole.layer = Lazy(whole.blocks(layer.rule.name))
    whole.passed = own.passed | passed
    layer.further = whole.layer, passed, bool(whole.sources)
    own.further = whole


def _maker(array: Any, own: Computation) -> tuple[Computation, int] | None:
    """What made a field, and as which result, where that may be one with what it is given to."""
    found = known(array).origin
    if found is None:
        return None
    one, position = found
    work, layers = one.work, (one.layer, own.layer)
    if type(work) is not Program or _asks(work) or work.schedule != own.work.schedule:
        return None
    if len({repr(getattr(layer, "annotations", None)) for layer in layers}) > 1:
        return None
    return one.further or one, position


def _asks(program: Program) -> bool:
    """Whether calls of a program have fields that nobody names: positions, and border values."""
    return any(len(node.fields) > len(node.own) for node in program.graph.nodes)


def _composed(
    one: Computation, chunks: Chunks, makers: Sequence[tuple[Computation, int] | None]
) -> Computation | None:
    """What makers and a program do, as one program of what these were given.

    There is none where the calls are better done in several tasks a block.
    """
    program = one.work
    assert isinstance(program, Program)
    given = [
        maker[0].inputs if maker else [field]
        for field, maker in zip(one.inputs, makers, strict=True)
    ]
    inputs = {array.name: (array, dtype) for some in given for array, dtype in some}
    arrays, dtypes = zip(*inputs.values(), strict=True)
    numbers = {name: k for k, name in enumerate(inputs)}
    graph = Graph([f"f{k}" for k in numbers.values()], dtypes)
    starts: list[int] = []
    for some, maker in zip(given, makers, strict=True):
        values = [numbers[array.name] for array, _ in some]
        if maker is not None:
            values = [_added(graph, maker[0].work, values)[maker[1]]]
        starts += values
    wanted = _added(graph, program, starts)
    nodes = graph.needed(wanted)
    if len(nodes) > MOST or len(divided(graph, wanted, arrays)) > 1:
        return None
    whole, sources = Program.of_calls(graph, nodes, wanted, program.schedule)
    order = [arrays[value] for value in sources]
    if grid_of(order)[0] != one.shape:
        # A longer one is cut where a call takes it with a shorter one.
        return None
    return Computation(whole, one.shape, chunks, order)


def _added(graph: Graph, program: Any, fields: Sequence[int]) -> list[int]:
    """Add the calls of a program on some values; gives what is wanted of it."""
    numbers = dict(enumerate(fields))
    for node in program.graph.needed(program.wanted):
        made = graph.add(
            node.call,
            [numbers[value] for value in node.fields],
            [program.graph.names[value] for value in node.outputs],
            node.axes,
        )
        numbers |= zip(node.outputs, made, strict=True)
        stored = program.graph.stored
        graph.stored |= {new for old, new in zip(node.outputs, made, strict=True) if old in stored}
    return [numbers[value] for value in program.wanted]
