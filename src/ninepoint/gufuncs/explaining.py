"""Say how a gufunc is understood, and what is compiled for given types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .calling import arguments, check_kind, types_of, wanted_dtypes
from .compiled import result_dtypes
from .definition import GufuncDefinition


def explained(
    definition: GufuncDefinition, types: tuple[Any, ...], named: Mapping[str, Any]
) -> str:
    """Lines of text."""
    from .bodies import body_tree
    from .in_place import made_in_place

    signature = definition.signature
    lines = [f"{definition.name}: {signature}"]
    for name, core in zip(definition.inputs, signature.inputs, strict=True):
        lines.append(f"  {name}: {_axes(core)}")
    for name in definition.scalars:
        default = definition.function.defaults.get(name)
        words = "" if default is None else f", {default!r} by default"
        new = ", the size of a result" if name in signature.new else ""
        lines.append(f"  {name}: a number{words}{new}")
    dtypes: tuple[np.dtype[Any], ...] | None = None
    if types:
        given = types * len(definition.inputs) if len(types) == 1 else types
        placed = arguments(definition, tuple(given), dict(named))
        found = [np.dtype(getattr(one, "dtype", one)) for one in placed.inputs]
        for dtype, name in zip(found, definition.inputs, strict=True):
            check_kind(dtype, name)
        natural = result_dtypes(definition, types_of(definition, found, placed.scalars))
        dtypes = wanted_dtypes(definition, None) or natural
        lines.append(f"  for {', '.join(map(str, found))}:")
    made = made_in_place(definition, body_tree(definition))
    for number, core in enumerate(signature.outputs):
        way = _way(definition, number, made.get(number))
        dtype = "" if dtypes is None else f"{dtypes[number]}, "
        lines.append(f"  result {number + 1}: {dtype}{_axes(core)}, {way}")
    if definition.options.fastmath:
        lines.append("  floats may be reordered (fastmath)")
    if not definition.options.boundscheck:
        lines.append("  indices are not checked (boundscheck)")
    lines.append("  one loop over the stack, without the interpreter's lock, shared among threads")
    return "\n".join(lines)


def _axes(core: tuple[str, ...]) -> str:
    return f"core axes ({', '.join(core)})" if core else "a number"


def _way(definition: GufuncDefinition, number: int, made: Any) -> str:
    if definition.outs:
        return f"written into '{definition.outs[number]}'"
    if made is not None:
        line = made.place.lineno
        return f"made in place: '{made.local}' of line {line} is the result itself"
    return (
        "copied from what the function returns"
        if definition.signature.outputs[number]
        else ("stored")
    )
