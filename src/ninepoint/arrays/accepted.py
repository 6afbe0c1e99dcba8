"""What calls take: arrays of numbers, axes, constants, and arrays for results; else the cure.

Arrays of other libraries are recognised without importing these: an object can only be a Dask
array if somebody has imported Dask, as `sys.modules` knows.

Axes are counted from the end, so that they are the same in fields of fewer axes.

    axes=(0, 1) beside a field of three axes     ->     (-3, -2)

A stage is given a field as it is, as a call by itself would be.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ..language.dtypes import castable, is_masked, kind_of, most, widened
from ..language.functions import origin
from ..shapes import whole
from .layout import Array, Axes, Border, Shape

T = TypeVar("T")

# Names of axes.
Dims: TypeAlias = tuple[Hashable, ...]

# What DLPack calls memory that a GPU of NVIDIA reads: its own, and what it shares with the host.
_CUDA = (2, 13)


def _is(module: str, name: str) -> Callable[[object], bool]:
    """Whether a value is of a class of a library, which nobody may have imported."""

    def found(value: object) -> bool:
        # A library that is just being imported by another thread lacks its names still.
        kind: Any = getattr(sys.modules.get(module), name, None)
        return kind is not None and isinstance(value, kind)

    return found


is_dask = _is("dask.array", "Array")
# Of the library dask-array: an expression.
is_expression = _is("dask_array", "Array")
is_xarray = _is("xarray", "DataArray")
is_dataset = _is("xarray", "Dataset")
is_cupy = _is("cupy", "ndarray")
# Of ours: none is there before its module is.
is_lazy = _is("ninepoint.running.calls", "Lazy")
_is_series, _is_frame = _is("pandas", "Series"), _is("pandas", "DataFrame")


def is_chunked(value: object) -> bool:
    """Whether `value` is a lazy array in chunks: of Dask or dask-array."""
    return is_dask(value) or is_expression(value)


def library_of(value: object) -> Any:
    """The module of a lazy array in chunks, which has the functions of arrays."""
    name = origin(type(value))
    return sys.modules["dask.array" if name == "dask" else name]


def is_pandas(value: object) -> bool:
    """Whether `value` is a column or a table of pandas."""
    return _is_series(value) or _is_frame(value)


def is_device(value: object) -> bool:
    """Whether `value` is an array in the memory of a GPU: of CuPy, or what CuPy can look at."""
    kind = type(value)
    if kind is np.ndarray:
        return False
    if is_cupy(value):
        return True
    if origin(kind) in ("ninepoint", "dask", "xarray"):
        return False
    try:
        if hasattr(value, "__cuda_array_interface__"):
            return True
        where: Any = getattr(value, "__dlpack_device__", None)
        return where is not None and where()[0] in _CUDA
    except RuntimeError:
        # Of torch: a tensor on a GPU whose gradient is recorded, which it shows to nobody.
        return hasattr(kind, "__cuda_array_interface__")


def is_whole(value: object) -> bool:
    """Whether a value is a whole number."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_there(array: object) -> bool:
    """Whether an array lies on a GPU as those of CuPy do, or its chunks do."""
    return is_cupy(getattr(array, "_meta", array))


# What keeps its data elsewhere or has labels, by the name of its class, and how a stencil can have
# it.
_CURES = {
    "zarr.Array": (
        "dask.array.from_zarr({name}), or ninepoint.open of its path, reads it piece by piece"
    ),
    "h5py.Dataset": (
        'dask.array.from_array({name}, chunks="auto"), or ninepoint.open of its file, reads it '
        "piece by piece"
    ),
    "netCDF4.Variable": (
        "ninepoint.open or xarray.open_dataset(path, chunks={{}}) reads it piece by piece"
    ),
    "tensorstore.TensorStore": (
        'dask.array.from_array({name}, chunks="auto") reads it piece by piece'
    ),
    "cubed.Array": "{name}.compute() gives an array of NumPy",
    "dask_array.Array": "{name}.compute() gives an array of NumPy",
    "pandas.DataFrame": (
        "the names of its columns would be lost: give columns one by one, as "
        "{name}[column].to_numpy(), or {name}.to_numpy() if its columns are those of an image"
    ),
    "pandas.Series": (
        "its index would be lost: give {name}.to_numpy(), or {name}.to_xarray() to keep the index"
    ),
    "pandas.Index": "its labels would be taken for numbers: give {name}.to_numpy()",
    "xarray.Dataset": "give its variables one by one, as {name}[variable]",
    "xarray.DataTree": (
        "give its datasets one by one, as {name}.map_over_datasets(lambda data: ... if "
        "data.data_vars else data) does"
    ),
    "xarray.Variable": "give {name}.data, or a DataArray",
    "torch.Tensor": "give {name}.numpy()",
    "cupy.ndarray": "give cupy.asnumpy({name})",
}


