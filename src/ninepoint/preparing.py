"""Prepared programs: the calls of a graph, on arrays and numbers like those of a call before.

    graph, plan, arrays       ->  a step for each call
    run(fields, leaves, out)  ->  results

Small arrays are done call by call, each of them prepared (see `arrays.prepared`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from .arrays.accepted import native
from .arrays.arranging import Run, are_writable, listed
from .arrays.axes import Behind, behind, whole_shape
from .arrays.bands import run_fused
from .arrays.borders import Array
from .arrays.channels import may_hold
from .arrays.numpy import core_shape
from .arrays.prepared import Options, no_way, prepare
from .arrays.quick import Quick
from .arrays.recognise import is_cupy
from .arrays.run import can_fuse
from .arrays.views import plain, stacked
from .backends.compiled import Compiled, computed, readable
from .backends.memory import empty
from .backends.threads import thread_count
from .calls import Call
from .device_groups import passes, settled
from .flow import Flow, Leaves
from .graph import Graph, Node, graph_of
from .language import ir
from .lowering.schedule import Schedule
from .options import Place
from .planning import Group, lowered, plan
from .running import evaluate, least_axes

# Values of all parameters, numbers of all calls, out -> result; None if the call must be done the
# ordinary way.
Prepared: TypeAlias = Callable[[Sequence[Any], Leaves, Any], Any]

# Where each number of a call is found, and how it is converted, if it is; or None and a number
# that calls with equal keys have in common.
Taken: TypeAlias = Sequence[tuple[Any, Any]]

# The numbers of one call, or of several that are done as one, from those of all calls.
Numbers: TypeAlias = Callable[[Leaves], list[Any]]

# Programs whose calls make more bytes than this are done the ordinary way: beside the rest, to
# find out how takes no time.
SMALL_BYTES = 8 << 20


# Machine code takes Python's numbers.
_KINDS: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a program: what it reads and makes, by number, and how it gets its numbers.

    With `out` it writes to arrays that are there; all of what it makes is wanted then.
    """

    run: Run
    fields: tuple[int, ...]
    outputs: tuple[int, ...]
    numbers: Numbers
    out: bool


def prepared(call: Call, flow: Flow | None, values: Sequence[Any], place: Place) -> Prepared:
    """How calls like this one, which went well, are done from now on.

    `values` are those of all parameters; `flow` is that of a definition which calls others.
    """
    definition = call.definition
    names, axes, out, threads = definition.parameters, place.axes, place.out, place.threads
    at = [names.index(name) for name in definition.fields]
    types = [native(values[k].dtype) for k in at]
    graph, wanted = graph_of(call, types)
    if flow is None:
        return single(graph, names, values, axes, out, threads)
    if not flow.settled:
        return no_way
    schedule = definition.schedule_for(types)
    return several(graph, wanted, schedule, at, values, out, threads, axes)


