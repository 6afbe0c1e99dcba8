"""Single steps of an iteration: the calls of a graph, with the scalars of the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .arrays.borders import Array
from .arrays.chains import Numbers as Together
from .arrays.executable import Executable
from .arrays.launching import Launches
from .arrays.recognise import refuse_foreign
from .arrays.repeating import Repeats
from .arrays.single import Given
from .arrays.work import Block
from .backends.compiled import Bound
from .backends.memory import empty
from .graph import Graph
from .lowering.schedule import Schedule
from .program import Program, kind
from .running import reaching

# Gives the calls of one step for the types of the fields and the other arguments, and which of
# their values are the results.
Record = Callable[[Sequence[np.dtype], Mapping[str, Any]], tuple[Graph, tuple[int, ...]]]


# Arrays of which so many are remembered at the most.
MANY = 16


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


class Recorded:
    """What each step is: its graph, recorded anew only where its scalars ask for it."""

    def __init__(self, record: Record, dtypes: Sequence[np.dtype], scalars: Scalars) -> None:
        self._record = record
        self._dtypes = dtypes
        self._scalars = scalars
        self._known: dict[tuple[type, ...], Graph] = {}
        self.graph, self.wanted = record(dtypes, scalars.at(0))
        self.nodes = self.graph.needed(self.wanted)
        # The shape of the whole state, which single calls on parts of it are told; and what each
        # call of the graph is told on whole arrays.
        self.core: tuple[int, ...] = ()
        self.cores: list[tuple[int, ...]] = []
        self._at: tuple[int, tuple[Graph, list[Bound]]] | None = None

    @property
    def varying(self) -> bool:
        """Whether scalars change from step to step."""
        return bool(self._scalars.varying)

    def at(self, step: int) -> tuple[Graph, list[Bound]]:
        """The graph of a step, and what its calls run."""
        if self._at is not None and (self._at[0] == step or not self._scalars.varying):
            return self._at[1]
        values = self._scalars.at(step)
        graph = self._graph(values)
        if len(graph.nodes) == 1:
            bounds = [graph.nodes[0].compiled.bind(values).within(self.core)]
        else:
            nodes = graph.needed(self.wanted)
            bounds = [
                node.compiled.bind(node.call.scalars).within(core)
                for node, core in zip(nodes, self.cores, strict=True)
            ]
        self._at = step, (graph, bounds)
        return graph, bounds

    def over(self, step: int, count: int) -> Together | None:
        """The coefficients and scalars of some steps; None if their types differ."""
        first = [node.compiled for node in self.nodes]
        coefficients: list[Array] = []
        scalars: list[Any] = []
        for k in range(count):
            _, bounds = self.at(step + k)
            arrays = [array for bound in bounds for array in bound.coefficients]
            if [bound.compiled for bound in bounds] != first:
                return None
            if k and not all(map(np.array_equal, arrays, coefficients)):
                return None
            coefficients = arrays
            scalars += [value for bound in bounds for value in bound.scalars]
        return tuple(coefficients), tuple(scalars)

    def _graph(self, values: Mapping[str, Any]) -> Graph:
        """The graph for these scalars: of one call it depends on no more than their types."""
        if not self._scalars.varying:
            return self.graph
        varying = [values[name] for name in self._scalars.varying]
        # The type says all of a plain number, save for integers that are too large.
        simple = all(type(v) in (bool, float, complex) or _small(v) for v in varying)
        if not simple or len(self.graph.nodes) > 1:
            return self._record(self._dtypes, values)[0]
        key = tuple(map(type, varying))
        if key not in self._known:
            self._known[key] = self._record(self._dtypes, values)[0]
        return self._known[key]


def _small(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


class Steps:
    """Single steps on arrays: one call after the other, or done together."""

    def __init__(self, recorded: Recorded, schedule: Schedule, threads: int | None) -> None:
        self._recorded = recorded
        self._schedule = schedule
        self._threads = threads
        # What does steps whose calls are compiled alike, on arrays that lie alike; with the graph,
        # which has the kernels, so that nothing else gets their identity.
        self._known: dict[Any, tuple[Launches, Graph]] = {}
        # The same for arrays that come again and again, by what they are.
        self._same: dict[tuple[int, ...], tuple[Launches, Any]] = {}

    def __call__(self, step: int, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one step, to arrays that are no others' than ours."""
        graph, bounds = self._recorded.at(step)
        places = tuple([id(one) for one in (*(b.compiled for b in bounds), *fields, *outs)])
        same = self._same.get(places)
        if same is None:
            if len(self._same) > MANY:
                self._same.clear()
            same = self._same[places] = self._launches(step, fields, outs), (fields, outs)
        targets = dict(zip(self._recorded.wanted, outs, strict=True))
        made = same[0](self._reaching(graph, fields), self._given(step, bounds), targets)
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
        graph, wanted = self._recorded.graph, self._recorded.wanted
        fields = self._reaching(graph, [*one, *others])
        shapes = graph.shapes(field.shape for field in fields)
        # What calls make for others stays where it is.
        between = {
            value: empty(shapes[value], graph.dtypes[value])
            for node in self._recorded.nodes
            for value in node.outputs
            if value not in wanted
        }
        outs = dict(zip(wanted, other, strict=True)) | between
        calls = self._launches(step, [*one, *others], other).calls(fields, outs)
        given = self._given(step, self._recorded.at(step)[1])
        if calls is None:
            return None
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

    def _launches(self, step: int, fields: Sequence[Array], outs: Sequence[Array]) -> Launches:
        """What does steps like this one on such fields."""
        graph, bounds = self._recorded.at(step)
        key = (
            tuple([id(bound.compiled) for bound in bounds]),
            tuple([kind(array) for array in (*fields, *outs)]),
        )
        if key not in self._known:
            self._known[key] = self._made(graph, fields), graph
        return self._known[key][0]

    def _made(self, graph: Graph, fields: Sequence[Array]) -> Launches:
        wanted = self._recorded.wanted
        block = Block(tuple(self._reaching(graph, fields)))
        groups = Program(graph, wanted, self._schedule).plan_for(block.arrays).groups
        return Launches(groups, wanted, block, None, self._threads)

    def _given(self, step: int, bounds: Sequence[Bound]) -> Given:
        """What the calls of a step are given beside arrays."""
        numbers = {
            node.outputs[0]: (bound.coefficients, bound.scalars)
            for node, bound in zip(self._recorded.nodes, bounds, strict=True)
        }
        return Given(numbers, step)

    def _reaching(self, graph: Graph, fields: Sequence[Array]) -> Sequence[Array]:
        """The fields, each with all axes of the calls that depend on it."""
        return fields if len(self._recorded.nodes) == 1 else reaching(graph, fields)
