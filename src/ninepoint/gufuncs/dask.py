"""Gufuncs on Dask arrays, lazily: one call a chunk of the stack, which holds whole core axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

from ninepoint.arrays.recognise import is_dask
from ninepoint.backends.threads import serial
from ninepoint.gufuncs.axes import core_axes
from ninepoint.gufuncs.calling import (
    Arguments,
    as_input,
    check_kind,
    types_of,
    wanted_dtypes,
)
from ninepoint.gufuncs.compiled import checked_dtypes, result_dtypes
from ninepoint.gufuncs.definition import GufuncDefinition
from ninepoint.gufuncs.signature import written
from ninepoint.gufuncs.sizes import fixed, result_shapes, told_sizes

# Dask's functions carry no annotations.
untyped: Any = da


@dataclass(frozen=True, slots=True)
class Job:
    """What every task of a call has in common; pickles as its meaning."""

    gufunc: Any
    scalars: tuple[tuple[str, Any], ...]
    sizes: tuple[tuple[str, int], ...]
    dtypes: tuple[np.dtype[Any], ...]

    @property
    def __name__(self) -> str:
        name: str = self.gufunc.__name__
        return name

    def __call__(self, *blocks: Any) -> Any:
        """Compute a chunk on the thread that has the task."""
        options = {"sizes": dict(self.sizes)} if self.sizes else {}
        with serial():
            return self.gufunc(*blocks, dtype=self.dtypes, **dict(self.scalars), **options)


def on_dask(definition: GufuncDefinition, given: Arguments, gufunc: Any) -> Any:
    """The results for inputs of which some are Dask arrays."""
    options, signature = given.options, definition.signature
    options.refuse(("out",), "is for NumPy arrays; the result of Dask arrays is made anew.")
    inputs = []
    for value, name in zip(given.inputs, definition.inputs, strict=True):
        if is_dask(value):
            check_kind(value.dtype, name)
            inputs.append(value)
        else:
            inputs.append(as_input(value, name))
    axes = core_axes(definition, options)
    _check_chunks(definition, inputs, axes.inputs)
    sizes = told_sizes(definition, options.sizes, given.scalars)
    shapes = result_shapes(definition, [one.shape for one in inputs], axes.inputs, sizes)
    stack = shapes[0][: len(shapes[0]) - len(signature.outputs[0])]
    types = types_of(definition, [one.dtype for one in inputs], given.scalars)
    natural = result_dtypes(definition, types)
    dtypes = checked_dtypes(definition, natural, wanted_dtypes(definition, options.dtype))
    job = Job(gufunc, tuple(given.scalars.items()), tuple(sizes.items()), dtypes)
    # Names that are none of the user's, for Dask reads a number as a name.
    names = {name: f"d{k}" for k, name in enumerate(signature.names)}
    sides = [
        [tuple(names[name] for name in core) for core in side]
        for side in (signature.inputs, signature.outputs)
    ]
    known = fixed(signature, sizes)
    several = len(dtypes) > 1
    result = untyped.apply_gufunc(
        job,
        written(*sides),
        *_aligned(definition, axes.last(inputs), stack),
        output_dtypes=list(dtypes) if several else dtypes[0],
        output_sizes={names[name]: known[name] for name in signature.apart} or None,
        vectorize=False,
    )
    made = [axes.placed(one, k) for k, one in enumerate(result if several else (result,))]
    return tuple(made) if several else made[0]


def _aligned(
    definition: GufuncDefinition, inputs: Sequence[Any], stack: Sequence[int]
) -> list[Any]:
    """Inputs whose axes before their core axes are cut in one way."""
    cores = definition.signature.inputs
    moved = [_emptied(one, len(core), stack) for one, core in zip(inputs, cores, strict=True)]
    pairs: list[Any] = []
    for k, (one, core) in enumerate(zip(moved, cores, strict=True)):
        if is_dask(one):
            # Axes of the stack are counted from the last; a core axis is one of its own.
            loop = range(len(core) - one.ndim, 0)
            pairs += [one, (*loop, *((k, axis) for axis in range(len(core))))]
    _, unified = untyped.core.unify_chunks(*pairs)
    cut = iter(unified)
    return [next(cut) if is_dask(one) else one for one in moved]


def _emptied(one: Any, core: int, stack: Sequence[int]) -> Any:
    """An input without elements where the stack has none: to Dask 1 is longer than 0."""
    own = one.shape[: one.ndim - core]
    empty = [n == 0 for n in stack[len(stack) - len(own) :]]
    return one[tuple(slice(0) if none else slice(None) for none in empty)] if any(empty) else one


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
