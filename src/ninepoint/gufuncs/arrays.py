"""Gufuncs on arrays: of NumPy, Dask, xarray and pandas; labels stay with the axes that remain.

NumPy: the stack is cut into parts, which threads share.  NumPy's own gufunc (see `compiled`) is
called for each part.  The first part tells how long the others take, and whether it is worth it
to share them.

xarray: sizes of the signature are dimensions, which have names.

    "(n,k),(k,m)->(n,m)"     dims={"n": "time"}     ->     n is time; k and m the last dimensions

Coordinates of the dimensions that remain are kept; all others of the stack go by their names.

Dask: lazily, one call a chunk of the stack, which holds whole core axes.

By definition the function itself is called by Python for each item of the stack.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numba.core import config

from ..arrays.accepted import (
    are_apart,
    bare,
    is_dask,
    is_pandas,
    is_xarray,
    listed,
    quoted,
    write,
)
from ..arrays.foreign import Applied, asked, asks
from ..arrays.layout import Shape
from ..backends.cache import Outside
from ..backends.numba.users import whole_line
from ..backends.threads import run_parallel, thread_count
from ..base import limits
from ..language.decorated import with_room
from ..language.definitions import with_helpers
from ..language.dtypes import castable, is_masked
from ..language.errors import Diagnostic
from ..language.source import rebuild
from ..program.options import Place
from ..program.waiting import before_writing
from .compiled import Compiled, WrongShape, compile_for
from .definition import Arguments, GufuncDefinition, Items, items, too_few_axes

# Options of a call that those of stencils have, too, and refuse for the same kinds of arrays.
_PLACE = {"dims", "out", "threads"}

# The first part of a stack, by which the others are judged, is so small.
_FIRST = 64

# What a call of NumPy's function for a part takes, whatever it computes [s]: half of that where a
# machine is quiet, but all that is more counts as work, for each of the parts.
_CALL = 10e-6

# How many parts a thread is given, so that one that comes late takes fewer; and how long a part
# may take, so that an interrupt is heard, and what is copied stays in the caches [s].
_PARTS, _LONGEST = 4, 2e-3


def called(gufunc: Any, given: Arguments) -> Any:
    """What a call of a gufunc gives for arrays of any kind."""
    inputs, options = given.inputs, dict(given.options)
    Place(**{name: options[name] for name in _PLACE & options.keys()}).check(inputs)
    if any(map(is_xarray, inputs)):
        return on_xarray(gufunc, given)
    if any(map(is_pandas, inputs)):
        return on_pandas(gufunc, given)
    if any(map(is_dask, inputs)):
        return on_dask(gufunc, given)
    if asks(inputs):
        # Other libraries make of it what they make of NumPy's own functions.
        out = options.pop("out", None)
        function = partial(gufunc, **given.scalars, **options)
        applied = Applied(function, gufunc.__name__, gufunc.nin, gufunc.nout, gufunc.signature)
        return asked(applied, inputs, out)
    return on_numpy(gufunc.definition, given)


def on_numpy(definition: GufuncDefinition, given: Arguments) -> Any:
    """What a call gives for arrays of NumPy."""
    call = items(definition, given)
    compiled = compile_for(definition, call.types, given.dtypes)
    outs = listed(given.options.get("out"))
    if outs:
        _check_outs(definition, compiled, call, outs)
        before_writing(outs)
    # NumPy takes an array that is input and result for one that is read element by element.
    moved = {"axes", "axis", "keepdims"} & given.options.keys()
    made = outs
    if not are_apart(outs, call.inputs) or moved or [one.shape for one in outs] != call.shapes:
        pairs = zip(call.shapes, compiled.outputs, strict=True)
        made = [np.empty(shape, one.dtype) for shape, one in pairs]
    inputs = [*call.inputs, *given.scalars.values()]
    try:
        _compute(compiled, call.stack, inputs, made, given.options.get("threads"))
    except Outside as error:
        raise _outside(definition, *error.args) from None
    except WrongShape as error:
        raise wrong_shape(definition, *error.args) from None
    if not outs:
        return call.given(made)
    if made is not outs:
        for out, one in zip(outs, listed(call.given(made)), strict=True):
            write(out, one)
    return bare(outs)


def _check_outs(
    definition: GufuncDefinition, compiled: Compiled, call: Items, outs: Sequence[Any]
) -> None:
    """Raise unless arrays can take the results."""
    if len(outs) != len(compiled.outputs):
        raise ValueError(
            f"out has {len(outs)} arrays, but '{definition.name}' has "
            f"{len(compiled.outputs)} results."
        )
    for k, (array, operand) in enumerate(zip(outs, compiled.outputs, strict=True)):
        if not isinstance(array, np.ndarray) or is_masked(array):
            raise TypeError(f"out must be a NumPy array, not {type(array).__name__}.")
        dtype = operand.dtype
        if not castable(dtype, array.dtype):
            raise TypeError(
                f"out has dtype {array.dtype}, but the result has {dtype}; give an array of "
                f"{dtype}."
            )
        wanted = call.placed(np.broadcast_to(False, call.shapes[k]), k).shape
        # It may have more axes in front, along which the result is repeated.
        if array.shape[max(0, array.ndim - len(wanted)) :] != wanted:
            raise ValueError(f"out has shape {array.shape}, but the result has {wanted}.")


def _compute(
    compiled: Compiled,
    stack: Shape,
    inputs: Sequence[Any],
    outs: Sequence[Any],
    threads: int | None,
) -> None:
    """Compute the results for all items of the stack."""
    several = thread_count(threads)
    count = max(stack, default=1)
    # Counted from behind the stack, as in inputs; 0 if there is none.
    axis = stack.index(count) - len(stack) if stack else 0
    kinds = [*compiled.inputs, *compiled.outputs]

    def part(begin: int, end: int) -> float:
        """Compute the results for some items, and say how long it takes [s]."""
        begun, own, given = time.perf_counter(), [], []
        for k, (one, kind) in enumerate(zip((*inputs, *outs), kinds, strict=True)):
            back = len(kind.core) - axis
            # Where it is repeated it is taken whole.
            if axis and one.ndim >= back and one.shape[-back] > 1:
                one = one[(..., slice(begin, end), *(slice(None),) * (back - 1))]
            own.append(one)
            # Compiled code reads and writes items that lie in C's order.
            item = one[(0,) * (one.ndim - len(kind.core))] if one.size else one
            fits = one.dtype == kind.dtype and one.flags.aligned
            if not (fits and item.flags.c_contiguous):
                one = np.empty(one.shape, kind.dtype)
                if k < len(inputs):
                    one[...] = own[k]
            given.append(one)
        compiled.call(*given)
        for target, one in zip(own[len(inputs) :], given[len(inputs) :], strict=True):
            if target is not one:
                write(target, one)
        return time.perf_counter() - begun

    first = count // _FIRST or 1
    left = max(0.0, part(0, first) - _CALL) / first * (count - first)
    takes_long = left >= limits.current.handoff_seconds
    parts = max(_PARTS * several, int(left / _LONGEST)) if takes_long else 1
    step = -(-(count - first) // parts) or 1
    tasks = (partial(part, k, k + step) for k in range(first, count, step))
    run_parallel(tasks, several if takes_long else 1)


# What goes wrong meanwhile, in the words that a user sees.


def wrong_shape(definition: GufuncDefinition, number: int, shape: tuple[int, ...]) -> ValueError:
    """The error that says which result, counted from 1, has not the shape of the signature."""
    signature = definition.signature
    which = f"result {number}" if len(signature.outputs) > 1 else "the result"
    return ValueError(
        f"{which} of '{definition.name}' has the shape {shape}, which is not "
        f"({', '.join(signature.outputs[number - 1])}) of {signature} for these arrays."
    )


def _outside(definition: GufuncDefinition, name: str, row: int, array: str) -> IndexError:
    """The error that says at which of the user's lines an array was left."""
    function = definition.function
    named = (one for one in with_helpers(function) if one.name == name)
    spans = (whole_line(one, one.definition.lineno + row) for one in named)
    where = repr(array) if array else "an array"
    return IndexError(
        Diagnostic(
            "outside-array",
            f"'{definition.name}' reads or writes outside {where}.",
            next(spans, function.place),
            "an index here is outside its array",
            f"{definition.name}.debug(...) computes in Python, and says which index it is.",
        )
    )


