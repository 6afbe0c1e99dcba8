"""Apply a compiled stencil to NumPy arrays.

    fields -> broadcast -> core axes last -> stack as one axis -> parts -> program.run

A `Code` computes points whose neighbours all exist, on arrays with one stack axis. Where it
takes commands (see `commands`), machine code does all the rest on the caller's arrays. Else, and
where an array cannot be read as it is (foreign byte order, odd strides, another dtype), blocks
are copied one at a time, with what lies outside, and never a whole array: it may be a memmap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ninepoint.arrays.accepted import as_field, native
from ninepoint.arrays.borders import Array, Border
from ninepoint.arrays.fitting import fitting_cval
from ninepoint.arrays.lanes import Lanes, with_lanes
from ninepoint.arrays.layout import Layout, Shape, layout
from ninepoint.arrays.merging import looks_at_points, merging
from ninepoint.arrays.parts import (
    SPLIT_POINTS,
    Values,
    itemsize_of,
    over_stack,
    takes_over,
    write,
)
from ninepoint.arrays.recognise import is_device
from ninepoint.arrays.strided import overlaps_itself
from ninepoint.backends.backend import Code
from ninepoint.backends.memory import empty
from ninepoint.backends.threads import thread_count

# Stands for a length that nobody knows: that of a stack of which Dask took some arrays.
UNKNOWN = 1_000_000_007


def apply(
    program: Code,
    fields: Sequence[object],
    *,
    border: Border,
    cval: Any = 0,
    axes: Sequence[int] | None = None,
    out: object = None,
    threads: int | None = None,
) -> Array | tuple[Array, ...]:
    """Run `program` at every point of `fields`.

    Parameters
    ----------
    program : Code
        What to compute, for the dtypes of these fields.
    fields : sequence of array_like
        Broadcast against each other as NumPy does; never modified.
    border : Border
        What a neighbour outside is.
    cval : number
        Value of outputs under "fill" and of neighbours under "constant".
    axes : sequence of int, optional
        The core axes of the broadcast fields; the last ones if left out.
    out : array or tuple of arrays, optional
        Where to write; may overlap the fields.
    threads : int, optional
        At most this many threads.

    Returns
    -------
    array or tuple of arrays
        One array for each output, bare if there is one.

    Raises
    ------
    ValueError
        If shapes do not broadcast, `axes` or `out` do not fit, or `cval` does not fit a dtype.
    TypeError
        If a field or `out` is no array of numbers.
    """
    arrays = _broadcast([as_field(value) for value in fields], program.ndim)
    if looks_at_points(program):
        return _at_points(program, arrays, border, cval, axes, out, threads)
    order = None
    if axes is not None:
        order = core_axes(axes, arrays[0].ndim, program.ndim)
        arrays = [np.moveaxis(array, order, range(-program.ndim, 0)) for array in arrays]
    lead, core = arrays[0].shape[: -program.ndim], arrays[0].shape[-program.ndim :]
    program = program.within(core)
    itemsize = itemsize_of(program)
    plan = layout(core, program.reaches, border, itemsize, every=program.every)
    values = check_values(plan, cval, program.field_dtypes, program.out_dtypes, program.positions)
    shapes = [(*lead, *shape) for shape in plan.out_shapes]
    dtypes = program.out_dtypes
    given: list[Array] = []
    targets: list[Array] = []
    shared = False
    if out is not None:
        given = checked_out(out, shapes, dtypes, order)
        targets = given
        if order is not None:
            targets = [np.moveaxis(array, order, range(-program.ndim, 0)) for array in given]
        # An exact answer about overlap can take for ever; bounds are enough to decide on a copy.
        shared = any(np.may_share_memory(o, array) for o in targets for array in arrays)
    found = with_lanes(program, arrays, () if shared else targets)
    lanes: Lanes | None = None
    if found is not None:
        lanes, program = found
        arrays = [lanes.of(array) for array in arrays]
        lead, core = arrays[0].shape[: -program.ndim], arrays[0].shape[-program.ndim :]
        plan = layout(core, program.reaches, lanes.border(border), itemsize, every=program.every)
        shapes = [(*lead, *shape) for shape in plan.out_shapes]
    if threads is not None or plan.points * math.prod(lead) >= SPLIT_POINTS:
        threads = thread_count(threads)
    count = threads or 1
    over = shared and lanes is None and takes_over(program, plan, arrays, targets, count)
    shared = shared and not over
    if out is None or shared:
        dtypes = tuple(native(o.dtype) for o in targets) if shared else dtypes
        results = [empty(*pair) for pair in zip(shapes, dtypes, strict=True)]
    else:
        results = targets if lanes is None else [lanes.of(o) for o in targets]
    over_stack(program, plan, values, arrays, results, count, over)
    if out is not None and not shared:
        return given[0] if len(given) == 1 else tuple(given)
    if lanes is not None:
        results = [lanes.back(result) for result in results]
    if shared:
        for o, result in zip(targets, results, strict=True):
            write(o, result)
        return given[0] if len(given) == 1 else tuple(given)
    if order is not None:
        results = [np.moveaxis(array, range(-len(order), 0), order) for array in results]
    return results[0] if len(results) == 1 else tuple(results)


def _at_points(
    program: Code,
    arrays: Sequence[Array],
    border: Border,
    cval: Any,
    axes: Sequence[int] | None,
    out: object,
    threads: int | None,
) -> Array | tuple[Array, ...]:
    """Run a program that looks at no neighbour: its axes are in the order of memory."""
    shape = arrays[0].shape
    if axes is not None:
        core_axes(axes, len(shape), program.ndim)
    given: list[Array] = []
    shared = False
    if out is not None:
        given = checked_out(out, [shape] * len(program.out_dtypes), program.out_dtypes, None)
        shared = any(np.may_share_memory(o, array) for o in given for array in arrays)
    found = merging([*arrays, *given])
    fields = [found.of(array) for array in arrays]
    itemsize = itemsize_of(program)
    plan = layout(found.merged[-1:], program.reaches, border, itemsize)
    values = check_values(plan, cval, program.field_dtypes, program.out_dtypes, program.positions)
    results = [found.of(one) for one in given]
    if threads is not None or arrays[0].size >= SPLIT_POINTS:
        threads = thread_count(threads)
    count = threads or 1
    over = shared and takes_over(program, plan, fields, results, count)
    shared = shared and not over
    if out is None or shared:
        results = [empty(found.merged, dtype) for dtype in program.out_dtypes]
    over_stack(program, plan, values, fields, results, count, over)
    if out is None:
        given = [found.back(one) for one in results]
    elif shared:
        for target, result in zip(given, results, strict=True):
            write(target, found.back(result))
    return given[0] if len(given) == 1 else tuple(given)


def core_shape(fields: Sequence[Array], ndim: int, axes: Any) -> Shape:
    """Give the lengths of the fields along the axes that a program of `ndim` axes works on."""
    shape = broadcast_shape([field.shape for field in fields])
    if axes is None:
        return shape[len(shape) - ndim :]
    return tuple(shape[axis] for axis in core_axes(axes, len(shape), ndim))


def core_axes(axes: Any, ndim: int, core: int) -> tuple[int, ...]:
    """Check an `axes=` option and count its axes from the front."""
    if isinstance(axes, int | np.integer) and not isinstance(axes, bool):
        axes = (axes,)
    if isinstance(axes, str) or not isinstance(axes, Sequence):
        raise TypeError(f"axes must be a tuple of {core} integers, not {axes!r}.")
    if len(axes) != core:
        raise ValueError(f"axes={tuple(axes)} names {len(axes)} axes; the stencil has {core}.")
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
            raise TypeError(f"axes must be integers, not {axis!r}.")
        if not -ndim <= axis < ndim:
            raise ValueError(f"axis {axis} does not exist in an array of {ndim} dimensions.")
    order = tuple(int(axis) % ndim for axis in axes)
    if len(set(order)) != core:
        raise ValueError(f"axes={tuple(axes)} names one axis twice.")
    return order


def _broadcast(arrays: list[Array], ndim: int) -> list[Array]:
    shape = arrays[0].shape
    for array in arrays:
        if array.shape != shape:
            shape = broadcast_shape([other.shape for other in arrays])
            arrays = [
                other if other.shape == shape else np.broadcast_to(other, shape)
                for other in arrays
            ]
            break
    if len(shape) < ndim:
        raise too_few_axes(ndim, shape)
    return arrays


def too_few_axes(ndim: int, shape: Shape) -> ValueError:
    """The error for arrays of fewer axes than the stencil has."""
    return ValueError(
        f"a stencil of {ndim} {'axis' if ndim == 1 else 'axes'} needs an array of at least "
        f"{ndim} {'dimension' if ndim == 1 else 'dimensions'}, not of shape {shape}."
    )


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """Give the common shape, as NumPy's broadcasting makes it; an unknown length is a NaN."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except TypeError:
        known = broadcast_shape([tuple(UNKNOWN if n != n else n for n in s) for s in shapes])
        unknown: Any = math.nan
        return tuple(unknown if n == UNKNOWN else n for n in known)
    except ValueError as error:
        named = " and ".join(map(str, shapes))
        raise ValueError(
            f"the fields' shapes {named} do not broadcast; "
            "each pair of lengths, counted from the last axis, must be equal or contain a 1."
        ) from error


