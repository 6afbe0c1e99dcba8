"""Bound calls: what does a call on arrays in memory, and all those like it.

    call, values of parameters      ->     what takes values of parameters, and gives the results

What does the calls is bound to the arrays of the first one, and remembered by whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .arrays.accepted import is_cupy
from .arrays.numpy import behind, core_shape, each_out
from .arrays.quick import Quick
from .arrays.single import NOTHING, Bordered, Given, OneCall, bind_call
from .arrays.work import Block, Work
from .backends.compiled import Compiled, readable
from .calls import Call, Flow, Leaves
from .graph import Graph, Node, graph_of, has_conditions
from .language.dtypes import computed
from .language.positions import Length
from .options import Place, as_it_is
from .program import BoundProgram, Program
from .running import typed
from .undisturbed import Later

if TYPE_CHECKING:
    from .arrays import ghosts
else:
    ghosts = Later(".arrays.ghosts", __package__)

# Values of all parameters, numbers of all calls, out -> result.
BoundCall: TypeAlias = Callable[[Sequence[Any], Leaves, Any], Any]

# Where each number of a call is found, and how it is converted, if it is; or None and a number
# that calls with equal keys have in common.
_Taken: TypeAlias = Sequence[tuple[Any, Any]]

# Machine code takes Python's numbers.
_KINDS: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


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
            taken = _taken_of(node.compiled, call.scalars, core, names.index)
            return _single(step, taken, at, len(values))
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
    step = bind_call(work, node, inputs, outs)
    return step if isinstance(step, OneCall) else None


def _single(step: OneCall, taken: _Taken, at: Sequence[int], count: int) -> BoundCall:
    """What does calls of one stencil; a border of conditions may be given behind all values."""
    plain = not any(indices for _, indices in step.fields)
    last: list[Any] = [None, step.run]

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        run = step.run
        if len(values) > count:
            given, run = last
            if values[-1] is not given and isinstance(step.run, Bordered):
                run = replace(step.run, boundary=ghosts.given_boundary(values[-1]))
                last[:] = values[-1], run
        fields = [values[k] for k in at]
        if not plain:
            fields = step.inputs(dict(enumerate(fields)))
        return run(fields, _numbers_of(taken, values), out)

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


def numbers_in(
    graph: Graph, parameter: Callable[[str], int] | None = None
) -> Callable[[Sequence[Any], Leaves], Given]:
    """Say how the numbers of all calls are found: in leaves, or among values by `parameter`."""
    found = [
        (
            node.outputs[0],
            graph.added.index(node.outputs),
            _taken_of(node.compiled, node.call.scalars, None, parameter or str),
            len(node.compiled.coefficients),
        )
        for node in graph.nodes
    ]
    if not any(taken for _, _, taken, _ in found):
        return lambda values, leaves: NOTHING

    def told(values: Sequence[Any], leaves: Leaves) -> Given:
        numbers = {}
        for first, leaf, taken, count in found:
            own = _numbers_of(taken, values if parameter else leaves[leaf])
            numbers[first] = own[:count], own[count:]
        return Given(numbers)

    return told


def _taken_of(
    compiled: Compiled,
    scalars: Mapping[str, Any],
    core: Sequence[int] | None,
    place: Callable[[str], Any],
) -> _Taken:
    """Say where the numbers of a call are found, and how machine code is given numbers like them.

    `place` says where the number of a name is; without a `core`, lengths are told later.
    """
    taken: list[tuple[Any, Any]] = []
    for name, (dtype, _) in zip(compiled.coefficients, compiled.coefficient_types, strict=True):
        value, wanted = scalars[name], computed(dtype)
        as_it_is = readable(value, wanted) is value
        taken.append((place(name), None if as_it_is else partial(readable, dtype=wanted)))
    for one, scalar in zip(compiled.scalars, compiled.scalar_types, strict=True):
        if isinstance(one, Length):
            taken.append((None, one if core is None else core[one.axis]))
            continue
        kind: type = _KINDS[scalar.numpy.kind]
        same = type(scalars[one]) is kind
        taken.append((place(one), None if same else partial(_number, kind)))
    return taken


def _number(kind: type, value: Any) -> Any:
    """A number, or an array without axes, as one of Python's own."""
    return kind(as_it_is(value))


def _numbers_of(taken: _Taken, values: Any) -> list[Any]:
    """Give the numbers of a call, from values by place."""
    return [values[k] if to is None else to if k is None else to(values[k]) for k, to in taken]
