"""Prepared programs on arrays of a GPU: in as few passes as can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .arrays import cuda
from .arrays.axes import behind, whole_shape
from .arrays.executable import Options
from .arrays.numpy import core_shape
from .arrays.recognise import listed
from .bound_calls import (
    Prepared,
    Step,
    into_of,
    joint_numbers,
    no_way,
    numbers_of,
    one_by_one,
    step_of,
    taken_of,
)
from .device_groups import passes, settled
from .flow import Leaves
from .graph import Graph, Node
from .lowering.schedule import Schedule
from .planning import Group
from .running import least_axes


def single(
    node: Node, fields: Sequence[Any], names: Sequence[str], at: Sequence[int], axes: Any, out: Any
) -> Prepared:
    """The same for arrays of a GPU."""
    with cuda.beside(fields) as device:
        options = Options(node.border, node.cval, None)
        run = cuda.prepare(node.program, fields, options, listed(out) or None, axes).quick
    current = cuda.current()
    core = core_shape(fields, node.ndim, axes)
    taken = taken_of(node.compiled, node.call.scalars, core, names.index)

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        given = [values[k] for k in at]
        if device != current():
            with cuda.beside(given):
                return run(given, numbers_of(taken, values), out)
        return run(given, numbers_of(taken, values), out)

    return call


def several(
    graph: Graph,
    wanted: Sequence[int],
    schedule: Schedule,
    at: Sequence[int],
    fields: Sequence[Any],
    out: Any,
    axes: Any,
) -> Prepared:
    """Prepare a program on arrays of a GPU: in as few passes as can be."""
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
                    step = step_of(graph, part, known, targets, None)
                assert isinstance(step, Step)
                assert isinstance(step.run, cuda.Settled)
                made = into_of(step.outputs, targets) or listed(step.run.blank())
                for value, one in zip(step.outputs, made, strict=True):
                    known[value] = one
                steps.append(replace(step, run=step.run.quick))
    known.clear()
    inner = one_by_one(steps, len(graph.dtypes), at, wanted, cuda.are_apart)

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
    into = into_of(one.outputs, targets)
    return Step(run, one.fields, one.outputs, joint_numbers(graph, group, core), into is not None)
