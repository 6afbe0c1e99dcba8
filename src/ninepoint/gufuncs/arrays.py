"""Gufuncs on arrays: of NumPy, Dask, xarray and pandas; labels stay with the axes that remain.

NumPy: the stack is cut into parts, which threads share.  NumPy's own gufunc (see `compiled`) is
called for each part.  The first part tells how long the others take, and whether it is worth it
to share them.

xarray: sizes of the signature are dimensions, which have names.

    "(n,k),(k,m)->(n,m)"     dims={"n": "time"}     ->     n is time; k and m the last dimensions

Coordinates of the dimensions that remain are kept; all others of the stack go by their names.

pandas: axes have an index.

    "(n)->(n)"    column      ->    column, the same index
    "(n)->()"     table       ->    column, a number for each row
    "(n)->(n)"    table       ->    table

Dask: lazily, one call a chunk of the stack, which holds whole core axes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..arrays.accepted import check_writable, is_dask, is_pandas, is_xarray, listed, refuse_mask
from ..arrays.foreign import Applied, asked, asks
from ..arrays.numpy import quoted
from ..backends.numba.users import whole_line
from ..backends.outside import Outside
from ..backends.threads import run_parallel, thread_count
from ..base import limits
from ..language.definitions import with_helpers
from ..language.dtypes import castable
from ..language.errors import Diagnostic
from ..program.waiting import before_writing, waiting
from .calling import (
    Arguments,
    Items,
    as_input,
    check_kind,
    core_axes,
    core_lengths,
    items,
    single_or_tuple,
    too_few_axes,
)
from .compiled import Compiled, Operand, WrongShape, compile_for
from .definition import GufuncDefinition, Signature

# The first part of a stack, by which the others are judged, is so small.
_FIRST = 64

# What a call of NumPy's function for a part takes, whatever it computes [s].
_CALL = 5e-6

# How many parts a thread is given, so that one that comes late takes fewer; and how long a part
# may take, so that an interrupt is heard, and what is copied stays in the caches [s].
_PARTS, _LONGEST = 4, 2e-3


def called(gufunc: Any, given: Arguments) -> Any:
    """What a call of a gufunc gives for arrays of any kind."""
    inputs = given.inputs
    for value in inputs:
        refuse_mask(value)
    if any(map(is_xarray, inputs)):
        return on_xarray(gufunc, given)
    if "dims" in given.options:
        raise TypeError("dims= names the dimensions of xarray objects; use axes= here.")
    if any(map(is_pandas, inputs)):
        return on_pandas(gufunc, given)
    if any(map(is_dask, inputs)):
        return on_dask(gufunc, given)
    if asks(inputs):
        # Other libraries make of it what they make of NumPy's own functions.
        options = dict(given.options)
        out = options.pop("out", None)
        function = partial(gufunc, **given.scalars, **options)
        applied = Applied(function, gufunc.__name__, gufunc.nin, gufunc.nout, gufunc.signature)
        return asked(applied, inputs, out)
    return on_numpy(gufunc, given)


def on_numpy(gufunc: Any, given: Arguments) -> Any:
    """What a call gives for arrays of NumPy."""
    definition: GufuncDefinition = gufunc.definition
    call = items(definition, list(map(as_input, given.inputs, definition.inputs)), given)
    compiled = compile_for(definition, call.types, given.options)
    outs = listed(given.options.get("out"))
    if "out" in given.options:
        targets = _targets(definition, compiled, call, outs)
        if waiting:
            before_writing(outs)
    else:
        targets = [np.empty(call.shape(k), one.dtype) for k, one in enumerate(compiled.outputs)]
    # NumPy takes an array that is input and result for one that is read element by element.
    apart = any(np.may_share_memory(one, value) for one in outs for value in call.inputs)
    made = [np.empty_like(one) for one in targets] if apart else targets
    inputs = [*call.inputs, *given.scalars.values()]
    try:
        _compute(compiled, inputs, made, given.options.get("threads"))
    except (Outside, WrongShape) as error:
        raise _in_words(definition, error) from None
    if apart:
        for target, one in zip(targets, made, strict=True):
            target[...] = one
    return single_or_tuple(outs or [call.placed(one, k) for k, one in enumerate(made)])


def _targets(
    definition: GufuncDefinition, compiled: Compiled, call: Items, outs: Sequence[Any]
) -> list[Any]:
    """Views of the arrays that take the results, core axes last, if they can."""
    if len(outs) != len(compiled.outputs):
        raise ValueError(
            f"out has {len(outs)} arrays, but '{definition.name}' has "
            f"{len(compiled.outputs)} results."
        )
    for k, (array, operand) in enumerate(zip(outs, compiled.outputs, strict=True)):
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"out must be a NumPy array, not {type(array).__name__}.")
        dtype = operand.dtype
        if not castable(dtype, array.dtype):
            raise TypeError(
                f"out has dtype {array.dtype}, but the result has {dtype}; give an array of "
                f"{dtype}."
            )
        wanted = call.placed(np.broadcast_to(False, call.shape(k)), k).shape
        # It may have more axes in front, along which the result is repeated.
        if array.shape[max(0, array.ndim - len(wanted)) :] != wanted:
            raise ValueError(f"out has shape {array.shape}, but the result has {wanted}.")
    check_writable(outs)
    return [call.last(array, k) for k, array in enumerate(outs)]


def _compute(
    compiled: Compiled, inputs: Sequence[Any], outs: Sequence[Any], threads: int | None
) -> None:
    """Compute the results for all items of the stack."""
    several = thread_count(threads)
    stack = outs[0].shape[: outs[0].ndim - len(compiled.outputs[0].core)]
    count = max(stack, default=1)
    # Counted from behind the stack, as in inputs; 0 if there is none.
    axis = stack.index(count) - len(stack) if stack else 0
    kinds = [*compiled.inputs, *compiled.outputs]

    def part(begin: int, end: int) -> float:
        """Compute the results for some items, and say how long it takes [s]."""
        pairs = zip((*inputs, *outs), kinds, strict=True)
        own = [_cut(one, kind, axis, begin, end) for one, kind in pairs]
        given = list(own)
        begun = time.perf_counter()
        for k, (one, kind) in enumerate(zip(own, kinds, strict=True)):
            if not _in_order(one, kind):
                given[k] = np.empty(one.shape, kind.dtype)
                if k < len(inputs):
                    given[k][...] = one
        compiled.call(*given)
        for target, one in zip(own[len(inputs) :], given[len(inputs) :], strict=True):
            if target is not one:
                target[...] = one
        return time.perf_counter() - begun

    size, short = inputs[0].size, limits.current.handoff_seconds
    first = count if size <= compiled.most else count // _FIRST or 1
    spent = part(0, first)
    left = max(0.0, spent - _CALL) / max(first, 1) * (count - first)
    compiled.most = size * short / (spent + left)
    parts = 1
    if left >= short:
        parts = max(_PARTS * several if several > 1 else 1, int(left / _LONGEST))
    step = -(-(count - first) // parts) or 1
    places = range(first, count, step)
    tasks = (partial(part, k, min(k + step, count)) for k in places)
    run_parallel(tasks, several if parts > 1 else 1)


def _cut(array: Any, kind: Operand, axis: int, begin: int, end: int) -> Any:
    """Some items of an array along an axis of the stack; all if it is repeated there."""
    back = len(kind.core) - axis
    if not axis or array.ndim < back or array.shape[-back] == 1:
        return array
    return array[(..., slice(begin, end), *(slice(None),) * (back - 1))]


def _in_order(array: Any, kind: Operand) -> bool:
    """Whether compiled code reads an array where it lies: its core axes are in C's order."""
    if array.dtype != kind.dtype or not array.flags.aligned:
        return False
    if not kind.core or array.flags.c_contiguous or not array.size:
        return True
    return bool(array[(0,) * (array.ndim - len(kind.core))].flags.c_contiguous)


