"""What the blocks of a result read: the chunks of each field, and which parts of them.

    blocks          |     0     |     1     |   2  |      of the result, along an axis
    chunks          |   0   |   1   |   2   |  3   |      of a field
    block 1 reads         [---------------------]         chunks 0 to 3

Nothing here belongs to one library: whoever can fetch chunks by their places can compute blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ...backends.threads import serial
from ..blocks import Part, parts
from ..borders import Array
from ..layout import Region, Shape
from ..regions import Span
from ..work import Block, Domain
from .edges import taken
from .grid import Chunks, aligned
from .job import Job
from .outputs import outputs_of
from .places import nothing

# Where a block, or a chunk, is among those of an array: one number an axis.
Place: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reads:
    """For each axis the cuts, what blocks take, and of each field the parts of every block."""

    cuts: Sequence[Sequence[Span]]
    spans: Sequence[Sequence[Span]]
    tables: Sequence[Sequence[Sequence[Part]]]
    ranks: Sequence[int]

    @staticmethod
    def of(job: Job, cuts: Sequence[Sequence[Span]], fields: Sequence[Chunks]) -> Reads:
        """What blocks between these cuts read of fields in these chunks."""
        ndim = len(cuts)
        spans = [
            taken(job.work, axis_cuts, n, axis)
            for axis, (axis_cuts, n) in enumerate(zip(cuts, job.shape, strict=True), -ndim)
        ]
        tables = [
            [
                parts(sizes, some, n)
                for sizes, some, n in zip(
                    aligned(chunks, ndim, (1,)), spans, job.shape, strict=True
                )
            ]
            for chunks in fields
        ]
        return Reads(cuts, spans, tables, [len(chunks) for chunks in fields])

    def region(self, block: Place) -> tuple[Span, ...]:
        """The points of a block."""
        return tuple([axis[i] for axis, i in zip(self.cuts, block, strict=True)])

    def start(self, block: Place) -> Shape:
        """Where what a block reads begins."""
        return tuple([axis[i][0] for axis, i in zip(self.spans, block, strict=True)])

    def recipes(self, block: Place) -> tuple[tuple[Part, ...], ...]:
        """How what a block reads of each field is put together."""
        return tuple(
            [
                tuple([axis[i] for axis, i in zip(table, block, strict=True)])
                for table in self.tables
            ]
        )

    def places(self, block: Place) -> Iterator[list[Place]]:
        """The chunks of each field that a block reads, in the order of its recipe."""
        for recipe, rank in zip(self.recipes(block), self.ranks, strict=True):
            # A field that lacks axes has no places along them.
            chunks = [part.chunks for part in recipe[len(recipe) - rank :]]
            yield list(itertools.product(*chunks))


def computed(
    job: Job, region: Sequence[Span], start: Shape, arrays: Sequence[Array]
) -> list[Array]:
    """Compute a block from arrays that have what it reads."""
    wanted = Region(tuple(a for a, _ in region), tuple(b for _, b in region))
    if not wanted.points:
        return [
            nothing(arrays[0], output.finer(wanted.clip(output.extent)).shape, output.dtype)
            for output in outputs_of(job.work, job.shape)
        ]
    with serial():
        return job.work.run(Block(tuple(arrays), start, Domain(job.shape)), wanted)
