"""The sizes of core axes: those that are told, and why arrays do not fit a signature."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.lib.array_utils import normalize_axis_tuple

from .definition import GufuncDefinition
from .signature import Signature


def told_sizes(
    definition: GufuncDefinition, sizes: Any, scalars: Mapping[str, Any]
) -> dict[str, int]:
    """The sizes that no input has: as a call says, as a number of the call, or by default.

    Raises
    ------
    ValueError
        If one is missing, is less than 1, or is not to be told.
    TypeError
        If one is no whole number.
    """
    if not definition.new and sizes is None:
        return {}
    found = dict(definition.options.sizes)
    found |= {name: scalars[name] for name in definition.new if name in scalars}
    if sizes is not None:
        if not isinstance(sizes, Mapping):
            raise TypeError(f'sizes= is a dict such as {{"k": 4}}, not {sizes!r}.')
        for name in sizes:
            definition.check_size(name)
        found |= sizes
    for name in definition.new:
        if name not in found:
            raise ValueError(
                f"the size '{name}' of {definition.signature} is that of no input; say it with "
                f"sizes={{\"{name}\": ...}}, or let '{definition.name}' have a parameter {name}."
            )
    return {name: whole(name, found[name]) for name in definition.new}


def whole(name: str, value: Any) -> int:
    """A size as a whole number of at least 1."""
    try:
        size = operator.index(value)
    except TypeError as error:
        raise TypeError(f"the size '{name}' is a whole number, not {value}.") from error
    if size < 1:
        raise ValueError(f"the size '{name}' is at least 1, not {size}.")
    return size


def result_shapes(
    definition: GufuncDefinition,
    shapes: Sequence[tuple[int, ...]],
    axes: Sequence[tuple[int, ...]],
    sizes: Mapping[str, int],
) -> list[tuple[int, ...]]:
    """The shapes of the results, core axes last.

    `axes` are those of each input along which the function works.

    Raises
    ------
    ValueError
        If inputs do not fit the signature, or their other axes do not broadcast.
    """
    signature = definition.signature
    known: dict[str, tuple[int, str]] = {}
    loops = []
    for name, core, shape, along in zip(
        definition.inputs, signature.inputs, shapes, axes, strict=True
    ):
        if len(shape) < len(core):
            raise too_few_axes(signature, name, core, shape)
        loops.append(_stack(shape, along))
        for size, axis in zip(core, along, strict=True):
            length = shape[axis]
            if size.isdecimal() and length != int(size):
                raise ValueError(
                    f"'{name}' has length {length} along axis {axis}, but {signature} says {size}."
                )
            before, other = known.setdefault(size, (length, name))
            if length != before:
                raise different(signature, size, (other, before), (name, length))
    stack = []
    for back in range(max(map(len, loops)), 0, -1):
        lengths = {
            loop[-back]: name
            for name, loop in zip(definition.inputs, loops, strict=True)
            if len(loop) >= back and loop[-back] != 1
        }
        if len(lengths) > 1:
            (first, one), (second, other) = list(lengths.items())[:2]
            raise ValueError(
                f"the axes before the core axes do not broadcast: '{one}' has length {first} "
                f"where '{other}' has {second} (shapes {' and '.join(map(str, shapes))}); each "
                "pair of lengths must be equal or contain a 1."
            )
        stack.append(next(iter(lengths), 1))
    lengths_of = {name: length for name, (length, _) in known.items()} | fixed(signature, sizes)
    return [(*stack, *(lengths_of[size] for size in core)) for core in signature.outputs]


def fixed(signature: Signature, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that need no input: those that are told, and numbers."""
    return {name: int(name) for name in signature.names if name.isdecimal()} | dict(sizes)


def last(count: int) -> tuple[int, ...]:
    """The last axes, so many."""
    return tuple(range(-count, 0))


def _stack(shape: tuple[int, ...], along: tuple[int, ...]) -> tuple[int, ...]:
    """The lengths of the other axes."""
    if along == last(len(along)):
        return shape[: len(shape) - len(along)]
    taken = normalize_axis_tuple(along, len(shape), "axes")
    return tuple(n for axis, n in enumerate(shape) if axis not in taken)


def too_few_axes(
    signature: Signature, name: str, core: Sequence[str], shape: Sequence[int]
) -> ValueError:
    """The error for an array that has not all its core axes."""
    axes = "1 axis" if len(core) == 1 else f"{len(core)} axes"
    return ValueError(
        f"'{name}' needs {axes} at least, ({','.join(core)}) of {signature}, but has the shape "
        f"{tuple(shape)}."
    )


def different(
    signature: Signature, size: str, one: tuple[str, int], other: tuple[str, int]
) -> ValueError:
    """The error for one size that is two."""
    return ValueError(
        f"the size '{size}' of {signature} is {one[1]} in '{one[0]}' and {other[1]} in "
        f"'{other[0]}'; core axes of one name have one length."
    )
