"""Gufuncs on Dask arrays, lazily: one call a chunk of the stack, which holds whole core axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from ninepoint.arrays.accepted import is_dask
from ninepoint.gufuncs.calling import (
    Arguments,
    Items,
    as_input,
    check_kind,
    core_axes,
    items,
    single_or_tuple,
    wanted_types,
)
from ninepoint.gufuncs.compiled import checked_types, result_types
from ninepoint.gufuncs.definition import GufuncDefinition

# Dask's functions carry no annotations.
untyped: Any = da


def on_dask(gufunc: Any, given: Arguments) -> Any:
    """The results for inputs of which some are Dask arrays."""
    given.refuse(("out",), "is for NumPy arrays; the result of Dask arrays is made anew.")
    definition: GufuncDefinition = gufunc.definition
    inputs = []
    for value, name in zip(given.inputs, definition.inputs, strict=True):
        if is_dask(value):
            check_kind(value.dtype, name)
        inputs.append(value if is_dask(value) else as_input(value, name))
    _check_chunks(definition, inputs, core_axes(definition.signature, given.options)[0])
    call = items(definition, inputs, given)
    natural = result_types(definition, call.types)
    dtypes = checked_types(definition, natural, wanted_types(definition, given.options))
    options = {"sizes": given.options["sizes"]} if "sizes" in given.options else {}
    plain = definition.signature.plain
    several = len(dtypes) > 1
    result = untyped.apply_gufunc(
        partial(gufunc, dtype=dtypes, **given.scalars, **options),
        str(plain),
        *_aligned(plain.inputs, call),
        output_dtypes=list(dtypes) if several else dtypes[0],
        output_sizes={
            name: call.sizes[own]
            for name, own in zip(plain.names, definition.signature.names, strict=True)
            if name in plain.apart
        },
        vectorize=False,
    )
    results = result if several else (result,)
    return single_or_tuple([call.placed(one, k) for k, one in enumerate(results)])


def _aligned(cores: Sequence[Sequence[str]], call: Items) -> Any:
    """Inputs whose axes before their core axes are cut in one way."""
    pairs: list[Any] = []
    for k, (one, core) in enumerate(zip(call.inputs, cores, strict=True)):
        count = one.ndim - len(core)
        # Where the stack has no elements, for to Dask 1 is longer than 0.
        lengths = call.stack[len(call.stack) - count :]
        own = one[tuple(slice(None) if n else slice(0) for n in lengths)]
        # Axes of the stack are counted from the last; a core axis is one of its own.
        names = (*range(-count, 0), *((k, axis) for axis in range(len(core))))
        pairs += [untyped.asarray(own), names]
    return untyped.core.unify_chunks(*pairs)[1]


def _check_chunks(definition: GufuncDefinition, inputs: Any, along: Any) -> None:
    """Raise where an array is cut along a core axis, or nobody knows how long it is."""
    signature = definition.signature
    for one, name, core, axes in zip(
        inputs, definition.inputs, signature.inputs, along, strict=True
    ):
        if not is_dask(one):
            continue
        if any(np.isnan(size) for sizes in one.chunks for size in sizes):
            raise ValueError(
                f"'{name}' has chunks of unknown size; call .compute_chunk_sizes() on it first."
            )
        cut = {
            axis: size
            for axis, size in zip(axes, core, strict=False)
            if -one.ndim <= axis < one.ndim and one.numblocks[axis] > 1
        }
        if cut:
            axes_words = " and ".join(f"'{size}' (axis {axis})" for axis, size in cut.items())
            cure = ", ".join(f"{axis}: -1" for axis in cut)
            raise ValueError(
                f"'{name}' is cut into chunks along its core axis {axes_words}, which a call "
                f"needs whole; write {name}.rechunk({{{cure}}})."
            )