def refuse_foreign(value: object, what: str) -> None:
    """Raise a TypeError with the cure for an array that would be loaded, or lose its labels."""
    kind = type(value)
    if origin(kind) == "ninepoint":
        return
    name = what.strip("'") if what.startswith("'") else "x"
    for one in kind.__mro__:
        if named(one) in _CURES:
            cure = _CURES[named(one)].format(name=name)
            raise TypeError(f"{what} is a {named(kind)}; {cure}.")
    if hasattr(kind, "__dask_graph__"):
        raise TypeError(
            f"{what} is a {named(kind)}, which no stencil takes; {name}.compute() gives its "
            "values, and dask.array.from_delayed(...) or .to_dask_array(lengths=True) a "
            "dask.array.Array."
        )
    if hasattr(kind, "__array_interface__") or hasattr(kind, "__array_struct__"):
        return
    # Without `__array__` NumPy would take it for a sequence, and its elements one by one.
    elsewhere = hasattr(value, "chunks") or not hasattr(kind, "__array__")
    if elsewhere and all(hasattr(value, one) for one in ("shape", "dtype", "__getitem__")):
        raise TypeError(
            f"{what} is a {named(kind)}, which would be loaded whole; "
            f'dask.array.from_array({name}, chunks="auto") reads it piece by piece, and '
            f"{name}[...] loads it."
        )
    if hasattr(kind, "__array__"):
        raise TypeError(
            f"{what} is a {named(kind)}, no array of NumPy, Dask or xarray; "
            f"numpy.asarray({name}) makes one, and loads it whole if it is not in memory."
        )


def named(kind: type) -> str:
    """What a class of a library is called."""
    return f"{origin(kind)}.{kind.__name__}"


def as_it_is(value: Any) -> Any:
    """Give the number that an array without axes holds now; anything else stays.

    The element of such an array may change before a recorded call is done.
    """
    if isinstance(value, np.ndarray) and not value.ndim and kind_of(value.dtype) in "biufc":
        # An element of bfloat16 in another order of bytes is misread by its own package.
        return value.astype(native(value.dtype))[()]
    return value


def listed(out: Any) -> list[Any]:
    """Give what was passed as `out`, or a result, as a list of arrays."""
    if type(out) is np.ndarray:
        return [out]
    if out is None:
        return []
    return list(out) if isinstance(out, tuple | list) else [out]


def bare(results: Sequence[Any]) -> Any:
    """Give results as a call does: one as it is, several as a tuple."""
    return results[0] if len(results) == 1 else tuple(results)


# Arrays of any library.
Arrays: TypeAlias = Sequence[Any]

DTypes: TypeAlias = Sequence[np.dtype]


def as_field(value: object, name: str = "") -> Array:
    """Give `value` as a plain array that a stencil can read, without copying an array.

    `name` is the parameter's, for messages.

    Raises
    ------
    TypeError
        If it is masked, or its dtype is not a number or bool.
    """
    array = as_array(value, name)
    check_dtype(array.dtype, name)
    return array


def as_array(value: object, name: str = "") -> Array:
    """Give `value` as a plain array, whatever its elements are, without copying an array.

    Raises
    ------
    TypeError
        If it is masked, or neither an array nor a number.
    """
    if type(value) is np.ndarray:
        return value
    refuse_mask(value)
    what = f"'{name}'" if name else "a field"
    refuse_foreign(value, what)
    array = np.asarray(value)
    if array.ndim == 0 and kind_of(array.dtype) not in "biufc":
        words = repr(value) if value is None or isinstance(value, str) else type(value).__name__
        raise TypeError(f"{what} must be an array of numbers, not {words}.")
    return array


def is_number(value: Any) -> bool:
    """Whether what is given for an array is a number, which is a scalar then.

    Integers of less than 64 bits are arrays: that they are small is known only of arrays.
    """
    if type(value) in (bool, int, float, complex):
        return True
    if not isinstance(value, np.generic) and (type(value) is not np.ndarray or value.ndim):
        return False
    kind = kind_of(value.dtype)
    return kind in "bfc" or (kind in "iu" and value.dtype.itemsize == 8)


