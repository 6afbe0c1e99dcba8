"""Programs on arrays of Cubed: each task reads the chunks that its block needs from their stores.

    block with its neighbours     <-     chunks, one after the other, straight into their places

Cubed is told what a task holds beside the chunks.  Its chunks are all of one size, so a result
that is smaller than the fields is cut anew.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import cubed
from cubed.core.ops import general_blockwise
from cubed.primitive.blockwise import ChunkKey, FunctionArgs

from ..base.frozen import frozen
from .accepted import Arrays, bare, is_cubed, listed
from .blocks import Chunks, Job, Output, Part, computed, grid_of, lazy, outputs_of
from .layout import Array, Region, Shape, Span
from .regions import Program


def lazily(program: Program, fields: Arrays) -> Arrays:
    """Give the wanted values as lazy arrays, in chunks as large as those of the fields.

    Raises
    ------
    ValueError
        As for arrays of NumPy, and from Cubed if a block needs more memory than it may take.
    TypeError
        As for arrays of NumPy.
    """
    shape, chunks = grid_of(fields)
    outputs = outputs_of(program, shape)
    first = next(filter(is_cubed, fields))
    arrays = [lazy(field, chunks, cubed, spec=first.spec) for field in fields]
    job = Job(program, shape, tuple(array.shape for array in arrays))
    own = [array.name for array in arrays], [array.chunks for array in arrays]
    made: dict[int, Any] = {}
    for extent in dict.fromkeys(output.extent for output in outputs):
        which = tuple(k for k, output in enumerate(outputs) if output.extent == extent)
        cuts = []
        for (first, last), sizes in zip(extent, chunks, strict=True):
            # Spans of one size, of which the last one may be shorter.
            size = max(1, *sizes)
            spans = [(a, min(a + size, last)) for a in range(first, last, size)]
            cuts.append(spans or [(first, last)])
        operation = _Operation(job, cuts, which, *own)
        made |= zip(which, operation.on(arrays, [outputs[k] for k in which]), strict=True)
    return [made[k] for k in range(len(outputs))]


@frozen
class _Operation:
    """The results `which` of a program, in blocks between these cuts, of fields in such chunks.

    The arrays of the fields have these names.
    """

    job: Job
    cuts: Sequence[Sequence[Span]]
    which: Shape
    names: Sequence[str]
    fields: Sequence[Chunks]

    def on(self, arrays: Arrays, outputs: Sequence[Output]) -> Arrays:
        """The results as arrays."""
        count, program = len(outputs), self.job.program
        axes = zip(self.cuts, outputs[0].factors, strict=True)
        chunks = tuple(tuple((b - a) * factor for a, b in axis) for axis, factor in axes)
        # No block reads more than one in the middle, nor has more if all values were kept.
        middle = self._reads([(len(axis) - 1) // 2 for axis in self.cuts])
        types = [
            *program.field_dtypes,
            *(dtype for node in program.nodes for dtype in node.out_dtypes),
        ]
        points = max(math.prod(part.length for part in own) for own in middle)
        made = general_blockwise(
            self,
            self.keys,
            *arrays,
            shapes=[tuple(map(sum, chunks))] * count,
            dtypes=[output.dtype for output in outputs],
            chunkss=[chunks] * count,
            target_stores=[None] * count if count > 1 else None,
            num_input_blocks=tuple(math.prod(len(part.pieces) for part in own) for own in middle),
            extra_projected_mem=points * sum(dtype.itemsize for dtype in types),
            op_name=program.name,
        )
        return listed(made)

    def _region(self, block: Sequence[int]) -> Region:
        """The points of a block."""
        return Region(axis[k] for axis, k in zip(self.cuts, block, strict=True))

    def _reads(self, block: Sequence[int]) -> list[list[Part]]:
        """How what a block reads of each field is put together."""
        region = self._region(block)
        return self.job.reads(self.job.domain(region), region.start, self.fields)

    def keys(self, key: Any) -> Any:
        """Tell Cubed which chunks of the arrays a block reads."""
        found = []
        for name, own in zip(self.names, self._reads(key.coords), strict=True):
            places = itertools.product(*(part.pieces for part in own))
            found.append(iter([ChunkKey(name, place) for place in places]))
        return FunctionArgs(*found, output_name=key.name)

    def __call__(self, *chunks: Iterable[Array], block_id: Sequence[int]) -> Any:
        """Compute a block from the chunks that it reads."""
        region, given = self._region(block_id), itertools.chain.from_iterable(chunks)
        results = listed(computed(self.job, region, self.fields, given))
        return bare([results[k] for k in self.which])