def checked_out(
    out: object,
    shapes: Sequence[Shape],
    dtypes: Sequence[np.dtype[Any]],
    order: tuple[int, ...] | None,
) -> list[Array]:
    """Check that `out` holds an array for each result; core axes come last in `shapes`."""
    given = each_out(out, len(shapes))
    for array, shape, dtype in zip(given, shapes, dtypes, strict=True):
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"out must be a NumPy array, not {_kind(array)}.")
        check_target(array, dtype, in_place(shape, order))
        if not array.flags.writeable:
            raise ValueError("out is read-only.")
        if overlaps_itself(array.shape, array.strides, array.itemsize):
            raise shares_elements(array)
    for k, one in enumerate(given):
        if any(np.may_share_memory(one, other) for other in given[:k]):
            raise ValueError("two of the arrays in out share memory; give each its own.")
    return given


def each_out(out: object, count: int) -> list[Any]:
    """Give what was passed as `out` as a list, one for each of so many results."""
    given: list[Any] = list(out) if isinstance(out, tuple | list) else [out]
    if len(given) != count:
        raise ValueError(f"out has {len(given)} arrays, but the stencil has {count} outputs.")
    return given


def in_place(shape: Shape, order: tuple[int, ...] | None) -> Shape:
    """Give the shape of a result, of which core axes came last, with these where `order` says."""
    if order is None:
        return shape
    rest = iter(shape[: -len(order)])
    places = [axis % len(shape) for axis in order]
    ends = dict(zip(places, shape[-len(order) :], strict=True))
    return tuple(ends[k] if k in ends else next(rest) for k in range(len(shape)))


