"""The result by its definition: the function itself is called at every point, or element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import ghosts
from ..arrays.accepted import (
    Arrays,
    as_field,
    bare,
    broadcast_shape,
    check_values,
    is_chunked,
    is_xarray,
    native,
    whole_shape,
)
from ..arrays.regions import cut_shapes, finer_values
from ..language import reference
from ..language.ir import joined
from ..program.definition import Call
from ..program.graph import compiled
from ..program.program import Program, program_of
from .measuring import no_array


def by_definition(call: Call, given: Sequence[Any], axes: Sequence[int] | None) -> Any:
    """What a call gives for NumPy arrays, computed by the reference."""
    names = call.fields
    for value, name in zip(given, names, strict=True):
        if is_chunked(value) or is_xarray(value):
            raise no_array("debug() takes arrays of NumPy,", name, value)
    fields: Arrays = [as_field(*pair) for pair in zip(given, names, strict=True)]
    types = [native(field.dtype) for field in fields]
    function = call.definition.function
    if call.definition.pointwise:
        # Raises where they do not go together.
        shape = broadcast_shape([field.shape for field in fields])
        dtypes = compiled(call, types).out_dtypes
        # What is given for fields as numbers are scalars, as are those that have a default.
        setting = reference.Setting(
            boundary=(), footprints=[((), ())] * len(dtypes), shape=shape, scalars=call.scalars
        )
    else:
        program = program_of(call, types, axes, fields)
        last, dtypes = program.last, program.last.out_dtypes
        fields, setting = _around(call, program, fields, axes)
    made = reference.evaluate(function, dict(zip(names, fields, strict=True)), setting)
    if axes is not None:
        made = tuple(np.moveaxis(one, range(-last.ndim, 0), last.along) for one in made)
    rule = call.options.overflow
    return bare([reference.store(*pair, rule) for pair in zip(made, dtypes, strict=True)])


def _around(
    call: Call, program: Program, fields: Arrays, axes: Sequence[int] | None
) -> tuple[Arrays, reference.Setting]:
    """The fields of a function of a point and its neighbours, and what it is given besides."""
    graph, last = program.graph, program.last
    along, ends = last.along, range(-last.ndim, 0)
    shapes = graph.shapes(field.shape for field in fields)
    # Of what calls of other stencils leave: these may have made something smaller of the fields.
    own = cut_shapes([shapes[v] for v in last.fields], last.fields, finer_values(graph.nodes))
    points = np.broadcast_to(0, np.broadcast_shapes(*own))
    check_values(last.border, last.cval, last.compiled)
    boundary = ghosts.turned(call.options.boundary, points.shape, along)
    if axes is not None:
        # The axes are counted in the whole shape; a field beside another may have fewer.
        shape, least = whole_shape(fields), -min(along)
        whole = [one if one.ndim >= least else np.broadcast_to(one, shape) for one in fields]
        fields = [np.moveaxis(one, along, ends) for one in whole]
        points = np.moveaxis(points, along, ends)
    if boundary.conditions:
        ghosts.Edges(last, points.shape).laid(boundary)
    far = joined(last.reaches).sides
    # What stands outside where no result looks is not asked for.
    met = boundary.with_conditions(
        lambda one, axis, side: one if far[axis][side] else "nearest", last.ndim
    )
    return fields, reference.Setting(
        boundary=met.sides(last.ndim),
        footprints=[(box.lo, box.hi) for box in last.reaches],
        shape=points.shape,
        cval=call.options.cval,
        scalars=call.scalars,
        neighborhood=call.definition.options.neighborhood or (),
        every=last.every,
        upsample=last.factors,
    )
