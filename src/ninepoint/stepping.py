"""Single steps of an iteration: the calls of a graph, with the scalars of the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .arrays.accepted import refuse_foreign
from .arrays.borders import Array
from .arrays.chains import Numbers as Together
from .arrays.executable import Executable
from .arrays.launching import Launches
from .arrays.layout import Shape
from .arrays.numpy import broadcast_shape
from .arrays.repeating import Repeats
from .arrays.single import Given
from .arrays.work import Block
from .backends.compiled import Bound
from .backends.memory import empty
from .calls import Call, Flow, Leaves
from .graph import Graph, Node, graph_of
from .lowering.schedule import Schedule
from .program import Program, reaching
from .remembered import Remembered

# Of so many kinds of numbers it is remembered what the calls of a step are.
MANY = 16


@dataclass(frozen=True, slots=True)
class Record:
    """What each step is: a call on fields of these types, with the scalars of the step.

    What is only `looked` at warns of no slow kernel.
    """

    call: Call
    types: tuple[np.dtype, ...]
    looked: bool

    def __call__(
        self, types: Sequence[np.dtype], scalars: Mapping[str, Any]
    ) -> tuple[Graph, tuple[int, ...]]:
        """The calls of a step, and which of their values are the results.

        After the fields of the call there may be positions.
        """
        call, own = replace(self.call, scalars=scalars), types[: len(self.types)]
        return graph_of(call, own, looked=self.looked)


class Scalars:
    """The arguments that are no fields, some of which have a value for each step."""

    def __init__(self, values: Mapping[str, Any], arrays: Sequence[str], steps: int) -> None:
        self.fixed: dict[str, Any] = {}
        self.varying: dict[str, Callable[[int], Any]] = {}
        self._known: dict[int, dict[str, Any]] = {}
        for name, value in values.items():
            refuse_foreign(value, f"'{name}'")
            if callable(value):
                self.varying[name] = value
            elif np.ndim(value) == 1 and name not in arrays:
                if len(value) < steps:
                    raise ValueError(
                        f"'{name}' has {len(value)} values, but there are {steps} steps; give one "
                        "for each, or name it in standard_indexing if it is a small array."
                    )
                self.varying[name] = _item(np.asarray(value), hasattr(value, "dtype"))
            else:
                self.fixed[name] = value

    def at(self, step: int) -> dict[str, Any]:
        """The values at one step; a function is called once for each, in their order."""
        if not self.varying:
            return self.fixed
        if step not in self._known:
            now = {name: value(step) for name, value in self.varying.items()}
            self._known[step] = self.fixed | now
        return self._known[step]

    def forget(self, step: int) -> None:
        """Drop the values of all steps before."""
        for known in [k for k in self._known if k < step]:
            del self._known[known]


def _item(values: np.ndarray, typed: bool) -> Callable[[int], Any]:
    if not len(values):
        # No step asks for it, but its type is looked at.  An empty list has none, and a whole
        # number is what most kernels take.
        zero = values.dtype.type(0).item() if typed else 0
        return lambda step: zero
    return lambda step: values[step].item()


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of one step, and what each of them runs, told the lengths of whole arrays."""

    graph: Graph
    wanted: tuple[int, ...]
    nodes: Sequence[Node]
    cores: Sequence[Shape]
    bounds: Sequence[Bound] = ()

    def with_numbers(self, leaves: Leaves) -> Calls:
        """The same with other numbers, which are those of all calls that were recorded."""
        added = self.graph.added
        bounds = [
            node.compiled.bind(leaves[added.index(node.outputs)]).within(core)
            for node, core in zip(self.nodes, self.cores, strict=True)
        ]
        return replace(self, bounds=bounds)

    def given(self, step: int) -> Given:
        """What the calls are given beside arrays."""
        numbers = {
            node.outputs[0]: (bound.coefficients, bound.scalars)
            for node, bound in zip(self.nodes, self.bounds, strict=True)
        }
        return Given(numbers, step)