def by_definition(definition: GufuncDefinition, given: Arguments) -> Any:
    """What a call gives for arrays of NumPy, computed in Python."""
    given.refuse(("out", "dims"), "is no option of debug(), which takes arrays of NumPy.")
    call = items(definition, given)
    text = definition.function
    function = with_room(lambda: rebuild(text), text)
    dtypes: Any = given.dtypes
    if not dtypes and vars(config)["DISABLE_JIT"]:
        # Nobody says the types of what is not to be compiled.
        dtypes = [np.result_type(float, *call.types)] * len(call.cores)
    dtypes = dtypes or [one.dtype for one in compile_for(definition, call.types, None).outputs]
    cores = definition.signature.inputs
    inputs = [
        np.broadcast_to(one.astype(dtype), call.stack + one.shape[one.ndim - len(core) :])
        for one, dtype, core in zip(call.inputs, call.types, cores, strict=False)
    ]
    made = list(map(np.zeros, call.shapes, dtypes))
    for place in np.ndindex(call.stack):
        values = given.scalars | {
            name: one[place] for name, one in zip(definition.inputs, inputs, strict=True)
        }
        for name, one, core in zip(definition.outs, made, call.cores, strict=False):
            values[name] = one[(*place, ...)].reshape(core or 1)
        positional, named = definition.arguments.given(values)
        found = function(*positional, **named)
        if definition.outs:
            continue
        for k, (one, core) in enumerate(zip(listed(found), call.cores, strict=True)):
            if np.shape(one) != core:
                raise wrong_shape(definition, k + 1, np.shape(one))
            made[k][place] = one
    return call.given(made)