# What goes wrong meanwhile.


def _in_words(definition: GufuncDefinition, error: Outside | WrongShape) -> Exception:
    """The error that a user sees, for one that compiled code raised."""
    if isinstance(error, Outside):
        return _outside(definition, *error.args)
    number, shape = error.args
    signature = definition.signature
    which = f"result {number}" if len(signature.outputs) > 1 else "the result"
    return ValueError(
        f"{which} of '{definition.name}' has the shape {shape}, which is not "
        f"({', '.join(signature.outputs[number - 1])}) of {signature} for these arrays."
    )


def _outside(definition: GufuncDefinition, name: str, row: int, array: str) -> IndexError:
    """The error that says at which of the user's lines an array was left."""
    span = definition.function.place
    for one in with_helpers(definition.function):
        if one.name == name:
            span = whole_line(one, one.definition.lineno + row)
            break
    where = repr(array) if array else "an array"
    return IndexError(
        Diagnostic(
            "outside-array",
            f"'{definition.name}' reads or writes outside {where}.",
            span,
            "an index here is outside its array",
            f"{definition.name}.debug(...) computes in Python, and says which index it is.",
        )
    )


def on_xarray(gufunc: Any, given: Arguments) -> Any:
    """The results for inputs of which some are DataArrays."""
    given.refuse(("out",), "is for NumPy arrays; the result of xarray objects is made anew.")
    given.refuse(
        ("axes", "axis", "keepdims"), "counts axes; name dimensions with dims={...} here."
    )
    definition: GufuncDefinition = gufunc.definition
    options = dict(given.options)
    xr: Any = sys.modules["xarray"]
    dims = _checked_dims(definition.signature, options.pop("dims", {}))
    inputs, outputs = _named(definition, given.inputs, dims)
    try:
        return xr.apply_ufunc(
            partial(gufunc, **given.scalars, **options),
            *given.inputs,
            input_core_dims=inputs,
            output_core_dims=outputs,
            join="exact",
            dask="allowed",
            keep_attrs=True,
        )
    except xr.AlignmentError as error:
        raise ValueError(
            f"the coordinates of the inputs differ; align them first, for example with "
            f'xarray.align(..., join="inner"). ({error})'
        ) from error


