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
from .accepted import listed
from .borders import Array, Border, Rule
from .executable import Executable
from .layout import Shape, layout
from .numpy import check_values, whole_shape
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


class FinerCall:
    """Calls of a node whose program's outputs are phases, on fields like some: bound once.

    Its outputs are those of the first phase, then those of the next one; or those of one, if all
    phases are alike.  Called with fields, numbers and `out`.
    """

    def __init__(
        self,
        node: Node,
        program: Bound,
        fields: Sequence[Array],
        border: Border,
        threads: int | None,
    ) -> None:
        self._factors, self._keeps, ndim = node.factors, border.uses("keep"), len(node.along)
        # Where the core axes are, and where the program has them.
        self._axes = node.along, tuple(range(-ndim, 0))
        fields = self._moved(fields)
        self._shape = shape = whole_shape(fields)
        count = len(program.out_dtypes) // program.compiled.phases
        self._dtypes = program.out_dtypes[:count]
        self._plan = plan = layout(shape[len(shape) - ndim :], program.reaches[:count], border)
        dtypes = program.field_dtypes, self._dtypes
        self._values = check_values(plan, node.cval, *dtypes, program.positions)
        cval = node.cval
        if self._keeps:
            # A result keeps the field in its own place, which a phase that follows has not.
            border = Border(tuple((_filled(a), _filled(b)) for a, b in border.rules))
            cval = cval if border.uses("constant") else 0
        self._run = Executable(program, fields, border, cval, None, None, threads)

    def __call__(self, fields: Sequence[Array], numbers: Sequence[Any], out: Any = None) -> Any:
        """What a call gives."""
        fields, targets = self._moved(fields), self._moved(listed(out))
        made = listed(self._run(fields, numbers))
        results, lead = [], self._shape[: len(self._shape) - len(self._factors)]
        for k, (output, dtype) in enumerate(zip(self._plan.outputs, self._dtypes, strict=True)):
            length = (*lead, *finer(output.extent.shape, self._factors))
            target = targets[k] if targets else empty(length, dtype)
            for number, place in enumerate(np.ndindex(*self._factors)):
                part = phase(target, place, self._factors)
                write(part, made[(number * len(self._dtypes) + k) % len(made)])
                if self._keeps:
                    self._keep(k, part, fields[k])
            results.append(target)
        return tuple(np.moveaxis(one, *self._axes[::-1]) for one in results)

    def _keep(self, k: int, part: Array, field: Array) -> None:
        """Write what is not computed of a phase of an output."""
        output, dtype = self._plan.outputs[k], self._dtypes[k]
        for zone, keeps in output.zones:
            index = zone.index(output.extent.start)
            if keeps:
                kept = np.broadcast_to(field, self._shape)
                own = zone.index((0,) * len(self._factors))
                write(part[index], kept[own].astype(dtype))
            else:
                part[index][...] = np.array(self._values.outs[k], dtype)

    def _moved(self, arrays: Sequence[Array]) -> list[Array]:
        return [np.moveaxis(one, *self._axes) for one in arrays]


def _filled(rule: Rule) -> Rule:
    return "fill" if rule == "keep" else rule
