"""Phases: a result of several times as many points as its fields, which is computed around these.

    fields (rows, columns)   ->   a kernel of k * l results on them, the phases   ->   interleaved

    a a b b        phase (0, 0), (0, 1)        result p is around the element p // k
    c c d d        phase (1, 0), (1, 1)        phase r has the results k * I + r

To everything that looks at neighbours or at borders a phase is an ordinary result on the fields.
Only where results are put together are there more points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..backends.compiled import Bound
from ..backends.memory import empty
from .accepted import listed, write
from .borders import Array, Border
from .every import thinned
from .executable import Executable, Run
from .layout import Shape
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


def finer_call(
    node: Node, program: Bound, fields: Sequence[Array], border: Border, threads: int | None
) -> Run:
    """Calls of a node whose program's outputs are phases, on fields like some: bound once.

    Its outputs are those of the first phase, then those of the next one; or those of one, if all
    phases are alike.
    """
    run = Executable(program, fields, border, node.cval, node.along, None, threads)
    along, factors, count = node.along, tuple(node.factors), len(node.outputs)

    def call(fields: Sequence[Array], numbers: Sequence[Any], out: Any = None) -> Any:
        made, results = listed(run(fields, numbers)), listed(out)
        for k in range(count):
            if out is None:
                shape = list(made[k].shape)
                for axis, factor in zip(along, factors, strict=True):
                    shape[axis] *= factor
                results.append(empty(tuple(shape), made[k].dtype))
            for number, place in enumerate(np.ndindex(*factors)):
                part = thinned(results[k], factors, along, place)
                write(part, made[(number * count + k) % len(made)])
        return tuple(results)

    return call
