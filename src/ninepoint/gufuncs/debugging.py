"""Results by the definition: the function itself, called by Python for each item of the stack."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..language.source import frozen
from .axes import core_axes
from .calling import Arguments, as_input, types_of, wanted_dtypes
from .compiled import result_dtypes
from .definition import GufuncDefinition
from .sizes import result_shapes, told_sizes


def by_definition(definition: GufuncDefinition, given: Arguments) -> Any:
    """What a call gives for arrays of NumPy, computed in Python."""
    options, signature = given.options, definition.signature
    options.refuse(("out", "dims"), "is no option of debug(), which takes arrays of NumPy.")
    pairs = zip(given.inputs, definition.inputs, strict=True)
    inputs = [np.asarray(as_input(value, name)) for value, name in pairs]
    axes = core_axes(definition, options)
    shapes = [one.shape for one in inputs]
    sizes = told_sizes(definition, options.sizes, given.scalars)
    wanted = result_shapes(definition, shapes, axes.inputs, sizes)
    types = types_of(definition, [one.dtype for one in inputs], given.scalars)
    inputs = [one.astype(own, copy=False) for one, own in zip(inputs, types.inputs, strict=True)]
    dtypes = wanted_dtypes(definition, options.dtype) or result_dtypes(definition, types)
    results = [np.zeros(shape, dtype) for shape, dtype in zip(wanted, dtypes, strict=True)]
    loop = wanted[0][: len(wanted[0]) - len(signature.outputs[0])]
    shapes = [shape[len(loop) :] for shape in wanted]
    stretched = [
        np.broadcast_to(one, (*loop, *one.shape[one.ndim - len(core) :]))
        for one, core in zip(axes.last(inputs), signature.inputs, strict=True)
    ]
    for place in np.ndindex(*loop):
        items = [one[place] for one in stretched]
        made = _item(definition, items, given.scalars, shapes, dtypes)
        for number, (result, one) in enumerate(zip(results, made, strict=True), start=1):
            shape = result.shape[len(loop) :]
            if np.shape(one) != shape:
                raise ValueError(
                    f"result {number} of '{definition.name}' has the shape {np.shape(one)}, "
                    f"not {shape}."
                )
            result[place] = one
    placed = [axes.placed(one, k) for k, one in enumerate(results)]
    whole = [one if one.ndim else one[()] for one in placed]
    return whole[0] if len(whole) == 1 else tuple(whole)


def _item(
    definition: GufuncDefinition,
    items: list[Any],
    scalars: dict[str, Any],
    shapes: Any,
    dtypes: Any,
) -> tuple[Any, ...]:
    """The results for one item."""
    function = frozen(definition.function)
    values = dict(zip(definition.inputs, items, strict=True)) | scalars
    outs = [np.zeros(shape or 1, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    if definition.outs:
        values |= dict(zip(definition.outs, outs, strict=True))
    arguments = definition.function.definition.args
    keyword = {one.arg for one in arguments.kwonlyargs}
    positional = [values[p] for p in definition.parameters if p not in keyword]
    found = function(*positional, **{name: values[name] for name in keyword})
    if definition.outs:
        return tuple(one if shape else one[0] for one, shape in zip(outs, shapes, strict=True))
    if len(shapes) == 1:
        return (found,)
    if not isinstance(found, tuple) or len(found) != len(shapes):
        raise ValueError(f"'{definition.name}' does not give {len(shapes)} results.")
    return found
