"""Calls that are alike but for elements, numbers and values at the border."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays.borders import Array
from ..arrays.conditions import Condition
from ..arrays.numpy import broadcast_shape, checked_out
from ..arrays.recognise import listed
from ..backends.compiled import Bound
from ..graph import Node
from .ready import Ready
from .sides import Edges, Sides

Pairs = Sequence[tuple[Any, Any]]


class Alike:
    """Calls like one with ghosts that went well, on fields of one shape."""

    def __init__(self, program: Bound, edges: Edges, ready: Ready) -> None:
        self._program, self._edges, self._ready = program, edges, ready
        # Numbers that stay the same are laid once.
        self._known: tuple[Pairs, Sides] | None = None

    @staticmethod
    def of(
        node: Node, fields: Sequence[Any], out: Any, axes: Any, threads: int | None
    ) -> Alike | None:
        """How they are done; None where that is another way."""
        if axes is not None or node.along != tuple(range(-node.ndim, 0)):
            return None
        if node.thins and not node.compiled.every:
            return None
        shape = broadcast_shape([field.shape for field in fields])
        edges = Edges.of(node, shape)
        program = node.program.within(shape[len(shape) - node.ndim :])
        whole = [_spread(field, shape) for field in fields]
        ready = Ready.of(program, whole, listed(out), edges.geometry, edges.cval, threads)
        if ready is not None and out is not None:
            checked_out(out, ready.shapes, program.out_dtypes, None)
        return None if ready is None else Alike(program, edges, ready)

    def __call__(
        self, fields: Sequence[Array], numbers: Sequence[Any], pairs: Pairs, outs: Sequence[Array]
    ) -> list[Array] | None:
        """What a call gives; None where it is done in another way after all."""
        program = self._program.with_numbers(numbers) if numbers else self._program
        whole = [_spread(field, self._edges.shape) for field in fields]
        return self._ready(program, whole, self._sides(pairs), outs)

    def _sides(self, pairs: Pairs) -> Sides:
        known = self._known
        if known is not None and known[0] is pairs:
            return known[1]
        sides = self._edges.sides(pairs)
        every = (one for pair in pairs for one in pair if isinstance(one, Condition))
        self._known = (pairs, sides) if all(one.plain for one in every) else None
        return sides


def given_sides(boundary: Any, ndim: int) -> Pairs:
    """The rules before and after each axis of a border that was written so and went well."""
    if isinstance(boundary, Condition):
        return ((boundary, boundary),) * ndim
    return tuple(
        [(one, one) if isinstance(one, str | Condition) else tuple(one) for one in boundary]
    )


def _spread(field: Array, shape: tuple[int, ...]) -> Array:
    return field if field.shape == shape else np.broadcast_to(field, shape)
