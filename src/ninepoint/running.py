"""Run a graph by its plan, on NumPy, Dask or xarray."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .arrays import numpy as on_numpy
from .arrays.axes import Behind, behind, last_of, stretched, whole_shape
from .arrays.bands import fits, run_fused
from .arrays.borders import Array
from .arrays.channels import working_axes
from .arrays.recognise import is_dask, is_xarray
from .arrays.views import plain, stacked
from .backends.memory import empty
from .backends.threads import thread_count
from .calls import Call
from .definition import digest
from .graph import Graph, Node
from .lowering.schedule import Schedule
from .options import Place
from .planning import Group, Plan, plan

# Bytes of all values below which calls are done one after the other: they stay in cache.
CACHED = 1 << 20


def evaluate(
    graph: Graph,
    arrays: Sequence[Any],
    wanted: Sequence[int],
    schedule: Schedule,
    *,
    axes: Sequence[int] | None = None,
    dims: Sequence[Any] | None = None,
    out: Any = None,
    threads: int | None = None,
) -> list[Any]:
    """The wanted values, for arrays of any kind in the place of those given."""
    Place(axes, dims, out, threads).check(arrays)
    arrays = [
        array if is_dask(array) or is_xarray(array) else on_numpy.as_field(array, name)
        for array, name in zip(arrays, graph.names, strict=False)
    ]
    order: Behind | None = None
    unnamed = [node for node in graph.nodes if node.axes is None]
    if axes is None and dims is None and unnamed:
        last = unnamed[-1]
        order = working_axes(arrays, last.ndim, last.call.definition.name)
    if any(map(is_xarray, arrays)):
        if len(unnamed) < len(graph.nodes):
            return _one_by_one_on_xarray(graph, arrays, wanted, order)
        return _on_xarray(graph, arrays, wanted, schedule, axes or order, dims, threads)
    if len(graph.nodes) == 1 and unnamed:
        along = order if axes is None else axes
        return _alone(graph.nodes[0], dict(enumerate(arrays)), wanted, along, out, threads)
    if axes is not None:
        order = behind(axes, len(whole_shape(arrays)), graph.nodes[-1].ndim)
    arrays = reaching(graph, arrays, order)
    if any(is_dask(a) for a in arrays):
        return _on_dask(graph, arrays, wanted, order)
    return _on_numpy(graph, arrays, wanted, schedule, order, out, threads)


def _alone(
    node: Node,
    values: Mapping[int, Any],
    wanted: Sequence[int],
    axes: Sequence[int] | None,
    out: Any,
    threads: int | None,
) -> list[Any]:
    """The wanted results of one call, of all values that are known before it."""
    fields = [values[value] for value in node.fields]
    if any(map(is_dask, fields)):
        made = _call_on_dask(node.call, fields, axes)
    else:
        made = on_numpy.apply(
            node.compiled.bind(node.call.scalars), fields, border=node.border,
            cval=node.call.cval, axes=axes, out=out, threads=threads,
        )  # fmt: skip
    results = made if isinstance(made, tuple) else (made,)
    return [results[node.outputs.index(value)] for value in wanted]


def _on_numpy(
    graph: Graph,
    fields: Sequence[Array],
    wanted: Sequence[int],
    schedule: Schedule,
    order: Behind | None,
    out: Any,
    threads: int | None,
) -> list[Array]:
    ends = range(-len(order), 0) if order is not None else ()
    if order is not None:
        # Where it stands beside others, a field may have fewer axes than the call names.
        shape = whole_shape(fields)
        whole = [stretched(field, -min(order), shape) for field in fields]
        fields = [np.moveaxis(field, order, ends) for field in whole]
    outs: dict[int, Array] = {}
    given: list[Array] = []
    if out is not None:
        shapes = graph.shapes(field.shape for field in fields)
        dtypes = [graph.dtypes[value] for value in wanted]
        given = on_numpy.checked_out(out, [shapes[value] for value in wanted], dtypes, order)
        inner = given
        if order is not None:
            inner = [np.moveaxis(array, order, ends) for array in given]
        if not any(np.may_share_memory(o, field) for o in inner for field in fields):
            outs = dict(zip(wanted, inner, strict=True))
    results = run(graph, plan(graph, wanted, schedule), fields, wanted, threads, outs)
    if order is not None:
        results = [np.moveaxis(result, ends, order) for result in results]
    if out is None:
        return results
    for target, result in zip(given, results, strict=True):
        if not np.may_share_memory(target, result):
            on_numpy.write(target, result)
    return given


def _on_dask(
    graph: Graph, arrays: Sequence[Any], wanted: Sequence[int], order: Behind | None
) -> list[Any]:
    """One lazy call after the other."""
    values: dict[int, Any] = dict(enumerate(arrays))
    for node in graph.needed(wanted):
        made = _alone(node, values, node.outputs, _axes(node, order), None, None)
        values |= zip(node.outputs, made, strict=True)
    return [values[value] for value in wanted]


def _call_on_dask(call: Call, fields: Sequence[Any], axes: Sequence[int] | None) -> Any:
    # Imported here: Dask is optional, and the caller has it.
    from .arrays import dask as on_dask

    call = call.settled()
    program = call.program([on_numpy.native(field.dtype) for field in fields])
    return on_dask.apply(
        call.program,
        fields,
        border=call.boundary.on(program.ndim),
        cval=call.cval,
        axes=axes,
        reaches=program.reaches,
        out_dtypes=program.out_dtypes,
        token=call.token,
        name=call.definition.name.strip("<>"),
    )


def steps_on_dask(calls: Sequence[Call], states: Sequence[Any]) -> list[Any]:
    """Several steps of an iteration at once: `calls` are those of the steps."""
    # Imported here: Dask is optional, and the caller has it.
    from .arrays import dask_iterating

    calls = [call.settled() for call in calls]
    fields = [state if is_dask(state) else on_numpy.as_field(state) for state in states]
    one = calls[0]
    program = one.program([on_numpy.native(field.dtype) for field in fields])
    return dask_iterating.advance(
        [call.program for call in calls],
        fields,
        border=one.boundary.on(program.ndim),
        cval=one.cval,
        reaches=program.reaches,
        out_dtypes=program.out_dtypes,
        token=digest([call.token for call in calls]),
        name=one.definition.name.strip("<>"),
    )


def _axes(node: Node, order: Behind | None) -> Behind:
    """The axes of a node, where those that name none work along `order`."""
    if node.axes is not None or order is None:
        return node.along
    return last_of(order, node.ndim, node.call.definition.name)


def reaching(graph: Graph, arrays: Sequence[Any], order: Behind | None) -> Sequence[Any]:
    """The arrays, each with all axes of the calls that depend on it."""
    least = least_axes(graph, order, map(np.ndim, arrays))
    if all(np.ndim(array) >= n for array, n in zip(arrays, least, strict=True)):
        return arrays
    shape = whole_shape(arrays)
    return [stretched(array, n, shape) for array, n in zip(arrays, least, strict=True)]


def least_axes(graph: Graph, order: Behind | None, ranks: Iterable[int]) -> list[int]:
    """How many axes each of the given arrays must have for the calls that depend on it.

    `ranks` are those that they have; no array needs more because another one beside it has them.
    """
    known = list(ranks)
    least = [0] * len(graph.names)
    for node in graph.nodes:
        depth = -min(_axes(node, order))
        rank = max(known[value] for value in node.fields)
        if rank < depth:
            least = [depth if value in node.fields else n for value, n in enumerate(least)]
        known += [max(rank, depth)] * len(node.outputs)
    for node in reversed(graph.nodes):
        depth = max(least[value] for value in node.outputs)
        least = [max(depth, n) if value in node.fields else n for value, n in enumerate(least)]
    return least[: graph.given]


def _one_by_one_on_xarray(
    graph: Graph, arrays: Sequence[Any], wanted: Sequence[int], axes: Sequence[int] | None
) -> list[Any]:
    """One call after the other: each names axes of its own."""
    values: dict[int, Any] = dict(enumerate(arrays))
    for node in graph.needed(wanted):
        fields = [values[value] for value in node.fields]
        one = Graph([graph.names[v] for v in node.fields], [graph.dtypes[v] for v in node.fields])
        results = one.add(node.call, range(len(fields)), [graph.names[v] for v in node.outputs])
        along = axes if node.axes is None else node.axes
        made = evaluate(one, fields, results, Schedule(), axes=along)
        values |= zip(node.outputs, made, strict=True)
    return [values[value] for value in wanted]


def _on_xarray(
    graph: Graph,
    arrays: Sequence[Any],
    wanted: Sequence[int],
    schedule: Schedule,
    axes: Sequence[int] | None,
    dims: Sequence[Any] | None,
    threads: int | None,
) -> list[Any]:
    # Imported here: xarray is optional, and the caller has it.
    from .arrays import xarray as on_xarray

    last = graph.nodes[-1]
    if any(node.border.uses("valid") for node in graph.nodes[:-1]):
        raise ValueError(
            'boundary="valid" inside a kernel moves the coordinates of xarray objects; use it '
            "for the last stencil only, or call them one by one."
        )

    def on_arrays(given: list[Any], core: tuple[int, ...]) -> Any:
        made = evaluate(graph, given, wanted, schedule, axes=core, threads=threads)
        return made[0] if len(made) == 1 else tuple(made)

    made = on_xarray.apply(
        on_arrays, arrays, border=last.border, reaches=last.compiled.reaches, dims=dims, axes=axes
    )
    return list(made) if isinstance(made, tuple) else [made]


def run(
    graph: Graph,
    found: Plan,
    arrays: Sequence[Array],
    wanted: Sequence[int],
    threads: int | None,
    outs: Mapping[int, Array] | None = None,
) -> list[Array]:
    """The wanted values, for arrays in the place of those given; core axes come last.

    `outs` are arrays of the right shape and type, of nobody else, to write values to.
    """
    outs = outs or {}
    values: dict[int, Array] = dict(enumerate(arrays))
    last = {value: k for k, group in enumerate(found.groups) for value in group.fields}
    for position, group in enumerate(found.groups):
        made = _run_group(graph, group, values, threads, outs)
        values |= made
        for value in [v for v in values if last.get(v, -1) <= position and v not in wanted]:
            del values[value]
    return [values[value] for value in wanted]


def _run_group(
    graph: Graph,
    group: Group,
    values: Mapping[int, Array],
    threads: int | None,
    outs: Mapping[int, Array],
) -> dict[int, Array]:
    fields = [values[value] for value in group.fields]
    ndim, along = group.nodes[0].ndim, group.nodes[0].along
    ends = tuple(range(-ndim, 0))
    if along != ends:
        shape = whole_shape(fields)
        whole = [stretched(field, -min(along), shape) for field in fields]
        fields = [np.moveaxis(field, along, ends) for field in whole]
        values = dict(zip(group.fields, fields, strict=True))
        outs = {v: np.moveaxis(o, along, ends) for v, o in outs.items() if v in group.outputs}
    made = _group(graph, group, fields, values, threads, outs)
    if along != ends:
        made = {v: np.moveaxis(one, ends, along) for v, one in made.items()}
    return made


def _group(
    graph: Graph,
    group: Group,
    fields: Sequence[Array],
    values: Mapping[int, Array],
    threads: int | None,
    outs: Mapping[int, Array],
) -> dict[int, Array]:
    """What a group gives, whose axes come last."""
    if not can_fuse(graph, group, fields):
        return _one_by_one(group.nodes, values, group.outputs, threads, outs)
    assert group.program is not None
    ndim, shape = group.program.ndim, fields[0].shape
    results = {
        value: outs[value]
        if value in outs and plain(outs[value], graph.dtypes[value], ndim)
        else empty(shape, graph.dtypes[value])
        for value in group.outputs
    }

    core = shape[len(shape) - ndim :]

    def ends(pieces: list[Array]) -> list[Array]:
        known = dict(zip(group.fields, pieces, strict=True))
        made = _one_by_one(group.nodes, known, group.outputs, 1, {}, core)
        return [made[value] for value in group.outputs]

    run_fused(
        group.program.within(core),
        ends,
        [stacked(field, ndim) for field in fields],
        [stacked(result, ndim) for result in results.values()],
        thread_count(threads),
        group.tile,
    )
    return results


def can_fuse(graph: Graph, group: Group, fields: Sequence[Array]) -> bool:
    """Whether these arrays can be read by the fused kernel, and are worth it."""
    if group.compiled is None:
        return False
    ndim, shape = group.compiled.ndim, fields[0].shape
    if any(field.shape != shape for field in fields) or len(shape) < ndim:
        return False
    pairs = zip(fields, group.compiled.field_dtypes, strict=True)
    if not all(plain(field, dtype, ndim) for field, dtype in pairs):
        return False
    values = {*group.fields, *(value for node in group.nodes for value in node.outputs)}
    size = math.prod(shape) * sum(graph.dtypes[value].itemsize for value in values)
    margin = group.compiled.reaches[0]
    return fits(shape[len(shape) - ndim :], margin) and (size > CACHED or group.asked)


def _one_by_one(
    nodes: Sequence[Node],
    values: Mapping[int, Array],
    wanted: Sequence[int],
    threads: int | None,
    outs: Mapping[int, Array],
    core: tuple[int, ...] | None = None,
) -> dict[int, Array]:
    """What the nodes make, each call by itself.

    The arrays may be parts of a whole one, whose shape is then `core`.
    """
    known = dict(values)
    for position, node in enumerate(nodes):
        program = node.compiled.bind(node.call.scalars)
        program = program if core is None else program.within(core)
        fields = [known[value] for value in node.fields]
        out: Any = None
        if all(value in outs for value in node.outputs):
            out = tuple(outs[value] for value in node.outputs)
        made = on_numpy.apply(
            program, fields, border=node.border, cval=node.call.cval, out=out, threads=threads
        )
        known |= zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True)
        later = {value for other in nodes[position + 1 :] for value in other.fields}
        for value in [v for v in known if v not in later and v not in wanted]:
            del known[value]
    return {value: known[value] for value in wanted if value in known}
