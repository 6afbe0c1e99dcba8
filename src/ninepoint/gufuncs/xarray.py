"""Gufuncs on xarray objects: sizes of the signature are dimensions, which have names.

    "(n,k),(k,m)->(n,m)"     dims={"n": "time"}     ->     n is time; k and m the last dimensions

Coordinates of the dimensions that remain are kept; all others of the stack go by their names.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import xarray as xr

from ninepoint.arrays.axes import listed
from ninepoint.arrays.recognise import is_xarray
from ninepoint.gufuncs.calling import Arguments
from ninepoint.gufuncs.definition import GufuncDefinition
from ninepoint.gufuncs.items import core_lengths, too_few_axes
from ninepoint.gufuncs.signature import Signature


def on_xarray(gufunc: Any, given: Arguments) -> Any:
    """The results for inputs of which some are DataArrays."""
    given.refuse(("out",), "is for NumPy arrays; the result of xarray objects is made anew.")
    given.refuse(
        ("axes", "axis", "keepdims"), "counts axes; name dimensions with dims={...} here."
    )
    definition: GufuncDefinition = gufunc.definition
    options = dict(given.options)
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
                f"dims= names the size '{size}', but {signature} has {listed(signature.names)}."
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
    lengths: list[list[int]] = []
    for value, name, core in zip(inputs, definition.inputs, signature.inputs, strict=True):
        if not is_xarray(value):
            shape = getattr(value, "shape", ())
            lengths.append(list(shape[len(shape) - len(core) :]))
            found.append([])
            continue
        own = _own_dims(signature, value, name, core, dims)
        for size, dim in zip(core, own, strict=True):
            before = names.setdefault(size, dim)
            if before != dim and first.get(size) != name:
                raise ValueError(
                    f"the size '{size}' of {signature} is {before!r} in "
                    f"'{first[size]}' and {dim!r} in '{name}'; rename one of them first, as in "
                    f"{name}.rename({{{dim!r}: {before!r}}})."
                )
            first.setdefault(size, name)
        lengths.append([value.sizes[dim] for dim in own])
        found.append(own)
    # xarray would say of dimensions alone that one is two.
    core_lengths(definition, lengths)
    for k, core in enumerate(signature.inputs):
        found[k] = found[k] or [names.setdefault(size, size) for size in core]
    outputs = [[names.get(size, size) for size in core] for core in signature.outputs]
    for made in outputs:
        if len(set(made)) != len(made):
            raise ValueError(
                f"a result would have the dimensions {listed(made)}; rename one of them first, "
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
            raise ValueError(f"'{name}' has no dimension {dim!r}; it has {listed(value.dims)}.")
    left = [dim for dim in value.dims if dim not in given]
    rest = iter(left[len(left) - len(core) + len(given) :])
    own = [dims[size] if size in dims else next(rest) for size in core]
    if len(set(own)) != len(own):
        raise ValueError(f"dims= names one dimension of '{name}' twice: {listed(own)}.")
    return own
