"""Bound calls: single calls of stencils, and what does them and those like them.

call, values of parameters  ->     what takes values of parameters, and gives the results
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .arrays.accepted import check_dtype, native
from .arrays.axes import behind
from .arrays.numpy import core_shape, each_out
from .arrays.quick import Quick
from .arrays.single import BorderedCall, OneCall, bind_call
from .arrays.work import Block, Work
from .backends.compiled import Compiled, readable
from .calls import Call
from .flow import Leaves
from .graph import graph_of
from .language.dtypes import computed
from .language.positions import Length
from .options import Place, as_it_is
from .undisturbed import Later

if TYPE_CHECKING:
    from .arrays import ghosts
else:
    ghosts = Later(".arrays.ghosts", __package__)

# Values of all parameters, numbers of all calls, out -> result; None if the call must be done the
# ordinary way.
Prepared: TypeAlias = Callable[[Sequence[Any], Leaves, Any], Any]

# Where each number of a call is found, and how it is converted, if it is; or None and a number
# that calls with equal keys have in common.
Taken: TypeAlias = Sequence[tuple[Any, Any]]

# Machine code takes Python's numbers.
_KINDS: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def alone(call: Call, values: Sequence[Any], place: Place) -> Prepared | None:
    """How a call is done, and those like it, if it is one of a stencil on arrays of NumPy.

    `values` are those of all parameters.  Nothing where there is more to it: other stencils,
    positions, more results than elements, points that are left out afterwards, a GPU.
    """
    names = call.definition.parameters
    at = [names.index(name) for name in call.definition.fields]
    fields = [values[k] for k in at]
    if any(type(field) is not np.ndarray for field in fields):
        return None
    place.check(fields)
    for field, name in zip(fields, call.definition.fields, strict=True):
        check_dtype(field.dtype, name)
    graph, _ = graph_of(call, [native(field.dtype) for field in fields])
    if graph.places or graph.nodes[0].factors:
        return None
    (node,) = graph.nodes
    core = core_shape(fields, node.ndim, place.axes)
    if place.axes is not None:
        node = node.turned(behind(place.axes, max(field.ndim for field in fields), node.ndim))
    inputs = dict(enumerate(fields))
    work = Work([node], inputs, node.outputs, Block(tuple(fields)), threads=place.threads)
    given = () if place.out is None else each_out(place.out, len(node.outputs))
    outs = dict(zip(node.outputs, given, strict=False))
    step = bind_call(work, node, node.outputs[:1], inputs, outs)
    if not isinstance(step, OneCall):
        return None
    taken = taken_of(node.compiled, node.call.scalars, core, names.index)
    if isinstance(step, BorderedCall):
        return _bordered(step, taken, at, len(values))
    run, plain = step.run, not any(indices for _, indices in step.fields)
    assert run is not None

    def one(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        fields = [values[k] for k in at]
        if not plain:
            fields = step.inputs(dict(enumerate(fields)))
        return run(fields, numbers_of(taken, values), out)

    return one


def _bordered(step: BorderedCall, taken: Taken, at: Sequence[int], count: int) -> Prepared:
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


def taken_of(
    compiled: Compiled,
    scalars: Mapping[str, Any],
    core: Sequence[int] | None,
    place: Callable[[str], Any],
) -> Taken:
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


def numbers_of(taken: Taken, values: Any) -> list[Any]:
    """Give the numbers of a call, from values by place."""
    return [values[k] if to is None else to if k is None else to(values[k]) for k, to in taken]
