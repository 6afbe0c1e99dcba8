"""Run a program on arrays of any kind without names: of NumPy, of Dask, or of a GPU.

call, values of parameters     ->     what does all calls like it, for stencils to remember
program, arrays                ->     the values that are wanted
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..arrays.accepted import (
    Arrays,
    bare,
    is_chunked,
    is_cupy,
    write,
)
from ..arrays.channels import working_axes
from ..arrays.executable import NOTHING, Given
from ..arrays.regions import check_device
from ..backends.memory import empty
from ..program.definition import Call, Leaves, options_stay
from ..program.graph import Graph
from ..program.options import Place
from ..program.program import (
    BoundProgram,
    Program,
    as_fields,
    bound,
    positions,
    program_of,
    targets,
    typed,
)


def check_target(graph: Graph, there: bool, cut: bool) -> None:
    """Raise where a GPU, or tasks of lazy arrays, cannot do what is asked."""
    if there:
        check_device(graph.nodes)
    for node in graph.nodes if cut else ():
        if not all(one.plain for one in node.boundary.conditions):
            raise TypeError(
                "border values of lazy arrays are numbers, not arrays or functions; compute the "
                "arrays first, or name a border rule."
            )


# Values of all parameters, numbers of all calls, out -> result.
Prepared: TypeAlias = Callable[[Sequence[Any], Leaves, Any], Any]


def prepared(call: Call, values: Sequence[Any], place: Place) -> Prepared | None:
    """How calls like this one are done; nothing where that depends on more than their kind.

    `values` are those of all parameters.  What does the calls is bound to the arrays of the first
    one; whoever asks remembers it.
    """
    names = call.definition.parameters
    at = [names.index(name) for name in call.fields]
    scalars = [(name, names.index(name)) for name in call.scalars]
    fields, count = [values[k] for k in at], len(values)
    there = all(map(is_cupy, fields))
    if not there and any(type(field) is not np.ndarray for field in fields):
        return None
    place.check(fields)
    fields, types = typed(call.fields, fields)
    program = program_of(call, types).along(place.axes, fields)
    if not options_stay(call.definition):
        return None
    if not there:
        program.graph.warn()
    run, conditions = (
        bound(program, fields, place.out, place.threads),
        program.graph.has_conditions,
    )
    if isinstance(run, BoundProgram) and conditions:
        # The next call may have other values at the border.
        return None

    def done(values: Sequence[Any], leaves: Leaves, out: Any) -> Any:
        given, numbers = NOTHING, None
        if scalars:
            numbers = leaves or ({name: values[k] for name, k in scalars},)
        # A border of conditions may be given behind all values.
        if scalars or conditions:
            given = Given(numbers, None, *values[count:])
        return bare(run([values[k] for k in at], given, out))

    return done


def evaluate(program: Program, arrays: Arrays, place: Place) -> list[Any]:
    """The wanted values, for arrays of any kind in the place of those given."""
    graph, device = program.graph, place.device
    arrays = as_fields(arrays, graph.names[: len(arrays)])
    axes = place.axes
    last = next((node for node in reversed(graph.nodes) if node.axes is None), None)
    if axes is None and last is not None and not last.call.definition.pointwise:
        axes = working_axes(arrays, last.ndim, last.call.definition.name)
    program = program.along(axes, arrays)
    graph = program.graph
    on_device, cut = any(map(is_cupy, arrays)), any(map(is_chunked, arrays))
    check_target(graph, on_device or device is not None, cut)
    if not on_device and device is None:
        graph.warn()
    if device is not None:
        # Imported here: CuPy is optional.
        from . import sending
    if cut:
        # Imported here: Dask is optional, and the caller has it.
        from .dividing import on_chunks

        send = None if device is None else sending.Sent.from_program
        return on_chunks(program, arrays, send)
    if on_device or device is None:
        return list(bound(program, arrays, place.out, place.threads)(arrays, out=place.out))
    # To the current GPU the fields are copied, and the results back.
    fields = [*arrays, *positions(graph, arrays)]
    results = program.results(fields)
    given, made = targets(place.out, results, fields), [empty(*one) for one in results]
    sending.computed(program, fields, made)
    for target, result in zip(given, made, strict=False):
        write(target, result)
    return given or made
