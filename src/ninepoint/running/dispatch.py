"""Run a program on arrays of any kind without names: of NumPy, of Dask, or of a GPU.

call, values of parameters     ->     what does all calls like it, for stencils to remember
program, arrays                ->     the values that are wanted
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..arrays import accepted
from ..arrays.accepted import (
    Arrays,
    is_chunked,
    is_cupy,
    is_dask,
    is_device,
    is_xarray,
    single_or_tuple,
    write,
)
from ..arrays.channels import working_axes
from ..arrays.engines import check, engine_of
from ..arrays.every import cut_fields, thinned
from ..arrays.ghosts import check_conditions
from ..arrays.grid import refuse_unknown
from ..arrays.launching import NOTHING, Given
from ..arrays.layout import Array
from ..arrays.regions import check_device, finer_values
from ..backends.memory import empty
from ..program.definition import Call, Definition, Leaves, options_stay
from ..program.graph import Graph, Node, has_conditions, read_by
from ..program.options import Place
from ..program.planning import given_on
from ..program.program import BoundProgram, Program, bound, positions, program_of, targets


def refuse_values(graph: Graph, who: str, cure: str) -> None:
    """Raise where somebody is to lay values at the border who cannot."""
    if has_conditions(graph):
        raise TypeError(
            f'{who} no border values but npt.dirichlet(number, at="cell") and npt.neumann(0){cure}'
        )


def check_target(graph: Graph, there: bool, cut: bool) -> None:
    """Raise where a GPU, or tasks of lazy arrays, cannot do what is asked."""
    if there:
        refuse_values(
            graph,
            "a GPU knows",
            "; leave out device=, give arrays of NumPy, or name a border rule.",
        )
        check_device(graph.nodes)
    for node in graph.nodes if cut else ():
        if not all(one.plain for one in node.boundary.conditions):
            raise TypeError(
                "border values of lazy arrays are numbers, not arrays or functions; compute the "
                "arrays first, or name a border rule."
            )


def typed(definition: Definition, fields: Arrays) -> tuple[list[Any], list[np.dtype]]:
    """The fields of a call as arrays that a stencil takes, and their types."""
    fields = as_fields(fields, definition.fields)
    return fields, types_of(definition, fields)


def types_of(definition: Definition, fields: Sequence[Any]) -> list[np.dtype]:
    """The types of the fields of a call, which must be those of numbers."""
    types = [accepted.native(np.dtype(field.dtype)) for field in fields]
    for dtype, name in zip(types, definition.fields, strict=True):
        accepted.check_dtype(dtype, name)
    return types


# Values of all parameters, numbers of all calls, out -> result.
Prepared: TypeAlias = Callable[[Sequence[Any], Leaves, Any], Any]


def prepared(call: Call, values: Sequence[Any], place: Place) -> Prepared | None:
    """How calls like this one are done; nothing where that depends on more than their kind.

    `values` are those of all parameters.  What does the calls is bound to the arrays of the first
    one; whoever asks remembers it.
    """
    definition, names = call.definition, call.definition.parameters
    at = [names.index(name) for name in definition.fields]
    scalars = [(name, names.index(name)) for name in definition.scalars]
    fields, count = [values[k] for k in at], len(values)
    there = all(map(is_cupy, fields))
    if not there and any(type(field) is not np.ndarray for field in fields):
        return None
    place.check(fields)
    fields, types = typed(definition, fields)
    program = program_of(call, types).along(place.axes, fields)
    if not options_stay(definition):
        return None
    if not there:
        program.graph.warn()
    run = bound(program, fields, place.out, place.threads)
    if isinstance(run, BoundProgram) and has_conditions(program.graph):
        # The next call may have other values at the border.
        return None

    def done(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        given = NOTHING
        if scalars:
            given = Given(leaves or ({name: values[k] for name, k in scalars},))
        # A border of conditions may be given behind all values.
        return single_or_tuple(run([values[k] for k in at], given, out, *values[count:]))

    return done


def evaluate(program: Program, arrays: Arrays, place: Place) -> list[Any]:
    """The wanted values, for arrays of any kind in the place of those given."""
    place.check(arrays)
    graph, device = program.graph, place.device
    arrays = as_fields(arrays, graph.names[: len(arrays)])
    axes = place.axes
    last = next((node for node in reversed(graph.nodes) if node.axes is None), None)
    if axes is None and last is not None and not last.call.definition.pointwise:
        axes = working_axes(arrays, last.ndim, last.call.definition.name)
    program = program.along(axes, arrays)
    graph = program.graph
    there, cut = device is not None or any(map(is_cupy, arrays)), any(map(is_chunked, arrays))
    check_target(graph, there, cut)
    if not there:
        graph.warn()
    sent = device is not None and not any(map(is_cupy, arrays))
    if not sent and not cut:
        return list(bound(program, arrays, place.out, place.threads)(arrays, out=place.out))
    if cut:
        _check_chunks(graph, arrays)
    made = positions(graph, arrays)
    if made and any(is_cupy(getattr(array, "_meta", None)) for array in arrays):
        # Imported here: Dask is optional, and the caller has it.
        from ..arrays import chunked

        made = chunked.taken_to(arrays, made)
    arrays = [*arrays, *made]
    if not cut:
        return _sent(program, arrays, place.out)
    return _on_chunks(program, arrays, device)


def _check_chunks(graph: Graph, arrays: Arrays) -> None:
    """Raise where lazy arrays do not go together, or where nobody knows how long they are."""
    # Imported here: Dask is optional, and the caller has it.
    from ..arrays import chunked

    engine = engine_of(arrays)
    check(arrays)
    # Positions are where elements are, along all axes.
    axes = {axis for node in graph.nodes for axis in node.works_along}
    along = None if graph.places else axes
    if engine is chunked:
        for array in filter(is_dask, arrays):
            refuse_unknown(array, along)


def as_fields(values: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Give arrays of kinds that a stencil takes, all of which can be together in a call."""
    there = any(map(is_device, values))
    if there and not any(is_chunked(value) or is_xarray(value) for value in values):
        # Imported here: CuPy is optional, and the caller has it, or what CuPy can look at.
        from ..arrays import cuda

        return cuda.as_fields(values, names)
    return [
        value
        if is_chunked(value) or is_xarray(value) or is_device(value)
        else accepted.as_field(value, name)
        for value, name in zip(values, names, strict=True)
    ]


