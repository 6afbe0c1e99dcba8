"""Costs: what computations on cut arrays take, in numbers, before anything of them is run.

regions     a task holds what it reads and what it makes; pieces of a file that lie around its
            block are decoded again
edges       a chunk is there until its neighbours are as well: some layers of chunks at once, on
            the way from one end of an array to the other

Of lengths that nobody knows nothing is counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from dask.highlevelgraph import HighLevelGraph

from ...language.signature import Lines, counted, many
from ..blocks import Axis, Chunks, axes_of, axis_of, cut_as, part_of
from ..layout import Shape
from ..regions import Program
from .layer import Source, known

if TYPE_CHECKING:
    from .computation import Computation

_PLANS = {
    "whole cores": "no axis that it works along is cut",
    "regions": "each task reads its block, and what lies around it, from the source",
    "edges": "each block is made of its chunk and of its neighbours' faces",
    "rereading": "each chunk is read twice, once for its faces, so that only faces are held",
    "groups": "the same of groups of chunks, where these are thin or cut in different ways",
}


class Cost(NamedTuple):
    """What a computation takes, in `lines` of words; in tasks and bytes what others add up.

    Each thread has so much `held`, and all of them have `room` for chunks that wait for their
    neighbours.
    """

    lines: list[str]
    tasks: int
    held: int
    room: int


def cost_of(one: Computation, most: float = math.inf) -> Cost:
    """What a computation takes as it is planned, of which so many blocks are asked for at once."""
    blocks, cut = math.prod(map(len, one.chunks)), sum(len(sizes) > 1 for sizes in one.chunks)
    points = math.prod(max([n for n in sizes if n == n], default=1) for sizes in one.chunks)
    each = sum(dtype.itemsize for _, dtype in one.inputs)
    made = sum(output.dtype.itemsize for output in one.outputs)
    axes = [] if one.alone else axes_of(one.program, one.chunks)
    around, kinds, faces = points, 1, 0
    if one.sources:
        around = math.prod(max(b - a for a, b in axis.needs) for axis in axes)
    elif axes:
        given = [dtype.itemsize * _faces(array.shape, axes) for array, dtype in one.inputs]
        faces, kinds = sum(given), 1 + sum(map(bool, given))
    sources = [source for array in one.arrays if (source := known(array, "source"))]
    files = [source for source in sources if type(source.held) is not np.ndarray]
    size = sum(math.prod(file.shape) * file.dtype.itemsize for file in files)
    own, all_read = decoded(one.program, files, one.chunks)
    if not one.sources:
        all_read = 2 * own if one.rereads else own
    sizes = [] if one.sources else [array.nbytes for array in one.held]
    # Of blocks that lie together a layer has the less the fewer there are.
    layer = min(1.0, most / max(1, blocks)) ** (1 - 1 / max(1, cut))
    room = int(layer * one.waiting([faces, *sizes]))
    held = around * each + points * made + faces // max(1, blocks)
    read = sum(int(np.nan_to_num(array.nbytes)) for array in one.arrays)
    tasks = f"{many(blocks * kinds / max(1, blocks), 'task')} a block, {blocks * kinds} in all"
    # How many times as much as files have all tasks together decode of them.
    again = f", decoded {all_read / max(1, size):.3g} times" if all_read else ""
    lines = [
        f"{one.program.name}: {one.plan}, {tasks}",
        f"  {_PLANS[one.plan]}",
        f"  {counted(read, 'B')} read{again}, {counted(faces, 'B')} of faces",
        f"  {counted(held, 'B')} held a thread",
    ]
    if room:
        lines.append(f"  {counted(room, 'B')} held together, in about two layers, for neighbours")
    return Cost(lines, blocks * kinds, held, room)


def _faces(shape: Shape, axes: Sequence[Axis]) -> int:
    """How many points the faces of a field have."""
    points, found = math.prod(shape), 0
    for n, axis in zip(reversed(shape), reversed(axes), strict=False):
        if n == axis.cuts[-1][1]:
            found += points // max(1, n) * sum(map(sum, axis.faces))
    return found


def costs_of(arrays: Sequence[Any], most: float = math.inf) -> tuple[list[Cost], int]:
    """What is done for some arrays of Dask together, in order, and how many tasks there are.

    So many blocks are asked for at once.
    Those of others are counted before Dask makes them one.
    """
    graph: Any = HighLevelGraph.merge(*(array.dask for array in arrays))
    asked = {array.name for array in arrays}
    own: dict[int, Computation] = {}
    costs: list[Cost] = []
    others = 0
    # As a scheduler asks for them.
    for name in reversed(graph._toposort_layers()):
        if name not in asked:
            continue
        layer = graph.layers[name]
        origin = getattr(layer, "origin", None)
        if origin is not None:
            own[id(origin.computation.layer)] = origin.computation
        one = own.get(id(layer))
        if one is None:
            others += len(layer)
            asked |= graph.dependencies[name]
            continue
        further = getattr(layer, "further", None)
        if one.further and further and asked.isdisjoint(further[1]):
            one = one.further
        costs.append(cost_of(one, most))
        if not one.sources:
            asked |= {array.name for array in one.held}
    return costs[::-1], others + sum(cost.tasks for cost in costs)


def told(arrays: Sequence[Any], most: float = math.inf) -> Lines:
    """The same in words, and first what to see to; nothing where none is ours."""
    costs, tasks = costs_of(arrays, most)
    if not costs:
        return Lines()
    held, room = max(one.held for one in costs), sum(one.room for one in costs)
    more = ": no task waits for another one"
    if room:
        more = f", and {counted(room, 'B')} to all for what waits for its neighbours"
    page = Lines([f"Give each thread {counted(held, 'B')}{more}."])
    for cost in costs:
        page.add("on Dask", *cost.lines)
    chunks = sum(array.npartitions for array in arrays)
    page.add("tasks", f"{tasks} in all, {tasks / max(1, chunks):.3g} a chunk of the result")
    return page


def decoded(program: Program, sources: Sequence[Source], chunks: Chunks) -> tuple[float, float]:
    """Bytes that are decoded to read the blocks alone, and with all that these look at."""
    own = read = 0.0
    for source in sources:
        one = around = float(source.dtype.itemsize)
        axes = zip(source.pieces, cut_as(source.shape, chunks), strict=True)
        for axis, (piece, sizes) in enumerate(axes, -len(source.shape)):
            n = sum(sizes)
            if len(sizes) == 1:
                one, around = one * n, around * n
                continue
            cut = axis_of(program, sizes, axis)
            pieces = [it for span in cut.needs for it in part_of((n,), span).pieces[0]]
            one *= whole_pieces(piece, cut.cuts)
            around *= whole_pieces(piece, [(part.start, part.stop) for _, part in pieces])
        own, read = own + one, read + around
    return own, read


def whole_pieces(piece: int, spans: Sequence[tuple[int, int]]) -> int:
    """How much is decoded for some spans of an axis, each on its own.

    >>> whole_pieces(10, [(0, 10), (9, 21)])
    40
    """
    return sum((-(-b // piece) - a // piece) * piece for a, b in spans if b > a)
