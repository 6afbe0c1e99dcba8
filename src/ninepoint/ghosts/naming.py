"""Values along an edge that name their dimensions, as plain arrays in the order of the axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..arrays.borders import Boundary
from ..arrays.conditions import Condition
from ..arrays.recognise import is_xarray
from ..graph import Graph


def named(graph: Graph, dims: Sequence[Any], core: Sequence[Any]) -> Graph:
    """The graph, where values of conditions that name their dimensions are plain arrays.

    `dims` are those of the fields in the order of their axes, `core` those of the stencil.
    """
    if not any(node.call.boundary.conditions for node in graph.nodes):
        return graph
    return graph.of(
        [
            replace(
                node,
                call=replace(
                    node.call,
                    boundary=unnamed(node.call.boundary, dims, core[len(core) - node.ndim :]),
                ),
            )
            for node in graph.nodes
        ]
    )


def unnamed(boundary: Boundary, dims: Sequence[Any], core: Sequence[Any]) -> Boundary:
    """A boundary whose values are plain arrays, for a call along the `core` of some dimensions."""
    if not boundary.conditions:
        return boundary
    found: list[tuple[Any, Any]] = []
    for dim, pair in zip(core, boundary.sides(len(core)), strict=True):
        left = [one for one in dims if one != dim]

        def plain(value: Any, dim: Any = dim, left: Sequence[Any] = left) -> Any:
            return _unnamed(value, dim, left) if is_xarray(value) else value

        before, after = (one.of(plain) if isinstance(one, Condition) else one for one in pair)
        found.append((before, after))
    return Boundary(tuple(found), False)


def _unnamed(value: Any, dim: Any, left: Sequence[Any]) -> Any:
    """The data of values along an edge, in the order of the dimensions that are `left` of it."""
    for one in value.dims:
        if one not in left:
            listed = ", ".join(map(repr, left))
            raise ValueError(
                f"values at the border along {dim!r} have the dimension {one!r}; the edge has "
                f"{listed or 'none'}."
            )
    # Imported here: xarray is optional, and the caller has it.
    from ..arrays.xarray import arranged

    return arranged(value, tuple(left))
