"""Evaluate a graph on arrays of any kind: NumPy, Dask or xarray."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import accepted, ghosts
from .arrays import numpy as on_numpy
from .arrays.axes import Behind, behind, stretched, whole_shape
from .arrays.borders import Array, Boundary
from .arrays.channels import working_axes
from .arrays.conditions import Condition, Slot
from .arrays.engines import check, engine_of, refuse_unknown
from .arrays.every import thinned
from .arrays.parts import write
from .arrays.phases import check_device, cut_fields, finer_values
from .arrays.recognise import is_chunked, is_cupy, is_dask, is_device, is_xarray
from .arrays.single import NOTHING
from .backends.memory import empty
from .binding import BoundProgram
from .calls import Call
from .dividing import divided
from .graph import Graph, Node, has_conditions, repeated, with_boundaries
from .lowering.schedule import Schedule
from .options import Place
from .program import Program

if TYPE_CHECKING:
    from .arrays.xarray import Named


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
    device: str | None = None,
) -> list[Any]:
    """The wanted values, for arrays of any kind in the place of those given."""
    Place(axes, dims, out, threads, device).check(arrays)
    arrays = as_fields(arrays, graph.names[: len(arrays)])
    order: Behind | None = None
    unnamed = [node for node in graph.nodes if node.axes is None]
    if axes is None and dims is None and unnamed and not unnamed[-1].call.definition.pointwise:
        last = unnamed[-1]
        order = working_axes(arrays, last.ndim, last.call.definition.name)
    if any(map(is_xarray, arrays)):
        return _on_xarray(graph, arrays, wanted, schedule, axes or order, dims, threads, device)
    if axes is not None:
        ndim = graph.nodes[-1].ndim
        shape = max((array.shape for array in arrays), key=len)
        if len(shape) < ndim:
            raise on_numpy.too_few_axes(ndim, shape)
        order = behind(axes, len(shape), ndim)
    graph = graph.along(order)
    laid, there = has_conditions(graph), device is not None or any(map(is_cupy, arrays))
    if laid and there:
        raise TypeError(
            'a GPU knows no border values but npt.dirichlet(number, at="cell") and '
            "npt.neumann(0); leave out device=, give arrays of NumPy, or name a border rule."
        )
    if there:
        check_device(graph.nodes)
    arrays = [*reaching(graph, arrays), *positions(graph, arrays)]
    if any(node.resizes for node in graph.nodes[:-1]):
        # Raises, and says what is too small, where the arrays of a call do not go together.
        graph.shapes([array.shape for array in arrays])
    if laid and any(map(is_chunked, arrays)):
        graph, arrays, numbers = _with_edges(graph, arrays)
        wanted = [numbers[value] for value in wanted]
    if any(map(is_chunked, arrays)):
        return _on_chunks(graph, arrays, wanted, schedule, device)
    if device is not None and not any(map(is_cupy, arrays)):
        return _sent(graph, arrays, wanted, schedule, out)
    return _in_memory(graph, arrays, wanted, schedule, out, threads)


def _with_edges(graph: Graph, arrays: Sequence[Any]) -> tuple[Graph, list[Any], dict[int, int]]:
    """The graph with values along edges among what it is given, for lazy arrays, and its numbers.

    Each is an array of one element along its own axis, which is cut as all others are.
    """
    if not all(is_dask(array) for array in arrays if is_chunked(array)):
        one = next(node.boundary for node in graph.nodes if node.boundary.conditions)
        raise TypeError(
            f"boundary={one} is there for arrays of NumPy, Dask and xarray; give it names for "
            "other lazy arrays."
        )
    shapes = graph.shapes([array.shape for array in arrays])
    if any(n != n for shape in shapes for n in shape):
        raise ValueError(
            "the lengths of the chunks are unknown; call compute_chunk_sizes() before, as border "
            "values need them."
        )
    more: dict[int, list[tuple[str, np.dtype]]] = {}
    calls: dict[int, Call] = {}
    given: list[Any] = []
    for node in graph.nodes:
        if not node.boundary.conditions:
            continue
        shape = on_numpy.broadcast_shape([shapes[value] for value in node.fields])
        values: list[Any] = []
        boundary = _with_slots(node, shape, values)
        calls[node.outputs[0]] = replace(node.call, boundary=boundary)
        more[node.outputs[0]] = [("a border value", value.dtype) for value in values]
        given += values
    graph, numbers = graph.given_more(more, calls)
    return graph, [*arrays, *given], numbers


def _with_slots(node: Node, shape: tuple[int, ...], values: list[Any]) -> Boundary:
    """The border of a node on fields of a shape; arrays of values are put behind the others."""
    ends = tuple(range(-node.ndim, 0))
    axes = [k for k in range(-len(shape), 0) if k not in node.along]
    turned = tuple(shape[k] for k in (*axes, *node.along))
    boundary = ghosts.turned(node.boundary, shape, node.along)
    sides = ghosts.Sides.of(node, turned, boundary, lazy=True)

    def slot(value: Any) -> Any:
        if not getattr(value, "ndim", 0):
            return value
        value = ghosts.moved(value, ends, node.along) if node.along != ends else value
        # As it is now: elements may change before a task reads them.
        values.append(value if is_dask(value) else np.array(value))
        return Slot(len(node.fields) + len(values) - 1)

    pairs = (
        tuple(one.of(slot) if isinstance(one, Condition) else one for one in pair)
        for pair in sides.rules
    )
    return Boundary(tuple((before, after) for before, after in pairs), False)


def positions(graph: Graph, arrays: Sequence[Any]) -> list[Any]:
    """The positions that a graph asks for, as arrays that go with these."""
    if len(arrays) == graph.given:
        return []
    if any(n != n for array in arrays for n in array.shape):
        raise ValueError(
            "an array has unknown chunk lengths, so where its elements are is not known; call "
            "x.compute_chunk_sizes() first."
        )
    made = graph.positions([array.shape for array in reaching(graph, arrays)])
    if any(map(is_cupy, arrays)):
        # Imported here: CuPy is optional, and the caller has it.
        from .arrays import cuda

        return cuda.taken_to(arrays, made)
    if any(is_cupy(getattr(array, "_meta", None)) for array in arrays):
        # Imported here: Dask is optional, and the caller has it.
        from .arrays import chunked

        return chunked.taken_to(arrays, made)
    return list(made)


def as_fields(values: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Give arrays of kinds that a stencil takes, all of which can be together in a call."""
    there = any(map(is_device, values))
    if there and not any(is_chunked(value) or is_xarray(value) for value in values):
        # Imported here: CuPy is optional, and the caller has it, or what CuPy can look at.
        from .arrays import cuda

        return cuda.as_fields(values, names)
    return [
        value
        if is_chunked(value) or is_xarray(value) or is_device(value)
        else accepted.as_field(value, name)
        for value, name in zip(values, names, strict=True)
    ]


