"""What is taken as an array of numbers, what is refused with its cure, and dtypes of results.

Arrays of other libraries are recognised without importing these: an object can only be a Dask
array if somebody has imported Dask, as `sys.modules` knows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..language.dtypes import is_masked, kind_of
from .layout import Array

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
is_cubed = _is("cubed", "Array")
is_xarray = _is("xarray", "DataArray")
is_dataset = _is("xarray", "Dataset")
is_cupy = _is("cupy", "ndarray")
_is_series, _is_frame = _is("pandas", "Series"), _is("pandas", "DataFrame")


def is_chunked(value: object) -> bool:
    """Whether `value` is a lazy array in chunks: of Dask, dask-array or Cubed."""
    if type(value) is np.ndarray:
        return False
    return is_dask(value) or is_expression(value) or is_cubed(value)


def library_of(value: object) -> Any:
    """The module of a lazy array in chunks, which has the functions of arrays."""
    name = type(value).__module__.partition(".")[0]
    return sys.modules["dask.array" if name == "dask" else name]


def is_pandas(value: object) -> bool:
    """Whether `value` is a column or a table of pandas."""
    return _is_series(value) or _is_frame(value)


def is_device(value: object) -> bool:
    """Whether `value` is an array in the memory of a GPU: of CuPy, or what CuPy can look at."""
    kind = type(value)
    if kind is np.ndarray or isinstance(value, np.ndarray | np.generic | int | float | complex):
        return False
    if is_cupy(value):
        return True
    if kind.__module__.partition(".")[0] in ("ninepoint", "dask", "xarray"):
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
    if kind.__module__.partition(".")[0] == "ninepoint":
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
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def is_lazy(value: object) -> bool:
    """Whether it is a lazy value of ours; none is there before its module is."""
    module = sys.modules.get("ninepoint.running.recording")
    return module is not None and isinstance(value, module.Lazy)


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
        case "O":
            cure = 'convert it first, for example with .astype("float64")'
        case "M" | "m":
            cure = 'use .astype("int64") for the counts of its unit'
        case "V":
            cure = "pass one of its members, array[name]" if dtype.names else "use .view(dtype)"
        case "f":
            cure = 'use .astype("float64")'
        case "c":
            cure = 'use .astype("complex128")'
        case _:
            cure = 'convert it to numbers first, for example with .astype("float64")'
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


def check_writable(outs: Sequence[Any]) -> None:
    """Raise where arrays cannot be written, each of them apart from the others."""
    for k, out in enumerate(outs):
        if not out.flags.writeable:
            raise ValueError("out is read-only.")
        if any(np.may_share_memory(out, other) for other in outs[:k]):
            raise ValueError("two of the arrays in out share memory; give each its own.")


def write(target: Any, values: Any) -> None:
    """Write values to an array that may be of another dtype; like a kernel, without warnings."""
    if target.dtype == values.dtype:
        target[...] = values
        return
    with np.errstate(over="ignore", invalid="ignore"):
        target[...] = values


# Arrays of other libraries, asked, as NumPy asks them, to apply a function of arrays themselves:
#
#     multiply(df["a"], 2.0)     ->     df["a"].__array_ufunc__(applied, "__call__", df["a"], 2.0)
#                                ->     applied(array, 2.0), of which pandas makes a Series
#
# So a Series keeps its index, and whoever wrote the other library says what that means.


@dataclass(frozen=True, eq=False)
class Applied:
    """A function of arrays alone, as other libraries know those of NumPy.

    `function` takes the arrays by position and, if it is given, `out` by name.  Everything else
    that a call was told is bound in it: a library need not know of our options.

    The name is not the user's own.  Libraries take functions that are called as NumPy's are for
    NumPy's, and a user's `multiply` may do something else.
    """

    function: Callable[..., Any]
    name: str
    nin: int
    nout: int
    signature: str | None = None

    @property
    def __name__(self) -> str:
        return f"ninepoint.{self.name}"

    def __call__(self, *arrays: Any, **out: Any) -> Any:
        """Apply it to what the other library takes from its arrays."""
        return self.function(*arrays, **out)


def asks(values: Sequence[Any]) -> bool:
    """Whether an array among these wants to be asked; costs next to nothing where none does."""
    return any(map(_asks, values))


def asked(applied: Applied, inputs: Sequence[Any], out: Any = None) -> Any:
    """What the arrays of other libraries among the inputs make of a function.

    Parameters
    ----------
    applied : Applied
    inputs : sequence
        All arrays and numbers of the call; one of them at least `asks`.
    out : array or tuple of arrays, optional

    Raises
    ------
    TypeError
        If none of them knows what to do, as for NumPy's functions.
    """
    outs = tuple(listed(out))
    named = {"out": outs} if outs else {}
    others = _in_order((*inputs, *outs))
    for value in others:
        method = type(value).__array_ufunc__
        made = NotImplemented
        if method is not None:
            try:
                made = method(value, applied, "__call__", *inputs, **named)
            except NotImplementedError as error:
                if repr(applied) not in str(error):
                    raise
                kinds = " and ".join(type(one).__name__ for one in inputs)
                raise TypeError(
                    f"'{applied.name}' cannot be applied to {kinds}: {type(value).__module__}"
                    f".{type(value).__name__} does not lay them beside each other for functions "
                    "other than its own; give arrays of NumPy, as .to_numpy() makes them."
                ) from error
        if made is not NotImplemented:
            return made
    for value in others:
        refuse_foreign(value, "an argument")
    kinds = ", ".join(type(value).__name__ for value in others)
    raise TypeError(
        f"'{applied.name}' cannot be applied to {kinds}: the library gives no way to do it; "
        "give it arrays of NumPy, as numpy.asarray(x) makes them."
    )


def _asks(value: object) -> bool:
    """Whether it has a say in what functions make of it, and is of no kind that is done here."""
    kind, usual = type(value), np.ndarray.__array_ufunc__
    if kind is np.ndarray or getattr(kind, "__array_ufunc__", usual) is usual:
        return False
    if kind.__module__.partition(".")[0] == "ninepoint" or isinstance(value, np.generic):
        return False
    return not (is_dask(value) or is_xarray(value) or is_dataset(value) or is_device(value))


def _in_order(values: Sequence[Any]) -> list[Any]:
    """One of each kind to be asked: from left to right, but a subclass before its base."""
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if not _asks(value) or any(type(one) is kind for one in found):
            continue
        before = (k for k, one in enumerate(found) if issubclass(kind, type(one)))
        found.insert(next(before, len(found)), value)
    return found
