"""What a program gives on fields of a shape: the types of its values and where they are."""

from __future__ import annotations

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
    every, factors = [1] * len(shape), [1] * len(shape)
    for axis, step in zip(node.along, node.every, strict=True):
        every[axis] = step
    for axis, factor in zip(node.along, node.factors, strict=False):
        factors[axis] = factor
    core = tuple(shape[axis] for axis in node.along)
    outputs = []
    for dtype, one in zip(
        node.out_dtypes, layout(core, tuple(node.reaches), node.border).outputs, strict=True
    ):
        start, stop = [0] * len(shape), list(shape)
        for k, axis in enumerate(node.along):
            start[axis], stop[axis] = one.extent.start[k], one.extent.stop[k]
        extent = Region(tuple(start), tuple(stop))
        outputs.append(Output(dtype, extent, tuple(every), tuple(factors) if node.factors else ()))
    return outputs