def evaluate_steps(
    calls: Sequence[Call],
    states: Sequence[Any],
    schedule: Schedule,
    threads: int | None,
    device: str | None = None,
    first: int = 0,
) -> list[Any]:
    """The state after some calls, each of which gets what the one before gave.

    Where borders have conditions it is one call, of the step `first`.
    """
    types = [accepted.native(np.dtype(state.dtype)) for state in states]
    graph, wanted = repeated(calls, types)
    graph = with_boundaries(graph, lambda node: node.boundary.after(first))
    # Whether these are colour images was asked before: the axes are the last ones.
    graph = graph.along(tuple(range(-graph.nodes[-1].ndim, 0)))
    return evaluate(graph, states, wanted, schedule, threads=threads, device=device)


def _in_memory(
    graph: Graph,
    fields: Sequence[Any],
    wanted: Sequence[int],
    schedule: Schedule,
    out: Any,
    threads: int | None,
) -> list[Any]:
    """In the memory of the CPU, or of the GPU where the fields are."""
    program = Program(graph, tuple(wanted), schedule)
    return BoundProgram(program, fields, out, threads)(fields, NOTHING, out)


def _sent(
    graph: Graph, fields: Sequence[Array], wanted: Sequence[int], schedule: Schedule, out: Any
) -> list[Array]:
    """On the current GPU, to which the fields are copied, and the results back."""
    # Imported here: CuPy is optional.
    from . import sending

    shapes = graph.shapes(field.shape for field in fields)
    shapes, dtypes = [shapes[v] for v in wanted], [graph.dtypes[v] for v in wanted]
    made: list[Array] = []
    given: list[Array] = []
    if out is not None:
        given = on_numpy.checked_out(out, shapes, dtypes, None)
        if not any(np.may_share_memory(o, field) for o in given for field in fields):
            made = given
    made = made or [empty(*pair) for pair in zip(shapes, dtypes, strict=True)]
    sending.computed(Program(graph, tuple(wanted), schedule), fields, made)
    for target, result in zip(given, made, strict=False):
        if target is not result:
            write(target, result)
    return given or made


