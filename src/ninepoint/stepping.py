"""Single steps of an iteration: the calls of a graph, with the scalars of the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from . import limits
from .arrays.borders import Array, Boundary
from .arrays.executable import Executable, Options, apply
from .arrays.iterating import Numbers
from .arrays.joint import Joint
from .arrays.recognise import refuse_foreign
from .arrays.repeating import Calling, Repeats
from .arrays.work import Block
from .backends.compiled import Bound
from .backends.memory import empty
from .ghosts import alone, at_step
from .ghosts.alike import Alike, Pairs
from .graph import Graph, Node
from .lowering.schedule import Schedule
from .planning import plan
from .program import Program
from .running import evaluate, reaching

# Gives the calls of one step for the types of the fields and the other arguments, and which of
# their values are the results.
Record = Callable[[Sequence[np.dtype], Mapping[str, Any]], tuple[Graph, tuple[int, ...]]]


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
        # The shape of the whole state, which single calls on parts of it are told.
        self.core: tuple[int, ...] = ()
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
            bounds = [node.compiled.bind(node.call.scalars).within(self.core) for node in nodes]
        self._at = step, (graph, bounds)
        return graph, bounds

    def graph_at(self, step: int) -> Graph:
        """The graph of a step with its scalars."""
        if not self._scalars.varying:
            return self.graph
        return self._record(self._dtypes, self._scalars.at(step))[0]

    def over(self, step: int, count: int) -> Numbers | None:
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


class Calls:
    """One call after the other on arrays of one shape."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._known: dict[int, Executable] = {}

    def __call__(self, program: Bound, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one call, from and to contiguous arrays that are no others' than ours."""
        known = self._known.get(id(program.compiled))
        out = tuple(outs) if len(outs) > 1 else outs[0]
        if known is None:
            one = self._options
            known = Executable(program, fields, one.border, one.cval, None, out, one.threads)
            self._known[id(program.compiled)] = known
        known(fields, (*program.coefficients, *program.scalars), out)

    def general(self, program: Bound, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one call, from arrays of any kind."""
        one = self._options
        out = tuple(outs) if len(outs) > 1 else outs[0]
        apply(program, fields, border=one.border, cval=one.cval, out=out, threads=one.threads)

    def calling(self, program: Bound, fields: Sequence[Array], outs: Sequence[Array]) -> Calling:
        """One call as what repeats it is told."""
        return Calling(program, fields, outs, self._options)


# A call, what it runs, and on which arrays.
Single: TypeAlias = tuple[Calls, tuple[Bound, Sequence[Array], Sequence[Array]]]


class _JointCalls:
    """The calls of a step as one."""

    def __init__(self, one: Joint, wanted: Sequence[int], threads: int | None) -> None:
        self._one = one
        self._call = Calls(Options(one.border, one.cval, threads))
        self._order = [wanted.index(value) for value in one.outputs]
        self._fits: dict[tuple[int, ...], bool] = {}
        self._known: tuple[Sequence[Bound], Bound | None] | None = None

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether it can be done so on arrays of a shape."""
        if shape not in self._fits:
            self._fits[shape] = self._one.takes([shape])
        return self._fits[shape]

    def program(self, nodes: Sequence[Node], bounds: Sequence[Bound]) -> Bound | None:
        """What does all calls, with their numbers; None if those are of other types."""
        if self._known is None or self._known[0] is not bounds:
            program = None
            if all(n.compiled is b.compiled for n, b in zip(nodes, bounds, strict=True)):
                coefficients = [array for bound in bounds for array in bound.coefficients]
                scalars = [value for bound in bounds for value in bound.scalars]
                program = self._one.program.with_numbers((*coefficients, *scalars))
            self._known = bounds, program
        return self._known[1]

    def of(self, program: Bound, fields: Sequence[Array], outs: Sequence[Array]) -> Single:
        """A step."""
        fields, outs = [fields[k] for k in self._one.fields], [outs[k] for k in self._order]
        return self._call, (program, fields, outs)


class Steps:
    """Single steps on arrays of one shape: one call after the other, or done together.

    Arrays that are `thin`, of few rows or columns, are not worth the latter.
    """

    def __init__(
        self, recorded: Recorded, schedule: Schedule, threads: int | None, thin: bool = False
    ) -> None:
        self._recorded = recorded
        self._schedule = schedule
        self._threads = threads
        self._thin = thin
        self._calls = [
            Calls(Options(node.border, node.call.cval, threads)) for node in recorded.nodes
        ]
        # What calls make for others, by the shape of the arrays.
        self._between: dict[tuple[int, ...], dict[int, Array]] = {}
        last = recorded.nodes[-1]
        self._alike = all(
            node.along == last.along and not node.resizes for node in recorded.nodes
        ) and last.along == tuple(range(-last.ndim, 0))

    def __call__(self, step: int, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one step, from and to contiguous arrays that are no others' than ours."""
        if len(self._calls) == 1:
            self._calls[0](self._recorded.at(step)[1][0], fields, outs)
            return
        singles = self._singles(step, fields, outs)
        if not singles:
            self.general(step, fields, outs)
        for call, on in singles:
            call(*on)

    def repeats(
        self, step: int, one: Sequence[Array], other: Sequence[Array], others: Sequence[Array]
    ) -> Repeats | None:
        """All steps like one, from the states `one` to `other` and back, if they can be repeated.

        The `others` are fields that stay; all arrays are contiguous and no others' than ours.
        """
        if self._recorded.varying:
            return None
        turns = [
            self._singles(step, [*given, *others], made)
            for given, made in ((one, other), (other, one))
        ]
        if not all(turns):
            return None
        calls = [[call.calling(*on) for call, on in turn] for turn in turns]
        return Repeats.of(calls, self._threads)

    def _singles(
        self, step: int, fields: Sequence[Array], outs: Sequence[Array]
    ) -> Sequence[Single]:
        """The calls of one step; none where they are done together, or not on such arrays."""
        graph, bounds = self._recorded.at(step)
        if len(self._calls) == 1:
            return [(self._calls[0], (bounds[0], fields, outs))]
        shape = outs[0].shape
        if not self._alike or any(field.shape != shape for field in fields):
            return []
        nodes = self._recorded.nodes
        if self._joint is not None and self._joint.takes(shape):
            program = self._joint.program(nodes, bounds)
            if program is not None:
                return [self._joint.of(program, fields, outs)]
        if not self._thin and self._together(graph, shape):
            return []
        values = dict(enumerate(fields)) | self._held(shape)
        values |= zip(nodes[-1].outputs, outs, strict=True)
        return [
            (call, (bound, [values[k] for k in node.fields], [values[k] for k in node.outputs]))
            for node, call, bound in zip(nodes, self._calls, bounds, strict=True)
        ]

    def general(self, step: int, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one step, from arrays of any kind."""
        graph, bounds = self._recorded.at(step)
        wanted = self._recorded.wanted
        if len(self._recorded.nodes) == 1:
            self._calls[0].general(bounds[0], fields, outs)
            return
        fields = reaching(graph, fields)
        targets = dict(zip(wanted, outs, strict=True))
        program = Program(graph, wanted, self._schedule)
        made = program.run(Block(tuple(fields)), outs=targets, threads=self._threads)
        for out, one in zip(outs, made, strict=True):
            if one is not out:
                out[...] = one

    @cached_property
    def _joint(self) -> _JointCalls | None:
        """The calls of a step as one, where one border is enough for all."""
        graph, wanted = self._recorded.graph, self._recorded.wanted
        groups = plan(graph, wanted, self._schedule).groups
        one = groups[0].joint
        if len(groups) > 1 or one is None or set(one.outputs) != set(wanted):
            return None
        return _JointCalls(one, wanted, self._threads)

    def _together(self, graph: Graph, shape: tuple[int, ...]) -> bool:
        """Whether the calls are done together: then what lies between is too much for a cache."""
        size = sum(dtype.itemsize for dtype in graph.dtypes) * int(np.prod(shape))
        return size > limits.current.fused_bytes

    def _held(self, shape: tuple[int, ...]) -> dict[int, Array]:
        """Arrays for what the calls but the last make."""
        if shape not in self._between:
            dtypes = self._recorded.graph.dtypes
            self._between[shape] = {
                value: empty(shape, dtypes[value])
                for node in self._recorded.nodes[:-1]
                for value in node.outputs
            }
        return self._between[shape]


class GhostSteps(Steps):
    """Single steps whose border has conditions, which may be functions of the step."""

    def __init__(
        self, recorded: Recorded, schedule: Schedule, threads: int | None, thin: bool = False
    ) -> None:
        self._recorded = recorded
        self._schedule = schedule
        self._threads = threads
        self._known: Alike | None = None
        # The border of the last step, and its rules side by side.
        self._now: tuple[Boundary, Pairs] | None = None

    def __call__(self, step: int, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one step, from and to contiguous arrays that are no others' than ours."""
        node, *more = self._recorded.graph.nodes
        if not more:
            if self._known is None:
                self._known = Alike.of(node, fields, outs, None, self._threads)
            (bound,) = self._recorded.at(step)[1]
            now = node.call.boundary.after(step)
            if self._now is None or now is not self._now[0]:
                self._now = now, now.sides(node.ndim)
            numbers = (*bound.coefficients, *bound.scalars)
            made = None
            if self._known is not None and bound.compiled is node.compiled:
                made = self._known(fields, numbers, self._now[1], outs)
            if made is not None:
                return
        self.general(step, fields, outs)

    def repeats(
        self, step: int, one: Sequence[Array], other: Sequence[Array], others: Sequence[Array]
    ) -> Repeats | None:
        """Nothing: what lies beyond the ends is made anew for each step."""

    def general(self, step: int, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one step, from arrays of any kind."""
        graph = at_step(self._recorded.graph_at(step), step)
        if len(graph.nodes) == 1:
            alone(graph.nodes[0], fields, outs, self._threads)
            return
        graph = graph.along(tuple(range(-graph.nodes[-1].ndim, 0)))
        out = tuple(outs) if len(outs) > 1 else outs[0]
        evaluate(
            graph, fields, self._recorded.wanted, self._schedule, out=out, threads=self._threads
        )
