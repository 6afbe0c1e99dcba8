"""The ordinary way of a call: arguments are bound and checked, and arrays of any kind taken.

xarray                    names of dimensions for sizes of the signature    (xarray)
pandas                    the index of what is left of an axis              (pandas)
Dask                      lazily, chunk by chunk                            (dask)
others that ask for it    `__array_ufunc__`, as for NumPy's own functions
NumPy                     in parts, on several threads                      (numpy)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays.accepted import check_dtype, native, refuse_mask, storage_types
from ..arrays.foreign import Applied, asked, asks
from ..arrays.recognise import is_dask, is_xarray, refuse_foreign
from ..language.dtypes import computed, kind_of
from .compiled import Compiled
from .definition import CALL_OPTIONS, GufuncDefinition, Types

# What is compiled for given types, once.
Prepare = Callable[[Types, tuple[np.dtype[Any], ...] | None], Compiled]


@dataclass(frozen=True, slots=True)
class Options:
    """What a call says besides its arguments."""

    out: Any = None
    axes: Any = None
    axis: Any = None
    keepdims: bool = False
    dtype: Any = None
    sizes: Any = None
    dims: Any = None
    threads: int | None = None

    @property
    def given(self) -> dict[str, Any]:
        """Those that differ from what a call does anyway."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: v for name, v in values.items() if v is not None and v is not False}

    def refuse(self, names: Sequence[str], words: str) -> None:
        """Raise where an option is given that this kind of arrays does not have."""
        for name in names:
            if name in self.given:
                raise TypeError(f"{name}= {words}")


# Most calls say nothing but their arguments.
_NOTHING = Options()


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call: inputs, numbers in the order of the parameters, options."""

    inputs: tuple[Any, ...]
    scalars: dict[str, Any]
    options: Options


def arguments(
    definition: GufuncDefinition, args: tuple[Any, ...], named: dict[str, Any]
) -> Arguments:
    """Bind the arguments of a call as Python would.

    Raises
    ------
    TypeError
        If one is missing or unknown, or is no number where one is wanted.
    """
    own = {name for name in named if name in CALL_OPTIONS}
    options = Options(**{name: named.pop(name) for name in own}) if own else _NOTHING
    found = definition.arguments.bound(args, named)
    if found is None:
        if "device" in named and "device" not in definition.parameters:
            raise TypeError(
                f"{definition.name}() is computed on the CPU, as all gufuncs are: their bodies "
                "are loops of any kind. Leave device= out, or write it as a stencil."
            )
        # Imported here, not above: only a mistake needs what calls of stencils need.
        from ..calling import unfit

        raise unfit(definition, args, named, CALL_OPTIONS)
    values = dict(zip(definition.parameters, found, strict=True))
    outs = tuple(values[name] for name in definition.outs)
    if any(out is not None for out in outs):
        if options.out is not None or any(out is None for out in outs):
            raise TypeError(
                f"{definition.name}() needs every array for its results, each once, or none."
            )
        options = replace(options, out=outs[0] if len(outs) == 1 else outs)
    scalars = {name: _number(values[name], name) for name in definition.scalars}
    return Arguments(tuple(values[name] for name in definition.inputs), scalars, options)


def _number(value: Any, name: str) -> Any:
    """A number as one of NumPy, of the type that Numba gives it."""
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return np.int64(value)
        if 0 <= value < 2**64:
            return np.uint64(value)
        raise ValueError(f"'{name}'={value} does not fit into 64 bits; pass a float.")
    if isinstance(value, float):
        return np.float64(value)
    if isinstance(value, complex):
        return np.complex128(value)
    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        check_dtype(value.dtype, name)
        return np.asarray(value, computed(native(value.dtype)))[()]
    if isinstance(value, np.ndarray) or is_dask(value) or is_xarray(value):
        raise TypeError(
            f"'{name}' is a number: the signature has no array for it. Name its axes in the "
            "signature, '()' if there are none, to give arrays."
        )
    raise TypeError(f"'{name}' must be a number, not {value!r}.")


def called(definition: GufuncDefinition, given: Arguments, gufunc: Any, prepare: Prepare) -> Any:
    """What a call gives for arrays of any kind; `gufunc` is what was called."""
    from .numpy import on_numpy

    if given.options.dims is None and all(type(one) is np.ndarray for one in given.inputs):
        return on_numpy(definition, given, prepare)
    for value in given.inputs:
        refuse_mask(value)
    if any(map(is_xarray, given.inputs)):
        from .xarray import on_xarray

        return on_xarray(definition, given, gufunc)
    if given.options.dims is not None:
        raise TypeError("dims= names the dimensions of xarray objects; use axes= here.")
    if any(map(_is_pandas, given.inputs)):
        from .pandas import on_pandas

        return on_pandas(definition, given, gufunc)
    if any(map(is_dask, given.inputs)):
        from .dask import on_dask

        return on_dask(definition, given, gufunc)
    if asks(given.inputs):
        return _theirs(definition, given, gufunc)
    return on_numpy(definition, given, prepare)


def _is_pandas(value: object) -> bool:
    """Whether it is a column or a table of pandas."""
    kind = type(value)
    root = kind.__module__.partition(".")[0]
    return root == "pandas" and kind.__name__ in ("Series", "DataFrame")


def _theirs(definition: GufuncDefinition, given: Arguments, gufunc: Any) -> Any:
    """What other libraries make of it."""
    options = given.options.given
    options.pop("out", None)
    function = functools.partial(gufunc, **given.scalars, **options)
    signature = definition.signature
    counts = len(signature.inputs), len(signature.outputs)
    applied = Applied(function, definition.name, *counts, str(signature))
    return asked(applied, given.inputs, given.options.out)


# NumPy.


def as_input(value: Any, name: str) -> Any:
    """An array or a number of NumPy."""
    array = value
    if not isinstance(value, np.ndarray | np.generic):
        refuse_foreign(value, f"'{name}'")
        array = np.asarray(value)
        if array.ndim == 0 and kind_of(array.dtype) not in "biufc":
            words = (
                repr(value) if value is None or isinstance(value, str) else type(value).__name__
            )
            raise TypeError(f"'{name}' must be an array of numbers, not {words}.")
    check_kind(array.dtype, name)
    return array


def check_kind(dtype: np.dtype[Any], name: str) -> None:
    """Raise a TypeError with the cure unless a core array may have this dtype."""
    if dtype.kind == "O":
        raise TypeError(
            f"'{name}' is an array of objects, which cannot be compiled; convert it first, for "
            'example with .astype("float64").'
        )
    check_dtype(dtype, name)


def types_of(
    definition: GufuncDefinition, dtypes: Sequence[np.dtype[Any]], scalars: Mapping[str, Any]
) -> Types:
    """The types that a call computes with."""
    found = [native(dtype) for dtype in dtypes]
    return Types(
        tuple(map(computed, found)),
        tuple(scalars[name].dtype for name in definition.scalars),
    )


def wanted_dtypes(definition: GufuncDefinition, dtype: Any) -> tuple[np.dtype[Any], ...] | None:
    """The dtypes that a call asks for, or the gufunc was decorated with."""
    found = definition.options.dtypes if dtype is None else storage_types(dtype)
    return found
