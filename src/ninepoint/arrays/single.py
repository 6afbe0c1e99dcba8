"""Single nodes: each call by itself, on what of its fields is there.

At open sides of a block a node gives as much less as it looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..backends.memory import empty
from . import phases
from .axes import Behind
from .borders import Array, Border, Rule
from .every import Steps, steps_left, thinned_copy
from .executable import Executable, apply
from .lanes import steps_made
from .layout import Shape
from .numpy import core_shape
from .recognise import is_cupy, listed
from .regions import Node, closed
from .work import Spans, Work, index_of


def one_by_one(
    work: Work,
    nodes: Sequence[Node],
    values: Mapping[int, Array],
    wanted: Sequence[int],
    threads: int | None,
    outs: Mapping[int, Array],
) -> dict[int, Array]:
    """What the nodes make, each call by itself."""
    known = dict(values)
    for position, node in enumerate(nodes):
        known |= node_alone(work, node, [known[value] for value in node.fields], threads, outs)
        later = {value for other in nodes[position + 1 :] for value in other.fields}
        for value in [v for v in known if v not in later and v not in wanted]:
            del known[value]
    return {value: known[value] for value in wanted if value in known}


def node_alone(
    work: Work,
    node: Node,
    fields: Sequence[Array],
    threads: int | None,
    outs: Mapping[int, Array],
) -> dict[int, Array]:
    """What one node makes; notes where it stands."""
    if node.thins and (steps := _steps(node, fields)) != node.every:
        made = node_alone(work, node.with_steps(steps), fields, threads, full([node], outs))
        if work.noted is not None:
            work.noted.otherwise()
        return thinned([node], made, steps)
    border, along = node.border, node.along
    fields = phases.cut_fields(fields, node.fields, work.finer)
    spans: dict[int, Spans] = dict.fromkeys(node.outputs, ())
    values: list[tuple[int, Any]] = [(value, None) for value in node.fields]
    if work.shape is not None:
        taken = work.takes[id(node)]
        pairs = zip(fields, node.fields, strict=True)
        values = [(value, index_of(field, work.at[value], taken)) for field, value in pairs]
        fields = [
            field if index is None else field[index]
            for field, (_, index) in zip(fields, values, strict=True)
        ]
        border = _opened(node, taken, work.shape)
        spans = _made_at(node, border, taken)
        work.at |= spans
    ends = tuple(range(-len(along), 0))
    targets = [work.target(value, at, outs) for value, at in spans.items()]
    out: Any = None if any(one is None for one in targets) else tuple(targets)
    if along != ends:
        fields = [np.moveaxis(ranked(field, along), along, ends) for field in fields]
        out = out and tuple(np.moveaxis(one, along, ends) for one in out)
    program = node.program
    whole = work.whole or (work.lengths and tuple(work.lengths[axis] for axis in along))
    if whole is not None:
        program = program.within(whole)
    if node.factors:
        compute = partial(_applied(fields), program, threads=threads)
        results = tuple(
            phases.apply(compute, program, fields, node.factors, border, node.cval, out, empty)
        )
        noted = None
    elif any(map(is_cupy, fields)):
        made = _applied(fields)(
            program, fields, border=border, cval=node.cval, out=out, threads=threads
        )
        results, noted = tuple(listed(made)) if not isinstance(made, tuple) else made, None
    else:
        # Another array of this shape is as long.
        program = program.within(core_shape(fields, program.ndim, None))
        noted = Executable(program, fields, border, node.cval, None, out, threads)
        numbers = (*program.coefficients, *program.scalars)
        results = tuple(listed(noted(fields, numbers, out)))
    if work.noted is not None:
        if noted is None or along != ends:
            work.noted.otherwise()
        else:
            work.noted.called(noted, values, numbers, node.outputs, out is not None)
    if along != ends:
        results = tuple(np.moveaxis(one, ends, along) for one in results)
    return dict(zip(node.outputs, results, strict=True))


def _steps(node: Node, fields: Sequence[Array]) -> Steps:
    """The steps with which a node is done, after which what is not wanted is left out."""
    if not node.program.every or any(map(is_cupy, fields)):
        return (1,) * len(node.every)
    return steps_made(fields, node.along, node.every)


def _made_at(node: Node, border: Border, taken: Spans) -> dict[int, Spans]:
    """Where the results of a node stand, made of fields that stand so, by this border."""
    found = {}
    for value, reaches in zip(node.outputs, node.reaches, strict=True):
        spans = list(taken)
        for k, axis in enumerate(node.along):
            (first, last), (before, after) = spans[axis], border.rules[k]
            start = first - min(0, reaches.lo[k]) if before == "valid" else first
            stop = last - max(0, reaches.hi[k]) if after == "valid" else last
            spans[axis] = start, max(start, stop)
        found[value] = tuple(spans)
    return found


def _applied(fields: Sequence[Array]) -> Any:
    """Find what applies a program to arrays where these are."""
    if not any(map(is_cupy, fields)):
        return apply
    # Imported here: CuPy is optional, and the caller has it.
    from . import cuda

    return cuda.apply


def ranked(field: Array, along: Behind) -> Array:
    """The field with all axes of a node; beside others it may have fewer."""
    return field[(None,) * max(0, -min(along) - field.ndim)]


def _opened(node: Node, taken: Spans, shape: Shape) -> Border:
    """The border of a node on fields that stand so: open sides have no neighbours."""
    rules: list[tuple[Rule, Rule]] = []
    for axis, (before, after) in zip(node.along, node.border.rules, strict=True):
        low, high = closed(node, axis, taken[axis], shape[axis])
        rules.append((before if low else "valid", after if high else "valid"))
    return Border(tuple(rules))


def full(nodes: Sequence[Node], outs: Mapping[int, Array]) -> Mapping[int, Array]:
    """The arrays to write to, as far as all points of them are wanted."""
    thin = {value for node in nodes if node.thins for value in node.outputs}
    return {value: out for value, out in outs.items() if value not in thin} if thin else outs


def thinned(nodes: Sequence[Node], made: dict[int, Array], before: Steps = ()) -> dict[int, Array]:
    """What is wanted of what nodes give that make all points, or have the steps `before`."""
    for node in nodes:
        if node.thins:
            steps = steps_left(node.every, before) if before else node.every
            for value in set(node.outputs) & made.keys():
                # A copy, for the rest of the memory is needed by nobody.
                made[value] = thinned_copy(made[value], steps, node.along)
    return made