class Recorded:
    """What the calls of each step are, recorded anew only where its scalars ask for it."""

    def __init__(self, record: Record, scalars: Scalars) -> None:
        self._record, self._scalars = record, scalars
        self._flow = Flow(record.call.definition)
        # By what they depend on of their numbers.
        self._known: Remembered[Any, Calls] = Remembered(MANY)
        self.graph, self.wanted = record(record.types, scalars.at(0))
        self.nodes = self.graph.needed(self.wanted)
        self._at: tuple[int, Calls] | None = None
        # The shapes of the fields that calls are given, and of the state along the core axes.
        self._shapes: list[Shape] = []
        self.core: Shape = ()

    def on(self, arrays: Sequence[Any], core: Shape) -> None:
        """Take the steps on these arrays, of which the state has this core shape."""
        self._shapes = [array.shape for array in reaching(self.graph, arrays)]
        self.core = core
        _, key = self._leaves(self._scalars.at(0))
        self._known[key] = self._calls(self.graph, self.wanted)

    @property
    def varying(self) -> bool:
        """Whether scalars change from step to step."""
        return bool(self._scalars.varying)

    def at(self, step: int) -> Calls:
        """The calls of a step."""
        if self._at is not None and (self._at[0] == step or not self._scalars.varying):
            return self._at[1]
        values = self._scalars.at(step)
        leaves, key = self._leaves(values)
        calls = None if key is None else self._known.get(key)
        if calls is None:
            calls = self._calls(*self._record(self._record.types, values))
            self._known[key] = calls
        self._at = step, calls.with_numbers(leaves)
        return self._at[1]

    def _calls(self, graph: Graph, wanted: tuple[int, ...]) -> Calls:
        nodes, shapes, cores = graph.needed(wanted), graph.shapes(self._shapes), []
        for node in nodes:
            own = broadcast_shape([shapes[value] for value in node.fields])
            cores.append(own[len(own) - node.ndim :])
        return Calls(graph, wanted, nodes, cores)

    def _leaves(self, values: Mapping[str, Any]) -> tuple[Leaves, Any]:
        """The numbers of all calls of a step, and what its graph depends on of them, if known."""
        leaves, key = self._flow.told(values)
        return leaves, key if self._flow.settled else None

    def over(self, step: int, count: int) -> Together | None:
        """The coefficients and scalars of some steps; None if their types differ."""
        first = [node.compiled for node in self.nodes]
        coefficients: list[Array] = []
        scalars: list[Any] = []
        for k in range(count):
            bounds = self.at(step + k).bounds
            arrays = [array for bound in bounds for array in bound.coefficients]
            if [bound.compiled for bound in bounds] != first:
                return None
            if k and not all(map(np.array_equal, arrays, coefficients)):
                return None
            coefficients = arrays
            scalars += [value for bound in bounds for value in bound.scalars]
        return tuple(coefficients), tuple(scalars)


class Steps:
    """Single steps on arrays: one call after the other, or done together."""

    def __init__(self, recorded: Recorded, schedule: Schedule, threads: int | None) -> None:
        self._recorded, self._schedule, self._threads = recorded, schedule, threads

    def __call__(self, step: int, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one step, to arrays that are no others' than ours."""
        calls = self._recorded.at(step)
        targets = dict(zip(calls.wanted, outs, strict=True))
        fields = self._reaching(calls.graph, fields)
        made = self._launches(calls, fields, targets)(fields, calls.given(step), targets)
        for out, one in zip(outs, made, strict=True):
            if one is not out:
                out[...] = one

    def repeats(
        self, step: int, one: Sequence[Array], other: Sequence[Array], others: Sequence[Array]
    ) -> Repeats | None:
        """All steps like one, from the states `one` to `other` and back, if they can be repeated.

        The `others` are fields that stay; all arrays are contiguous and no others' than ours.
        """
        if self._recorded.varying:
            return None
        steps = self._recorded.at(step)
        graph, wanted = steps.graph, steps.wanted
        fields = self._reaching(graph, [*one, *others])
        shapes = graph.shapes(field.shape for field in fields)
        # What calls make for others stays where it is.
        between = {
            value: empty(shapes[value], graph.dtypes[value])
            for node in steps.nodes
            for value in node.outputs
            if value not in wanted
        }
        targets = dict(zip(wanted, other, strict=True))
        calls = self._launches(steps, fields, targets).calls(fields, targets | between)
        if calls is None:
            return None
        given = steps.given(step)
        turns = []
        for states, made in ((one, other), (other, one)):
            arrays = dict(enumerate(self._reaching(graph, [*states, *others])))
            arrays |= between | dict(zip(wanted, made, strict=True))
            turns.append(
                [
                    (call.run, call.inputs(arrays), [arrays[k] for k in call.outputs], told)
                    for call in calls
                    if isinstance(call.run, Executable)
                    for told in [call.told(given)]
                ]
            )
        return Repeats.of(turns, self._threads)

    def _launches(
        self, calls: Calls, fields: Sequence[Array], targets: Mapping[int, Array]
    ) -> Launches:
        """What does calls on such fields."""
        program = Program(calls.graph, calls.wanted, self._schedule)
        return program.bound(Block(tuple(fields)), None, targets, self._threads)

    def _reaching(self, graph: Graph, fields: Sequence[Array]) -> Sequence[Array]:
        """The fields, each with all axes of the calls that depend on it."""
        return fields if len(graph.nodes) == 1 else reaching(graph, fields)