def check_target(array: Any, result: np.dtype[Any], wanted: Shape) -> None:
    """Raise unless an array has the shape of a result, and can hold its values."""
    if array.shape != wanted:
        raise ValueError(f"out has shape {array.shape}, but the result has {wanted}.")
    if not storable(result, array.dtype):
        raise _unstorable(result, native(array.dtype))


def shares_elements(array: Any) -> ValueError:
    """The error for an `out` of which two elements are one."""
    return ValueError(
        f"elements of out share memory: it has shape {array.shape} and strides "
        f"{array.strides}; give an array whose elements are all its own."
    )


def _kind(value: object) -> str:
    if is_device(value):
        return f"an array on a GPU ({type(value).__module__.partition('.')[0]})"
    return type(value).__name__


def _unstorable(result: np.dtype[Any], out: np.dtype[Any]) -> TypeError:
    """The error for an `out` that cannot take the result as it is."""
    cure = f"give an array of {result}"
    if out.kind in "iu" and result.kind != "c":
        cure += f', or ask for {out} with dtype="{out}" and overflow='
    return TypeError(f"out has dtype {out}, but the result has {result}; {cure}.")


def storable(values: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether values of one dtype are stored as another without being asked for it.

    A float is rounded to a shorter float; an integer is never wrapped, nor a float cut to one.
    """
    if target.kind not in "biufc":
        return False
    return np.can_cast(values, target, "same_kind" if target.kind in "fc" else "safe")


def check_values(
    plan: Layout,
    cval: Any,
    fields: Sequence[np.dtype[Any]],
    outs: Sequence[np.dtype[Any]],
    positions: int = 0,
) -> Values:
    """Check that `cval` fits, and what "keep" keeps, before anything runs.

    The last fields may be `positions`, beside which nothing stands.
    """
    values = Values([cval] * len(fields), [cval] * len(outs))
    if plan.has_keep:
        for k, dtype in enumerate(outs):
            if k >= len(fields):
                raise ValueError(
                    f'boundary "keep" needs a field for each output, but output {k + 1} has '
                    "none; choose another boundary."
                )
            if not storable(fields[k], dtype):
                raise ValueError(
                    f'boundary "keep" cannot hold {fields[k]} values in a {dtype} result; '
                    "choose another boundary or dtype."
                )
    if type(cval) is int and cval == 0:
        return values
    if plan.has_constant:
        given = len(fields) - positions
        values.fields = [
            fitting_cval(cval, dtype, "the array" if given == 1 else f"array {k + 1} of the call")
            for k, dtype in enumerate(fields[:given])
        ]
        values.fields += [0] * positions
    if plan.has_fill:
        values.outs = [fitting_cval(cval, dtype, "the result") for dtype in outs]
    return values