def quick(
    call: Call, values: Sequence[Any], ordinary: Callable[[Sequence[Any], Any], Any]
) -> Quick | None:
    """How calls of a function of numbers are done at once; `values` are those of all parameters.

    `ordinary` does any call from values and `out`.  Nothing where calls need more than NumPy's
    function for their types, as half floats do.
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
    return Quick(elements, values, at, [*at, *map(names.index, numbers)], ordinary)


def single(
    graph: Graph,
    names: Sequence[str],
    values: Sequence[Any],
    axes: Any,
    out: Any,
    threads: int | None,
) -> Prepared:
    """Prepare a call that is the only one of a graph, for values of parameters of these names."""
    (node,) = graph.nodes
    at = [names.index(name) for name in node.call.definition.fields]
    fields = [values[k] for k in at]
    if any(map(is_cupy, fields)):
        return _single_on_device(node, fields, names, at, axes, out)
    run = _run(node, fields, axes, out, threads)
    core = core_shape(fields, node.ndim, axes)
    taken = _taken(node.compiled, node.call.scalars, core, names.index)

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        return run([values[k] for k in at], _numbers(taken, values), out)

    return call


def _single_on_device(
    node: Node, fields: Sequence[Any], names: Sequence[str], at: Sequence[int], axes: Any, out: Any
) -> Prepared:
    """The same for arrays of a GPU."""
    # Imported here: CuPy is optional, and the caller has it.
    from .arrays import cuda

    with cuda.beside(fields) as device:
        options = Options(node.border, node.cval, None)
        run = cuda.prepare(node.program, fields, options, listed(out) or None, axes).quick
    current = cuda.current()
    core = core_shape(fields, node.ndim, axes)
    taken = _taken(node.compiled, node.call.scalars, core, names.index)

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        given = [values[k] for k in at]
        if device != current():
            with cuda.beside(given):
                return run(given, _numbers(taken, values), out)
        return run(given, _numbers(taken, values), out)

    return call


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
    if any(map(is_cupy, fields)):
        return _on_device(graph, wanted, schedule, at, fields, out, axes)
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
        return _one_by_one([whole], len(graph.dtypes), at, wanted)
    if len(groups) == 1 and not _moved(groups[0]) and _together(groups[0], fields):
        return _in_one_pass(graph, groups[0], wanted, at, fields, out, threads)
    shapes = graph.shapes(field.shape for field in fields)
    made = zip(shapes[len(fields) :], graph.dtypes[len(fields) :], strict=True)
    small = sum(math.prod(shape) * dtype.itemsize for shape, dtype in made) <= SMALL_BYTES
    known: list[Any] = list(fields)
    if small:
        for node in graph.nodes:
            known += [_result(shapes[k], graph.dtypes[k], node.axes) for k in node.outputs]
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
                else _step(graph, one, known, targets, threads)
            )
    return _one_by_one(steps, len(graph.dtypes), at, wanted)


def _step(
    graph: Graph,
    node: Node,
    known: Sequence[Any],
    targets: Mapping[int, Array],
    threads: int | None,
    whole: Sequence[int] | None = None,
) -> Step:
    """Prepare a call on arrays by number, of which some are `targets`.

    The arrays may be parts of one with the core axes `whole`.
    """
    into = _into(node.outputs, targets)
    inputs = [known[value] for value in node.fields]
    core = core_shape(inputs, node.ndim, node.axes) if whole is None else whole
    taken = _taken(node.compiled, node.call.scalars, core, str)
    leaf = graph.added.index(node.outputs)
    return Step(
        _run(node, inputs, node.axes, into, threads),
        node.fields,
        node.outputs,
        lambda leaves: _numbers(taken, leaves[leaf]),
        into is not None,
    )


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
    into = _into(one.outputs, targets)
    inputs = [known[value] for value in one.fields]
    axes = one.along if _moved(group) else None
    numbers = _joint_numbers(graph, group, core_shape(inputs, len(one.along), axes))
    options = Options(one.border, one.cval, threads)
    run = prepare(one.program, one.program.compiled.entry, inputs, options, into, axes)
    return Step(run, one.fields, one.outputs, numbers, into is not None)


def _into(outputs: Sequence[int], targets: Mapping[int, Array]) -> tuple[Array, ...] | None:
    """The arrays to write to, which all outputs have, or none."""
    return tuple([targets[v] for v in outputs]) if outputs[0] in targets else None


def _joint_numbers(graph: Graph, group: Group, core: Sequence[int]) -> Numbers:
    """Say how the numbers of a group's kernel are found: first all coefficients, then scalars."""
    found: list[tuple[int, Taken, int]] = []
    for node in group.nodes:
        forms = lowered(graph, node)
        assert not isinstance(forms, str)
        one = forms.compiled
        taken = _taken(one, node.call.scalars, core, str)
        found.append((graph.added.index(node.outputs), taken, len(one.coefficients)))

    def numbers(leaves: Leaves) -> list[Any]:
        each = [(_numbers(taken, leaves[leaf]), count) for leaf, taken, count in found]
        coefficients = [number for some, count in each for number in some[:count]]
        return coefficients + [number for some, count in each for number in some[count:]]

    return numbers


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
    numbers = _joint_numbers(graph, group, core)
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
            steps = [_step(graph, node, known, {}, 1, core) for node in group.nodes]
            given = range(graph.given)
            run = ends[key] = _one_by_one(steps, len(graph.dtypes), given, group.outputs)
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
            [stacked(field, ndim) for field in given],
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


def _on_device(
    graph: Graph,
    wanted: Sequence[int],
    schedule: Schedule,
    at: Sequence[int],
    fields: Sequence[Any],
    out: Any,
    axes: Any,
) -> Prepared:
    """Prepare a program on arrays of a GPU: in as few passes as can be."""
    # Imported here: CuPy is optional, and the caller has it.
    from .arrays import cuda

    turned = graph
    if axes is not None:
        shape = whole_shape(fields)
        turned = graph.along(behind(axes, len(shape), graph.nodes[-1].ndim))
    least = least_axes(turned, [field.ndim for field in fields])
    if any(field.ndim < n for field, n in zip(fields, least, strict=True)):
        return no_way
    targets = dict(zip(wanted, listed(out), strict=False))
    known: list[Any] = [*fields, *([None] * (len(graph.dtypes) - len(fields)))]
    steps: list[Step] = []
    with cuda.beside(fields):
        for nodes in passes(turned, wanted, schedule):
            joined = _pass_step(graph, turned, nodes, wanted, schedule, known, targets)
            for part in [joined] if joined is not None else nodes:
                if len({value in targets for value in part.outputs}) > 1:
                    return no_way
                step = part
                if isinstance(part, Node):
                    step = _step(graph, part, known, targets, None)
                assert isinstance(step, Step)
                assert isinstance(step.run, cuda.Settled)
                made = _into(step.outputs, targets) or listed(step.run.blank())
                for value, one in zip(step.outputs, made, strict=True):
                    known[value] = one
                steps.append(replace(step, run=step.run.quick))
    known.clear()
    inner = _one_by_one(steps, len(graph.dtypes), at, wanted, cuda.are_apart)

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        with cuda.beside([values[at[0]]]):
            return inner(values, leaves, out)

    return call