def _sent(program: Program, fields: Sequence[Array], out: Any) -> list[Array]:
    """On the current GPU, to which the fields are copied, and the results back."""
    # Imported here: CuPy is optional.
    from . import sending

    graph = program.graph
    shapes = graph.shapes(field.shape for field in fields)
    results = [(shapes[value], graph.dtypes[value]) for value in program.wanted]
    given, made = targets(out, results, fields), [empty(*one) for one in results]
    sending.computed(program, fields, made)
    for target, result in zip(given, made, strict=False):
        write(target, result)
    return given or made


def _on_chunks(program: Program, arrays: Arrays, device: str | None) -> list[Any]:
    """Lazy arrays, by as few tasks a chunk as can be."""
    # Imported here: Dask is optional, and the caller has it.
    from ..program.dividing import divided

    graph, wanted = program.graph, program.wanted
    values: dict[int, Any] = dict(enumerate(arrays))
    sets = divided(graph, wanted, arrays)
    lazily = [node for nodes in sets for node in nodes]
    for node in lazily:
        check_conditions(node)
    # What depends on arrays of NumPy alone is done at once.
    read = {value for node in lazily for value in node.fields}.union(wanted)
    made_so = {value for node in lazily for value in node.outputs}
    ready = sorted(value for value in read - made_so if value >= graph.given)
    if ready:
        done, sources = Program.of_calls(graph, graph.needed(ready), ready, program.schedule)
        plain = [values[value] for value in sources]
        values |= zip(ready, bound(done, plain)(plain), strict=True)
    for nodes in sets:
        values |= _task(program, nodes, values, device)
    return [values[value] for value in wanted]


def _task(
    program: Program,
    nodes: Sequence[Node],
    values: dict[int, Any],
    device: str | None,
) -> dict[int, Any]:
    """What some nodes make that is needed outside of them, by one task a chunk."""
    # Imported here: Dask is optional, and the caller has it.
    from ..arrays import chunked

    graph = program.graph
    given = [values[value] for value in read_by(nodes)]
    engine = engine_of(given)
    thin = [node for node in nodes if node.thins]
    finer = any(node.factors for node in graph.nodes)
    may = engine is chunked and device is None and not finer
    if thin and may and chunked.takes_whole(nodes, given):
        thin = []
    full = [node.full if node in thin else node for node in nodes]
    order = given_on(program, nodes)
    done, sources = Program.of_calls(graph, full, order, program.schedule)
    arrays = [values[value] for value in sources]
    if device is not None and not any(is_cupy(getattr(a, "_meta", a)) for a in arrays):
        # Imported here: CuPy is optional.
        from .sending import Sent

        done = Sent.from_program(done)
    made = engine.lazily(done, cut_fields(arrays, sources, finer_values(graph.nodes)))
    if type(done) is Program and engine is chunked:
        # Imported here, as Dask is.
        from ..program.dividing import follow

        follow(done, made)
    found = dict(zip(order, made, strict=True))
    for node in thin:
        for value in found.keys() & set(node.outputs):
            found[value] = thinned(found[value], node.every, node.along)
    return found