def _checked_dims(signature: Signature, dims: Any) -> Mapping[str, Hashable]:
    if not isinstance(dims, Mapping):
        raise TypeError(f'dims= is a dict such as {{"n": "time"}}, not {dims!r}.')
    for size in dims:
        if size not in signature.names:
            raise ValueError(
                f"dims= names the size '{size}', but {signature} has {quoted(signature.names)}."
            )
    return dims


def _named(
    definition: GufuncDefinition, inputs: Sequence[Any], dims: Mapping[str, Hashable]
) -> tuple[list[list[Hashable]], list[list[Hashable]]]:
    """The core dimensions of each input, and of each result."""
    signature = definition.signature
    names: dict[str, Hashable] = dict(dims)
    # The input that first has a size.
    first: dict[str, str] = {}
    found: list[list[Hashable]] = []
    lengths: list[Sequence[int]] = []
    for value, name, core in zip(inputs, definition.inputs, signature.inputs, strict=True):
        own = _own_dims(signature, value, name, core, dims) if is_xarray(value) else []
        for size, dim in zip(core, own, strict=False):
            before = names.setdefault(size, dim)
            if before != dim and first.get(size) != name:
                raise ValueError(
                    f"the size '{size}' of {signature} is {before!r} in "
                    f"'{first[size]}' and {dim!r} in '{name}'; rename one of them first, as in "
                    f"{name}.rename({{{dim!r}: {before!r}}})."
                )
            first.setdefault(size, name)
        shape = getattr(value, "shape", ())
        lengths.append([value.sizes[dim] for dim in own] or shape[len(shape) - len(core) :])
        found.append(own)
    # xarray would say of dimensions alone that one is two.
    core_lengths(definition, lengths)
    for k, core in enumerate(signature.inputs):
        found[k] = found[k] or [names.setdefault(size, size) for size in core]
    outputs = [[names.get(size, size) for size in core] for core in signature.outputs]
    for made in outputs:
        if len(set(made)) != len(made):
            raise ValueError(
                f"a result would have the dimensions {quoted(made)}; rename one of them first, "
                "or name them with dims=."
            )
    return found, outputs


