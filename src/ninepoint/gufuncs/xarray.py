"""Gufuncs on xarray objects: sizes of the signature are dimensions, which have names.

    "(n,k),(k,m)->(n,m)"     dims={"n": "time"}     ->     n is time; k and m the last dimensions

Coordinates of the dimensions that remain are kept; all others of the stack go by their names.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import xarray as xr

from ninepoint.arrays.axes import listed
from ninepoint.arrays.recognise import is_xarray
from ninepoint.gufuncs.calling import Arguments
from ninepoint.gufuncs.definition import GufuncDefinition
from ninepoint.gufuncs.sizes import different, too_few_axes


def on_xarray(definition: GufuncDefinition, given: Arguments, gufunc: Any) -> Any:
    """The results for inputs of which some are DataArrays."""
    options, signature = given.options, definition.signature
    options.refuse(("out",), "is for NumPy arrays; the result of xarray objects is made anew.")
    options.refuse(
        ("axes", "axis", "keepdims"), "counts axes; name dimensions with dims={...} here."
    )
    dims = _checked_dims(definition, options.dims)
    _check_lengths(definition, given.inputs, dims)
    inputs, names = _named(definition, given.inputs, dims)
    outputs = [[names.get(size, size) for size in core] for core in signature.outputs]
    for core in outputs:
        if len(set(core)) != len(core):
            raise ValueError(
                f"a result would have the dimensions {listed(core)}; rename one of them first, "
                "or name them with dims=."
            )
    inside = {name: value for name, value in options.given.items() if name != "dims"}

    def apply(*arrays: Any) -> Any:
        return gufunc(*arrays, **given.scalars, **inside)

    try:
        return xr.apply_ufunc(
            apply,
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


def _checked_dims(definition: GufuncDefinition, dims: Any) -> dict[str, Hashable]:
    if dims is None:
        return {}
    if not isinstance(dims, Mapping):
        raise TypeError(f'dims= is a dict such as {{"n": "time"}}, not {dims!r}.')
    for size in dims:
        if size not in definition.signature.names:
            raise ValueError(
                f"dims= names the size '{size}', but {definition.signature} has "
                f"{listed(definition.signature.names)}."
            )
    return dict(dims)


def _named(
    definition: GufuncDefinition, inputs: Sequence[Any], dims: Mapping[str, Hashable]
) -> tuple[list[list[Hashable]], dict[str, Hashable]]:
    """The core dimensions of each input, and the dimension that each size is."""
    found: list[list[Hashable]] = []
    names: dict[str, Hashable] = dict(dims)
    bare: dict[str, str] = {}
    for value, name, core in zip(
        inputs, definition.inputs, definition.signature.inputs, strict=True
    ):
        if not is_xarray(value):
            found.append([])
            continue
        if value.ndim < len(core):
            raise too_few_axes(definition.signature, name, core, value.shape)
        given = [dims[size] for size in core if size in dims]
        for dim in given:
            if dim not in value.dims:
                raise ValueError(
                    f"'{name}' has no dimension {dim!r}; it has {listed(value.dims)}."
                )
        # Those that are not named are the last that are left.
        left = [dim for dim in value.dims if dim not in given]
        free = [size for size in core if size not in dims]
        rest = iter(left[len(left) - len(free) :])
        own = [dims[size] if size in dims else next(rest) for size in core]
        if len(set(own)) != len(own):
            raise ValueError(f"dims= names one dimension of '{name}' twice: {listed(own)}.")
        for size, dim in zip(core, own, strict=True):
            before = names.setdefault(size, dim)
            if before != dim and bare.get(size) != name:
                raise ValueError(
                    f"the size '{size}' of {definition.signature} is {before!r} in "
                    f"'{bare[size]}' and {dim!r} in '{name}'; rename one of them first, as in "
                    f"{name}.rename({{{dim!r}: {before!r}}})."
                )
            bare.setdefault(size, name)
        found.append(own)
    for k, (value, core) in enumerate(zip(inputs, definition.signature.inputs, strict=True)):
        if not is_xarray(value):
            found[k] = [names.setdefault(size, size) for size in core]
    return found, names


def _check_lengths(
    definition: GufuncDefinition, inputs: Sequence[Any], dims: Mapping[str, Hashable]
) -> None:
    """Raise where a size is two: xarray would say so of dimensions only."""
    known: dict[str, tuple[str, int]] = {}
    cores, _ = _named(definition, inputs, dims)
    for value, name, core, own in zip(
        inputs, definition.inputs, definition.signature.inputs, cores, strict=True
    ):
        if is_xarray(value):
            lengths = [value.sizes[dim] for dim in own]
        else:
            shape = getattr(value, "shape", ())
            lengths = list(shape[len(shape) - len(core) :])
        for size, length in zip(core, lengths, strict=False):
            before = known.setdefault(size, (name, length))
            if before[1] != length:
                raise different(definition.signature, size, before, (name, length))