def has_no_axes(value: Any) -> bool:
    """Whether a value is a number, or an array without axes."""
    # Of arrays of others NumPy would ask their library.
    ndim = 1 if is_dataset(value) else getattr(value, "ndim", None)
    return not (np.ndim(value) if ndim is None else ndim)


def refuse_mask(value: object) -> None:
    """Raise a TypeError with the cure if `value` is masked."""
    if is_masked(value):
        raise TypeError(
            "a masked array would lose its mask; fill it first with .filled(value), "
            "or pass .data to ignore the mask."
        )


def check_dtype(dtype: np.dtype, name: str = "") -> None:
    """Raise a TypeError with the cure unless `dtype` is one that stencils compute with."""
    if is_computable(dtype):
        return
    match dtype.kind:
        case "M" | "m":
            cure = 'use .astype("int64") for the counts of its unit'
        case "V":
            cure = "pass one of its members, array[name]" if dtype.names else "use .view(dtype)"
        case "c":
            cure = 'use .astype("complex128")'
        case _:
            cure = 'convert it first, for example with .astype("float64")'
    what = f"'{name}'" if name else "an array"
    raise TypeError(f"a stencil cannot compute with {what} of dtype {dtype}; {cure}.")


def is_computable(dtype: np.dtype) -> bool:
    """Whether elements are numbers of a type that stencils compute with."""
    return kind_of(dtype) in "biufc" and dtype.char not in "gG"


def native(dtype: np.dtype) -> np.dtype:
    """Give `dtype` in this machine's byte order."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def storage_types(dtype: Any) -> tuple[np.dtype, ...] | None:
    """The dtypes of the results, or None where none is asked for."""
    if dtype is None:
        return None
    given = dtype if isinstance(dtype, tuple | list) else (dtype,)
    # As NumPy's functions, which compute and give numbers in the machine's own order of bytes.
    found = tuple(native(np.dtype(one)) for one in given)
    for one in found:
        if not is_computable(one):
            raise TypeError(f"dtype={one} holds no numbers that a stencil can compute.")
    return found


def are_apart(outs: Sequence[Any], fields: Sequence[Any] = ()) -> bool:
    """Whether arrays can be written as they are: whether none shares memory with a field.

    Raises where they cannot be written at all, each of them apart from the others.
    """
    for k, out in enumerate(outs):
        if not out.flags.writeable:
            raise ValueError("out is read-only.")
        if any(np.may_share_memory(out, other) for other in outs[:k]):
            raise ValueError("two of the arrays in out share memory; give each its own.")
    return not any(np.may_share_memory(out, field) for out in outs for field in fields)


def write(target: Any, values: Any) -> None:
    """Write values to an array that may be of another dtype; like a kernel, without warnings."""
    if target.dtype == values.dtype:
        target[...] = values
        return
    with np.errstate(over="ignore", invalid="ignore"):
        target[...] = values


# Whether shapes, `axes`, `out` and border values fit.


def fitting_cval(cval: Any, dtype: np.dtype, what: str) -> Any:
    """Give `cval` as a value of `dtype`, the dtype of `what` ("the result", "field 'x'").

    Raises
    ------
    ValueError
        If `dtype` cannot hold it: a fraction, NaN or a number out of range for integers, a
        complex number for reals, a number too big for the float type.
    TypeError
        If it is no number.
    """
    cval = widened(cval)
    if not isinstance(cval, numbers.Number | np.bool_):
        raise TypeError(f"cval must be a number, not {cval!r} of type {type(cval).__name__}.")
    # Python's own numbers are compared as they are.
    real: Any = cval.item() if isinstance(cval, np.generic) else cval
    if cure := instead(real, dtype):
        raise ValueError(
            f"cval={cval!r} does not fit {what}, which is {dtype}; use {cure}, or another dtype."
        )
    return dtype.type(int(real) if dtype.kind in "biu" else real)


def instead(values: Any, dtype: np.dtype) -> str:
    """What numbers to use for those of an array, or one, that a type does not hold; else nothing.

    A float may be infinite, or no number.
    """
    if dtype.kind != "c" and np.iscomplexobj(values):
        return "real numbers"
    with np.errstate(all="ignore"):
        if dtype.kind in "biu":
            info: Any = np.iinfo(np.uint8 if dtype.kind == "b" else dtype)
            low, high = info.min, 1 if dtype.kind == "b" else info.max
            fits = (low <= values) & (values <= high) & (values % 1 == 0)
            cure = f"whole numbers from {low} to {high}"
        else:
            far = abs(values)
            fits = (far <= most(dtype)) | (far == math.inf) | (values != values)
            cure = f"numbers up to {most(dtype):.4g}"
    return "" if np.all(fits) else cure


# Stands for a length that nobody knows: that of a stack of which Dask took some arrays.
UNKNOWN = 1_000_000_007


def core_axes(axes: Any, ndim: int, core: int) -> Axes:
    """Check an `axes=` option and count its axes from the front."""
    if is_whole(axes):
        axes = (axes,)
    if not isinstance(axes, Sequence) or not all(map(is_whole, axes)):
        raise TypeError(f"axes must be a tuple of {core} integers, not {axes!r}.")
    if len(axes) != core:
        raise ValueError(f"axes={tuple(axes)} names {len(axes)} axes; the stencil has {core}.")
    return normalize_axis_tuple(axes, ndim, "axes")


def too_few_axes(ndim: int, shape: Shape, least: int = 0) -> ValueError:
    """The error for arrays of fewer axes than the stencil has, or the `least` that axes= asks."""
    least = least or ndim
    return ValueError(
        f"a stencil of {ndim} {'axis' if ndim == 1 else 'axes'} needs an array of at least "
        f"{least} {'dimension' if least == 1 else 'dimensions'}, not of shape {shape}."
    )


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """Give the common shape, as NumPy's broadcasting makes it; an unknown length is a NaN."""
    try:
        found = np.broadcast_shapes(*(tuple(UNKNOWN if n != n else n for n in s) for s in shapes))
    except ValueError:
        named = " and ".join(map(str, shapes))
        cure = "; of nan nobody knows, so call .compute_chunk_sizes() first" * ("nan" in named)
        raise ValueError(
            f"the fields' shapes {named} do not broadcast; each pair of lengths, counted from the "
            f"last axis, must be equal or contain a 1{cure}."
        ) from None
    unknown: Any = math.nan
    return tuple(unknown if n == UNKNOWN else n for n in found)


