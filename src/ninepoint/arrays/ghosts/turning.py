"""Values along the edges of axes that are not the last, as if these were: as fields are moved.

fields (rows, columns, channels), along (0, 1)     ->     (channels, rows, columns)
values beside the rows (columns, channels)                (channels, columns)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..axes import Behind
from ..borders import Boundary
from ..conditions import Condition
from .sides import on_edge


def turned(boundary: Boundary, shape: tuple[int, ...], along: Behind) -> Boundary:
    """The boundary of a call on fields of a shape whose axes `along` become the last ones.

    What functions give has the axes of the stencil in its own order, and stays.
    """
    rank, ends = len(shape), tuple(range(-len(along), 0))
    if not boundary.conditions or along == ends:
        return boundary
    found: list[tuple[Any, Any]] = []
    for k, pair in enumerate(boundary.sides(len(along))):
        axis = along[k] % rank

        def plain(value: Any, words: str, k: int = k, axis: int = axis) -> Any:
            if callable(value) or not getattr(value, "ndim", 0):
                return value
            value = moved(on_edge(value, shape, axis, words), along, ends)
            return value[(*(slice(None),) * (rank - len(along) + k), 0)]

        before, after = (_changed(one, plain) for one in pair)
        found.append((before, after))
    return Boundary(tuple(found), False)


def _changed(one: Any, plain: Any) -> Any:
    if not isinstance(one, Condition):
        return one
    return one.of(lambda value: plain(value, f"npt.{one.kind}"))


def moved(array: Any, source: Sequence[int], to: Sequence[int]) -> Any:
    """A view of an array of any kind with some axes, counted from the end, at other places."""
    order = [axis for axis in range(array.ndim) if axis - array.ndim not in source]
    for at, axis in sorted(zip((k % array.ndim for k in to), source, strict=True)):
        order.insert(at, axis % array.ndim)
    return array.transpose(order)
