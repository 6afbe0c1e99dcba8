"""Programs on arrays of Cubed: each task reads the chunks that its block needs from their stores.

    block with its neighbours     <-     chunks, one after the other, straight into their places

Cubed is told what a task holds beside the chunks.  Its chunks are all of one size, so a result
that is smaller than the fields is cut anew.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import cubed
import numpy as np
from cubed.core.ops import general_blockwise
from cubed.primitive.blockwise import ChunkKey, FunctionArgs

from ..backends.memory import empty
from . import accepted
from . import numpy as on_numpy
from .blocks import Part, parts, put_together
from .borders import Array
from .chunked.grid import Chunks, cut_as, grid
from .chunked.halos import looks
from .chunked.job import Job, Work
from .chunked.outputs import Output, outputs_of
from .chunked.pieces import computed, spans_read
from .layout import Region
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
    arrays = [_lazy(field, chunks, first.spec) for field in fields]
    sizes = tuple(max(1, *axis) for axis in chunks)
    made: dict[int, Any] = {}
    for extent in dict.fromkeys(output.extent for output in outputs):
        which = tuple(k for k, output in enumerate(outputs) if output.extent == extent)
        fields_cut = tuple(array.chunks for array in arrays)
        operation = _Operation(Job(work, shape), extent, sizes, which, fields_cut)
        made |= zip(which, operation.on(arrays, [outputs[k] for k in which]), strict=True)
    return [made[k] for k in range(len(outputs))]


def _lazy(field: Any, chunks: Chunks, spec: Any) -> Any:
    if is_cubed(field):
        return field
    array = accepted.as_field(field)
    sizes = tuple(map(max, cut_as(array.shape, chunks)))
    return cubed.from_array(array, chunks=sizes, spec=spec)


@dataclass(frozen=True, slots=True)
class _Operation:
    """The results of a program that have just the points of `extent`, in blocks of these sizes.

    `fields` are the chunks of the fields, and `which` says which results they are.
    """

    job: Job
    extent: Region
    sizes: tuple[int, ...]
    which: tuple[int, ...]
    fields: tuple[Chunks, ...]

    def on(self, arrays: Sequence[Any], outputs: Sequence[Output]) -> Sequence[Any]:
        """The results as arrays."""
        job, first = self.job, outputs[0]
        count = len(outputs)
        cuts = [self._cuts(axis) for axis in range(len(self.sizes))]
        factors = first.factors or (1,) * len(cuts)
        chunks = tuple(
            tuple((b - a) * k for a, b in axis) for axis, k in zip(cuts, factors, strict=True)
        )
        # A block has at most so many elements of a field, of so many chunks.
        far = [high - low for low, high, _ in looks(job.work, len(cuts))]
        lengths = [size + reach for size, reach in zip(self.sizes, far, strict=True)]
        read = [
            math.prod(
                min(len(axis), 2 + -(-length // max(1, axis[0])))
                for axis, length in zip(own, lengths[len(lengths) - len(own) :], strict=True)
            )
            for own in self.fields
        ]
        # As if the values of all calls were kept.
        types = [*job.work.field_dtypes, *(t for n in job.work.nodes for t in n.out_dtypes)]
        made = general_blockwise(
            self,
            partial(self.keys, [array.name for array in arrays]),
            *arrays,
            shapes=[first.finer(self.extent).shape] * count,
            dtypes=[output.dtype for output in outputs],
            chunkss=[chunks] * count,
            target_stores=[None] * count if count > 1 else None,
            num_input_blocks=tuple(read),
            extra_projected_mem=math.prod(lengths) * sum(dtype.itemsize for dtype in types),
            op_name=job.work.name,
        )
        return made if isinstance(made, tuple) else (made,)

    def _cuts(self, axis: int) -> list[Span]:
        """Spans of one size, of which the last one may be shorter."""
        first, last, size = self.extent.start[axis], self.extent.stop[axis], self.sizes[axis]
        return [(a, min(a + size, last)) for a in range(first, last, size)] or [(first, last)]

    def _region(self, block: Sequence[int]) -> Region:
        """The points of a block."""
        first = zip(self.extent.start, block, self.sizes, strict=True)
        start = tuple(a + k * size for a, k, size in first)
        last = zip(start, self.sizes, self.extent.stop, strict=True)
        return Region(start, tuple(min(a + size, b) for a, size, b in last))

    def _parts(self, field: int, spans: Sequence[Span]) -> list[Part]:
        """How what a block reads of a field is put together."""
        whole = self.job.shape[len(self.job.shape) - len(spans) :]
        axes = zip(self.fields[field], spans, whole, strict=True)
        return [parts(sizes, [span], n)[0] for sizes, span, n in axes]

    def _shapes(self) -> list[tuple[int, ...]]:
        return [tuple(map(sum, chunks)) for chunks in self.fields]

    def keys(self, names: Sequence[str], key: Any) -> Any:
        """Tell Cubed which chunks of the arrays of these names a block reads."""
        found = []
        spans = spans_read(self.job, self._region(key.coords), self._shapes())
        for field, (name, own) in enumerate(zip(names, spans, strict=True)):
            places = itertools.product(*(part.chunks for part in self._parts(field, own)))
            found.append(iter([ChunkKey(name, place) for place in places]))
        return FunctionArgs(*found, output_name=key.name)

    def __call__(self, *chunks: Iterable[Array], block_id: Sequence[int]) -> Any:
        """Compute a block from the chunks that it reads."""
        types = self.job.work.field_dtypes

        def read(field: int, spans: Sequence[Span]) -> Array:
            make = partial(empty, dtype=types[field])
            return put_together(self._parts(field, spans), map(np.asarray, chunks[field]), make)

        made = computed(self.job, self._region(block_id), self._shapes(), read)
        results = made if isinstance(made, tuple) else (made,)
        some = [results[k] for k in self.which]
        return some[0] if len(some) == 1 else tuple(some)
