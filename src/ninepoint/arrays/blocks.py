"""Blocks: how axes are cut, and what each block needs, of chunks, or of faces of them.

Blocks are chunks, or groups of chunks where these are thin: each then needs the next ones only.

    chunks of an axis      |  0  |  1  | 2 |    3    |
    output block 1               [-----]
    with neighbours -2..1      [---------]          needs chunks 0, 1, 2

    chunk      +----------+      faces of a chunk together: each with its corners, so that all
               |##########|      chunks around it are given theirs.  Copied: who holds them does
               |##      ##|      not hold the chunk
               |##########|
               +----------+

    faces  +---+----------+---+  or apart, each for one chunk: along axis 1 they hold the corners
    around |   |    0     |   |  that were given along axis 0, so that nothing is sent twice
           | 1 +----------+ 1 |
           |   |  chunk   |   |
           |   +----------+   |
           |   |    0     |   |
           +---+----------+---+

Axes are independent of each other, so an axis has one `Part` per output block (a thousand for a
million blocks of a square), and a block is the product of its parts. Positions are global:
chunks may be of any size, also smaller than the reach, and a part may need chunks from the
far end, where an axis is a ring.

No point is computed but as it is in the whole array.  Far from the ends of that all blocks of one
shape are alike, so they are bound once and remembered: positions are those in an array whose ends
are as near, or far away.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ..backends.memory import empty
from ..base.frozen import frozen
from ..base.remembered import cached_property
from .accepted import (
    bare,
    broadcast_shape,
    check_values,
    is_cupy,
    is_expression,
    placed,
    too_few_axes,
)
from .layout import Array, Region, Shape, Span, layout
from .regions import Block, Domain, Node, Program, looking, spans_of

Chunks: TypeAlias = tuple[Shape, ...]


def grid_of(fields: Sequence[Any]) -> tuple[Shape, Chunks]:
    """The shape that arrays have together, some of which are cut, and how it is cut.

    Each axis is cut as the first field is that is cut, and as long as the result.
    """
    shape = broadcast_shape([field.shape for field in fields])
    cuts = [field.chunks for field in fields if hasattr(field, "chunks")]
    chunks: list[Shape] = []
    # As dask names a length that it does not know, so that equal cuts are equal.
    unknown: Any = math.nan
    for back, n in enumerate(shape, -len(shape)):
        lost = math.isnan(n)
        there = [c[back] for c in cuts if len(c) >= -back]
        alike = (one for one in there if (math.isnan(sum(one)) if lost else sum(one) == n))
        own = next(alike, (n,))
        chunks.append((unknown,) * len(own) if lost else tuple(map(int, own)))
    return shape, tuple(chunks)


def refuse_unknown(field: Any, along: Collection[int] | None = None) -> None:
    """Raise where nobody knows how long chunks are, along these axes, counted from the end."""
    for axis, sizes in enumerate(field.chunks, -field.ndim):
        if (along is None or axis in along) and any(map(math.isnan, sizes)):
            raise ValueError(
                f"a Dask array has chunks of unknown size along its axis {axis + field.ndim}, so "
                "its borders cannot be found; call .compute_chunk_sizes() on it first."
            )


def cut_as(shape: Sequence[int], chunks: Chunks) -> Chunks:
    """The chunks of an array that is cut as the whole is, along the axes that it has of it."""
    own = chunks[len(chunks) - len(shape) :]
    return tuple(sizes if n == sum(sizes) else (n,) for n, sizes in zip(shape, own, strict=True))


def as_dask(array: Any, graph: Any = None) -> Any:
    """An array of dask-array as one of Dask, with the tasks that it has when it is computed."""
    if not is_expression(array):
        return array
    # Imported here: dask-array has it.
    import dask.array

    untyped: Any = dask.array
    tasks = dict(array.__dask_graph__()) if graph is None else graph
    return untyped.Array(tasks, array.name, array.chunks, meta=array._meta)


@frozen
class Output:
    """A wanted value: its type, and the points of the fields' shape that it has.

    Along each axis it has so many times as many as these (`factors`), or of `every` so many one;
    of an unknown length as many.
    """

    dtype: np.dtype
    extent: Region
    every: Shape
    factors: Shape

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        axes = zip(self.extent.shape, self.factors, self.every, strict=True)
        return tuple(-(-n * factor // step) for n, factor, step in axes)

    def chunks(self, whole: Chunks) -> Chunks:
        """The chunks of the value where the fields' shape is cut so: its shape, wherever asked."""
        return tuple(
            # Those that are made before the end, less those before the begin.
            sizes if step == 1 else tuple((-a // step) - (-b // step) for a, b in spans_of(sizes))
            for sizes, step in zip(self.blocks(whole, empty=False), self.every, strict=True)
        )

    def blocks(self, whole: Chunks, *, empty: bool = True) -> Chunks:
        """The same for what blocks have of it, of which some may have nothing."""
        axes: list[Shape] = []
        for sizes, (first, last), factor in zip(whole, self.extent, self.factors, strict=True):
            if (first, last) == (0, sum(sizes)) or math.isnan(last):
                axes.append(tuple(size * factor for size in sizes))
                continue
            inside = [max(0, min(b, last) - max(a, first)) * factor for a, b in spans_of(sizes)]
            axes.append(tuple(size for size in inside if size or empty) or (0,))
        return tuple(axes)


def results_of(node: Node, shape: Shape) -> list[Output]:
    """What the results of a node are, for fields that have this shape together."""
    along = node.along
    if len(shape) < -min(along):
        raise too_few_axes(node.ndim, shape, -min(along))
    plan = layout(tuple(shape[axis] for axis in along), node.reaches, node.border)
    whole, ones, works = tuple((0, n) for n in shape), (1,) * len(shape), node.works_along
    each = node.every, node.factors or (1,) * len(along)
    steps = [placed(ones, along, own) for own in each]
    return [
        Output(dtype, Region(placed(whole, along, one) if works else whole), *steps)
        for dtype, one in zip(node.out_dtypes, plan.extents, strict=True)
    ]


def outputs_of(program: Program, shape: Shape) -> list[Output]:
    """What the wanted values are; raises where a node cannot be done on such fields."""
    made: dict[int, Output] = {}
    for node in program.nodes:
        made |= zip(node.outputs, results_of(node, shape), strict=True)
        check_values(node.border, node.cval, node.compiled)
    return [made[value] for value in program.wanted]


# A block is at least so many times as long as the program looks far: shorter ones would be
# little but faces.
LONG = 4


@dataclass(frozen=True)
class Axis:
    """The blocks of an axis: where each is, and what it needs of the fields.

    Of a `ring` that may be before its begin, and beyond its end.
    """

    cuts: Sequence[Span]
    needs: Sequence[Span]
    ring: bool

    @cached_property
    def beyond(self) -> list[tuple[int, int]]:
        """How far each block looks beyond its begin and its end."""
        pairs = zip(self.cuts, self.needs, strict=True)
        return [(a - first, last - b) for (a, b), (first, last) in pairs]

    @cached_property
    def faces(self) -> list[tuple[int, int]]:
        """How thick the faces are that each block gives, at its begin and at its end."""
        ends = self.beyond if self.ring else [(0, 0)]
        before, after = [ends[-1], *self.beyond[:-1]], [*self.beyond[1:], ends[0]]
        return [(low, high) for (_, low), (high, _) in zip(before, after, strict=True)]


def axis_of(program: Program, sizes: Sequence[int], axis: int) -> Axis:
    """The blocks of these sizes along an axis, which is counted from the end."""
    one, cuts, n = looking(program, axis), spans_of(sizes), sum(sizes)
    return Axis(cuts, [one.needs(span, n) for span in cuts], one.ring)


def axes_of(program: Program, chunks: Chunks) -> list[Axis]:
    """The blocks along each axis."""
    return [axis_of(program, sizes, k) for k, sizes in enumerate(chunks, -len(chunks))]


def grouped(program: Program, chunks: Chunks) -> Chunks:
    """Cuts as near to the chunks as can be with which blocks need the next ones only."""
    found = list[Shape]()
    for axis, sizes in enumerate(chunks, -len(chunks)):
        far = max(map(max, axis_of(program, sizes, axis).faces)) if len(sizes) > 1 else 0
        groups, least = sizes, LONG * far
        while far:
            groups = _filled(sizes, least)
            pairs = zip(axis_of(program, groups, axis).faces, groups, strict=True)
            # No block takes more than the next ones have.
            if all(max(thick) <= size for thick, size in pairs):
                break
            least *= 2
        found.append(groups)
    return tuple(found)


def _filled(sizes: Sequence[int], least: int) -> Shape:
    """Put chunks together, one after the other, until each group is long enough."""
    groups = [0]
    for size in sizes:
        if groups[-1] >= least:
            groups.append(0)
        groups[-1] += size
    if len(groups) > 1 and groups[-1] < least:
        last = groups.pop()
        groups[-1] += last
    return tuple(groups)


# For each axis of a chunk how thick the faces before and after it are; 0 for none.
Depths: TypeAlias = Sequence[tuple[int, int]]


@lru_cache(maxsize=512)
def pieces_of(chunks: Shape, span: Span) -> Sequence[tuple[int, Span, Span]]:
    """The pieces of a span of an axis: which chunk has each, where it is there, and in the span.

    Beyond the ends of the axis it begins again.
    """
    (first, last), ends = span, list(itertools.accumulate(chunks))
    found, at, n = [], first, ends[-1]
    while at < last:
        # The chunk that has the element, which is not one without elements.
        chunk = bisect_right(ends, at % n)
        here, stop = at % n, min(last, at + ends[chunk] - at % n)
        found.append((chunk, (here, here + stop - at), (at, stop)))
        at = stop
    return found


def side(step: int, depth: int) -> slice:
    """What of a chunk, one step from another or none, is beside that: so many elements."""
    return slice(0, depth) if step > 0 else slice(-depth, None) if step else slice(None)


def faces_of(chunk: Any, depths: Depths) -> Mapping[tuple[int, int], Array]:
    """Copy all faces of a chunk, by their axes, and the steps to it from the chunks beside it.

    Each is whole along the other axes, so that a corner lies in several.
    """
    chunk, faces = in_memory(chunk), {}
    for axis, (low, high) in enumerate(depths):
        for step, depth in ((1, low), (-1, high)):
            if depth:
                faces[axis, step] = chunk[(*[slice(None)] * axis, side(step, depth))].copy()
    return faces


def face_of(
    chunk: Any, axis: int, step: int, depths: tuple[int, int], around: Depths, *faces: Array
) -> Any:
    """Copy one, with its corners, which lie in faces that were given along the axes before."""
    low, high = depths
    index = (*[slice(None)] * axis, side(step, low if step > 0 else high))
    own, *beside = [one[index] for one in (in_memory(chunk), *faces)]
    dtype = np.result_type(*[one.dtype for one in (own, *beside)])
    return surrounded(own, around, beside, dtype, apart=True)


def steps_around(around: Depths, *, apart: bool) -> Iterator[Shape]:
    """How many steps along each axis it is to the chunks whose faces lie around one, in order.

    To all of them; or where faces are given `apart`, to those beside it: with a face come the
    corners that its chunk was given along the axes before.
    """
    pairs = [((-1, low), (0, 1), (1, high)) for low, high in around]
    axes = [[step for step, depth in one if depth] for one in pairs]
    for steps in itertools.product(*axes):
        far = len(steps) - steps.count(0)
        if far == 1 or (far and not apart):
            yield steps


def surrounded(
    chunk: Array,
    around: Depths,
    faces: Iterable[Any],
    dtype: np.dtype,
    *,
    apart: bool,
) -> Any:
    """Give a chunk with the faces that lie around it (`steps_around`), as an array of a type."""
    lengths, parts = [], []
    for (low, high), n in zip(around, chunk.shape, strict=True):
        lengths.append(low + n + high)
        parts.append({-1: slice(low), 0: slice(low, low + n), 1: slice(low + n, None)})
    result = nothing(chunk, tuple(lengths), dtype)
    result[tuple([part[0] for part in parts])] = chunk
    for steps, face in zip(steps_around(around, apart=apart), faces, strict=False):
        target = [part[step] for part, step in zip(parts, steps, strict=True)]
        beyond = zip(steps, around, strict=True)
        source = [side(step, high if step > 0 else low) for step, (low, high) in beyond]
        axis = next(axis for axis, step in enumerate(steps) if step)
        if apart:
            target[:axis] = [slice(None)] * axis
        else:
            face = face[axis, steps[axis]]
        result[tuple(target)] = face[tuple(source)]
    return result


@frozen
class Job:
    """What every task of one program has in common: the program, and the shapes of its fields.

    `shape` is that of all of them together.
    """

    program: Program
    shape: Shape
    fields: tuple[Shape, ...]

    def domain(self, region: Region) -> Domain:
        """An array in which a block is as in its own: what it is there, and what it needs."""
        lengths, spans, needs = [], [], []
        axes = range(-len(self.shape), 0)
        for axis, n, own in zip(axes, self.shape, region, strict=True):
            one = looking(self.program, axis)
            span, length = one.placed(own, n)
            lengths.append(length)
            spans.append(span)
            needs.append(one.needs(span, length))
        return Domain(tuple(lengths), Region(needs), Region(spans), self.shape)

    def along(self, field: Shape, spans: Sequence[Span]) -> list[Span]:
        """What a field of a shape has of spans of the whole, or the one element that it has."""
        missing = len(spans) - len(field)
        axes = zip(field, self.shape[missing:], spans[missing:], strict=True)
        return [(0, 1) if m == 1 != n else span for m, n, span in axes]

    def around(self, domain: Domain, field: Shape) -> Depths:
        """How thick the faces are that a block takes of a field of this shape."""
        pairs = zip(self.along(field, domain.has), self.along(field, domain.region), strict=True)
        return [(a - first, last - b) for (first, last), (a, b) in pairs]

    def run(
        self, region: Region, take: Callable[[Domain, Shape], Iterable[Array]], like: Any = None
    ) -> Any:
        """The result, or all, of a block of what it takes of the fields; as they lie, or `like`.

        It has the points of the region, as far as the wanted values have them.  In the whole these
        are so far on as `take` is told.
        """
        domain, found = self.domain(region), []
        if region.points:
            pairs = zip(region.start, domain.region.start, strict=True)
            on = tuple([own - there for own, there in pairs])
            block = Block(tuple(take(domain, on)), domain, on)
            return bare(self.program.run(block, threads=1))
        for output in outputs_of(self.program, domain.shape):
            points = zip(domain.region.clip(output.extent).shape, output.factors, strict=True)
            found.append(nothing(like, tuple([n * k for n, k in points]), output.dtype))
        return bare(found)


def read_of(job: Job, region: Region, *sources: Any) -> Any:
    """Compute a block of what it reads from sources, one for each field: whatever can be sliced.

    Of one piece a source may give a view.  Results lie where some source does.
    """
    like, dtypes = next(filter(is_cupy, sources), None), job.program.field_dtypes

    def take(domain: Domain, on: Shape) -> Iterator[Array]:
        spans = [(a + far, b + far) for (a, b), far in zip(domain.has, on, strict=True)]
        for source, shape, dtype in zip(sources, job.fields, dtypes, strict=True):
            own = Region(job.along(shape, spans))
            axes = [pieces_of((n,), span) for n, span in zip(shape, own, strict=True)]
            if all(len(pieces) == 1 for pieces in axes):
                block = source[tuple(slice(*here, 1) for ((_, here, _),) in axes)]
            else:
                block = nothing(like, own.shape, dtype)
                for pieces in itertools.product(*axes):
                    to = Region(there for _, _, there in pieces).slices(own.start)
                    block[to] = source[tuple(slice(*here, 1) for _, here, _ in pieces)]
            yield in_memory(block, dtype)

    return job.run(region, take, like)


def block_of(apart: bool, job: Job, region: Region, *given: Any) -> Any:
    """Compute a block of its chunks; after that of each field the faces that lie around it."""
    rest, dtypes = iter(given), job.program.field_dtypes

    def take(domain: Domain, on: Shape) -> Iterator[Array]:
        for shape, dtype in zip(job.fields, dtypes, strict=True):
            chunk, around = next(rest), job.around(domain, shape)
            if any(map(any, around)):
                chunk = in_memory(chunk)
                chunk = surrounded(chunk, around, rest, dtype, apart=apart)
            yield in_memory(chunk, dtype)

    return job.run(region, take, given[0])


def whole_of(job: Job, *blocks: Any) -> Any:
    """Compute blocks whose core axes are whole: as if they were arrays of their own."""
    return bare(job.program.run(Block(tuple(map(in_memory, blocks))), threads=1))


# Arrays that lie where chunks lie.


def nothing(like: Any, shape: Shape, dtype: np.dtype) -> Any:
    """Give an array of this shape where another one lies."""
    if not is_cupy(like):
        return empty(shape, dtype)
    # Imported here: CuPy is optional, and the caller has it.
    from ninepoint.backends.cuda import driver

    return driver.empty(shape, dtype)


def in_memory(block: Any, dtype: Any = None) -> Any:
    """Give a chunk as an array that can be computed with where it is."""
    return block if is_cupy(block) else np.asarray(block, dtype)
