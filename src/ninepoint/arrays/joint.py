"""Several nodes as one call, where one border gives at the ends what their borders give.

    lu = laplace(u)       "wrap"                          one call, "wrap":
    out = u + r * lu      looks at no neighbour    ->     out = u + r * (u[-1] + u[1] - 2 * u)

A neighbour that a rule takes from inside the array is an element like others: what is computed
of it at the point itself is what is computed there.  So nodes are one along an axis if

- none of them looks along it, or
- all that look along it take it as a ring, or
- on no way from a field to a result two of them look along it, all that look have one rule, and
  the rule takes neighbours from inside; or it is "constant" and they look at fields only, or
  "fill" and nothing is computed of what they give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.compiled import Bound
from ..language.box import Box
from ..language.dtypes import kind_of
from .axes import Behind
from .bands import KEPT
from .borders import Border, Boundary, Rule
from .every import Steps
from .regions import Node, look, rules

INSIDE: frozenset[Rule] = frozenset(("nearest", "reflect", "mirror"))


@dataclass(frozen=True, slots=True)
class Joint:
    """Some nodes as one; it is a node itself."""

    fields: tuple[int, ...]
    outputs: tuple[int, ...]
    along: Behind
    border: Border
    cval: Any
    program: Bound

    @property
    def boundary(self) -> Boundary:
        """The border has names only."""
        return Boundary(self.border.rules, False)

    @property
    def thick(self) -> int:
        """It has no conditions."""
        return 1

    @property
    def every(self) -> Steps:
        """It makes all points."""
        return (1,) * len(self.along)

    @property
    def thins(self) -> bool:
        """It makes all points."""
        return False

    def with_steps(self, every: Steps) -> Joint:
        """It makes all points."""
        assert max(every) == 1, every
        return self

    @property
    def resizes(self) -> bool:
        """Its results have the shape of its fields."""
        return False

    @property
    def factors(self) -> tuple[int, ...]:
        """Its results are as long as its fields."""
        return ()

    @property
    def reaches(self) -> tuple[Box, ...]:
        """Where each output looks."""
        return self.program.reaches

    @property
    def out_dtypes(self) -> Sequence[Any]:
        """The types of the outputs."""
        return self.program.out_dtypes

    def takes(self, shapes: Sequence[tuple[int, ...]], lanes: int = 1) -> bool:
        """Whether it can be done on fields of these shapes, whose core axes come last.

        A column may be several `lanes`, side by side.  They have one shape; and what is kept of
        stages has to stay in cache.
        """
        if any(shape != shapes[0] for shape in shapes) or len(shapes[0]) < len(self.along):
            return False
        kept = self.program.compiled.module.kept
        return len(self.along) > 2 or kept * lanes * shapes[0][-1] <= KEPT


def joint(
    nodes: Sequence[Node], fields: tuple[int, ...], outputs: tuple[int, ...], program: Bound
) -> Joint | None:
    """The nodes as one, which `program` computes where all neighbours exist; None if they differ.

    All work along the same axes.  Nodes that look at nothing may have any rule but "keep", which
    asks something of the types, as does a constant that is not 0.
    """
    if any(node.border.uses("keep") or node.resizes for node in nodes):
        return None
    if program.positions:
        # Nobody has positions beyond an array.
        return None
    along = nodes[0].along
    asking = [node for node in nodes if node.border.uses("fill") or node.border.uses("constant")]
    values = [node.cval for node in asking if any(any(look(node, axis)) for axis in along)]
    if len({(type(value), repr(value)) for value in values}) > 1:
        return None
    types = [*program.field_dtypes, *(dtype for node in nodes for dtype in node.out_dtypes)]
    if not all(_fits_all(node.cval, types) for node in asking):
        return None
    found = [_rule(nodes, outputs, program.reaches[0], k, axis) for k, axis in enumerate(along)]
    chosen = tuple(pair for pair in found if pair is not None)
    if len(chosen) < len(along):
        return None
    return Joint(fields, outputs, along, Border(chosen), values[0] if values else 0, program)


def _fits_all(value: Any, types: Sequence[Any]) -> bool:
    """Whether no array of these types would refuse a constant, so that nobody has to be asked."""
    if type(value) is int and value == 0:
        return True
    real = isinstance(value, int | float | np.integer | np.floating)
    return real and all(kind_of(np.dtype(dtype)) in "fc" for dtype in types)


def _rule(
    nodes: Sequence[Node], outputs: tuple[int, ...], margin: Box, k: int, axis: int
) -> tuple[Rule, Rule] | None:
    """The rules of the one border before and after an axis, or None if there are none."""
    looking = [node for node in nodes if any(look(node, axis))]
    asked = {pair for node in looking if (pair := rules(node, axis)) is not None}
    if not asked:
        return "nearest", "nearest"
    if len(asked) > 1:
        return None
    (pair,) = asked
    if "wrap" in pair:
        return pair
    if _looks_in_turn(nodes, axis) > 1:
        return None
    made = {value for node in nodes for value in node.outputs}
    if "constant" in pair and any(not made.isdisjoint(node.fields) for node in looking):
        return None
    if "fill" in pair:
        last = nodes[-1]
        reaches = {(min(box.lo[k], 0), max(box.hi[k], 0)) for box in last.reaches}
        if looking != [last] or set(outputs) != set(last.outputs):
            return None
        if reaches != {(margin.lo[k], margin.hi[k])}:
            return None
    return pair if set(pair) <= INSIDE | {"constant", "fill"} else None


def _looks_in_turn(nodes: Sequence[Node], axis: int) -> int:
    """How many nodes look along an axis, one at what the other gives, at the most."""
    deep: dict[int, int] = {}
    for node in nodes:
        before = max((deep.get(value, 0) for value in node.fields), default=0)
        deep |= dict.fromkeys(node.outputs, before + any(look(node, axis)))
    return max(deep.values(), default=0)
