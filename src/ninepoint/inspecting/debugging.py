"""The result by its definition: the function itself is called at every point, or element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import accepted, ghosts
from ..arrays.accepted import is_chunked, is_xarray, whole_shape
from ..arrays.regions import cut_shapes, finer_values
from ..language import reference
from ..language.ir import joined
from ..program.definition import Call
from ..program.graph import compiled
from ..program.program import program_of
from .measuring import no_array


def by_definition(call: Call, given: Sequence[Any], axes: Sequence[int] | None) -> Any:
    """What a call gives for NumPy arrays, computed by the reference."""
    names = call.fields
    for value, name in zip(given, names, strict=True):
        if is_chunked(value) or is_xarray(value):
            raise no_array("debug() takes arrays of NumPy,", name, value)
    fields = [accepted.as_field(*pair) for pair in zip(given, names, strict=True)]
    types = [accepted.native(field.dtype) for field in fields]
    computed = _at_elements if call.definition.pointwise else _at_points
    results = [
        reference.store(value, dtype, call.options.overflow)
        for value, dtype in computed(call, fields, types, axes)
    ]
    return accepted.bare(results)


def _at_points(
    call: Call, fields: Sequence[Any], types: Sequence[np.dtype], axes: Sequence[int] | None
) -> Iterator[tuple[Any, np.dtype]]:
    """What a function of a point and its neighbours gives, and the types of the results."""
    program = program_of(call, types).along(axes, fields)
    graph, last = program.graph, program.last
    along, ends = last.along, tuple(range(-last.ndim, 0))
    shapes = graph.shapes(field.shape for field in fields)
    # Of what calls of other stencils leave: these may have made something smaller of the fields.
    own = cut_shapes([shapes[v] for v in last.fields], last.fields, finer_values(graph.nodes))
    points = np.broadcast_to(0, np.broadcast_shapes(*own))
    accepted.check_values(last.border, last.cval, last.compiled)
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
    definition = call.definition
    computed = reference.evaluate(
        definition.function,
        dict(zip(call.fields, fields, strict=True)),
        reference.Setting(
            boundary=met.sides(last.ndim),
            footprints=[(box.lo, box.hi) for box in last.reaches],
            shape=points.shape,
            cval=call.options.cval,
            scalars=call.scalars,
            neighborhood=definition.options.neighborhood or (),
            every=last.every,
            upsample=last.factors,
        ),
    )
    for value, dtype in zip(computed, last.out_dtypes, strict=True):
        yield value if axes is None else np.moveaxis(value, ends, along), dtype


def _at_elements(
    call: Call, fields: Sequence[Any], types: Sequence[np.dtype], _: Sequence[int] | None
) -> Iterator[tuple[Any, np.dtype]]:
    """What a function of numbers gives, and the types of the results."""
    # Raises where they do not go together.
    shape = accepted.broadcast_shape([field.shape for field in fields])
    function, dtypes = call.definition.function, compiled(call, types).out_dtypes
    values = dict(zip(call.fields, fields, strict=True))
    # What is given for fields as numbers are scalars, as are those that have a default.
    footprints = [((), ())] * len(dtypes)
    setting = reference.Setting(
        boundary=(), footprints=footprints, shape=shape, scalars=call.scalars
    )
    yield from zip(reference.evaluate(function, values, setting), dtypes, strict=True)
