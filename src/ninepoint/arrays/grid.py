"""How axes are cut: fields, blocks and results, and what blocks need beyond their own points.

    block k     |----[=====]--|      `before` of the block before it, `after` of the one after

Blocks are chunks, or groups of chunks where these are thin: each then needs the next ones only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..base.frozen import frozen
from ..base.remembered import cached_property
from . import accepted
from .accepted import (
    as_field,
    broadcast_shape,
    is_chunked,
    is_cubed,
    is_cupy,
    is_dask,
    is_expression,
    placed,
)
from .layout import Region, Shape, Span, layout
from .regions import Node, Program, looking, spans_of

Chunks: TypeAlias = tuple[Shape, ...]


def grid_of(fields: Sequence[Any]) -> tuple[Shape, Chunks]:
    """The shape that arrays have together, some of which are cut, and how it is cut.

    Each axis is cut as the first field is that is cut, and as long as the result.
    """
    shape = broadcast_shape([field.shape for field in fields])
    cuts = [field.chunks for field in fields if hasattr(field, "chunks")]
    chunks: list[Shape] = []
    for back, n in enumerate(shape, -len(shape)):
        own = [c[back] for c in cuts if len(c) >= -back and sum(c[back]) == n]
        if math.isnan(n):
            own = [c[back] for c in cuts if len(c) >= -back and any(map(math.isnan, c[back]))]
            # As dask names a length that it does not know, so that equal cuts are equal.
            unknown: Any = math.nan
            chunks.append((unknown,) * len(own[0]))
        else:
            chunks.append(tuple(map(int, own[0])) if own else (n,))
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


def lazy(field: Any, chunks: Chunks, library: Any, **options: Any) -> Any:
    """A field as an array of a library, cut as the whole is."""
    if is_chunked(field):
        return field
    if is_cupy(field):
        # To name it by its elements would be to fetch them.
        options |= {"asarray": False, "name": False}
    else:
        field = as_field(field)
    return library.from_array(field, chunks=cut_as(field.shape, chunks), **options)


def as_dask(array: Any) -> Any:
    """An array of dask-array as one of Dask, with the tasks that it has when it is computed.

    Raises
    ------
    TypeError
        If it is one of Cubed, which Dask cannot compute.
    """
    if is_cubed(array):
        raise TypeError(
            "an array of Cubed is written by Cubed: cubed.to_zarr(x, path), which "
            "ninepoint.open(path) opens."
        )
    if is_dask(array) or not is_expression(array):
        return array
    # Imported here: dask-array has it.
    import dask.array

    untyped: Any = dask.array
    return untyped.Array(dict(array.__dask_graph__()), array.name, array.chunks, meta=array._meta)


@frozen
class Output:
    """A wanted value: its type, and the points of the fields' shape that it has.

    Along each axis it has so many times as many as these (`factors`), or of `every` so many one.
    """

    dtype: np.dtype
    extent: Region
    every: Shape
    factors: Shape

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        axes = zip(self.extent.shape, self.factors, self.every, strict=True)
        return tuple(_made(n * factor, step) for n, factor, step in axes)

    def chunks(self, whole: Chunks) -> Chunks:
        """The chunks of the value where the fields' shape is cut so: its shape, wherever asked."""
        return tuple(
            sizes
            if step == 1
            else tuple(_made(b, step) - _made(a, step) for a, b in spans_of(sizes))
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


def _made(n: Any, step: int) -> Any:
    """How many of `n` points are made; of unknown lengths as many."""
    return n if step == 1 else -(-n // step)


def results_of(node: Node, shape: Shape) -> list[Output]:
    """What the results of a node are, for fields that have this shape together."""
    along = node.along
    if len(shape) < -min(along):
        raise accepted.too_few_axes(node.ndim, shape, -min(along))
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
        accepted.check_values(node.border, node.cval, node.compiled)
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

    @property
    def fits(self) -> bool:
        """Whether no block takes more than the next ones have."""
        pairs = zip(self.faces, self.cuts, strict=True)
        return all(max(thick) <= b - a for thick, (a, b) in pairs)


def axis_of(program: Program, sizes: Sequence[int], axis: int) -> Axis:
    """The blocks of these sizes along an axis, which is counted from the end."""
    one, cuts, n = looking(program, axis), spans_of(sizes), sum(sizes)
    return Axis(cuts, [one.needs(span, n) for span in cuts], one.ring)


def axes_of(program: Program, chunks: Chunks) -> list[Axis]:
    """The blocks along each axis."""
    return [axis_of(program, sizes, k) for k, sizes in enumerate(chunks, -len(chunks))]


def grouped(program: Program, chunks: Chunks) -> Chunks:
    """Cuts as near to the chunks as can be with which blocks need the next ones only."""
    return tuple(_grouped(program, sizes, axis) for axis, sizes in enumerate(chunks, -len(chunks)))


def _grouped(program: Program, sizes: Shape, axis: int) -> Shape:
    one = axis_of(program, sizes, axis)
    far = max(map(max, one.faces)) if len(sizes) > 1 else 0
    if not far:
        return sizes
    least = LONG * far
    while True:
        groups = _filled(sizes, least)
        if axis_of(program, groups, axis).fits:
            return groups
        least *= 2


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
