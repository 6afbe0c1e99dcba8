"""Read a kernel: follow its text once, with names for the numbers that are not yet known.

    def edge(x):                        t0 = read x +1
        d = x[1] - x[-1]        ->      t1 = read x -1
        return d if d > 0 else 0        t2 = t0 - t1;  t3 = t2 > 0;  t4 = t3 ? t2 : 0

Constants fold, helper functions are read in place, and both sides of a branch become a selection.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

import numpy as np

from . import errors, ir
from .box import Length, Neighborhood
from .dtypes import DType, value_type
from .frame import Axes
from .ir import Kernel
from .kinds import Argument, Coefficients, Field, Scalar
from .parameters import indices
from .source import Function
from .statements import Statements
from .values import (
    UNROLLED_LIMIT,
    Operations,
    Value,
    length_label,
    words,
)


def read(
    function: Function,
    arguments: Mapping[str, Argument],
    neighborhood: Neighborhood | None = None,
    factors: ir.Offset = (),
) -> Kernel:
    """Make the kernel of `function` for arguments of given types.

    With `factors` its outputs are those of all points around an element, one phase after the
    other: those of the point 0, then those of the point 1 along the last axis, and so on.

    Raises
    ------
    StencilError
        If the text holds a mistake.
    NotUnderstood
        If the text holds something that only the general path can run.
    """
    # What is written out at such length is no shorter on the general path.
    written = sum(isinstance(node, ast.expr) for node in ast.walk(function.definition))
    operations = Operations(function.place, max(UNROLLED_LIMIT, written))
    operations.unsigned = any(
        one.dtype is DType.UINT if isinstance(one, Scalar) else one.storage == np.uint64
        for one in arguments.values()
    )
    fields = {n: a for n, a in arguments.items() if isinstance(a, Field)}
    pointwise = any(field.pointwise for field in fields.values())
    axes = Axes(neighborhood, indices(function, fields), pointwise, factors)
    here = (0,) * (axes.count or 1)
    names = {n: _value(argument, operations, here) for n, argument in arguments.items()}
    found: list[list[Value]] = []
    for phase in np.ndindex(*factors):
        axes.phase = phase
        frame = Statements(function, dict(names), operations, axes)
        found.append(_results(frame, operations))
        if len(found[0]) != len(found[-1]):
            raise errors.return_mismatch(frame.returned, len(found[-1]), len(found[0]))
    if axes.count is None:
        raise errors.no_field(function.place, function.name)
    alike = [operations.alike(same) for same in zip(*found, strict=True)]
    outputs = tuple(one for together in zip(*alike, strict=True) for one in together)
    return _kernel(arguments, operations, axes, outputs)


def _kernel(
    arguments: Mapping[str, Argument],
    operations: Operations,
    axes: Axes,
    outputs: tuple[ir.Atom, ...],
) -> Kernel:
    """What was read, as far as the outputs need it."""
    assert axes.count is not None
    measured = sorted(axes.measured)
    body = operations.body.assignments(outputs)
    read = {assign.value.field for assign in body if isinstance(assign.value, ir.Read)}
    positions = {k: v for k, v in sorted(operations.positions.items()) if k in read}
    return Kernel(
        ndim=axes.count,
        fields=(
            *((a.label, a.storage) for a in arguments.values() if isinstance(a, Field)),
            *((label, np.dtype("int64")) for label in positions),
        ),
        scalars=(
            *((a.label, a.dtype) for a in arguments.values() if isinstance(a, Scalar)),
            *((length_label(axis), DType.INT) for axis in measured),
        ),
        coefficients=tuple(
            (a.label, a.storage, a.shape)
            for a in arguments.values()
            if isinstance(a, Coefficients)
        ),
        body=body,
        outputs=outputs,
        lengths=tuple(map(Length, measured)),
        positions=tuple(positions.values()),
    )


def _results(frame: Statements, operations: Operations) -> list[Value]:
    """The numbers that a function gives."""
    result = frame.run()
    values = []
    for value in result if isinstance(result, tuple) else (result,):
        if isinstance(value, Value | bool | int | float | complex | np.number):
            lifted = operations.lift(value)
            if lifted.shape is None:
                values.append(lifted)
                continue
        raise errors.not_a_number(frame.returned, words(value))
    return values


def _value(
    argument: Argument, operations: Operations, here: ir.Offset
) -> Field | Coefficients | Value:
    """What stands for an argument while the text is read."""
    match argument:
        case Scalar():
            return Value(ir.Ref(argument.dtype, argument.label), argument.weak)
        case Field(pointwise=True):
            return operations.emit(ir.Read(value_type(argument.storage), argument.label, here))
        case _:
            return argument
