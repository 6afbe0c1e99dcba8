"""What a program gives on fields of a shape: the types of its values and where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import numpy as on_numpy
from ..layout import Region, Shape, layout
from ..regions import Node

if TYPE_CHECKING:
    from .job import Work


@dataclass(frozen=True, slots=True)
class Output:
    """A wanted value: its type, and the points of the fields' shape that it has."""

    dtype: np.dtype[Any]
    extent: Region


def outputs_of(work: Work, shape: Shape) -> list[Output]:
    """What the wanted values are; raises where a node cannot be done on such fields."""
    made: dict[int, Output] = {}
    for node in work.nodes:
        if len(shape) < -min(node.along):
            raise on_numpy.too_few_axes(len(node.along), shape)
        plan = layout(tuple(shape[axis] for axis in node.along), tuple(node.reaches), node.border)
        program = node.program
        on_numpy.check_values(
            plan, node.cval, program.field_dtypes, program.out_dtypes, program.positions
        )
        pairs = zip(node.out_dtypes, extents(node, shape), strict=True)
        made |= zip(node.outputs, (Output(*pair) for pair in pairs), strict=True)
    return [made[value] for value in work.wanted]


def extents(node: Node, shape: Shape) -> list[Region]:
    """The points of its fields' shape that each result of a node has."""
    core = tuple(shape[axis] for axis in node.along)
    extents = []
    for output in layout(core, tuple(node.reaches), node.border).outputs:
        start, stop = [0] * len(shape), list(shape)
        for k, axis in enumerate(node.along):
            start[axis], stop[axis] = output.extent.start[k], output.extent.stop[k]
        extents.append(Region(tuple(start), tuple(stop)))
    return extents
