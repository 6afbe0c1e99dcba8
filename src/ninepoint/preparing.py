"""Prepared programs: the calls of a graph, on arrays and numbers like those of a call before.

    graph, what is wanted, arrays         ->     run
    run(values of parameters, leaves, out)  ->  results

What does the calls is bound to the arrays of the first call, and remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .arrays import numpy as on_numpy
from .arrays.accepted import check_dtype, native
from .arrays.axes import behind
from .arrays.phases import check_device
from .arrays.recognise import is_cupy
from .arrays.single import NOTHING, Given
from .binding import BoundProgram
from .bound_calls import Prepared, numbers_of, taken_of
from .calls import Call
from .flow import Flow, Leaves
from .graph import Graph, graph_of, has_conditions
from .lowering.schedule import Schedule
from .options import Place
from .program import Program
from .running import as_fields, positions, reaching

# The numbers of all calls, from values of parameters or leaves.
_Told: TypeAlias = Callable[[Sequence[Any], Leaves], Given]


def prepared(
    call: Call, flow: Flow | None, values: Sequence[Any], place: Place
) -> Prepared | None:
    """How calls like this one are done; nothing where that depends on more than their kind.

    `values` are those of all parameters; `flow` is that of a definition which calls others.
    """
    definition = call.definition
    at = [definition.parameters.index(name) for name in definition.fields]
    fields = [values[k] for k in at]
    if not all(type(field) is np.ndarray for field in fields) and not all(map(is_cupy, fields)):
        return None
    if flow is not None and not flow.settled:
        return None
    place.check(fields)
    fields = as_fields(fields, definition.fields)
    for field, name in zip(fields, definition.fields, strict=True):
        check_dtype(field.dtype, name)
    types = [native(field.dtype) for field in fields]
    graph, wanted = graph_of(call, types, looked=any(map(is_cupy, fields)))
    if has_conditions(graph):
        return None
    schedule = definition.schedule_for(types)
    leaf = None if flow is not None else definition.parameters.index
    return several(graph, wanted, schedule, at, values, place, leaf)


def several(
    graph: Graph,
    wanted: Sequence[int],
    schedule: Schedule,
    at: Sequence[int],
    values: Sequence[Any],
    place: Place,
    parameter: Callable[[str], int] | None = None,
) -> Prepared:
    """Prepare the calls of a graph; the values at `at` are its fields.

    Their numbers are leaves of a flow, or values of the only call, by `parameter`.
    """
    fields = [values[k] for k in at]
    turned = graph
    if place.axes is not None:
        shape, ndim = max((field.shape for field in fields), key=len), graph.nodes[-1].ndim
        if len(shape) < ndim:
            raise on_numpy.too_few_axes(ndim, shape)
        turned = graph.along(behind(place.axes, len(shape), ndim))
    if any(map(is_cupy, fields)):
        check_device(turned.nodes)
    given = reaching(turned, fields)
    reaches = given is not fields
    placed = positions(turned, fields)
    # Raises, and says what is too small, where the arrays of a call do not go together.
    turned.shapes([array.shape for array in (*given, *placed)])
    told = _numbers(graph, parameter)
    program = Program(turned, tuple(wanted), schedule)
    bound = BoundProgram(program, [*given, *placed], place.out, place.threads)

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        fields = [values[k] for k in at]
        if reaches:
            fields = list(reaching(turned, fields))
        made = bound([*fields, *placed], told(values, leaves), out)
        return made[0] if len(made) == 1 else tuple(made)

    return call


def _numbers(graph: Graph, parameter: Callable[[str], int] | None) -> _Told:
    """Say how the numbers of all calls are found."""
    found = [
        (
            node.outputs[0],
            graph.added.index(node.outputs),
            taken_of(node.compiled, node.call.scalars, None, parameter or str),
            len(node.compiled.coefficients),
        )
        for node in graph.nodes
    ]
    if not any(taken for _, _, taken, _ in found):
        return lambda values, leaves: NOTHING

    def told(values: Sequence[Any], leaves: Leaves) -> Given:
        numbers = {}
        for first, leaf, taken, count in found:
            own = numbers_of(taken, values if parameter else leaves[leaf])
            numbers[first] = own[:count], own[count:]
        return Given(numbers)

    return told
