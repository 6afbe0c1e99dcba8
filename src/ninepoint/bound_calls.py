"""Bound calls: single calls of stencils, and what does them and those like them.

call, values of parameters  ->     what takes values of parameters, and gives the results
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .arrays.accepted import check_dtype, native
from .arrays.arranging import are_writable
from .arrays.axes import behind
from .arrays.borders import Array
from .arrays.every import Steps, steps_left, thinned, thinned_copy
from .arrays.executable import Executable, Run
from .arrays.lanes import steps_made
from .arrays.numpy import core_shape
from .arrays.parts import write
from .arrays.quick import Quick
from .arrays.recognise import listed
from .backends.compiled import Compiled, readable
from .calls import Call
from .flow import Leaves
from .graph import Graph, Node, graph_of
from .language.dtypes import computed
from .language.lengths import Length
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
    positions, more results than elements, a GPU.
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
    if call.boundary.conditions:
        return _with_ghosts(graph.nodes[0], names, values, at, place)
    return single(graph, names, values, place.axes, place.out, place.threads, at)


def single(
    graph: Graph,
    names: Sequence[str],
    values: Sequence[Any],
    axes: Any,
    out: Any,
    threads: int | None,
    at: Sequence[int],
) -> Prepared:
    """Bind the only call of a graph, for values of parameters of these names.

    Those at `at` are its fields, arrays of NumPy.
    """
    (node,) = graph.nodes
    fields = [values[k] for k in at]
    core = core_shape(fields, node.ndim, axes)
    run = run_of(node, fields, axes, out, threads)
    taken = taken_of(node.compiled, node.call.scalars, core, names.index)

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        return run([values[k] for k in at], numbers_of(taken, values), out)

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


def _with_ghosts(
    node: Node, names: Sequence[str], values: Sequence[Any], at: Sequence[int], place: Place
) -> Prepared | None:
    """Bind a call whose border has conditions; a border that it is given is its last value."""
    if node.thins and not node.compiled.every:
        return None
    fields, count, axes = [values[k] for k in at], len(values), place.axes
    if axes is not None:
        axes = behind(axes, max(field.ndim for field in fields), node.ndim)
    core = core_shape(fields, node.ndim, axes)
    program = node.program.within(core)
    run = ghosts.GhostCall(node, program, fields, node.boundary, axes, place.out, place.threads)
    taken = taken_of(node.compiled, node.call.scalars, core, names.index)

    last: list[Any] = [None, node.boundary]

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        boundary = node.boundary
        if len(values) > count:
            given, boundary = last
            if values[-1] is not given:
                boundary = ghosts.given_boundary(values[-1])
                last[:] = values[-1], boundary
        return run([values[k] for k in at], numbers_of(taken, values), boundary, out)

    return call


def run_of(node: Node, fields: Sequence[Array], axes: Any, out: Any, threads: int | None) -> Run:
    """Prepare one call of a graph."""
    along = behind(axes, max(field.ndim for field in fields), node.ndim)
    if node.thins:
        steps = (1,) * node.ndim
        if node.compiled.every:
            steps = steps_made(fields, along, node.every)
        if steps != node.every:
            return _thinned(node, steps, fields, axes, threads)
    return Executable(node.program, fields, node.border, node.cval, axes, out, threads)


def _thinned(
    node: Node, steps: Steps, fields: Sequence[Array], axes: Any, threads: int | None
) -> Run:
    """Prepare a call that has such steps, or none, and take the points that are wanted."""
    whole = run_of(node.with_steps(steps), fields, axes, None, threads)
    rest = steps_left(node.every, steps)
    rank = max(field.ndim for field in fields)
    along = behind(axes, rank, node.ndim)

    def run(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Any:
        made = whole(fields, numbers, None)
        if made is None:
            return None
        if out is None:
            copies = tuple(thinned_copy(one, rest, along) for one in listed(made))
            return copies[0] if len(copies) == 1 else copies
        results = [thinned(one, rest, along) for one in listed(made)]
        targets = listed(out)
        if are_writable(targets, ()):
            for target, one in zip(targets, results, strict=True):
                write(target, one)
        else:
            return None
        return targets[0] if len(targets) == 1 else tuple(targets)

    return run


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
