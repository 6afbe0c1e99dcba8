"""Programs on arrays of Cubed: each task reads the chunks that its block needs from their stores.

    block with its neighbours     <-     chunks, one after the other, straight into their places

Cubed promises how much memory a task takes, so it is told what a program holds beside the chunks.
Its chunks are all of one size, so a result that is smaller than the fields is cut anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import cubed
import numpy as np
from cubed.core.ops import general_blockwise
from cubed.primitive.blockwise import ChunkKey, FunctionArgs

from . import accepted
from . import numpy as on_numpy
from .blocks import gathered
from .borders import Array
from .chunked.grid import Chunks, grid
from .chunked.job import Job, Work
from .chunked.outputs import Output, outputs_of
from .chunked.reads import Place, Reads, computed
from .layout import Region, Shape
from .recognise import is_cubed
from .regions import Span


def check(fields: Sequence[Any]) -> None:
    """Raise where a field is no array that one can compute with."""
    for field in fields:
        if is_cubed(field):
            accepted.check_dtype(field.dtype)
        else:
            accepted.as_field(field)


def lazily(work: Work, fields: Sequence[Any]) -> list[Any]:
    """Give the wanted values as lazy arrays, in chunks as large as those of the fields.

    Raises
    ------
    ValueError
        As for arrays of NumPy, and from Cubed if a block needs more memory than it may take.
    TypeError
        As for arrays of NumPy.
    """
    check(fields)
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    outputs = outputs_of(work, shape)
    chunks = grid([getattr(field, "chunks", None) for field in fields], shape)
    first = next(filter(is_cubed, fields))
    arrays = [_lazy(field, shape, chunks, first.spec) for field in fields]
    job = Job(work, shape, tuple(work.field_dtypes))
    sizes = [max(axis) for axis in chunks]
    made: dict[int, Any] = {}
    for extent in dict.fromkeys(output.extent for output in outputs):
        which = [k for k, output in enumerate(outputs) if output.extent == extent]
        some = _of_extent(job, extent, sizes, which, [outputs[k] for k in which], arrays)
        made |= zip(which, some, strict=True)
    return [made[k] for k in range(len(outputs))]


def _lazy(field: Any, shape: Shape, chunks: Chunks, spec: Any) -> Any:
    if is_cubed(field):
        return field
    array = accepted.as_field(field)
    cut = chunks[len(shape) - array.ndim :]
    sizes = tuple(max(c) if n == sum(c) else n for n, c in zip(array.shape, cut, strict=True))
    return cubed.from_array(array, chunks=sizes, spec=spec)


def _of_extent(
    job: Job,
    extent: Region,
    sizes: Sequence[int],
    which: Sequence[int],
    outputs: Sequence[Output],
    arrays: Sequence[Any],
) -> Sequence[Any]:
    """The results that have just these points, by one operation."""
    cuts = [_cuts(a, b, size) for a, b, size in zip(extent.start, extent.stop, sizes, strict=True)]
    factors = outputs[0].factors or (1,) * len(cuts)
    chunks = tuple(
        tuple((b - a) * k for a, b in axis) for axis, k in zip(cuts, factors, strict=True)
    )
    reads = Reads.of(job, cuts, [array.chunks for array in arrays])
    computation = _Computation(job, reads, tuple(which))
    made = general_blockwise(
        computation,
        computation.keys([array.name for array in arrays]),
        *arrays,
        shapes=[outputs[0].finer(extent).shape] * len(outputs),
        dtypes=[output.dtype for output in outputs],
        chunkss=[chunks] * len(outputs),
        target_stores=[None] * len(outputs) if len(outputs) > 1 else None,
        num_input_blocks=computation.most_chunks(),
        extra_projected_mem=computation.bytes(),
        op_name=job.work.name,
    )
    return made if isinstance(made, tuple) else (made,)


def _cuts(first: int, last: int, size: int) -> list[Span]:
    """Spans of one size, of which the last one may be shorter."""
    size = max(size, 1)
    return [(a, min(a + size, last)) for a in range(first, last, size)] or [(first, last)]


@dataclass(frozen=True, slots=True)
class _Computation:
    """What every task of an operation does."""

    job: Job
    reads: Reads
    which: tuple[int, ...]

    def __call__(self, *chunks: Iterable[Array], block_id: Place) -> Any:
        recipes = self.reads.recipes(block_id)
        arrays = [
            gathered(recipe, map(np.asarray, own), dtype)
            for recipe, own, dtype in zip(recipes, chunks, self.job.field_dtypes, strict=True)
        ]
        region, start = self.reads.region(block_id), self.reads.start(block_id)
        made = computed(self.job, region, start, arrays)
        results = [made[k] for k in self.which]
        return results[0] if len(results) == 1 else tuple(results)

    def keys(self, names: Sequence[str]) -> Any:
        """What tells Cubed which chunks of the arrays of these names a block reads."""

        def of(key: Any) -> Any:
            places = self.reads.places(key.coords)
            return FunctionArgs(
                *(
                    iter([ChunkKey(name, place) for place in some])
                    for name, some in zip(names, places, strict=True)
                ),
                output_name=key.name,
            )

        return of

    def most_chunks(self) -> tuple[int, ...]:
        """The most chunks of each field that a block reads."""
        return tuple(
            math.prod(max(len(part.chunks) for part in axis) for axis in table)
            for table in self.reads.tables
        )

    def bytes(self) -> int:
        """The most bytes that a block takes beside chunks and results: what it reads, and values.

        Every call of the program is counted as if its values were all kept.
        """
        lengths = [max((b - a for a, b in axis), default=0) for axis in self.reads.spans]
        points = math.prod(lengths)
        types = [*self.job.field_dtypes]
        types += [dtype for node in self.job.work.nodes for dtype in node.out_dtypes]
        return points * sum(dtype.itemsize for dtype in types)