def on_xarray(gufunc: Any, given: Arguments) -> Any:
    """The results for inputs of which some are DataArrays."""
    given.refuse(
        ("axes", "axis", "keepdims"), "counts axes; name dimensions with dims={...} here."
    )
    from ..arrays import xarray as arrays

    options = dict(given.options)
    xr: Any = sys.modules["xarray"]
    inputs, outputs = _core_dims(gufunc.definition, given.inputs, options.pop("dims", {}))
    arrays.check_alike(
        "the coordinates of the inputs differ", list(filter(is_xarray, given.inputs))
    )
    return xr.apply_ufunc(
        partial(gufunc, **given.scalars, **options),
        *given.inputs,
        input_core_dims=inputs,
        output_core_dims=outputs,
        join="exact",
        dask="allowed",
        keep_attrs=True,
    )


def _core_dims(
    definition: GufuncDefinition, inputs: Sequence[Any], dims: Mapping[str, Hashable]
) -> tuple[list[list[Hashable]], list[list[Hashable]]]:
    """The core dimensions of each input, and of each result.

    Those that `dims` does not name are the last ones of a DataArray.
    """
    signature = definition.signature
    if unknown := set(dims) - set(signature.names):
        raise ValueError(
            f"dims= names the size '{min(unknown)}', but {signature} has "
            f"{quoted(signature.names)}."
        )
    names = dict(dims)
    found = list[list[Hashable]]()
    for value, name, core in zip(inputs, definition.inputs, signature.inputs, strict=True):
        found.append([])
        if not is_xarray(value):
            # xarray asks for none of what has no names.
            continue
        if value.ndim < len(core):
            raise too_few_axes(signature, name, core, value.shape)
        given = [dims[size] for size in core if size in dims]
        left = [dim for dim in value.dims if dim not in given]
        own = [dims[size] if size in dims else left.pop() for size in reversed(core)]
        found[-1] = own[::-1]
        before = dict(names)
        for size, dim in zip(core, found[-1], strict=True):
            if before.get(size, dim) != dim:
                raise ValueError(
                    f"the size '{size}' of {signature} is {before[size]!r} in an input before, "
                    f"and {dim!r} in '{name}'; rename one of them first, as in "
                    f"{name}.rename({{{dim!r}: {before[size]!r}}})."
                )
            names.setdefault(size, dim)
    return found, [[names.get(size, size) for size in core] for core in signature.outputs]


