"""Calls on arrays of a GPU: settled once for arrays that lie alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.borders import Border
from ninepoint.arrays.cuda.fields import checked_out
from ninepoint.arrays.cuda.settled import Settled
from ninepoint.arrays.cuda.work import one_call, understood
from ninepoint.arrays.executable import Options, Run
from ninepoint.arrays.keys import device_key, number_key
from ninepoint.arrays.layout import Shape, layout
from ninepoint.arrays.recognise import listed
from ninepoint.backends.compiled import Bound, Compiled
from ninepoint.backends.cuda import driver
from ninepoint.backends.cuda.driver import DeviceArray
from ninepoint.remembered import Remembered

_Key: TypeAlias = tuple[Any, ...]


def apply(
    program: Bound,
    fields: Sequence[DeviceArray],
    *,
    border: Border,
    cval: Any = 0,
    axes: Sequence[int] | None = None,
    out: object = None,
    threads: int | None = None,
) -> DeviceArray | tuple[DeviceArray, ...]:
    """Run `program` at every point of `fields`, which lie on one GPU.

    Parameters
    ----------
    program : Bound
        What to compute, for the dtypes of these fields.
    fields : sequence of array
        Of CuPy; broadcast against each other, never modified.
    border : Border
        What a neighbour outside is.
    cval : number
        Value of outputs under "fill" and of neighbours under "constant".
    axes : sequence of int, optional
        The core axes of the broadcast fields; the last ones if left out.
    out : array or tuple of arrays, optional
        Where to write; may overlap the fields.
    threads : int, optional
        Means nothing on a GPU.

    Returns
    -------
    array or tuple of arrays
        One of CuPy for each output, bare if there is one; they are there once all is done that
        was begun on the current stream.

    Raises
    ------
    StencilError
        If the kernel takes the general path, which leads to the CPU only.
    ValueError, TypeError
        As for arrays of NumPy.
    MemoryError
        If the GPU has no room for the results.
    """
    device = driver.device_of(fields[0])
    with driver.on(device):
        targets: Any = None
        if out is not None:
            shapes, order = _result_shapes(program, fields, border, axes)
            targets = checked_out(out, shapes, program.out_dtypes, order, device)
        given = None if targets is None else tuple(targets)
        run = _run(program, fields, Options(border, cval, threads), given, axes)
        known = program.within(on_numpy.core_shape(fields, program.ndim, axes))
        numbers = (*known.coefficients, *known.scalars)
        made = run(fields, numbers, given)
        if made is None:
            # What is to be written overlaps what is read, or is of another type.
            made = _run(program, fields, Options(border, cval, threads), None, axes)(
                fields, numbers, None
            )
            for target, one in zip(targets, listed(made), strict=True):
                target[...] = one
    if out is None:
        return made
    kept = on_numpy.each_out(out, len(targets))
    return kept[0] if len(kept) == 1 else tuple(kept)


def _result_shapes(
    program: Bound, fields: Sequence[DeviceArray], border: Border, axes: Any
) -> tuple[list[Shape], tuple[int, ...] | None]:
    """Give the shapes of the results, core axes last, and where these are, if that is said."""
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    count, ndim = len(shape), program.ndim
    order = None if axes is None else on_numpy.core_axes(axes, count, ndim)
    core = order or tuple(range(count - ndim, count))
    lead = tuple(n for axis, n in enumerate(shape) if axis not in core)
    plan = layout(tuple(shape[axis] for axis in core), program.reaches, border)
    return [(*lead, *one) for one in plan.out_shapes], order


# Settled calls, by what they depend on.
_runs: Remembered[_Key, tuple[Compiled, Run]] = Remembered(256)


def _run(
    program: Bound, fields: Sequence[DeviceArray], options: Options, out: Any, axes: Any
) -> Run:
    """Find how arrays such as these are done; settled once."""
    compiled = program.compiled
    key = (
        id(compiled),
        options.border,
        options.cval if type(options.cval) is int else number_key(options.cval),
        None if axes is None else tuple(axes),
        tuple([device_key(field) for field in fields]),
        None if out is None else tuple([device_key(one) for one in out]),
    )
    found = _runs.get(key)
    if found is None:
        found = compiled, prepare(program, fields, options, out, axes)
        _runs[key] = found
    return found[1]


def prepare(
    program: Bound, fields: Sequence[DeviceArray], options: Options, out: Any, axes: Any = None
) -> Settled:
    """Settle calls on fields and an `out` that lie just like these, on the current GPU.

    Raises
    ------
    StencilError
        If the kernel takes the general path.
    ValueError
        If the border's constant does not fit, or there are too few axes.
    """
    understood(program.compiled)
    return Settled(one_call(program, options), fields, out, axes)
