"""Prepared programs: the calls of a graph, on arrays and numbers like those of a call before.

    graph, plan, arrays       ->  a step for each call
    run(fields, leaves, out)  ->  results

Small arrays are done call by call, each of them an `Executable`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .arrays.accepted import native
from .arrays.arranging import are_writable
from .arrays.axes import behind, whole_shape
from .arrays.bands import run_fused
from .arrays.borders import Array
from .arrays.channels import may_hold
from .arrays.executable import Executable
from .arrays.fused import can_fuse
from .arrays.lanes import made_like, width_of
from .arrays.merging import looks_at_points, merging
from .arrays.numpy import core_shape
from .arrays.recognise import is_cupy, listed
from .arrays.views import plain, spread, stacked
from .backends.memory import empty
from .backends.threads import thread_count
from .bound_calls import (
    Prepared,
    Step,
    into_of,
    joint_numbers,
    lies_of,
    no_way,
    one_by_one,
    single,
    step_of,
)
from .calls import Call
from .flow import Flow, Leaves
from .ghosts import has_ghosts
from .graph import Graph, Node, graph_of
from .lowering.schedule import Schedule
from .options import Place
from .planning import Group, plan
from .running import evaluate, least_axes, reaching

# Programs whose calls make more bytes than this are done the ordinary way: beside the rest, to
# find out how takes no time.
SMALL_BYTES = 8 << 20


def prepared(call: Call, flow: Flow | None, values: Sequence[Any], place: Place) -> Prepared:
    """How calls like this one, which went well, are done from now on.

    `values` are those of all parameters; `flow` is that of a definition which calls others.
    """
    definition = call.definition
    names, axes, out, threads = definition.parameters, place.axes, place.out, place.threads
    at = [names.index(name) for name in definition.fields]
    types = [native(values[k].dtype) for k in at]
    graph, wanted = graph_of(call, types)
    if has_ghosts(graph):
        return no_way
    if graph.places:
        return _with_positions(graph, wanted, call, flow, at, values, place)
    if flow is None:
        (node,) = graph.nodes
        fields = [values[k] for k in at]
        if node.factors or node.thins or not any(map(is_cupy, fields)):
            return no_way
        # Imported here: CuPy is optional, and the caller has it.
        from . import device_preparing

        return device_preparing.single(node, fields, names, at, axes, out)
    if not flow.settled:
        return no_way
    schedule = definition.schedule_for(types)
    return several(graph, wanted, schedule, at, values, out, threads, axes)


def _with_positions(
    graph: Graph,
    wanted: Sequence[int],
    call: Call,
    flow: Flow | None,
    at: Sequence[int],
    values: Sequence[Any],
    place: Place,
) -> Prepared:
    """The same where calls ask for positions, which are those of all arrays of a shape."""
    fields = [values[k] for k in at]
    if any(map(is_cupy, fields)) or (flow is not None and not flow.settled):
        return no_way
    if any(node.factors for node in graph.nodes):
        return no_way
    along = graph
    if place.axes is not None:
        rank = len(whole_shape(fields))
        along = graph.along(behind(place.axes, rank, graph.nodes[-1].ndim))
    positions = along.positions([field.shape for field in reaching(along, fields)])
    count = len(values)
    at = [*at, *range(count, count + len(positions))]
    if flow is None:
        # Once for all calls.
        whole = whole_shape(fields)
        positions = [np.broadcast_to(one, whole) for one in positions]
        given, names = [*values, *positions], call.definition.parameters
        inner = single(graph, names, given, place.axes, place.out, place.threads, at)
    else:
        schedule = call.definition.schedule_for([native(field.dtype) for field in fields])
        options = place.out, place.threads, place.axes
        inner = several(graph, wanted, schedule, at, [*values, *positions], *options)

    def again(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        return inner([*values[:count], *positions], leaves, out)

    return again


def several(
    graph: Graph,
    wanted: Sequence[int],
    schedule: Schedule,
    at: Sequence[int],
    values: Sequence[Any],
    out: Any,
    threads: int | None,
    axes: Any = None,
) -> Prepared:
    """Prepare a program of several calls; the values at `at` are its fields."""
    fields = [values[k] for k in at]
    if has_ghosts(graph) or any(node.factors for node in graph.nodes):
        return no_way
    if any(map(is_cupy, fields)):
        if any(node.thins for node in graph.nodes):
            return no_way
        # Imported here: CuPy is optional, and the caller has it.
        from . import device_preparing

        return device_preparing.several(graph, wanted, schedule, at, fields, out, axes)
    if axes is not None:
        return _along(axes, graph, wanted, schedule, at, fields, out, threads)
    least = least_axes(graph, [field.ndim for field in fields])
    if any(field.ndim < n or not field.size for field, n in zip(fields, least, strict=True)):
        return no_way
    groups = plan(graph, wanted, schedule).groups
    if len(groups) == 1 and _is_one(groups[0], fields) and set(groups[0].outputs) == set(wanted):
        targets = dict(zip(wanted, listed(out), strict=False))
        whole = _joint_step(graph, groups[0], fields, targets, threads)
        if whole.outputs == tuple(wanted):
            return _alone(whole, at)
        return one_by_one([whole], len(graph.dtypes), at, wanted)
    thin = any(node.thins for node in graph.nodes)
    if len(groups) == 1 and not thin and not _moved(groups[0]) and _together(groups[0], fields):
        return _in_one_pass(graph, groups[0], wanted, at, fields, out, threads)
    shapes = graph.shapes(field.shape for field in fields)
    made = zip(shapes[len(fields) :], graph.dtypes[len(fields) :], strict=True)
    small = sum(math.prod(shape) * dtype.itemsize for shape, dtype in made) <= SMALL_BYTES
    known: list[Any] = list(fields)
    if small:
        for node in graph.nodes:
            inputs = [known[value] for value in node.fields]
            known += [_result(node, inputs, shapes[k], graph.dtypes[k]) for k in node.outputs]
    if not small or any(_together(g, known) for g in groups if not _is_one(g, known)):
        if any(node.call.scalars for node in graph.nodes):
            return no_way
        return _as_ever(graph, wanted, schedule, at, threads)
    targets = dict(zip(wanted, listed(out), strict=False))
    steps: list[Step] = []
    for group in groups:
        ones: Sequence[Group | Node] = [group] if _is_one(group, known) else group.nodes
        for one in ones:
            if len({value in targets for value in one.outputs}) > 1:
                return no_way
            steps.append(
                _joint_step(graph, one, known, targets, threads)
                if isinstance(one, Group)
                else step_of(graph, one, known, targets, threads)
            )
    return one_by_one(steps, len(graph.dtypes), at, wanted)


def _joint_step(
    graph: Graph,
    group: Group,
    known: Sequence[Any],
    targets: Mapping[int, Array],
    threads: int | None,
) -> Step:
    """Prepare the calls of a group that are one."""
    one = group.joint
    assert one is not None
    into = into_of(one.outputs, targets)
    inputs = [known[value] for value in one.fields]
    axes = one.along if _moved(group) else None
    numbers = joint_numbers(graph, group, core_shape(inputs, len(one.along), axes))
    run = Executable(one.program, inputs, one.border, one.cval, axes, into, threads)
    lies = lies_of(graph, one.fields, known)
    return Step(run, one.fields, one.outputs, numbers, into is not None, lies)


def _in_one_pass(
    graph: Graph,
    group: Group,
    wanted: Sequence[int],
    at: Sequence[int],
    fields: Sequence[Array],
    out: Any,
    threads: int | None,
) -> Prepared:
    """Prepare a pass over fields of one shape; at the ends, the calls are done one by one."""
    program = group.program
    assert program is not None
    ndim, read, shape = program.ndim, group.fields, fields[group.fields[0]].shape
    core = shape[len(shape) - ndim :]
    outs = listed(out)
    if set(group.outputs) != set(wanted) or not all(
        plain(one, graph.dtypes[value], ndim) for value, one in zip(wanted, outs, strict=False)
    ):
        return no_way
    numbers = joint_numbers(graph, group, core)
    ends: dict[Any, Prepared] = {}

    def at_ends(leaves: Leaves, axis: int, pieces: Sequence[Array]) -> list[Array]:
        key = tuple([piece.shape for piece in pieces])
        run = ends.get(key)
        if run is None:
            known: list[Any] = [None] * len(graph.dtypes)
            for value, piece in zip(read, pieces, strict=True):
                known[value] = piece
            for node in group.nodes:
                for value in node.outputs:
                    known[value] = empty(pieces[0].shape, graph.dtypes[value])
            steps = [step_of(graph, node, known, {}, 1, core) for node in group.nodes]
            given = range(graph.given)
            run = ends[key] = one_by_one(steps, len(graph.dtypes), given, group.outputs)
        values: list[Any] = [None] * graph.given
        for value, piece in zip(read, pieces, strict=True):
            values[value] = piece
        return listed(run(values, leaves, None))

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        given = [values[at[value]] for value in read]
        results = listed(out)
        if not are_writable(results, given):
            return None
        if out is None:
            results = [empty(shape, graph.dtypes[value]) for value in wanted]
        made = dict(zip(wanted, results, strict=True))
        run_fused(
            program.with_numbers(numbers(leaves)),
            partial(at_ends, leaves),
            [stacked(field, ndim) for field in spread(given, program.positions)],
            [stacked(made[value], ndim) for value in group.outputs],
            thread_count(threads),
            group.tile,
            ((True, True),) * ndim,
        )
        return results[0] if len(results) == 1 else tuple(results)

    return call


def _along(
    axes: Any,
    graph: Graph,
    wanted: Sequence[int],
    schedule: Schedule,
    at: Sequence[int],
    fields: Sequence[Array],
    out: Any,
    threads: int | None,
) -> Prepared:
    """Prepare a program that works along axes of fields, as one along the last axes of views."""
    rank = fields[0].ndim
    if any(field.ndim != rank for field in fields):
        return no_way
    core = [axis % rank for axis in behind(axes, rank, graph.nodes[-1].ndim)]
    order = (*(axis for axis in range(rank) if axis not in core), *core)
    back = tuple(order.index(axis) for axis in range(rank))

    def turned(out: Any) -> Any:
        return None if out is None else tuple([one.transpose(order) for one in listed(out)])

    views = [field.transpose(order) for field in fields]
    if any(map(may_hold, views)):
        # The ordinary way would ask again whether these are colour images.
        return no_way
    inner = several(graph, wanted, schedule, range(len(at)), views, turned(out), threads)

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        views = [values[k].transpose(order) for k in at]
        made = inner(views, leaves, turned(out))
        if made is None:
            return None
        results = listed(out) or [one.transpose(back) for one in listed(made)]
        return results[0] if len(results) == 1 else tuple(results)

    return call


def _result(node: Node, fields: Sequence[Array], shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """Give an array that lies in memory as one that a call makes of such fields."""
    whole = np.broadcast_shapes(*(field.shape for field in fields))
    inputs = [np.broadcast_to(field, whole) for field in fields]
    if looks_at_points(node.program):
        found = merging(inputs)
        return found.back(empty(found.merged, dtype))
    core = [axis % len(shape) for axis in node.along]
    order = [*(axis for axis in range(len(shape)) if axis not in core), *core]
    inputs = [field.transpose(order) for field in inputs]
    made = made_like(node.program, inputs, tuple(shape[axis] for axis in order), dtype)
    return made.transpose(np.argsort(order))


def _together(group: Group, known: Sequence[Array]) -> bool:
    """Whether the calls of a group are done in one pass over arrays like these."""
    if group.program is None:
        return False
    arrays = [known[value] for value in group.fields]
    return _moved(group) or can_fuse(group, group.program, arrays)


def _is_one(group: Group, known: Sequence[Array]) -> bool:
    """Whether the calls of a group are one call on arrays like these."""
    one = group.joint
    if one is None:
        return False
    ends = tuple(range(-len(one.along), 0))
    arrays = [known[value] for value in one.fields]
    if any(array.ndim < -min(one.along) for array in arrays):
        return False
    turned = [np.moveaxis(array, one.along, ends) for array in arrays]
    return one.takes([array.shape for array in turned], width_of(turned, len(ends)))


def _moved(group: Group) -> bool:
    """Whether its calls work along other axes than the last ones in their order."""
    node = group.nodes[0]
    return node.along != tuple(range(-node.ndim, 0))


def _as_ever(
    graph: Graph,
    wanted: Sequence[int],
    schedule: Schedule,
    at: Sequence[int],
    threads: int | None,
) -> Prepared:
    """The ordinary way of a graph without numbers."""

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        fields = [values[k] for k in at]
        made = evaluate(graph, fields, wanted, schedule, out=out, threads=threads)
        return made[0] if len(made) == 1 else tuple(made)

    return call


def _alone(step: Step, at: Sequence[int]) -> Prepared:
    """One call, whose results are those of the program in their order."""
    run, numbers = step.run, step.numbers
    places = [at[value] for value in step.fields]

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        return run([values[k] for k in places], numbers(leaves), out)

    return call
