"""What a program gives on fields of a shape: the types of its values and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import numpy as on_numpy
from ..every import Steps, thinned_chunks
from ..layout import Region, Shape, layout
from ..phases import finer
from ..regions import Node
from .grid import Chunks, cut_to

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

    def chunks(self, whole: Chunks) -> Chunks:
        """The chunks of the value where the fields' shape is cut so: its shape, wherever asked."""
        return thinned_chunks(cut_to(self.extent, whole, self.factors), self.every)

    def blocks(self, whole: Chunks) -> Chunks:
        """The same for what blocks have of it, of which some may have nothing."""
        return cut_to(self.extent, whole, self.factors, empty=True)

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
        made |= zip(node.outputs, results_of(node, shape), strict=True)
    return [made[value] for value in work.wanted]


def results_of(node: Node, shape: Shape) -> list[Output]:
    """What each result of a node is, for fields of one shape together."""
    ones, core = (1,) * len(shape), tuple(shape[axis] for axis in node.along)
    every = _placed(ones, node.along, node.every)
    factors = _placed(ones, node.along, node.factors) if node.factors else ()
    found = layout(core, tuple(node.reaches), node.border).outputs
    extents = [
        Region(
            _placed((0,) * len(shape), node.along, one.extent.start),
            _placed(shape, node.along, one.extent.stop),
        )
        for one in found
    ]
    pairs = zip(node.out_dtypes, extents, strict=True)
    return [Output(dtype, extent, every, factors) for dtype, extent in pairs]


def _placed(numbers: Shape, along: Sequence[int], others: Sequence[int]) -> Shape:
    """Numbers of the axes, with others for those along which a node works."""
    found = list(numbers)
    for axis, number in zip(along, others, strict=True):
        found[axis] = number
    return tuple(found)
