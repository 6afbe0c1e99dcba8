"""Phases: a result of several times as many points as its fields, which is computed around these.

    fields (rows, columns)   ->   a kernel of k * l results on them, the phases   ->   interleaved

    a a b b        phase (0, 0), (0, 1)        result p is around the element p // k
    c c d d        phase (1, 0), (1, 1)        phase r has the results k * I + r

To everything that looks at neighbours or at borders a phase is an ordinary result on the fields.
Only where results are put together are there more points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .borders import Array, Border, Rule
from .layout import Shape, layout
from .numpy import broadcast_shape, check_values
from .parts import write
from .regions import Node

# By how much a value is longer than what it is made of, by the axis, counted from the end.
Finer = Mapping[int, int]


def finer(shape: Shape, factors: Sequence[int]) -> Shape:
    """Positions or lengths along the axes of a kernel, in the result."""
    return tuple(n * k for n, k in zip(shape, factors, strict=True)) if factors else shape


def finer_values(nodes: Sequence[Node]) -> dict[int, Finer]:
    """The values that are longer than what they are made of, and what is made of these alone."""
    found: dict[int, Finer] = {}
    for node in nodes:
        known = [found.get(value, {}) for value in node.fields]
        thin = {axis for axis, step in zip(node.along, node.every, strict=False) if step > 1}
        own = {
            axis: k
            for axis, k in known[0].items()
            if all(axis in one for one in known) and axis not in thin
        }
        for axis, k in zip(node.along, node.factors, strict=False):
            own[axis] = own.get(axis, 1) * k
        if own:
            found |= dict.fromkeys(node.outputs, own)
    return found


def phase(array: Any, place: Sequence[int], factors: Sequence[int]) -> Any:
    """The results that stand at one place around each element; the axes are the last ones."""
    return array[(..., *(slice(r, None, k) for r, k in zip(place, factors, strict=True)))]


def cut_shapes(
    shapes: Sequence[Shape], values: Sequence[int], fine: Mapping[int, Finer]
) -> list[Shape]:
    """Shapes of the fields of a call, of which the `fine` ones are as long as those beside them.

    The finer result of a field that has half as many points, rounded up, may have one too many.
    """
    found = list(shapes)
    for position, value in enumerate(values):
        for axis, factor in fine.get(value, {}).items():
            beside = [
                shape[axis]
                for other, shape in zip(values, shapes, strict=True)
                if axis not in fine.get(other, {}) and len(shape) >= -axis and shape[axis] != 1
            ]
            shape = list(found[position])
            if len(shape) >= -axis and beside and 0 < shape[axis] - min(beside) < factor:
                shape[axis] = min(beside)
                found[position] = tuple(shape)
    return found


def cut_fields(
    fields: Sequence[Any], values: Sequence[int], fine: Mapping[int, Finer]
) -> list[Any]:
    """The same of arrays."""
    if not any(value in fine for value in values):
        return list(fields)
    shapes = cut_shapes([field.shape for field in fields], values, fine)
    return [
        field if field.shape == shape else field[tuple(map(slice, shape))]
        for field, shape in zip(fields, shapes, strict=True)
    ]


def check_device(nodes: Sequence[Node]) -> None:
    """Raise where a GPU is to make finer results, or to lay values at the border."""
    for node in nodes:
        node.boundary.check_device()
    if any(node.factors for node in nodes):
        raise TypeError(
            "a GPU computes no finer results (upsample=) yet; give arrays of NumPy, as "
            "cupy.asnumpy(x) makes them, and leave device= out."
        )


def apply(
    compute: Callable[..., Any],
    program: Any,
    fields: Sequence[Array],
    factors: Sequence[int],
    border: Border,
    cval: Any,
    out: Sequence[Array] | None,
    empty: Callable[..., Array],
) -> list[Array]:
    """Compute finer results along the last axes of fields, of a program whose outputs are phases.

    `compute(fields, border=, cval=)` gives all outputs: those of the first phase, then those of
    the next one; or those of one, if all phases are alike.
    """
    shape = broadcast_shape([field.shape for field in fields])
    ndim, phases = len(factors), program.compiled.phases
    count = len(program.out_dtypes) // phases
    dtypes = program.out_dtypes[:count]
    plan = layout(shape[len(shape) - ndim :], program.reaches[:count], border)
    values = check_values(plan, cval, program.field_dtypes, dtypes, program.positions)
    if border.uses("keep"):
        # A result keeps the field in its own place, which a phase that follows has not.
        plain = Border(tuple((_filled(a), _filled(b)) for a, b in border.rules))
        made = compute(fields, border=plain, cval=cval if border.uses("constant") else 0)
    else:
        made = compute(fields, border=border, cval=cval)
    made = made if isinstance(made, tuple) else (made,)
    results = []
    for k, (output, dtype) in enumerate(zip(plan.outputs, dtypes, strict=True)):
        length = (*shape[: len(shape) - ndim], *finer(output.extent.shape, factors))
        target = empty(length, dtype) if out is None else out[k]
        for number, place in enumerate(np.ndindex(*factors)):
            part = phase(target, place, factors)
            write(part, made[(number * count + k) % len(made)])
            for zone, keeps in output.zones if border.uses("keep") else ():
                index: Any = (..., *zone.index(output.extent.start)[1:])
                there = part[index]
                if keeps:
                    kept = np.broadcast_to(fields[k], shape)
                    index = (..., *zone.index((0,) * ndim)[1:])
                    write(there, kept[index].astype(dtype))
                else:
                    there[...] = np.array(values.outs[k], dtype)
        results.append(target)
    return results


def _filled(rule: Rule) -> Rule:
    return "fill" if rule == "keep" else rule
