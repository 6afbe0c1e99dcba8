"""Ghosts: calls whose border has conditions.

A ghost is `alpha * mirrored + beta`.  Conditions extend the fields axis by axis, the later ones
what the earlier ones have extended; the rules with names hold for what is extended so.

    sides        the rules of a call, the values of conditions laid along the edges
    naming       values that name their dimensions
    turning      values for calls along other axes than the last
    laying       the numbers in memory, of which blocks are given their ghosts (see `gathering`)
    calls        calls on arrays that are alike
"""

from __future__ import annotations

from ..borders import Boundary
from ..regions import Node
from .calls import GhostCall, given_boundary
from .sides import Edges, Rules, moved, turned, unnamed

__all__ = ["GhostCall", "given_boundary", "laid", "moved", "turned", "unnamed"]


def laid(node: Node, shape: tuple[int, ...], boundary: Boundary, *, lazy: bool = False) -> Rules:
    """The rules of a call along the last axes of fields of a shape, their values laid and checked.

    Of lazy fields values may be lazy too.
    """
    return Edges.of(node, shape, boundary).laid(boundary, lazy)
