"""The ordinary way of a call: arguments are bound and checked, and arrays of any kind taken.

xarray                    names of dimensions for sizes of the signature    (labelled)
pandas                    the index of what is left of an axis              (labelled)
Dask                      lazily, chunk by chunk                            (dask)
others that ask for it    `__array_ufunc__`, as for NumPy's own functions
NumPy                     in parts, on several threads                      (numpy)
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays.accepted import (
    as_array,
    check_dtype,
    is_dask,
    is_pandas,
    is_xarray,
    native,
    refuse_mask,
    storage_types,
)
from ..arrays.foreign import Applied, asked, asks
from ..language.dtypes import computed
from ..undisturbed import imported
from .definition import CALL_OPTIONS, GufuncDefinition, Types


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call: inputs, numbers in the order of the parameters, options."""

    inputs: tuple[Any, ...]
    scalars: dict[str, Any]
    options: dict[str, Any]

    def refuse(self, names: Sequence[str], words: str) -> None:
        """Raise where an option is given that this kind of arrays does not have."""
        for name in names:
            if name in self.options:
                raise TypeError(f"{name}= {words}")


def arguments(
    definition: GufuncDefinition, args: tuple[Any, ...], named: Mapping[str, Any]
) -> Arguments:
    """Bind the arguments of a call as Python would.

    Raises
    ------
    TypeError
        If one is missing or unknown, or is no number where one is wanted.
    """
    own = {name: value for name, value in named.items() if name not in CALL_OPTIONS}
    options = {
        name: value
        for name, value in named.items()
        if name not in own and value is not None and (name != "keepdims" or value)
    }
    found = definition.arguments.bound(args, own)
    if found is None:
        if "device" in own and "device" not in definition.parameters:
            raise TypeError(
                f"{definition.name}() is computed on the CPU, as all gufuncs are: their bodies "
                "are loops of any kind. Leave device= out, or write it as a stencil."
            )
        # Imported here, not above: only a mistake needs what calls of stencils need.
        from ..options import unfit

        raise unfit(definition, args, own, CALL_OPTIONS)
    values = dict(zip(definition.parameters, found, strict=True))
    outs = tuple(values[name] for name in definition.outs)
    if any(out is not None for out in outs):
        if "out" in options or any(out is None for out in outs):
            raise TypeError(
                f"{definition.name}() needs every array for its results, each once, or none."
            )
        options["out"] = outs
    scalars = {name: _number(values[name], name) for name in definition.scalars}
    return Arguments(tuple(values[name] for name in definition.inputs), scalars, options)


def _number(value: Any, name: str) -> Any:
    """A number as one of NumPy, of the type that Numba gives it."""
    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        check_dtype(value.dtype, name)
        return np.asarray(value, computed(native(value.dtype)))[()]
    if isinstance(value, np.ndarray) or is_dask(value) or is_xarray(value):
        raise TypeError(
            f"'{name}' is a number: the signature has no array for it. Name its axes in the "
            "signature, '()' if there are none, to give arrays."
        )
    if not isinstance(value, bool | int | float | complex):
        raise TypeError(f"'{name}' must be a number, not {value!r}.")
    found = np.asarray(value)
    if found.dtype == object:
        raise ValueError(f"'{name}'={value} does not fit into 64 bits; pass a float.")
    return found[()]


def whole(name: str, value: Any) -> int:
    """A size as a whole number of at least 1."""
    try:
        size = operator.index(value)
    except TypeError as error:
        raise TypeError(f"the size '{name}' is a whole number, not {value}.") from error
    if size < 1:
        raise ValueError(f"the size '{name}' is at least 1, not {size}.")
    return size


def called(gufunc: Any, given: Arguments) -> Any:
    """What a call of a gufunc gives for arrays of any kind."""

    def on(kind: str, module: str) -> Any:
        # Most of them import Numba.
        return getattr(imported(module, __package__), f"on_{kind}")(gufunc, given)

    if "dims" not in given.options and all(type(one) is np.ndarray for one in given.inputs):
        return on("numpy", ".numpy")
    for value in given.inputs:
        refuse_mask(value)
    if any(map(is_xarray, given.inputs)):
        return on("xarray", ".labelled")
    if "dims" in given.options:
        raise TypeError("dims= names the dimensions of xarray objects; use axes= here.")
    if any(map(is_pandas, given.inputs)):
        return on("pandas", ".labelled")
    if any(map(is_dask, given.inputs)):
        return on("dask", ".dask")
    if asks(given.inputs):
        return _theirs(gufunc, given)
    return on("numpy", ".numpy")


def _theirs(gufunc: Any, given: Arguments) -> Any:
    """What other libraries make of it."""
    options = dict(given.options)
    out = options.pop("out", None)
    function = functools.partial(gufunc, **given.scalars, **options)
    applied = Applied(function, gufunc.__name__, gufunc.nin, gufunc.nout, gufunc.signature)
    return asked(applied, given.inputs, out)


# Dtypes.


def as_input(value: Any, name: str) -> np.ndarray[Any, Any]:
    """An array of NumPy."""
    array = as_array(value, name)
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


def types_of(inputs: Sequence[np.dtype[Any]], scalars: Mapping[str, Any]) -> Types:
    """The types that a call computes with."""
    numbers = [one.dtype for one in scalars.values()]
    return tuple([computed(native(dtype)) for dtype in inputs] + numbers)


def wanted_types(definition: GufuncDefinition, options: Mapping[str, Any]) -> Types | None:
    """The dtypes that a call asks for, or the gufunc was decorated with."""
    return storage_types(options.get("dtype")) or definition.options.dtypes
