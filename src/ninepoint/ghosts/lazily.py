"""Calls with ghosts on arrays of Dask: near each side the result is replaced by what is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ..arrays.borders import Array, Border, Boundary
from ..arrays.executable import apply
from ..arrays.layout import layout
from ..arrays.recognise import is_chunked, is_dask
from ..graph import Graph, Node
from ..language.box import Box
from ..language.lengths import Length
from .extending import all_extended, concatenated
from .pieces import interior, is_thin, piece_of
from .sides import Geometry, Sides

# Evaluates a graph whose borders are names: the graph, arrays, and what is wanted.
Evaluate: TypeAlias = Callable[[Graph, Sequence[Any], Sequence[int]], list[Any]]


def lazily(
    graph: Graph,
    node: Node,
    fields: Sequence[Any],
    shape: tuple[int, ...],
    sides: Sides,
    evaluate: Evaluate,
) -> list[Any]:
    """What a call gives for lazy arrays: near each side it is replaced by what is right there."""
    if not all(is_dask(field) for field in fields if is_chunked(field)):
        raise TypeError(
            f"boundary={node.call.boundary} is there for arrays of NumPy, Dask and xarray; give "
            "it names for other lazy arrays."
        )
    ends, geometry = tuple(range(-node.ndim, 0)), sides.geometry

    def call(arrays: Sequence[Any], border: Border) -> list[Any]:
        boundary = Boundary(border.rules, False)
        one = replace(node, call=replace(node.call, boundary=boundary), axes=ends)
        if one.compiled is not node.compiled:
            raise AssertionError(one)
        part, numbers = graph.part([one])
        given = dict(zip(node.fields, arrays, strict=True))
        return evaluate(
            part, [given[v] for v in numbers if v in given], [numbers[v] for v in node.outputs]
        )

    made = call(fields, geometry.outline)
    if not any(map(any, geometry.made)) or 0 in shape:
        return made
    # Imported here: Dask is optional, and the caller has it.
    import dask.array

    arrays: Any = dask.array
    if any(math.isnan(n) for n in shape):
        raise ValueError(
            "the lengths of the chunks are unknown; call compute_chunk_sizes() before, as border "
            "values need them."
        )
    chunks = [one.chunks for one in made]
    broadcast = [arrays.broadcast_to(field, shape) for field in fields]
    told = any(isinstance(value, Length) for value in node.program.scalars)

    def piece(own: int, side: int | None) -> list[Any]:
        one = piece_of(geometry, own, side)
        # Near the sides of earlier axes what is made is replaced in turn.
        opened = tuple(
            pair if k < own else other
            for k, (pair, other) in enumerate(
                zip(geometry.outline.rules, one.border.rules, strict=True)
            )
        )
        given = all_extended(broadcast, node.program.positions, sides, one.start, one.stop)
        border = Border(opened)
        results = _told(node, given, border, geometry.core) if told else call(given, border)
        return [
            result[(..., *(slice(None) if k < own else cut for k, cut in enumerate(source)))]
            for result, (_, source) in zip(results, one.result, strict=True)
        ]

    if is_thin(geometry):
        made = piece(-1, None)
    else:
        for k in reversed(range(node.ndim)):
            axis = len(shape) - node.ndim + k
            first, last = geometry.made[k]
            low = piece(k, 0) if first else [None] * len(made)
            high = piece(k, 1) if last else [None] * len(made)
            made = [
                concatenated(
                    [
                        part
                        for part in (a, one[(..., *_kept(geometry, k, box))], b)
                        if part is not None
                    ],
                    axis,
                )
                for a, one, b, box in zip(low, made, high, geometry.reaches, strict=True)
            ]
    return [one.rechunk(own) for one, own in zip(made, chunks, strict=True)]


def _kept(geometry: Geometry, k: int, box: Box) -> tuple[slice, ...]:
    """What stays along an axis between the two pieces at its ends."""
    inside = interior(box, geometry)
    return tuple(one if at == k else slice(None) for at, one in enumerate(inside))


def _told(node: Node, fields: Sequence[Any], border: Border, core: tuple[int, ...]) -> list[Any]:
    """A call that asks for lengths, which are those of the whole array: each stack in one task."""
    # Imported here: Dask is optional, and the caller has it.
    import dask.array

    arrays: Any = dask.array
    depth = fields[0].ndim - node.ndim
    lead = fields[0].chunks[:depth]
    whole = [field.rechunk((*lead, *((n,) for n in field.shape[depth:]))) for field in fields]
    shapes = layout(fields[0].shape[depth:], node.reaches, border).out_shapes
    # The last fields are positions, which the call adds by itself.
    given = fields[: len(fields) - node.program.positions]
    types = tuple(field.dtype.newbyteorder("=") for field in given)
    return [
        arrays.map_blocks(
            _Told(node.call, types, border, core, at), *whole, dtype=dtype,
            chunks=(*lead, *((n,) for n in shape)), meta=np.empty((0,) * fields[0].ndim, dtype),
        )
        for at, (shape, dtype) in enumerate(zip(shapes, node.out_dtypes, strict=True))
    ]  # fmt: skip


@dataclass(frozen=True)
class _Told:
    """One result of a call on blocks that hold all that it reads, told the whole lengths."""

    call: Any
    types: tuple[np.dtype, ...]
    border: Border
    core: tuple[int, ...]
    at: int

    def __call__(self, *fields: Array) -> Any:
        program = self.call.compiled(self.types).bind(self.call.scalars).within(self.core)
        made = apply(program, fields, border=self.border, cval=self.call.cval)
        return made[self.at] if isinstance(made, tuple) else made
