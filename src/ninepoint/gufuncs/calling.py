"""The ordinary way of a call: arguments are bound and checked, and arrays of any kind taken.

Arrays of NumPy and of Dask are stacks of items: where core axes are, how long they are, and what
results have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ..arrays.accepted import as_field, bare, check_dtype, is_dask, native
from ..arrays.layout import Shape
from ..base.frozen import frozen
from ..language.dtypes import computed
from ..shapes import whole
from .definition import CALL_OPTIONS, GufuncDefinition, Signature, Types


@frozen
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
    if "device" in own and "device" not in definition.parameters:
        raise TypeError(
            f"{definition.name}() is computed on the CPU, as all gufuncs are: their bodies "
            "are loops of any kind. Leave device= out, or write it as a stencil."
        )
    found = definition.arguments.bound(args, own, CALL_OPTIONS)
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
    if np.ndim(value):
        raise TypeError(
            f"'{name}' is a number: the signature has no array for it. Name its axes in the "
            "signature, '()' if there are none, to give arrays."
        )
    found = as_field(value, name)
    return found.astype(computed(native(found.dtype)))[()]


def told(sizes: Any) -> dict[str, int]:
    """Sizes that a call or a decorator says."""
    if not isinstance(sizes, Mapping):
        raise TypeError(f'sizes= is a dict such as {{"k": 4}}, not {sizes!r}.')
    return {name: whole(name, value, 1) for name, value in sizes.items()}


def types_of(inputs: Sequence[np.dtype], scalars: Mapping[str, Any]) -> Types:
    """The types that a call computes with."""
    numbers = [one.dtype for one in scalars.values()]
    return tuple([computed(native(dtype)) for dtype in inputs] + numbers)


# Stacks of items.


@frozen
class Items:
    """What is applied to items, and where the results belong.

    Attributes
    ----------
    inputs : list of arrays
        With their core axes last.
    types : tuple of dtype
        The types that are computed with.
    sizes : dict
        How long the axes of the signature are.
    stack : tuple of int
        The lengths of the axes before the core axes, which broadcast.
    cores : list of tuples of int
        The lengths of the core axes of each result.
    """

    inputs: list[Any]
    types: Types
    sizes: dict[str, int]
    stack: Shape
    cores: list[Shape]
    _axes: Sequence[Shape]
    _kept: int

    def shape(self, number: int) -> Shape:
        """The shape of a result with its core axes last."""
        return self.stack + self.cores[number]

    def last(self, array: Any, number: int) -> Any:
        """An array for a result, with its core axes last and without those that are kept."""
        axes = self._axes[number]
        return _moved(array, axes, last(len(axes)))[(..., *(0,) * self._kept)]

    def placed(self, result: Any, number: int) -> Any:
        """A result, whose core axes are the last, as the call wants it; without axes a number."""
        axes = self._axes[number]
        return _moved(result[(..., *(None,) * self._kept)], last(len(axes)), axes)[()]

    def given(self, results: Sequence[Any]) -> Any:
        """Results as the call gives them."""
        return bare([self.placed(one, k) for k, one in enumerate(results)])


def items(definition: GufuncDefinition, given: Arguments) -> Items:
    """How a call applies the function to arrays.

    Raises
    ------
    ValueError
        If inputs do not fit the signature, or their other axes do not broadcast.
    """
    signature = definition.signature
    along, axes, kept = core_axes(signature, given.options)
    sizes = _told_sizes(definition, given)
    arrays, stacks = [], []
    for name, one, core, own in zip(
        definition.inputs, given.inputs, signature.inputs, along, strict=True
    ):
        if is_dask(one):
            check_dtype(one.dtype, name)
            if np.isnan(one.shape).any():
                raise ValueError(
                    f"'{name}' has chunks of unknown size; call .compute_chunk_sizes() on it "
                    "first."
                )
        else:
            one = as_field(one, name)
        if one.ndim < len(core):
            raise too_few_axes(signature, name, core, one.shape)
        if own != last(len(core)):
            one = _moved(one, normalize_axis_tuple(own, one.ndim, "axes"), last(len(core)))
        stack = one.ndim - len(core)
        for size, length in zip(core, one.shape[stack:], strict=True):
            if sizes.setdefault(size, length) != length:
                raise ValueError(
                    f"the core axis '{size}' of {signature} has the length {sizes[size]}, but "
                    f"{length} in '{name}'; core axes of one name have one length."
                )
        arrays.append(one)
        stacks.append(one.shape[:stack])
    cores = [tuple(sizes[size] for size in core) for core in signature.outputs]
    types = types_of([one.dtype for one in arrays], given.scalars)
    return Items(arrays, types, sizes, np.broadcast_shapes(*stacks), cores, axes, kept)


def _moved(array: Any, before: Shape, after: Shape) -> Any:
    return array if before == after else np.moveaxis(array, before, after)


def last(count: int) -> Shape:
    """The last axes, so many."""
    return tuple(range(-count, 0))


def core_axes(
    signature: Signature, options: Mapping[str, Any]
) -> tuple[list[Shape], list[Shape], int]:
    """The core axes of inputs and of results, and how many results keep that have none.

    Raises
    ------
    ValueError
        If `axes` do not fit the signature.
    TypeError
        If there is no telling which axes `keepdims` keeps.
    """
    inputs, outputs = signature.inputs, signature.outputs
    count, keeps = len(inputs), options.get("keepdims", False)
    if keeps and (any(outputs) or len({len(core) for core in inputs}) > 1):
        raise TypeError(
            "keepdims= is for results without core axes, of inputs with equally many: not "
            f"for {signature}."
        )
    kept = len(inputs[0]) if keeps else 0
    wanted = [len(core) for core in inputs] + [kept or len(core) for core in outputs]
    if "axis" in options:
        found = [(options["axis"],) * count for count in wanted]
    elif "axes" not in options:
        found = [last(count) for count in wanted]
    else:
        found = [
            (entry,) if isinstance(entry, int | np.integer) else tuple(entry)
            for entry in options["axes"]
        ]
        if len(found) == count:
            # Those of results may be left out where there is nothing to say.
            found += [found[0] if kept else ()] * len(outputs)
        if [len(axes) for axes in found] != wanted:
            raise ValueError(
                f"axes={options['axes']} is no list of the core axes of each array of {signature}."
            )
    return found[:count], found[count:], kept


# Sizes.


def _told_sizes(definition: GufuncDefinition, given: Arguments) -> dict[str, int]:
    """Fixed sizes, and those that no input has: by a call, as a number of it, or by default."""
    signature, sizes = definition.signature, told(given.options.get("sizes", {}))
    for name in sizes:
        definition.check_size(name)
    known = {**dict(definition.options.sizes), **given.scalars, **sizes}
    for name in signature.new:
        if name not in known:
            raise ValueError(
                f"the size '{name}' of {signature} is that of no input; say it with "
                f"sizes={{\"{name}\": ...}}, or let '{definition.name}' have a parameter {name}."
            )
    fixed = {name: int(name) for name in signature.names if name.isdecimal()}
    return fixed | {name: whole(name, known[name], 1) for name in signature.new}


def too_few_axes(
    signature: Signature, name: str, core: Sequence[str], shape: Sequence[int]
) -> ValueError:
    """The error for an array that has not all its core axes."""
    axes = "1 axis" if len(core) == 1 else f"{len(core)} axes"
    return ValueError(
        f"'{name}' needs {axes} at least, ({','.join(core)}) of {signature}, but has the shape "
        f"{tuple(shape)}."
    )