def checked_out(out: object, shapes: Sequence[Shape], dtypes: DTypes) -> list[Array]:
    """Check that `out` holds an array for each result."""
    given = each_out(out, len(shapes))
    for array in given:
        if not isinstance(array, np.ndarray) or is_masked(array):
            kind = type(array).__name__
            if is_device(array):
                kind = f"an array on a GPU ({type(array).__module__.partition('.')[0]})"
            raise TypeError(f"out must be a NumPy array, not {kind}.")
    check_targets(given, shapes, dtypes)
    return given


def check_targets(arrays: Sequence[Array], shapes: Sequence[Shape], dtypes: DTypes) -> None:
    """Raise unless results can be written to arrays, whose elements are all their own."""
    for array, shape, dtype in zip(arrays, shapes, dtypes, strict=True):
        if array.shape != shape:
            raise ValueError(f"out has shape {array.shape}, but the result has {shape}.")
        if not storable(dtype, array.dtype):
            own, cure = native(array.dtype), f"give an array of {dtype}"
            if own.kind in "iu" and dtype.kind != "c":
                cure += f', or ask for {own} with dtype="{own}" and overflow='
            raise TypeError(f"out has dtype {own}, but the result has {dtype}; {cure}.")
        # Each axis steps over all that shorter steps reach.
        reached, axes = array.itemsize, zip(array.strides, array.shape, strict=True)
        for step, n in sorted((abs(step), n) for step, n in axes if n > 1):
            if step < reached and array.size:
                raise shares_elements(array)
            reached += step * (n - 1)
    are_apart(arrays)


def each_out(out: object, count: int) -> list[Any]:
    """Give what was passed as `out` as a list, one for each of so many results."""
    given = listed(out)
    if len(given) != count:
        raise ValueError(f"out has {len(given)} arrays, but the stencil has {count} outputs.")
    return given


def shares_elements(array: Any) -> ValueError:
    """The error for an `out` of which two elements are one."""
    return ValueError(
        f"elements of out share memory: it has shape {array.shape} and strides "
        f"{array.strides}; give an array whose elements are all its own."
    )


def storable(values: np.dtype, target: np.dtype) -> bool:
    """Whether values of one dtype are stored as another without being asked for it.

    A float is rounded to a shorter float; an integer is never wrapped, nor a float cut to one.
    """
    kind = kind_of(target)
    if kind not in "biufc":
        return False
    return castable(values, target) if kind in "fc" else np.can_cast(values, target, "safe")


