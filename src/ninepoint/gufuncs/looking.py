"""Look inside: results by the definition, and how a gufunc is understood.

By definition the function itself is called by Python for each item of the stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..backends.numba.cpu import interpreted
from ..language.readable import frozen
from .calling import (
    Arguments,
    arguments,
    as_input,
    check_kind,
    items,
    single_or_tuple,
    types_of,
    wanted_types,
)
from .compiled import compile_for
from .definition import GufuncDefinition


def by_definition(definition: GufuncDefinition, given: Arguments) -> Any:
    """What a call gives for arrays of NumPy, computed in Python."""
    given.refuse(("out", "dims"), "is no option of debug(), which takes arrays of NumPy.")
    call = items(definition, list(map(as_input, given.inputs, definition.inputs)), given)
    function = frozen(definition.function)
    # Where Numba is not to compile it is not asked: the first results say their types.
    dtypes: Any = wanted_types(definition, given.options)
    if not dtypes and not interpreted():
        dtypes = [one.dtype for one in compile_for(definition, call.types).outputs]
    elif not dtypes and (definition.outs or 0 in call.stack):
        dtypes = [np.result_type(*call.types[: len(definition.inputs)])] * len(call.cores)

    def item(*inputs: Any) -> Any:
        pairs = zip(call.cores, dtypes or (), strict=False)
        outs = [np.zeros(core or 1, dtype) for core, dtype in pairs]
        values = given.scalars | dict(zip(definition.outs, outs, strict=False))
        values |= dict(zip(definition.inputs, inputs, strict=True))
        positional, named = definition.arguments.given(values)
        found = function(*positional, **named)
        if definition.outs:
            found = [one if core else one[0] for one, core in zip(outs, call.cores, strict=True)]
        elif len(call.cores) == 1:
            found = [found]
        elif not isinstance(found, tuple) or len(found) != len(call.cores):
            raise ValueError(f"'{definition.name}' does not give {len(call.cores)} results.")
        for number, (one, core) in enumerate(zip(found, call.cores, strict=True), 1):
            if np.shape(one) != core:
                raise ValueError(
                    f"result {number} of '{definition.name}' has the shape {np.shape(one)}, "
                    f"not {core}."
                )
        return single_or_tuple(found)

    if 0 in call.stack:
        made: Any = [np.zeros(call.shape(k), dtype) for k, dtype in enumerate(dtypes)]
    else:
        pairs = zip(call.inputs, call.types, strict=False)
        over_items = np.vectorize(item, dtypes, signature=str(definition.signature.plain))
        made = over_items(*(one.astype(dtype, copy=False) for one, dtype in pairs))
        made = made if len(call.cores) > 1 else [made]
    return single_or_tuple([call.placed(one, k) for k, one in enumerate(made)])


def explained(
    definition: GufuncDefinition, types: tuple[Any, ...], named: Mapping[str, Any]
) -> str:
    """Lines of text that say how a gufunc is understood, and what is compiled for given types."""
    signature = definition.signature
    lines = [f"{definition.name}: {signature}"]
    for name, core in zip(definition.inputs, signature.inputs, strict=True):
        lines.append(f"  {name}: {_axes(core)}")
    for name in definition.scalars:
        default = definition.function.defaults.get(name)
        words = "" if default is None else f", {default!r} by default"
        new = ", the size of a result" if name in signature.new else ""
        lines.append(f"  {name}: a number{words}{new}")
    dtypes: Sequence[Any] = [""] * len(signature.outputs)
    if types:
        every = types * len(definition.inputs) if len(types) == 1 else types
        given = arguments(definition, every, named)
        found = [np.dtype(getattr(one, "dtype", one)) for one in given.inputs]
        for dtype, name in zip(found, definition.inputs, strict=True):
            check_kind(dtype, name)
        compiled = compile_for(definition, types_of(found, given.scalars))
        dtypes = [f"{one.dtype}, " for one in compiled.outputs]
        lines.append(f"  for {', '.join(map(str, found))}:")
    for k, (core, dtype) in enumerate(zip(signature.outputs, dtypes, strict=True)):
        way = "copied from what the function returns" if core else "stored"
        if definition.outs:
            way = f"written into '{definition.outs[k]}'"
        lines.append(f"  result {k + 1}: {dtype}{_axes(core)}, {way}")
    if definition.options.fastmath:
        lines.append("  floats may be reordered (fastmath)")
    if not definition.options.boundscheck:
        lines.append("  indices are not checked (boundscheck)")
    lines.append("  one loop over the stack, without the interpreter's lock, shared among threads")
    return "\n".join(lines)


def _axes(core: tuple[str, ...]) -> str:
    return f"core axes ({', '.join(core)})" if core else "a number"