def _on_chunks(
    graph: Graph,
    arrays: Sequence[Any],
    wanted: Sequence[int],
    schedule: Schedule,
    device: str | None = None,
) -> list[Any]:
    """Lazy arrays, by as few tasks a chunk as can be."""
    # Imported here: Dask is optional, and the caller has it.
    from .arrays import chunked

    engine = engine_of(arrays)
    check(arrays)
    if engine is chunked:
        along = {axis for node in graph.nodes for axis in node.along}
        for array in filter(is_dask, arrays):
            refuse_unknown(array, along)
    values: dict[int, Any] = dict(enumerate(arrays))
    fine = finer_values(graph.nodes)
    sets = divided(graph, wanted, arrays)
    lazily = [node for nodes in sets for node in nodes]
    # What depends on arrays of NumPy alone is done at once.
    read = {value for node in lazily for value in node.fields}.union(wanted)
    made_so = {value for node in lazily for value in node.outputs}
    ready = [v for v in range(graph.given, len(graph.names)) if v in read - made_so]
    if ready:
        plain = [np.empty(0) if is_chunked(array) else array for array in arrays]
        made = _in_memory(graph, plain, ready, schedule, None, None)
        values |= zip(ready, made, strict=True)
    for nodes in sets:
        inside = {value for node in nodes for value in node.outputs}
        thin = [node for node in nodes if node.thins]
        finer = any(node.factors for node in graph.nodes)
        if thin and engine is chunked and device is None and not finer:
            read = {value for node in nodes for value in node.fields} - inside
            if chunked.takes_whole(nodes, [values[value] for value in sorted(read)]):
                thin = []
        outside = {v for n in lazily if n not in nodes for v in n.fields} | set(wanted)
        order = sorted(inside & outside)
        full = [node.full if node in thin else node for node in nodes]
        program, sources = Program.of(graph, full, order, schedule)
        work: chunked.Work = program
        if device is not None and not any(is_cupy(getattr(a, "_meta", a)) for a in arrays):
            # Imported here: CuPy is optional.
            from .sending import Sent

            work = Sent.from_program(program)
        given = cut_fields([values[value] for value in sources], sources, fine)
        made = engine.lazily(work, given)
        if work is program and engine is chunked:
            # Imported here, as Dask is.
            from .following import follow

            follow(program, made)
        values |= zip(order, made, strict=True)
        for node in thin:
            for value in inside.intersection(order, node.outputs):
                values[value] = thinned(values[value], node.every, node.along)
    return [values[value] for value in wanted]


def reaching(graph: Graph, arrays: Sequence[Any]) -> Sequence[Any]:
    """The arrays, each with all axes of the calls that depend on it."""
    least = least_axes(graph, [array.ndim for array in arrays])
    if all(array.ndim >= n for array, n in zip(arrays, least, strict=True)):
        return arrays
    if max(array.ndim for array in arrays) < max(least):
        # Raises, and says which call needs more of them.
        graph.shapes([array.shape for array in arrays])
    shape = whole_shape(arrays)
    return [stretched(array, n, shape) for array, n in zip(arrays, least, strict=True)]


def least_axes(graph: Graph, ranks: Iterable[int]) -> list[int]:
    """How many axes each of the given arrays must have for the calls that depend on it.

    `ranks` are those that they have; no array needs more because another one beside it has them.
    """
    known = list(ranks)
    count = len(known)
    known += [0] * (graph.given - count)
    least = [0] * len(graph.names)
    for node in graph.nodes:
        depth = -min(node.along)
        rank = max(known[value] for value in node.fields)
        if rank < depth:
            least = [depth if value in node.fields else n for value, n in enumerate(least)]
        known += [max(rank, depth)] * len(node.outputs)
    for node in reversed(graph.nodes):
        depth = max(least[value] for value in node.outputs)
        least = [max(depth, n) if value in node.fields else n for value, n in enumerate(least)]
    return least[:count]


def _on_xarray(
    graph: Graph,
    arrays: Sequence[Any],
    wanted: Sequence[int],
    schedule: Schedule,
    axes: Sequence[int] | None,
    dims: Sequence[Any] | None,
    threads: int | None,
    device: str | None,
) -> list[Any]:
    # Imported here: xarray is optional, and the caller has it.
    from .arrays import xarray as on_xarray

    named = on_xarray.Named(arrays, graph.nodes[-1].ndim, dims, axes)
    likes = named_results(graph, named)
    given = [on_xarray.arranged(field, named.dims) for field in named.fields]
    graph = with_boundaries(
        graph, lambda node: ghosts.unnamed(node.boundary, named, named.dims, node.ndim)
    )
    made = evaluate(
        graph.along(named.axes), given, wanted, schedule, threads=threads, device=device
    )
    return [
        on_xarray.restored(data, named.dims, like) for data, like in zip(made, likes, strict=True)
    ]


def named_results(graph: Graph, named: Named) -> list[Any]:
    """DataArrays that are named as the results of a call are, of which this is the graph."""
    last = graph.nodes[-1]
    # Of how many points along each dimension that it has a value has one.
    apart = {
        value: {dim: 1 for dim in field.dims if field.sizes[dim] > 1}
        for value, field in enumerate(named.fields)
    }
    for node in graph.nodes:
        before: dict[Any, int] = {}
        for value in node.fields:
            # One that has fewer is stretched to those of the others.
            for dim, step in apart.get(value, {}).items():
                before[dim] = min(step, before.get(dim, step))
        dims = named.core[len(named.core) - node.ndim :]
        made = {dim: before.get(dim, 1) * k for dim, k in zip(dims, node.every, strict=True)}
        apart |= dict.fromkeys(node.outputs, before | made)
    if any(node.border.uses("valid") or node.factors for node in graph.nodes[:-1]):
        raise ValueError(
            'boundary="valid" or upsample= inside a kernel moves the coordinates of xarray '
            "objects; use it for the last stencil only, or call them one by one."
        )
    return named.results(
        last.reaches, last.border, last.out_dtypes, last.every, before, last.factors
    )