def check_values(border: Border, cval: Any, compiled: Any) -> list[Array]:
    """The constants beside fields and in results, 0 where nobody asks, as arrays without axes.

    It is checked before anything runs that `cval` fits, and what "keep" keeps.
    """
    fields, outs = compiled.field_dtypes, compiled.out_dtypes
    # Each output has a field: what a kernel is compiled for says so.  All phases keep the same.
    kept = zip(fields, outs[: len(outs) // compiled.phases], strict=False)
    for field, dtype in kept if border.uses("keep") else ():
        if not storable(field, dtype):
            raise ValueError(
                f'boundary "keep" cannot hold {field} values in a {dtype} result; choose '
                "another boundary or dtype."
            )
    # Beside positions, which are the last fields, nothing stands.
    given = len(fields) - len(compiled.positions)
    asked = [
        (k < given and border.uses("constant"), "the array", dtype)
        for k, dtype in enumerate(fields)
    ]
    asked += [(border.uses("fill"), "the result", dtype) for dtype in outs]
    return [
        np.array(fitting_cval(cval, dtype, what) if used else 0).astype(dtype)
        for used, what, dtype in asked
    ]


def behind(axes: Any, rank: int, ndim: int) -> Axes:
    """The axes of a stencil of `ndim` indices in arrays of `rank` axes; None means the last."""
    if axes is None:
        return tuple(range(-ndim, 0))
    return tuple(axis - rank for axis in core_axes(axes, rank, ndim))


def placed(items: Sequence[T], along: Sequence[int], others: Sequence[T]) -> tuple[T, ...]:
    """What there is for each axis, with others for those along which a call works."""
    found = list(items)
    for axis, one in zip(along, others, strict=True):
        found[axis] = one
    return tuple(found)


def whole_shape(fields: Sequence[Any]) -> Shape:
    """The shape that all fields broadcast to."""
    return broadcast_shape([field.shape for field in fields])


def core_dims(
    first: Any, ndim: int, dims: Sequence[Hashable] | None, axes: Sequence[int] | None
) -> Dims:
    """The names of the axes of a call on xarray objects, of which this is the first."""
    if dims is not None and axes is not None:
        raise TypeError("give dims or axes, not both.")
    if isinstance(dims, str):
        dims = (dims,)
    if axes is not None:
        dims = [first.dims[axis] for axis in core_axes(axes, first.ndim, ndim)]
    if dims is None:
        if first.ndim < ndim:
            raise ValueError(
                f"a stencil of {ndim} axes needs at least {ndim} dimensions; "
                f"the array has {quoted(first.dims)}."
            )
        return tuple(first.dims[-ndim:])
    if not isinstance(dims, Sequence):
        raise TypeError(f"dims must be a tuple of {ndim} names, not {dims!r}.")
    if len(dims) != ndim or len(set(dims)) != ndim:
        raise ValueError(
            f"dims={tuple(dims)} must name {ndim} different "
            f"dimension{'s' if ndim > 1 else ''}, one for each axis of the stencil."
        )
    return tuple(dims)


def quoted(dims: Sequence[Hashable]) -> str:
    """The names in a message."""
    return ", ".join(map(repr, dims)) or "none"


# A step, or a factor, for all axes of a kernel, or one for each of them.
Every: TypeAlias = int | tuple[int, ...]

# No axis is as long: larger steps make the first point too, but no program could hold them.
LONGEST = 1 << 62


def per_axis(name: str, given: Any) -> Every:
    """Read an option, such as `every`, of one whole number for each axis, or one for all of them.

    Ones are 1, however they are given.

    Raises
    ------
    TypeError
        If it holds anything but whole numbers.
    ValueError
        If one of them is less than 1, or there are none.
    """
    several = isinstance(given, tuple | list)
    steps = tuple(min(whole(name, one, 1), LONGEST) for one in (given if several else [given]))
    if not steps:
        raise ValueError(
            f"{name}={given!r} is empty; write one whole number for each axis, such as "
            f"{name}=(2, 2), or one for all of them."
        )
    if max(steps) == 1:
        return 1
    return steps if several else steps[0]


def steps_of(every: Every, ndim: int) -> Shape:
    """Give the step along each axis of a stencil of `ndim` axes.

    Raises
    ------
    ValueError
        If there is another number of them.
    """
    if isinstance(every, int):
        return (every,) * ndim
    if len(every) != ndim:
        raise ValueError(
            f"every={every} has {len(every)} entries, but the stencil has {ndim} "
            f"{'axis' if ndim == 1 else 'axes'}; give one number, or one for each axis."
        )
    return every