def _own_dims(
    signature: Signature, value: Any, name: str, core: Sequence[str], dims: Mapping[str, Hashable]
) -> list[Hashable]:
    """The core dimensions of one DataArray; those that `dims` does not name are the last."""
    if value.ndim < len(core):
        raise too_few_axes(signature, name, core, value.shape)
    given = [dims[size] for size in core if size in dims]
    for dim in given:
        if dim not in value.dims:
            raise ValueError(f"'{name}' has no dimension {dim!r}; it has {quoted(value.dims)}.")
    left = [dim for dim in value.dims if dim not in given]
    rest = iter(left[len(left) - len(core) + len(given) :])
    own = [dims[size] if size in dims else next(rest) for size in core]
    if len(set(own)) != len(own):
        raise ValueError(f"dims= names one dimension of '{name}' twice: {quoted(own)}.")
    return own


def on_pandas(gufunc: Any, given: Arguments) -> Any:
    """The results for inputs of which some are columns or tables."""
    given.refuse(("out",), "is for NumPy arrays; the result of pandas objects is made anew.")
    given.refuse(
        ("axes", "axis", "keepdims"), "is for arrays; the axes of pandas objects have labels."
    )
    definition, signature = gufunc.definition, gufunc.definition.signature
    labels: dict[Any, Any] = {}
    names = set()
    arrays = []
    for value, name, core in zip(given.inputs, definition.inputs, signature.inputs, strict=True):
        if not is_pandas(value):
            arrays.append(value)
            continue
        arrays.append(value.to_numpy())
        names.add(value.name if value.ndim == 1 else None)
        for place, label in zip(_places(value.ndim, core), value.axes, strict=False):
            if not labels.setdefault(place, label).equals(label):
                raise ValueError(
                    f"the index of '{name}' is another than that of the inputs before; align "
                    "them first, or give .to_numpy()."
                )
    result = gufunc(*arrays, **given.scalars, **given.options)
    named = names.pop() if len(names) == 1 else None
    results = result if isinstance(result, tuple) else (result,)
    pairs = zip(results, signature.outputs, strict=True)
    return single_or_tuple([_labelled(one, core, labels, named) for one, core in pairs])


def _places(ndim: int, core: Sequence[str]) -> list[Any]:
    """Names of axes: those of the stack are counted from the last, those of the core have some."""
    return [*range(len(core) - ndim, 0), *core[max(0, len(core) - ndim) :]]


def _labelled(result: Any, core: Sequence[str], labels: Mapping[Any, Any], name: Any) -> Any:
    """A result with the labels of its axes, if all are known."""
    own = [labels.get(place) for place in _places(np.ndim(result), core)]
    shape = np.shape(result)
    if [None if one is None else len(one) for one in own] != list(shape):
        return result
    pandas: Any = sys.modules["pandas"]
    match own:
        case [index]:
            return pandas.Series(result, index=index, name=name)
        case [index, columns]:
            return pandas.DataFrame(result, index=index, columns=columns)
        case _:
            return result


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
    compiled = compile_for(definition, call.types, given.options)
    dtypes = [one.dtype for one in compiled.outputs]
    options = {"sizes": given.options["sizes"]} if "sizes" in given.options else {}
    plain = definition.signature.plain
    several = len(dtypes) > 1
    dask: Any = sys.modules["dask.array"]
    result = dask.apply_gufunc(
        partial(gufunc, dtype=tuple(dtypes), **given.scalars, **options),
        str(plain),
        *_aligned(plain.inputs, call),
        output_dtypes=dtypes if several else dtypes[0],
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
    dask: Any = sys.modules["dask.array"]
    pairs: list[Any] = []
    for k, (one, core) in enumerate(zip(call.inputs, cores, strict=True)):
        count = one.ndim - len(core)
        # Where the stack has no elements, for to Dask 1 is longer than 0.
        lengths = call.stack[len(call.stack) - count :]
        own = one[tuple(slice(None) if n else slice(0) for n in lengths)]
        # Axes of the stack are counted from the last; a core axis is one of its own.
        names = (*range(-count, 0), *((k, axis) for axis in range(len(core))))
        pairs += [dask.asarray(own), names]
    return dask.core.unify_chunks(*pairs)[1]


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