def on_pandas(gufunc: Any, given: Arguments) -> Any:
    """The results for inputs of which some are columns or tables, with the labels that remain."""
    given.refuse(("out", "axes", "axis", "keepdims"), "is for arrays; give x.to_numpy() instead.")
    definition, signature = gufunc.definition, gufunc.definition.signature
    labels, named = dict[Any, Any](), None
    for value, name, core in zip(given.inputs, definition.inputs, signature.inputs, strict=True):
        if not is_pandas(value):
            continue
        named = value.name if value.ndim == 1 and not labels else named
        for place, label in zip(_places(value.ndim, core), value.axes, strict=False):
            if not labels.setdefault(place, label).equals(label):
                raise ValueError(
                    f"the index of '{name}' is another than that of the inputs before; align "
                    "them first, or give .to_numpy()."
                )
    pandas: Any = sys.modules["pandas"]
    arrays = (one.to_numpy() if is_pandas(one) else one for one in given.inputs)
    made = listed(gufunc(*arrays, **given.scalars, **given.options))
    for k, core in enumerate(signature.outputs):
        match [labels.get(place) for place in _places(np.ndim(made[k]), core)]:
            case [index] if index is not None:
                made[k] = pandas.Series(made[k], index, name=named)
            case [index, columns] if index is not None and columns is not None:
                made[k] = pandas.DataFrame(made[k], index, columns)
    return bare(made)


def _places(ndim: int, core: Sequence[str]) -> list[Any]:
    """Names of axes: those of the stack are counted from the last, those of the core have some."""
    return [*range(len(core) - ndim, 0), *core[max(0, len(core) - ndim) :]]


def on_dask(gufunc: Any, given: Arguments) -> Any:
    """The results for inputs of which some are Dask arrays."""
    definition: GufuncDefinition = gufunc.definition
    signature = definition.signature
    call = items(definition, given)
    arrays = []
    for one, name, core in zip(call.inputs, definition.inputs, signature.inputs, strict=True):
        count = one.ndim - len(core)
        if is_dask(one) and max(one.numblocks[count:], default=1) > 1:
            raise ValueError(
                f"'{name}' is cut into chunks along its core axes ({','.join(core)}), which a "
                f"call needs whole; rechunk it, as {name}.rechunk({{-1: -1}}) does for the last."
            )
        # Where the stack has no elements, for to Dask 1 is longer than 0.
        lengths = call.stack[len(call.stack) - count :]
        arrays.append(one[tuple(slice(None) if n else slice(0) for n in lengths)])
    compiled = compile_for(definition, call.types, given.dtypes)
    dtypes = [one.dtype for one in compiled.outputs]
    options = {"sizes": given.options["sizes"]} if "sizes" in given.options else {}
    dask: Any = sys.modules["dask.array"]
    result = dask.apply_gufunc(
        partial(gufunc, dtype=tuple(dtypes), **given.scalars, **options),
        gufunc.signature,
        *arrays,
        output_dtypes=bare(dtypes),
        output_sizes=call.sizes,
        vectorize=False,
        # Stacks that are cut in several ways are cut in one; Dask divides by lengths for that.
        allow_rechunk=all(one.size for one in arrays),
    )
    return call.given(listed(result))
