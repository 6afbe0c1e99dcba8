"""Run a graph by its plan, on NumPy, Dask or xarray."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .arrays import numpy as on_numpy
from .arrays.borders import Array
from .arrays.channels import working_axes
from .arrays.fusing import fits, run_fused
from .arrays.recognise import is_dask, is_dataset, is_xarray
from .arrays.views import plain, stacked
from .backends.threads import thread_count
from .graph import Graph, Node
from .lowering.schedule import Schedule
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
    if axes is None and dims is None:
        last = graph.nodes[-1]
        axes = working_axes(arrays, last.ndim, last.call.stencil.__name__)
    if any(is_xarray(a) or is_dataset(a) for a in arrays):
        return _on_xarray(graph, arrays, wanted, schedule, axes, dims, threads)
    if any(is_dask(a) for a in arrays):
        return _on_dask(graph, arrays, wanted, axes)
    return _on_numpy(graph, arrays, wanted, schedule, axes, out, threads)


def _on_numpy(
    graph: Graph,
    arrays: Sequence[Any],
    wanted: Sequence[int],
    schedule: Schedule,
    axes: Sequence[int] | None,
    out: Any,
    threads: int | None,
) -> list[Array]:
    fields = [on_numpy.as_field(a, n) for a, n in zip(arrays, graph.names, strict=False)]
    ndim = graph.nodes[-1].ndim
    order: tuple[int, ...] | None = None
    if axes is not None:
        shape = on_numpy.broadcast_shape([field.shape for field in fields])
        order = on_numpy.core_axes(axes, len(shape), ndim)
        ends = range(-ndim, 0)
        fields = [np.moveaxis(np.broadcast_to(field, shape), order, ends) for field in fields]
    outs: dict[int, Array] = {}
    smaller = any(node.border.uses("valid") for node in graph.needed(wanted))
    given: list[Array] = []
    if out is not None and not smaller:
        shape = on_numpy.broadcast_shape([field.shape for field in fields])
        dtypes = [graph.dtypes[value] for value in wanted]
        given = on_numpy.checked_out(out, [shape] * len(wanted), dtypes, order)
        inner = given
        if order is not None:
            inner = [np.moveaxis(array, order, range(-ndim, 0)) for array in given]
        if not any(np.may_share_memory(o, field) for o in inner for field in fields):
            outs = dict(zip(wanted, inner, strict=True))
    results = run(graph, plan(graph, wanted, schedule), fields, wanted, threads, outs)
    if order is not None:
        results = [np.moveaxis(result, range(-ndim, 0), order) for result in results]
    if out is None:
        return results
    if smaller:
        dtypes = [result.dtype for result in results]
        given = on_numpy.checked_out(out, [result.shape for result in results], dtypes, None)
    for target, result in zip(given, results, strict=True):
        if not np.may_share_memory(target, result):
            target[...] = result
    return given


def _on_dask(
    graph: Graph, arrays: Sequence[Any], wanted: Sequence[int], axes: Sequence[int] | None
) -> list[Any]:
    """One lazy call after the other."""
    values: dict[int, Any] = dict(enumerate(arrays))
    for node in graph.needed(wanted):
        fields = [values[value] for value in node.fields]
        if any(map(is_dask, fields)):
            made = node.call.on_dask(fields, axes)
        else:
            made = node.call.on_numpy(fields, axes, None)
        values |= zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True)
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
    if not _can_fuse(graph, group, fields):
        return _one_by_one(group.nodes, values, group.outputs, threads, outs)
    assert group.program is not None
    ndim, shape = group.program.ndim, fields[0].shape
    results = {
        value: outs[value]
        if value in outs and plain(outs[value], graph.dtypes[value], ndim)
        else np.empty(shape, graph.dtypes[value])
        for value in group.outputs
    }

    def ends(pieces: list[Array]) -> list[Array]:
        made = _one_by_one(
            group.nodes, dict(zip(group.fields, pieces, strict=True)), group.outputs, 1, {}
        )
        return [made[value] for value in group.outputs]

    run_fused(
        group.program,
        ends,
        [stacked(field, ndim) for field in fields],
        [stacked(result, ndim) for result in results.values()],
        thread_count(threads),
        group.tile,
    )
    return results


def _can_fuse(graph: Graph, group: Group, fields: Sequence[Array]) -> bool:
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
) -> dict[int, Array]:
    """What the nodes make, each call by itself."""
    known = dict(values)
    for position, node in enumerate(nodes):
        program = node.compiled.bind(node.call.others)
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
