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

from ..regions import Node
from .calls import GhostCall, given_boundary
from .sides import AtEdge, Sides, moved, turned, unnamed

__all__ = ["AtEdge", "GhostCall", "Sides", "check", "given_boundary", "moved", "turned", "unnamed"]


def check(node: Node, shape: tuple[int, ...]) -> None:
    """Raise where the conditions of a call along the last axes do not fit fields of a shape."""
    if node.boundary.conditions:
        Sides.of(node, shape, node.boundary, lazy=False)
