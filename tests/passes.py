"""Run what a GPU does in one pass, by the emulator: several calls, or several steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import launching
from emulator import Functions, guarded
from ninepoint.arrays.fitting import fitting_cval
from ninepoint.backends.cuda.source import STACK
from ninepoint.language.ir import Length
from ninepoint.onepass import OnePass


def run(
    one: OnePass, functions: Functions, fields: Sequence[np.ndarray], *, plain: bool = False
) -> list[np.ndarray]:
    """The outputs, for fields of one shape."""
    shape, ndim = fields[0].shape, len(one.source.launches[0].tile)
    core = shape[-ndim:]
    stack = (1,) * (STACK - len(shape) + ndim) + shape[:-ndim]
    emulated = launching.Emulated(one.source, functions, None, None, {}, plain=plain)  # type: ignore[arg-type]
    for k, array in enumerate(fields):
        held = guarded(np.ascontiguousarray(array), at_end=not plain)
        emulated.arrays[f"field{k}"] = held.reshape(*stack, *core), (0,) * ndim
    for k, dtype in enumerate(one.out_dtypes):
        made = guarded(np.full(shape, 0, dtype), at_end=not plain)
        made.view(np.uint8).fill(0xC3) if made.size else None
        emulated.arrays[f"out{k}"] = made.reshape(*stack, *core), (0,) * ndim
    others: list[object] = [guarded(np.ascontiguousarray(array)) for array in one.coefficients]
    for value, dtype in zip(one.scalars, one.scalar_types, strict=True):
        value = core[value.axis] if isinstance(value, Length) else value
        others.append(dtype.numpy.type(int(value) if dtype.is_integer else value))
    for number, storage, _ in one.source.constants:
        others.append(storage.type(fitting_cval(one.borders[number][1], storage, "the result")))
    if fields[0].size:
        for launch in one.source.launches:
            emulated._launch(launch, stack, core, others)
    results = (emulated.arrays[f"out{k}"][0] for k in range(len(one.out_dtypes)))
    return [array.reshape(shape).copy() for array in results]
