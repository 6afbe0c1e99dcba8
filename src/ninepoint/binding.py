"""Bound calls: what does a call on arrays in memory, and all those like it.

    call, values of parameters      ->     what takes values of parameters, and gives the results

What does the calls is bound to the arrays of the first one, and remembered by whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .arrays.accepted import is_cupy
from .arrays.numpy import behind, core_shape, each_out
from .arrays.quick import Quick
from .arrays.single import BorderedCall, OneCall, bind_call
from .arrays.work import Block, Work
from .calls import Call, Flow, Leaves
from .graph import Node, graph_of, has_conditions
from .options import Place
from .program import BoundProgram, Program, Taken, numbers_in, numbers_of, taken_of
from .running import typed
from .undisturbed import Later

if TYPE_CHECKING:
    from .arrays import ghosts
else:
    ghosts = Later(".arrays.ghosts", __package__)

# Values of all parameters, numbers of all calls, out -> result.
BoundCall: TypeAlias = Callable[[Sequence[Any], Leaves, Any], Any]


def bound(call: Call, flow: Flow | None, values: Sequence[Any], place: Place) -> BoundCall | None:
    """How calls like this one are done; nothing where that depends on more than their kind.

    `values` are those of all parameters; `flow` is that of a definition which calls others.
    """
    definition = call.definition
    at = [definition.parameters.index(name) for name in definition.fields]
    fields = [values[k] for k in at]
    there = all(map(is_cupy, fields))
    if not there and any(type(field) is not np.ndarray for field in fields):
        return None
    if flow is not None and not flow.settled:
        return None
    place.check(fields)
    fields, types = typed(call, fields)
    graph, wanted = graph_of(call, types, looked=there)
    if flow is None and not there and not graph.places and not graph.nodes[0].factors:
        (node,), names = graph.nodes, definition.parameters
        core = core_shape(fields, node.ndim, place.axes)
        step = _one_call(node, fields, place)
        if step is not None:
            taken = taken_of(node.compiled, call.scalars, core, names.index)
            if isinstance(step, BorderedCall):
                return _bordered(step, taken, at, len(values))
            return _single(step, taken, at)
    if has_conditions(graph):
        return None
    program = Program(graph, wanted, definition.schedule_for(types))
    program = program.along(program.behind(place.axes, fields))
    run = BoundProgram(program, fields, place.out, place.threads)
    told = numbers_in(graph, None if flow is not None else definition.parameters.index)

    def several(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        made = run([values[k] for k in at], told(values, leaves), out)
        return made[0] if len(made) == 1 else tuple(made)

    return several


def _one_call(node: Node, fields: Sequence[Any], place: Place) -> OneCall | None:
    """What does a node on arrays of NumPy; nothing where points are left out afterwards."""
    if place.axes is not None:
        node = node.turned(behind(place.axes, max(field.ndim for field in fields), node.ndim))
    inputs = dict(enumerate(fields))
    work = Work([node], inputs, node.outputs, Block(tuple(fields)), threads=place.threads)
    given = () if place.out is None else each_out(place.out, len(node.outputs))
    outs = dict(zip(node.outputs, given, strict=False))
    step = bind_call(work, node, node.outputs[:1], inputs, outs)
    return step if isinstance(step, OneCall) else None


def _single(step: OneCall, taken: Taken, at: Sequence[int]) -> BoundCall:
    """What does calls of one stencil on arrays of NumPy."""
    run, plain = step.run, not any(indices for _, indices in step.fields)
    assert run is not None

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        fields = [values[k] for k in at]
        if not plain:
            fields = step.inputs(dict(enumerate(fields)))
        return run(fields, numbers_of(taken, values), out)

    return call


def _bordered(step: BorderedCall, taken: Taken, at: Sequence[int], count: int) -> BoundCall:
    """What does calls whose border has conditions; one that it is given is behind all values."""
    last: list[Any] = [None, step.boundary]

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        boundary = step.boundary
        if len(values) > count:
            given, boundary = last
            if values[-1] is not given:
                boundary = ghosts.given_boundary(values[-1])
                last[:] = values[-1], boundary
        fields = step.inputs(dict(enumerate([values[k] for k in at])))
        return step.ghosts(fields, numbers_of(taken, values), boundary, out)

    return call


def quick(call: Call, values: Sequence[Any]) -> Quick | None:
    """How calls of a function of numbers are done at once; `values` are those of all parameters.

    Nothing where calls need more than NumPy's function for their types, as half floats do.
    """
    names, fields = call.definition.parameters, call.definition.fields
    at = [names.index(name) for name in fields]
    if not at or any(type(values[k]) is not np.ndarray or not values[k].ndim for k in at):
        return None
    if any(not values[k].dtype.isnative for k in at):
        return None
    graph, _ = graph_of(call, [values[k].dtype for k in at])
    if len(graph.nodes) != 1:
        return None
    compiled = graph.nodes[0].compiled
    elements = compiled.elements
    numbers = [name for name in compiled.scalars if isinstance(name, str)]
    # An array without axes is of the type of one that has some.
    if elements is None or any(type(values[names.index(k)]) is np.ndarray for k in numbers):
        return None
    return Quick(elements, values, at, [*at, *map(names.index, numbers)])
