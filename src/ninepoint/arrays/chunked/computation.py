"""Computations: a program on fields that are cut, and the arrays of Dask that it gives.

whole cores   no axis that the program works along is cut: each task takes its chunks
regions       the fields are views of something that can be sliced: each task reads what it
              needs; chosen where that decodes little more than half more than the blocks alone
edges         each block is made of its chunk and of faces of its neighbours
rereading     the same of views of sources: a chunk is read for its block and once more for its
              faces, so that none is held until its neighbours are there
groups        the same on groups of chunks, where these are thin or fields are cut otherwise

What such a plan costs is said before anything is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import getitem
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.delayed import delayed
from dask.highlevelgraph import HighLevelGraph

from ...base import limits
from ...base.remembered import cached_property
from ...language.signature import Lines, counted, many
from ..accepted import Arrays, as_field, is_cupy, is_dask
from ..blocks import (
    Axis,
    Chunks,
    Job,
    Output,
    axes_of,
    axis_of,
    cut_as,
    grid_of,
    grouped,
    nothing,
    outputs_of,
    pieces_of,
    refuse_unknown,
    whole_of,
)
from ..layout import Shape
from ..regions import Node, Program, rings
from .layer import Field, Lazy, Origin, Source, known

# Most of Dask's functions carry no annotations.
untyped: Any = da
untyped_delayed: Any = delayed


@dataclass(eq=False)
class Computation:
    """A program on `arrays` of Dask that have a shape together, which is cut so.

    On the client `layer` has the blocks, and `passed` names all arrays that it gives, and
    those that it passes by.  The same blocks may be made of what is `further` up.  Blocks read
    from `sources`, where there are some.  Chunks may have been `joined` before.  Results are cut
    as these `asked` for, and their names begin with a `title`, by default the program's.
    """

    program: Program
    shape: Shape
    chunks: Chunks
    arrays: Arrays
    sources: Sequence[Source] | None = None
    layer: Any = None
    passed: frozenset[str] = frozenset()
    further: Computation | None = None
    joined: bool = False
    asked: Chunks = ()
    title: str = ""

    @cached_property
    def outputs(self) -> list[Output]:
        """What the wanted values are; raises where the program cannot be done on such fields."""
        return outputs_of(self.program, self.shape)

    @cached_property
    def identity(self) -> str:
        """Names the results: equal identities, equal elements."""
        arrays = [(array.name, array.dtype.str) for array in self.arrays]
        wanted = list(self.program.wanted)
        return str(tokenize(self.program.token, wanted, self.shape, self.chunks, arrays))

    @property
    def inputs(self) -> list[tuple[Any, np.dtype]]:
        """Each field, and the type that the program takes it as."""
        return list(zip(self.arrays, self.program.field_dtypes, strict=True))

    @cached_property
    def alone(self) -> bool:
        """Whether no axis is cut that the program works along."""
        return takes_whole(self.program.nodes, self.arrays, self.chunks)

    @property
    def plan(self) -> str:
        """What it is called how tasks get what they need."""
        if self.alone or self.sources:
            return "regions" if self.sources else "whole cores"
        if self.joined:
            return "groups"
        return "edges" if self.held else "rereading"

    @property
    def fits(self) -> bool:
        """Whether all fields are cut so, and each block takes something of the next ones only."""
        alike = all(array.chunks == cut_as(array.shape, self.chunks) for array in self.arrays)
        return alike and grouped(self.program, self.chunks) == self.chunks

    def grouped(self) -> Computation:
        """The same in groups of chunks where these are thin, of which fields are put together."""
        groups = grouped(self.program, self.chunks)
        arrays = [cut_anew(array, cut_as(array.shape, groups)) for array in self.arrays]
        joined = any(
            known(after, "source") is None and before.chunks != after.chunks
            for before, after in zip(self.arrays, arrays, strict=True)
        )
        return Computation(self.program, self.shape, groups, arrays, joined=joined)

    @cached_property
    def rereads(self) -> bool:
        """Whether chunks of views of sources are read twice, since too many would wait."""
        views = [array.nbytes for array in self.arrays if known(array, "source")]
        return self.waiting(views) > limits.current.held_bytes

    @property
    def held(self) -> Arrays:
        """The arrays of which blocks are given chunks."""
        return [one for one in self.arrays if not (self.rereads and known(one, "source"))]

    def waiting(self, sizes: Sequence[float]) -> int:
        """Of so many bytes of chunks or faces those that wait for others: about two layers."""
        cut = [sizes for sizes in self.chunks if len(sizes) > 1]
        if self.alone or not cut:
            return 0
        part = min(1.0, 2 * max(cut[0]) / max(1, sum(cut[0])))
        return math.ceil(part * sum(sizes))

    @property
    def waits(self) -> int:
        """How many bytes of what others have made wait until the blocks around them are there."""
        return self.waiting([one.nbytes for one in self.arrays if known(one, "source") is None])

    @cached_property
    def makers(self) -> list[Origin | None]:
        """What makes each field; None for what is no result."""
        return [maker(array) for array in self.arrays]

    @property
    def names(self) -> list[str]:
        """The names of the results, as they are cut in blocks."""
        name, count = self.title or self.program.name, len(self.outputs)
        if count == 1:
            return [f"{name}-{self.identity}"]
        return [f"{name}-{k}-{self.identity}" for k in range(count)]

    def blocks(self, name: str = "") -> Lazy:
        """The rule of blocks that read from sources, or are made of chunks of fields cut so."""
        # Dask joins the names of tasks that it makes one: "all-x-0" may be one of its own.
        many = f"{self.title or self.program.name}-all-{self.identity}"
        name = name or (self.names[0] if len(self.outputs) == 1 else many)
        job = Job(self.program, self.shape, tuple([array.shape for array in self.arrays]))
        if self.sources:
            return Lazy(name, job, self.chunks, tuple(self.sources))
        axes = [] if self.alone else axes_of(self.program, self.chunks)
        # A text: Dask takes long to go through many numbers.
        thick = repr([axis.faces for axis in axes])
        fields = []
        for array in self.arrays:
            pairs = zip(array.shape, self.shape[len(self.shape) - array.ndim :], strict=True)
            # A length that nobody knows is that of the whole.
            cut = tuple(own == n or own != own for own, n in pairs)
            faces = f"faces-{tokenize(array.name, cut, thick)}"
            source = known(array, "source")
            again = source is not None and self.rereads
            fields.append(Field(array.name, faces, cut, source, again))
        return Lazy(name, job, self.chunks, tuple(fields))

    def results(self, chunks: Chunks) -> list[Any]:
        """The results as arrays of Dask, cut as these chunks of the fields."""
        rule, axes = self.blocks(), tuple(range(len(self.chunks)))
        like, none = self.arrays[0]._meta, (0,) * len(axes)
        metas = [nothing(like, none, output.dtype) for output in self.outputs]
        if self.alone:
            job: Any = rule.job
            if rule.given:
                job = untyped_delayed(job, name=rule.given, traverse=False)
            pairs = [one for a in self.arrays for one in (a, axes[len(axes) - a.ndim :])]
            blocks = _whole(whole_of, axes, job, None, *pairs, name=rule.name, meta=metas[0])
        else:
            below = [] if self.sources else self.held
            graph = HighLevelGraph.from_collections(rule.name, rule, below)
            blocks = untyped.Array(graph, rule.name, self.chunks, meta=metas[0])
        self.layer, self.asked = blocks.dask.layers[rule.name], chunks
        self.layer.origin = Origin(self, 0)
        self.passed = frozenset((rule.name, *self.names))
        found = []
        for k, (name, output) in enumerate(zip(self.names, self.outputs, strict=True)):
            one = blocks
            if len(self.outputs) > 1:
                one = _whole(getitem, axes, blocks, axes, k, None, name=name, meta=metas[k])
            own = output.chunks if self.alone else output.blocks
            array = untyped.Array(one.dask, name, own(self.chunks), meta=metas[k])
            if not self.alone or self.chunks != chunks:
                array = array.rechunk(output.chunks(chunks), method="tasks")
            array.dask.layers[array.name].origin = Origin(self, k)
            self.passed |= {array.name}
            found.append(array)
        return found


def _whole(*arguments: Any, **options: Any) -> Any:
    """An array each block of which is made of those at its place; see `dask.array.blockwise`."""
    return untyped.blockwise(*arguments, align_arrays=False, **options)


def lazily(program: Program, fields: Arrays) -> list[Any]:
    """Give the wanted values as lazy arrays, in the chunks of the fields.

    Parameters
    ----------
    program : Program
    fields : sequence
        Dask arrays, at least one, and arrays of NumPy, each with all axes that the nodes work
        along.

    Raises
    ------
    ValueError
        As for NumPy arrays, and if a field has chunks of unknown size.
    """
    shape, chunks = grid_of(fields)
    arrays = [as_array(field, chunks) for field in fields]
    one = Computation(program, shape, chunks, arrays)
    if not one.alone:
        for field in arrays:
            # A block has a place, which is not known behind such a chunk.
            refuse_unknown(field)
        one.sources = readable(program, arrays, chunks)
        if not one.sources:
            one = one.grouped()
    return one.results(chunks)


def takes_whole(nodes: Sequence[Node], fields: Arrays, whole: Chunks = ()) -> bool:
    """Whether each task has all that nodes look at along the axes that they work along.

    Every field is cut along the stack only, and all in the same way, as the whole is.
    """
    chunks = whole or grid_of(fields)[1]
    core = {axis for node in nodes for axis in node.works_along}
    for own in [chunks, *(field.chunks for field in fields if hasattr(field, "chunks"))]:
        for axis, sizes in enumerate(own, -len(own)):
            fits = sizes in (chunks[axis], (1,))
            if axis in core:
                fits = len(sizes) == 1
            elif any(map(math.isnan, sizes)):
                fits = len(sizes) == len(chunks[axis])
            if not fits:
                return False
    return True


# Sources: what an array is a plain view of, and what reading it costs.  Tasks that read from them
# take of each what their block looks at, and depend on nothing: nothing is moved.  What lies
# around a block is decoded again for each block that looks at it: `decoded` tells that price.

# An array of NumPy is one node of the graph up to this size [bytes], which a worker fetches once
# and keeps; a larger one is cut, as Dask does it.
WHOLE = 2**26


def as_array(field: Any, chunks: Chunks) -> Any:
    """A field as an array of Dask, cut as the whole is; one of NumPy is a source, if not large."""
    if is_dask(field):
        return field
    own = cut_as(field.shape, chunks)
    if is_cupy(field):
        # To name it by its elements would be to fetch them.
        return untyped.from_array(field, chunks=own, asarray=False, name=False)
    field = as_field(field)
    if field.nbytes > WHOLE:
        return untyped.from_array(field, chunks=own)
    # As it is now: elements may change before a task reads them.
    field = field.copy()
    name = f"array-{tokenize(field, own)}"
    return Source(field, field.shape, field.dtype, (1,) * field.ndim, name).view(own)


def readable(program: Program, arrays: Arrays, chunks: Chunks) -> list[Source] | None:
    """What blocks may read, where little is decoded twice; None where they may not."""
    axes = enumerate(chunks, -len(chunks))
    if any(len(sizes) > 1 and len(rings(program.nodes, axis)) > 1 for axis, sizes in axes):
        # No block of neighbours serves calls that take an axis as a ring and others.
        return None
    sources = [known(array, "source") for array in arrays]
    if None in sources:
        return None
    own, read = decoded(program, sources, chunks)
    return sources if read <= limits.current.decoded_ratio * own else None


def cut_anew(array: Any, chunks: Chunks) -> Any:
    """An array in other chunks: a view of its source, or chunks put together by Dask."""
    source = known(array, "source")
    if source is None or array.chunks == chunks:
        made = array.rechunk(chunks, method="tasks")
        if origin := known(array, "origin"):
            made.dask.layers[made.name].origin = origin
        return made
    return replace(source, name=f"view-{tokenize(source.name, chunks)}").view(chunks)


def maker(array: Any) -> Origin | None:
    """What makes an array, as far up as nobody else asks for what is between."""
    found: Origin | None = known(array, "origin")
    return found and Origin(found.computation.further or found.computation, found.which)


def chain(
    last: Computation, there: Callable[[Computation], bool] = lambda one: False
) -> list[Computation]:
    """What is to be done for the last one, each after what it is made from.

    Those of which the results are `there` begin it.
    """
    order: dict[Computation, None] = {}
    asked = [last]
    while asked:
        one = asked[-1]
        makers = [] if there(one) else [made.computation for made in one.makers if made]
        before = [other for other in makers if other not in order]
        asked += before
        if not before:
            order[asked.pop()] = None
    return list(order)


def recut(array: Any, chunks: Chunks) -> Any:
    """Give the results of a program that reads sources in other chunks, where that can be.

    Its tasks then read other regions, and nothing is moved; other arrays are given as they are,
    and those of which pieces would be decoded for several blocks each.
    """
    origin = known(array, "origin")
    if origin is None or array.chunks == chunks:
        return array
    own, which = origin.computation, origin.which
    for one in (own.further, own):
        if one is None or one.alone or one.outputs[which].chunks(chunks) != chunks:
            continue
        sources = [known(field, "source") for field in one.arrays]
        if None in sources:
            continue
        now, then = (decoded(one.program, sources, cut)[0] for cut in (one.chunks, chunks))
        if then <= limits.current.decoded_ratio * now:
            fields = [cut_anew(field, cut_as(field.shape, chunks)) for field in one.arrays]
            return lazily(one.program, fields)[which]
    return array


# Costs: what a computation takes, in numbers, before anything of it is run.
#
# regions     a task holds what it reads and what it makes; pieces of a file that lie around its
#             block are decoded again
# edges       a chunk is there until its neighbours are as well: some layers of chunks at once, on
#             the way from one end of an array to the other
#
# Of lengths that nobody knows nothing is counted.

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


def costs_of(arrays: Arrays, most: float = math.inf) -> tuple[list[Cost], int]:
    """What is done for some arrays of Dask together, in order, and how many tasks there are.

    So many blocks are asked for at once.
    Those of others are counted before Dask makes them one.
    """
    graph: Any = HighLevelGraph.merge(*(array.dask for array in arrays))
    asked = {array.name for array in arrays}
    costs: list[Cost] = []
    others = 0
    # As a scheduler asks for them.
    for name in reversed(graph._toposort_layers()):
        if name not in asked:
            continue
        layer = graph.layers[name]
        origin = getattr(layer, "origin", None)
        # Other layers may stand above that of the blocks.
        one = origin.computation if origin and origin.computation.layer is layer else None
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


def told(arrays: Arrays, most: float = math.inf) -> Lines:
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
            pieces = [it for span in cut.needs for it in pieces_of((n,), span)]
            one *= whole_pieces(piece, cut.cuts)
            around *= whole_pieces(piece, [here for _, here, _ in pieces])
        own, read = own + one, read + around
    return own, read


def whole_pieces(piece: int, spans: Sequence[tuple[int, int]]) -> int:
    """How much is decoded for some spans of an axis, each on its own.

    >>> whole_pieces(10, [(0, 10), (9, 21)])
    40
    """
    return sum((-(-b // piece) - a // piece) * piece for a, b in spans if b > a)
