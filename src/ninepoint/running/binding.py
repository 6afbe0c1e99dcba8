"""Bound calls: what does a call on arrays in memory, and all those like it.

    call, values of parameters      ->     what takes values of parameters, and gives the results

What does the calls is bound to the arrays of the first one, and remembered by whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from ..arrays.accepted import is_cupy
from ..arrays.borders import Boundary
from ..arrays.executable import SPLIT_POINTS, note_pace, threads_for
from ..arrays.ghosts import GhostCall
from ..arrays.launching import OneCall, bind_call
from ..arrays.numpy import behind, core_shape, each_out
from ..arrays.regions import Block
from ..arrays.work import Work, taken
from ..backends.memory import LEAST
from ..backends.threads import CREW_HANDOFF
from ..backends.universal import Elements
from ..program.calls import Call, Leaves, flow_of
from ..program.graph import Node, graph_of, has_conditions
from ..program.options import Place
from ..program.program import BoundProgram, Program, Taken, numbers_of, taken_of
from .dispatch import typed

# Calls on more elements are done the ordinary way, which shares them among threads.
MOST = 1 << 16

# Values of all parameters, numbers of all calls, out -> result.
BoundCall: TypeAlias = Callable[[Sequence[Any], Leaves, Any], Any]


def bound(call: Call, values: Sequence[Any], place: Place) -> BoundCall | None:
    """How calls like this one are done; nothing where that depends on more than their kind.

    `values` are those of all parameters.
    """
    definition = call.definition
    at = [definition.parameters.index(name) for name in definition.fields]
    fields = [values[k] for k in at]
    there = all(map(is_cupy, fields))
    if not there and any(type(field) is not np.ndarray for field in fields):
        return None
    flow = flow_of(definition)
    if not flow.settled:
        return None
    place.check(fields)
    fields, types = typed(definition, fields)
    graph, wanted = graph_of(call, types)
    if not there:
        graph.warn()
    single = definition.stages is None and not there
    if single and not graph.places and not graph.nodes[0].factors:
        (node,), names = graph.nodes, definition.parameters
        core = core_shape(fields, node.ndim, place.axes)
        step = _one_call(node, fields, place)
        if step is not None:
            told = taken_of(node.compiled, call.scalars, core, names.index)
            return _single(step, told, at, len(values))
    if has_conditions(graph):
        return None
    program = Program(graph, wanted, definition.schedule_for(types))
    program = program.along(place.axes, fields)
    run = BoundProgram(program, fields, place.out, place.threads)

    def several(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        made = run([values[k] for k in at], run.told(leaves or flow.of(values)[0]), out)
        return made[0] if len(made) == 1 else tuple(made)

    return several


def _one_call(node: Node, fields: Sequence[Any], place: Place) -> OneCall | None:
    """What does a node on arrays of NumPy; nothing where points are left out afterwards."""
    if place.axes is not None:
        node = node.turned(behind(place.axes, max(field.ndim for field in fields), node.ndim))
    inputs = dict(enumerate(fields))
    work = Work([node], node.outputs, Block(tuple(fields)), threads=place.threads)
    given = () if place.out is None else each_out(place.out, len(node.outputs))
    outs = dict(zip(node.outputs, given, strict=False))
    step = bind_call(work, node, inputs, outs)
    return step if isinstance(step, OneCall) else None


def _single(step: OneCall, told: Taken, at: Sequence[int], count: int) -> BoundCall:
    """What does calls of one stencil; a border of conditions may be given behind all values."""
    run, plain = step.run, not any(indices for _, indices in step.fields)
    last: list[Any] = [None, None]

    def call(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        fields = [values[k] for k in at]
        if not plain:
            fields = taken(fields, step.fields)
        numbers = numbers_of(told, values) if told else ()
        if len(values) == count or not isinstance(run, GhostCall):
            return run(fields, numbers, out)
        if values[-1] is not last[0]:
            last[:] = values[-1], Boundary.of(values[-1])
        return run(fields, numbers, out, last[1])

    return call


class Quick:
    """Calls of a function of numbers on arrays of one shape that is not large, once more.

    To look at types and shapes takes a fraction of the microseconds in which all else that a call
    may be is found out (see `arrays.keys`).  What is not quick after all gives nothing.

    `kinds` are the types of the values, `at` where the fields are that are arrays, `order` where
    the function of NumPy's finds what it takes; `pace` is the kernel's.  Calls that take long are
    none of these: the ordinary way shares them among threads.
    """

    __slots__ = (
        "_at", "_call", "_check", "_first", "_most", "_order", "_out", "_pace", "kinds",
    )  # fmt: skip

    def __init__(
        self,
        elements: Elements,
        values: Sequence[Any],
        at: Sequence[int],
        order: Sequence[int],
        pace: list[float],
    ) -> None:
        self.kinds = list(map(type, values))
        self._first = at[0]
        self._at = tuple([(k, values[k].dtype) for k in at])
        self._order = None if list(order) == list(range(len(values))) else tuple(order)
        self._call, self._check = elements.call, elements.check
        (self._out, *more) = elements.out_dtypes
        itemsize = max(dtype.itemsize for dtype in (self._out, *more))
        # Larger results are made of memory that is warm.
        self._most = min(MOST, (LEAST - 1) // itemsize)
        self._pace = pace

    def call(self, values: Sequence[Any], out: Any) -> Any:
        """What a call gives; nothing if it is not one of these."""
        first = values[self._first]
        shape, size = first.shape, first.size
        if not shape or size > self._most:
            return None
        for k, dtype in self._at:
            one = values[k]
            if (one.dtype is not dtype and one.dtype != dtype) or one.shape != shape:
                return None
        if out is not None and (
            type(out) is not np.ndarray or out.dtype != self._out or out.shape != shape
        ):
            return None
        if size < SPLIT_POINTS:
            return self._alone(values, out)
        if threads_for(self._pace, size, None, CREW_HANDOFF) > 1:
            return None
        began = perf_counter()
        made = self._alone(values, out)
        note_pace(self._pace, size, perf_counter() - began, 1)
        return made

    def _alone(self, values: Sequence[Any], out: Any) -> Any:
        if self._order is not None:
            values = [values[k] for k in self._order]
        try:
            made = self._call(*values) if out is None else self._call(*values, out=out)
        except (TypeError, ValueError, OverflowError):
            # What is wrong is said in our own words.
            return None
        self._check()
        return made


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
    return Quick(elements, values, at, [*at, *map(names.index, numbers)], compiled.pace)
