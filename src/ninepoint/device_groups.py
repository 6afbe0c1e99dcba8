"""Groups of calls for arrays of a GPU: as few passes as there can be texts for.

    calls of a graph     ->     sets, each of which is one text     ->     one launch or a few

On a whole array the text is started as it is.  On a block its open sides are taken for ends of the
array: what is computed wrongly there, as far in as the calls look, is cut off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .arrays.keys import device_key, number_key
from .arrays.layout import Shape
from .graph import Graph, Node
from .language.box import Box
from .lowering.schedule import Schedule
from .onepass import OnePass, outputs_of, together, work_of
from .planning import Group, common_margin, lowered, sets
from .remembered import Remembered

if TYPE_CHECKING:
    from .arrays import cuda

# Settled passes, by what they do and how the arrays lie; with the text, which has its identity.
_settled: Remembered[Any, tuple[OnePass, cuda.Settled]] = Remembered(256)


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


def settled(
    graph: Graph,
    nodes: Sequence[Node],
    wanted: Sequence[int],
    schedule: Schedule,
    values: Mapping[int, Any] | Sequence[Any],
    targets: Mapping[int, Any],
) -> tuple[OnePass, cuda.Settled] | None:
    """Several calls on arrays of the current GPU such as these `values`, in one pass.

    None if they are done one by one: where there is no text, fields of several shapes, or a
    target for some outputs only.
    """
    # Imported here: CuPy is optional, and the caller has it.
    from .arrays import cuda

    if len(nodes) < 2:
        return None
    outputs = outputs_of(graph, nodes, wanted)
    one = together(graph, nodes, outputs, schedule)
    if one is None or len({value in targets for value in outputs}) > 1:
        return None
    inputs = [values[value] for value in one.fields]
    shape, along = inputs[0].shape, nodes[-1].along
    if any(array.shape != shape for array in inputs) or len(shape) < -min(along):
        return None
    into = [targets[value] for value in outputs] if outputs[0] in targets else None
    last = nodes[-1].compiled
    key = (
        id(one.source),
        last.name,
        last.fastmath,
        tuple([(border, number_key(cval)) for border, cval in one.borders]),
        tuple([(array.dtype, array.shape) for array in one.coefficients]),
        one.scalar_types,
        along,
        cuda.current()(),
        tuple(map(device_key, inputs)),
        None if into is None else tuple(map(device_key, into)),
    )
    found = _settled.get(key)
    if found is None:
        run = cuda.Settled(work_of(one, graph, last), inputs, into, along)
        found = _settled[key] = one, run
    return one, found[1]


def _group(
    graph: Graph, nodes: Sequence[Node], wanted: Sequence[int], schedule: Schedule
) -> Group:
    made = {value for node in nodes for value in node.outputs}
    fields = tuple(dict.fromkeys(v for node in nodes for v in node.fields if v not in made))
    outputs = tuple(outputs_of(graph, nodes, wanted))
    at_once = _AtOnce(graph, tuple(nodes), outputs, tuple(wanted), schedule)
    several = len(nodes) > 1
    return Group(tuple(nodes), fields, outputs, at_once=at_once if several else None)


@dataclass(frozen=True, slots=True)
class _AtOnce:
    """Calls of a graph in one pass, on arrays of the current GPU."""

    graph: Graph
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    wanted: tuple[int, ...]
    schedule: Schedule

    @property
    def margin(self) -> Box | None:
        """Where the calls look, all together; None where they are not understood."""
        found = [lowered(self.graph, node) for node in self.nodes]
        forms = [one for one in found if not isinstance(one, str)]
        if len(forms) < len(found):
            return None
        return common_margin(self.nodes, forms, self.outputs)

    def __call__(
        self, values: Mapping[int, Any], outs: Mapping[int, Any], whole: Shape | None
    ) -> dict[int, Any] | None:
        """Do them, on arrays that have the lengths `whole` along the axes of the calls."""
        found = settled(self.graph, self.nodes, self.wanted, self.schedule, values, outs)
        if found is None:
            return None
        one, run = found
        inputs = [values[value] for value in one.fields]
        core = whole or tuple(inputs[0].shape[axis] for axis in self.nodes[-1].along)
        bounds = [node.program.within(core) for node in self.nodes]
        numbers = [array for bound in bounds for array in bound.coefficients]
        numbers += [value for bound in bounds for value in bound.scalars]
        into = tuple([outs[v] for v in one.outputs]) if one.outputs[0] in outs else None
        made = run(inputs, numbers, into)
        if made is None:
            return None
        results = made if isinstance(made, tuple) else (made,)
        return dict(zip(one.outputs, results, strict=True))
