"""Groups of calls for arrays of a GPU: as few passes as there can be texts for.

    calls of a graph     ->     sets, each of which is one text     ->     one launch or a few

On a whole array the text is started as it is.  On a block its open sides are taken for ends of the
array: what is computed wrongly there, as far in as the calls look, is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .arrays.layout import Shape
from .arrays.recognise import listed
from .chaining import common_margin, lowered
from .graph import Graph, Node
from .language.box import Box
from .lowering.schedule import Schedule
from .onepass import outputs_of, together, work_of
from .planning import Group, sets


def on_gpu(graph: Graph, wanted: Sequence[int], schedule: Schedule) -> list[Group]:
    """All calls for arrays of a GPU, in sets that are done in one pass wherever they can be."""
    return [_group(graph, nodes, wanted, schedule) for nodes in passes(graph, wanted, schedule)]


def passes(graph: Graph, wanted: Sequence[int], schedule: Schedule) -> list[list[Node]]:
    """The calls in sets, in order, each of which is one call or has a text of its own.

    Steps of an iteration are in one set as well, unless the schedule has them apart.
    """
    found = sets(graph, wanted, across=schedule.steps != 1)
    return [part for nodes in found for part in _divided(graph, nodes, wanted, schedule)]


def _divided(
    graph: Graph, nodes: Sequence[Node], wanted: Sequence[int], schedule: Schedule
) -> list[list[Node]]:
    """Calls in halves, and these again, until there are registers enough for each."""
    whole = list(nodes)
    if len(whole) < 2 or together(graph, whole, outputs_of(graph, whole, wanted), schedule):
        return [whole]
    half = len(whole) // 2
    return [
        part
        for some in (whole[:half], whole[half:])
        for part in _divided(graph, some, wanted, schedule)
    ]


def _group(
    graph: Graph, nodes: Sequence[Node], wanted: Sequence[int], schedule: Schedule
) -> Group:
    made = {value for node in nodes for value in node.outputs}
    fields = tuple(dict.fromkeys(v for node in nodes for v in node.fields if v not in made))
    outputs = tuple(outputs_of(graph, nodes, wanted))
    at_once = _AtOnce(graph, tuple(nodes), outputs, schedule)
    several = len(nodes) > 1
    return Group(tuple(nodes), fields, outputs, at_once=at_once if several else None)


@dataclass(frozen=True, slots=True)
class _AtOnce:
    """Calls of a graph in one pass, on arrays of the current GPU."""

    graph: Graph
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    schedule: Schedule

    @property
    def margin(self) -> Box | None:
        """Where the calls look, all together; None where they are not understood."""
        found = [lowered(self.graph, node) for node in self.nodes]
        forms = [one for one in found if not isinstance(one, str)]
        if len(forms) < len(found):
            return None
        return common_margin(self.nodes, forms, self.outputs)

    def bind(
        self, values: Mapping[int, Any], outs: Mapping[int, Any], whole: Shape | None
    ) -> Callable[..., dict[int, Any]] | None:
        """What does them, on arrays that have the lengths `whole` along the axes of the calls.

        None if they are done one by one: where there is no text, fields of several shapes, or a
        target for some outputs only.
        """
        # Imported here: CuPy is optional, and the caller has it.
        from .arrays import cuda

        one = together(self.graph, self.nodes, self.outputs, self.schedule)
        if one is None or len({value in outs for value in self.outputs}) > 1:
            return None
        inputs = [values[value] for value in one.fields]
        shape, along = inputs[0].shape, self.nodes[-1].along
        if any(array.shape != shape for array in inputs) or len(shape) < -min(along):
            return None
        into = [outs[value] for value in self.outputs] if self.outputs[0] in outs else None
        work = work_of(one, self.graph, self.nodes[-1].compiled)
        settled = cuda.bind(work, inputs, into, along)
        core = whole or tuple(shape[axis] for axis in along)
        bounds = [(node.outputs[0], node.program) for node in self.nodes]
        own = [bound.within(core) for _, bound in bounds]

        def do(
            values: Mapping[int, Any], numbers: Mapping[int, Any] | None, outs: Mapping[int, Any]
        ) -> dict[int, Any]:
            programs = own
            if numbers is not None:
                programs = [
                    bound.with_numbers([*numbers[k][0], *numbers[k][1]]).within(core)
                    for k, bound in bounds
                ]
            given = [array for program in programs for array in program.coefficients]
            given += [value for program in programs for value in program.scalars]
            fields = [values[value] for value in one.fields]
            out = None if into is None else tuple([outs[v] for v in one.outputs])
            return dict(zip(one.outputs, listed(settled(fields, given, out)), strict=True))

        return do
