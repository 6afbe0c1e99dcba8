"""The result by its definition: the function itself is called at every point, or element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import accepted, sides
from ..arrays import numpy as on_numpy
from ..arrays.accepted import is_chunked, is_xarray
from ..arrays.conditions import Condition
from ..arrays.every import cut_shapes
from ..arrays.layout import layout
from ..arrays.numpy import behind, stretched, whole_shape
from ..arrays.regions import finer_values
from ..language import reference
from ..language.box import Box
from ..program.calls import Call
from ..program.graph import graph_of
from ..program.program import reaching
from .measuring import kind_of, plain_array


def by_definition(call: Call, given: Sequence[Any], axes: Sequence[int] | None) -> Any:
    """What a call gives for NumPy arrays, computed by the reference."""
    names = call.definition.fields
    fields = _arrays(given, names)
    types = [accepted.native(field.dtype) for field in fields]
    if call.definition.pointwise:
        return _at_elements(call, fields, types)
    graph, _ = graph_of(call, types)
    last, rank = graph.nodes[-1], max(field.ndim for field in fields)
    if rank < last.ndim:
        raise on_numpy.too_few_axes(last.ndim, whole_shape(fields))
    along, ends = behind(axes, rank, last.ndim), tuple(range(-last.ndim, 0))
    border, compiled = last.border, last.compiled
    turned = graph.along(None if axes is None else along)
    fields = reaching(turned, fields)
    shapes = turned.shapes(field.shape for field in fields)
    # Of what calls of other stencils leave: these may have made something smaller of the fields.
    own = cut_shapes([shapes[v] for v in last.fields], last.fields, finer_values(graph.nodes))
    points = np.broadcast_to(0, np.broadcast_shapes(*own))
    placed = layout(tuple(points.shape[axis] for axis in along), last.reaches, border)
    inside, outside = compiled.field_dtypes, last.out_dtypes
    on_numpy.check_values(placed, call.cval, inside, outside, len(compiled.positions))
    boundary = sides.turned(call.boundary, points.shape, along)
    if axes is not None:
        # The axes are counted in the whole shape; a field beside another may have fewer.
        whole = [stretched(one, -min(along), whole_shape(fields)) for one in fields]
        fields = [np.moveaxis(one, along, ends) for one in whole]
        points = np.moveaxis(points, along, ends)
    if boundary.conditions:
        sides.Edges.of(last, points.shape).laid(boundary)
    computed = reference.evaluate(
        call.definition.function,
        dict(zip(names, fields, strict=True)),
        reference.Setting(
            boundary=_met(boundary.sides(last.ndim), last.reaches),
            footprints=[(box.lo, box.hi) for box in last.reaches],
            shape=points.shape,
            cval=call.cval,
            scalars=call.scalars,
            neighborhood=call.definition.options.neighborhood or (),
            every=last.every,
            upsample=last.factors,
        ),
    )
    results = _stored(call, computed, last.out_dtypes)
    if axes is not None:
        results = [np.moveaxis(one, ends, along) for one in results]
    return results[0] if len(results) == 1 else tuple(results)


def _arrays(given: Sequence[Any], names: Sequence[str]) -> Sequence[Any]:
    """What was given as arrays of NumPy; raises for what is none."""
    for value, name in zip(given, names, strict=True):
        if is_chunked(value) or is_xarray(value):
            raise TypeError(
                f"debug() takes arrays of NumPy, and '{name}' is {kind_of(value)}; "
                f"{plain_array(value)}."
            )
    return [accepted.as_field(*pair) for pair in zip(given, names, strict=True)]


def _stored(call: Call, computed: Sequence[Any], dtypes: Sequence[np.dtype]) -> list[Any]:
    """Results as arrays of their types."""
    pairs = zip(computed, dtypes, strict=True)
    return [reference.store(value, dtype, call.overflow) for value, dtype in pairs]


def _met(sides: Sequence[tuple[Any, Any]], reaches: Sequence[Box]) -> tuple[tuple[Any, Any], ...]:
    """The rules of a boundary, without the conditions of sides that no result looks over."""
    found = []
    for axis, (before, after) in enumerate(sides):
        if isinstance(before, Condition) and all(box.lo[axis] >= 0 for box in reaches):
            before = "nearest"
        if isinstance(after, Condition) and all(box.hi[axis] <= 0 for box in reaches):
            after = "nearest"
        found.append((before, after))
    return tuple(found)


def _at_elements(call: Call, fields: Sequence[Any], types: Sequence[np.dtype]) -> Any:
    """What a call of a function of numbers gives."""
    names = call.definition.fields
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    compiled = call.compiled(types)
    # What is given for fields as numbers are scalars, as are those that have a default.
    computed = reference.points(
        call.definition.function,
        dict(zip(names, fields, strict=True)),
        call.scalars,
        len(compiled.out_dtypes),
    )
    results = _stored(call, computed, compiled.out_dtypes)
    assert all(one.shape == shape for one in results)
    return results[0] if len(results) == 1 else tuple(results)
