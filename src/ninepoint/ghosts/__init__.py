"""Ghosts: calls whose border has conditions.

    strips      ghosts around the fields, of which machine code takes what is not there

Where that cannot be, as on arrays shorter than the call looks, it is a call on copies of the
fields with their ghosts.  Near each side of Dask arrays results are those of thin pieces.

A ghost is `alpha * mirrored + beta`.  Conditions extend the fields axis by axis, the later ones
what the earlier ones have extended; the rules with names hold for what is extended so.

    sides        the rules of a call, the values of conditions laid along the edges
    naming       values that name their dimensions
    turning      values for calls along other axes than the last
    strips       all ghosts of fields in memory, `ready` the calls that take them, `alike` again
    extending    parts of fields with their ghosts
    pieces       what a call is cut into
    in_memory    the call on arrays of NumPy, and `lazily` on those of Dask
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..arrays import numpy as on_numpy
from ..arrays.borders import Array
from ..arrays.every import thinned
from ..arrays.recognise import is_chunked
from ..graph import Graph, Node
from .in_memory import applied
from .lazily import Evaluate, lazily
from .naming import named, unnamed
from .sides import Sides
from .turning import moved, turned

__all__ = ["alone", "at_step", "check", "has_ghosts", "in_turn", "named", "turned", "unnamed"]


def has_ghosts(graph: Graph) -> bool:
    """Whether the border of some call has conditions.

    Raises
    ------
    ValueError
        If it has, and some call makes more points than its fields have.
    """
    found = any(node.call.boundary.conditions for node in graph.nodes)
    if found and any(node.factors for node in graph.nodes):
        raise ValueError(
            "upsample= and border conditions (values, functions, slopes) cannot be in one "
            "call; call one stencil after the other."
        )
    return found


def at_step(graph: Graph, step: int) -> Graph:
    """The graph as it is after so many steps of an iteration."""
    if not any(one.varies for node in graph.nodes for one in node.call.boundary.conditions):
        return graph
    return graph.of(
        [
            replace(n, call=replace(n.call, boundary=n.call.boundary.after(step)))
            for n in graph.nodes
        ]
    )


def check(node: Node, shape: tuple[int, ...]) -> None:
    """Raise where the conditions of a call along the last axes do not fit fields of a shape."""
    if node.call.boundary.conditions:
        Sides.of(node, shape, False)


def in_turn(
    graph: Graph,
    arrays: Sequence[Any],
    wanted: Sequence[int],
    evaluate: Evaluate,
    outs: Mapping[int, Any],
    threads: int | None,
) -> list[Any]:
    """The wanted values: calls with conditions one by one, all others between them together."""
    values: dict[int, Any] = dict(enumerate(arrays))
    left = graph.needed(wanted)
    while left:
        known = set(values)
        plain: list[Node] = []
        for node in left:
            if not node.call.boundary.conditions and known.issuperset(node.fields):
                plain.append(node)
                known.update(node.outputs)
        if plain:
            left = [node for node in left if node not in plain]
            read = {value for node in left for value in node.fields} | set(wanted)
            asked = [value for node in plain for value in node.outputs if value in read]
            part, numbers = graph.part(plain)
            given = [values[value] for value in numbers if value in values]
            made = evaluate(part, given, [numbers[value] for value in asked])
            values |= zip(asked, made, strict=True)
        for node in [n for n in left if set(values).issuperset(n.fields)]:
            left.remove(node)
            fields = [values[value] for value in node.fields]
            values |= zip(
                node.outputs, _one(graph, node, fields, evaluate, outs, threads), strict=True
            )
    return [values[value] for value in wanted]


def alone(node: Node, fields: Sequence[Array], outs: Sequence[Array], threads: int | None) -> None:
    """Do one call along the last axes of arrays of NumPy, and write to arrays of nobody else."""
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    applied(node.program, fields, shape, Sides.of(node, shape, False), outs, threads)


def _one(
    graph: Graph,
    node: Node,
    fields: Sequence[Any],
    evaluate: Evaluate,
    outs: Mapping[int, Any],
    threads: int | None,
) -> list[Any]:
    """What one call with conditions gives."""
    if node.thins:
        made = _one(graph, node.full, fields, evaluate, {}, threads)
        some = [thinned(one, node.every, node.along) for one in made]
        return [one if is_chunked(one) else np.ascontiguousarray(one) for one in some]
    ends = tuple(range(-node.ndim, 0))
    depth = max(field.ndim for field in fields)
    elsewhere = node.along != ends
    if elsewhere:
        whole = on_numpy.broadcast_shape([field.shape for field in fields])
        boundary = turned(node.call.boundary, whole, node.along)
        node = replace(node, call=replace(node.call, boundary=boundary))
        fields = [moved(one[(None,) * (depth - one.ndim)], node.along, ends) for one in fields]
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    lazy = any(map(is_chunked, fields))
    sides = Sides.of(node, shape, lazy)
    if lazy:
        made = lazily(graph, node, fields, shape, sides, evaluate)
    else:
        out = [outs[value] for value in node.outputs if value in outs]
        if len(out) < len(node.outputs):
            out = []
        if elsewhere:
            out = [np.moveaxis(one, node.along, ends) for one in out]
        made = applied(node.program, fields, shape, sides, out, threads)
    if elsewhere:
        made = [moved(one, ends, node.along) for one in made]
    return made
