"""Steps of an iteration on arrays in memory: calls of a graph, with the scalars of each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .arrays.borders import Array
from .arrays.chains import Numbers as Together
from .arrays.executable import Executable
from .arrays.launching import Launches
from .arrays.layout import Shape
from .arrays.repeating import Repeats
from .arrays.single import Given
from .arrays.work import Block
from .backends.memory import empty
from .calls import Flow
from .graph import Graph, Node, Recorded
from .iteration import Iteration, Scalars
from .language.box import Length
from .motion import Motion
from .program import Program, numbers_in, reaching
from .remembered import Remembered

# Of so many kinds of numbers it is remembered what the calls of a step are.
MANY = 16


def begun(
    motion: Motion, arrays: Sequence[Any], scalars: Scalars, plan: Iteration
) -> tuple[Steps, Shape]:
    """The steps on arrays in memory, of the CPU or a GPU, and the shape of the state."""
    motion.check()
    plan.border(motion.ndim)
    shape = motion.state_shape(arrays)
    return Steps(motion, scalars, shape[len(shape) - motion.ndim :], plan.threads), shape


class Steps:
    """Steps on arrays in memory, recorded anew only where the scalars ask for it.

    `core` is the shape of the state along the core axes.
    """

    def __init__(self, motion: Motion, scalars: Scalars, core: Shape, threads: int | None) -> None:
        self._motion, self._scalars, self._threads = motion, scalars, threads
        self.schedule, self.core = motion.schedule, core
        self.graph, self.wanted = motion.step
        self.nodes = self.graph.needed(self.wanted)
        self._flow = Flow(motion.call.definition)
        # The calls of a step and how their numbers are told, by what they depend on of these.
        self._known: Remembered[Any, tuple[Recorded, Callable[..., Given]]] = Remembered(MANY)
        self._at: tuple[int, Recorded, Given] | None = None

    def _calls(self, step: int) -> tuple[Graph, tuple[int, ...], Given]:
        """The calls of a step, which of their values are the results, and their numbers."""
        if self._at is None or (self._at[0] != step and self._scalars.varying):
            values = self._scalars.at(step)
            leaves, key = self._flow.told(values)
            if not self._flow.settled:
                key = None
            found = self._known.get(key)
            if found is None:
                recorded = self._motion.with_scalars(values).step
                found = recorded, numbers_in(recorded[0])
                if key is not None:
                    self._known[key] = found
            recorded, told = found
            self._at = step, recorded, told((), leaves)
        _, (graph, wanted), given = self._at
        return graph, wanted, replace(given, step=step)

    def over(self, step: int, count: int) -> Together | None:
        """The coefficients and scalars of some steps; None if these are not all that differs."""
        first = _kinds(self.nodes)
        coefficients: list[Array] = []
        scalars: list[Any] = []
        for k in range(count):
            graph, wanted, given = self._calls(step + k)
            nodes = graph.needed(wanted)
            if _kinds(nodes) != first:
                return None
            numbers = given.numbers or {}
            own = [numbers[node.outputs[0]] for node in nodes] if numbers else []
            arrays = [array for some, _ in own for array in some]
            if k and not all(map(np.array_equal, arrays, coefficients)):
                return None
            coefficients = arrays
            scalars += [
                self.core[one.axis] if isinstance(one, Length) else one
                for _, some in own
                for one in some
            ]
        return tuple(coefficients), tuple(scalars)

    def __call__(self, step: int, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one step, to arrays that are no others' than ours."""
        graph, wanted, given = self._calls(step)
        targets = dict(zip(wanted, outs, strict=True))
        fields = _reaching(graph, fields)
        made = self._launches(graph, wanted, fields, targets)(fields, given, targets)
        for out, one in zip(outs, made, strict=True):
            if one is not out:
                out[...] = one

    def repeats(
        self, step: int, one: Sequence[Array], other: Sequence[Array], others: Sequence[Array]
    ) -> Repeats | None:
        """All steps like one, from the states `one` to `other` and back, if they can be repeated.

        The `others` are fields that stay; all arrays are contiguous and no others' than ours.
        """
        if self._scalars.varying:
            return None
        graph, wanted, given = self._calls(step)
        fields = _reaching(graph, [*one, *others])
        shapes = graph.shapes(field.shape for field in fields)
        # What calls make for others stays where it is.
        between = {
            value: empty(shapes[value], graph.dtypes[value])
            for node in self.nodes
            for value in node.outputs
            if value not in wanted
        }
        targets = dict(zip(wanted, other, strict=True))
        launches = self._launches(graph, wanted, fields, targets)
        calls = launches.calls(fields, targets | between)
        if calls is None:
            return None
        turns = []
        for states, made in ((one, other), (other, one)):
            arrays = dict(enumerate(_reaching(graph, [*states, *others])))
            arrays |= between | dict(zip(wanted, made, strict=True))
            turns.append(
                [
                    (call.run, call.inputs(arrays), [arrays[k] for k in call.outputs], told)
                    for call in calls
                    if isinstance(call.run, Executable)
                    for told in [call.numbers.told(given)]
                ]
            )
        return Repeats.of(turns, self._threads)

    def _launches(
        self,
        graph: Graph,
        wanted: tuple[int, ...],
        fields: Sequence[Array],
        targets: Mapping[int, Array],
    ) -> Launches:
        """What does calls on such fields."""
        program = Program(graph, wanted, self.schedule)
        return program.bound(Block(tuple(fields)), targets, self._threads)


def _kinds(nodes: Sequence[Node]) -> list[Any]:
    """What calls of steps that are one kernel have in common."""
    return [(node.compiled, node.border, repr(node.cval)) for node in nodes]


def _reaching(graph: Graph, fields: Sequence[Array]) -> Sequence[Array]:
    """The fields, each with all axes of the calls that depend on it."""
    return fields if len(graph.nodes) == 1 else reaching(graph, fields)
