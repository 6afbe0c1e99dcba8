"""What a program gives on fields of a shape: the types of its values and where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import numpy as on_numpy
from ..every import Steps
from ..layout import Region, Shape, layout
from ..phases import finer
from ..regions import Node

if TYPE_CHECKING:
    from .job import Work


@dataclass(frozen=True, slots=True)
class Output:
    """A wanted value: its type, and the points of the fields' shape that it has.

    Along each axis it has so many times as many as these (`factors`), or of `every` so many one.
    """

    dtype: np.dtype[Any]
    extent: Region
    every: Steps
    factors: Shape = ()

    def finer(self, region: Region) -> Region:
        """The points of the value around some of the fields'."""
        return Region(finer(region.start, self.factors), finer(region.stop, self.factors))


def outputs_of(work: Work, shape: Shape) -> list[Output]:
    """What the wanted values are; raises where a node cannot be done on such fields."""
    made: dict[int, Output] = {}
    for node in work.nodes:
        if len(shape) < -min(node.along):
            raise on_numpy.too_few_axes(len(node.along), shape)
        plan = layout(tuple(shape[axis] for axis in node.along), tuple(node.reaches), node.border)
        program = node.program
        on_numpy.check_values(
            plan, node.cval, program.field_dtypes, node.out_dtypes, program.positions
        )
        factors = factors_of(node, len(shape))
        every = [1] * len(shape)
        for axis, step in zip(node.along, node.every, strict=True):
            every[axis] = step
        pairs = zip(node.out_dtypes, extents(node, shape), strict=True)
        outputs = (Output(*pair, tuple(every), factors) for pair in pairs)
        made |= zip(node.outputs, outputs, strict=True)
    return [made[value] for value in work.wanted]


def factors_of(node: Node, ndim: int) -> Shape:
    """By how much the results of a node are longer, along all axes; nothing if they are not."""
    if not node.factors:
        return ()
    known = dict(zip(node.along, node.factors, strict=True))
    return tuple(known.get(axis, 1) for axis in range(-ndim, 0))


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