def _pass_step(
    graph: Graph,
    turned: Graph,
    nodes: Sequence[Node],
    wanted: Sequence[int],
    schedule: Schedule,
    known: Sequence[Any],
    targets: Mapping[int, Any],
) -> Step | None:
    """Prepare calls on arrays of a GPU in one pass; nothing where they have to be done singly."""
    found = settled(turned, nodes, wanted, schedule, known, targets)
    if found is None:
        return None
    one, run = found
    group = Group(tuple(nodes), one.fields, one.outputs)
    core = tuple(known[one.fields[0]].shape[axis] for axis in nodes[-1].along)
    into = _into(one.outputs, targets)
    return Step(run, one.fields, one.outputs, _joint_numbers(graph, group, core), into is not None)


def _result(shape: tuple[int, ...], dtype: np.dtype, axes: Behind | None) -> Array:
    """Give an array as a call that names `axes` makes it: those come last in memory."""
    core = [axis % len(shape) for axis in axes or ()]
    order = [*(axis for axis in range(len(shape)) if axis not in core), *core]
    return empty(tuple(shape[axis] for axis in order), dtype).transpose(np.argsort(order))


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
    return one.takes([np.moveaxis(array, one.along, ends).shape for array in arrays])


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


def _one_by_one(
    steps: Sequence[Step],
    count: int,
    at: Sequence[int],
    wanted: Sequence[int],
    writable: Callable[[Sequence[Any], Sequence[Any]], bool] = are_writable,
) -> Prepared:
    """One call after the other; there are `count` values, of fields and of what calls make.

    What is given as `out` must be `writable` beside the fields.
    """
    unknown = [None] * (count - len(at))

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        fields = [values[k] for k in at]
        known: list[Any] = fields + unknown
        if out is not None:
            targets = listed(out)
            # What is written early must not be what is read late.
            if not writable(targets, fields):
                return None
            for value, target in zip(wanted, targets, strict=True):
                known[value] = target
        for step in steps:
            into = tuple([known[value] for value in step.outputs]) if step.out else None
            inputs = [known[value] for value in step.fields]
            results = step.run(inputs, step.numbers(leaves), into)
            if results is None:
                return None
            if into is None:
                for value, one in zip(step.outputs, listed(results), strict=True):
                    known[value] = one
        return known[wanted[0]] if len(wanted) == 1 else tuple([known[v] for v in wanted])

    return call


def _run(node: Node, fields: Sequence[Array], axes: Any, out: Any, threads: int | None) -> Run:
    """Prepare one call of a graph."""
    options = Options(node.border, node.cval, threads)
    if is_cupy(fields[0]):
        # Imported here: CuPy is optional, and the caller has it.
        from .arrays import cuda

        return cuda.prepare(node.program, fields, options, out, axes)
    return prepare(node.program, node.compiled.entry, fields, options, out, axes)


def _taken(
    compiled: Compiled,
    scalars: Mapping[str, Any],
    core: Sequence[int],
    place: Callable[[str], Any],
) -> Taken:
    """Say where the numbers of a call are found, and how machine code is given numbers like them.

    `place` says where the number of a name is.
    """
    taken: list[tuple[Any, Any]] = []
    for name, (dtype, _) in zip(compiled.coefficients, compiled.coefficient_types, strict=True):
        value, wanted = scalars[name], computed(dtype)
        as_it_is = readable(value, wanted) is value
        taken.append((place(name), None if as_it_is else partial(readable, dtype=wanted)))
    for one, scalar in zip(compiled.scalars, compiled.scalar_types, strict=True):
        if isinstance(one, ir.Length):
            taken.append((None, core[one.axis]))
            continue
        kind: type = _KINDS[scalar.numpy.kind]
        taken.append((place(one), None if type(scalars[one]) is kind else kind))
    return taken


def _numbers(taken: Taken, values: Any) -> list[Any]:
    """Give the numbers of a call, from values by place."""
    return [values[k] if to is None else to if k is None else to(values[k]) for k, to in taken]
