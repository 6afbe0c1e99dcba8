"""Whole cores: no core axis is cut, so one symbolic `blockwise` layer is enough.

A million chunks cost nothing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.delayed import delayed

from .grid import Chunks
from .job import Job, whole_of
from .outputs import Output
from .places import meta_of

# Most of Dask's functions carry no annotations.
untyped: Any = da


def whole_cores(arrays: Sequence[Any], chunks: Chunks, core: frozenset[int]) -> bool:
    """Whether every field is cut along the stack only, and all in the same way."""
    for array in arrays:
        offset = len(chunks) - array.ndim
        for axis, sizes in enumerate(array.chunks):
            wanted = chunks[axis + offset]
            if axis + offset in core:
                if len(sizes) != 1:
                    return False
            elif any(map(math.isnan, sizes)):
                if len(sizes) != len(wanted):
                    return False
            elif tuple(sizes) not in (wanted, (1,)):
                return False
    return all(len(chunks[axis]) == 1 for axis in core)


def symbolic(
    job: Job,
    outputs: Sequence[Output],
    arrays: Sequence[Any],
    chunks: Chunks,
    names: Sequence[str],
    whole: str,
) -> list[Any]:
    """One call per chunk of the stack; the graph is a rule, not a list."""
    ndim = len(chunks)
    indices = tuple(range(ndim))
    compute: Any = job.on_whole
    pairs: list[Any] = []
    if job.apart:
        compute = whole_of
        pairs = [delayed(job, name=job.apart, traverse=False), None]
    for array in arrays:
        pairs += [array, indices[ndim - array.ndim :]]
    # Dask would take those of the first field that has the most, whatever their lengths.
    sizes = [dict(enumerate(output.chunks(chunks))) for output in outputs]
    if len(names) == 1:
        meta = meta_of(arrays[0], ndim, outputs[0].dtype)
        result = untyped.blockwise(
            compute,
            indices,
            *pairs,
            name=names[0],
            dtype=meta.dtype,
            meta=meta,
            adjust_chunks=sizes[0],
            align_arrays=False,
        )
        return [result]
    together = untyped.blockwise(
        compute,
        indices,
        *pairs,
        name=whole,
        dtype=object,
        meta=np.empty((0,) * ndim, object),
        adjust_chunks=dict(enumerate(chunks)),
        align_arrays=False,
    )
    results = []
    for k, (name, output, size) in enumerate(zip(names, outputs, sizes, strict=True)):
        results.append(
            untyped.blockwise(
                operator.itemgetter(k),
                indices,
                together,
                indices,
                name=name,
                dtype=output.dtype,
                meta=meta_of(arrays[0], ndim, output.dtype),
                adjust_chunks=size,
                align_arrays=False,
            )
        )
    return results
