"""Lazy values: calls of stencils that are recorded, and done together when they are needed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .arrays import accepted, spacings
from .arrays import numpy as on_numpy
from .arrays.axes import Behind, behind, stretched, whole_shape
from .arrays.channels import has_channels, may_hold, working_axes
from .arrays.ghosts import unnamed
from .arrays.keys import Key, array_key, axes_key, number_key, out_key
from .arrays.recognise import is_chunked, is_xarray
from .bound_calls import Prepared
from .calls import Call
from .flow import Flow, Leaves, flow_of, leaves_key
from .graph import Graph, has_conditions
from .lowering.schedule import Schedule
from .options import Place
from .preparing import several
from .remembered import Remembered
from .running import as_fields, evaluate, least_axes, named_results
from .tracebacks import door
from .waiting import before_writing, wait, waiting

Dims: TypeAlias = tuple[Hashable, ...]

# Shape and dtype of each field.
Kinds: TypeAlias = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]


# Programs that were computed, by what they depend on.
_programs: Remembered[Key, Prepared] = Remembered(64)


class Lazy(NDArrayOperatorsMixin):
    """An array, or what a stencil gives of lazy values, once it is asked for.

    Made by `lazy`.  Stencils and filters that are called with it give lazy values too; whatever
    else is done with it, computes it first.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    ndim : int
    dims : tuple of str, or None
        The names of the axes, of an xarray object.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> smooth = npt.filters.mean(npt.lazy(np.arange(12.0).reshape(3, 4)))
    >>> smooth.shape, smooth.dtype
    ((3, 4), dtype('float64'))
    >>> float(np.max(smooth)) < 11
    True
    """

    def __init__(self, node: _Node) -> None:
        # What calls read is the node: as long as this object is there, somebody wants the value.
        self._node = node
        self.shape, self.dtype, self.dims = node.shape, node.dtype, node.dims

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    def compute(self, *, threads: int | None = None, device: str | None = None) -> Any:
        """Do all recorded calls that this value needs, as far as they were not done before.

        Parameters
        ----------
        threads : int, optional
            The greatest number of threads; by default all that the process may use.
        device : {"cuda"}, optional
            Compute on the GPU what lies in the memory of the CPU; as for a call.

        Returns
        -------
        array
            Of the kind of the arrays that `lazy` was given.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> @npt.stencil(boundary="nearest")
        ... def difference(x):
        ...     return x[1] - x[0]
        >>> difference(difference(npt.lazy(np.array([1, 4, 9, 16])))).compute()
        array([ 2,  2, -7,  0])
        """
        return compute(self, threads=threads, device=device)[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Compute it for NumPy."""
        return np.array(self.compute(), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute the operands of an operation of NumPy, and then its result."""
        before_writing(options.get("out"))
        return getattr(ufunc, method)(*map(known, inputs), **options)

    def __getitem__(self, index: Any) -> Any:
        return self.compute()[index]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a lazy number has no length.")
        return self.shape[0]

    def __repr__(self) -> str:
        done = "" if self._node.value is None else ", computed"
        return f"<lazy {'x'.join(map(str, self.shape))} {self.dtype}{done}>"

    @property
    def _call(self) -> Call | None:
        """The call that gives it; None of an array."""
        return None if self._node.made is None else self._node.made.call

    # What is asked before an array is written over.

    def _sources(self) -> Iterator[Any]:
        """The arrays that it is computed from, wherever they lie."""
        for leaf in _leaves([self._node], {}).values():
            yield leaf.value.variable._data if is_xarray(leaf.value) else leaf.value

    @staticmethod
    def _together(values: Sequence[Lazy]) -> None:
        """Compute several."""
        compute(*values)


class _Node:
    """An array, or what a recorded call gives of others; `value` is None until it is computed.

    `like` is a DataArray that is named as the value is, or anything without names.
    """

    __slots__ = ("dims", "dtype", "like", "made", "position", "shape", "value")

    def __init__(self, value: Any = None, made: _Made | None = None, position: int = 0) -> None:
        self.value, self.made, self.position = value, made, position
        self.shape: tuple[int, ...] = made.shapes[position] if made else value.shape
        self.dtype: np.dtype[Any] = made.dtypes[position] if made else value.dtype
        self.like = value if made is None else made.likes[position] if made.likes else None
        self.dims: Dims | None = getattr(self.like, "dims", None)

    @property
    def ndim(self) -> int:
        return len(self.shape)


def _node(x: Any) -> _Node:
    """The node of a lazy value, or of an array."""
    if isinstance(x, Lazy):
        return x._node
    return _Node(x if is_chunked(x) or is_xarray(x) else as_fields([x], [""])[0])


class _Made:
    """One recorded call, and what it gives."""

    def __init__(self, call: Call, fields: Sequence[_Node], place: Place) -> None:
        self.call = call
        self.fields = tuple(fields)
        self.threads, self.device = place.threads, place.device
        # Whether the last axis is known to hold channels, of a field and so of the results.
        self.coloured = any(map(_coloured, fields))
        # How many axes the call works along, and which; where they have names, its dimensions, and
        # what is named as the results are and as the fields are.
        self.ndim = 1
        self.axes: Behind | None = None
        self.core: Dims = ()
        self.likes: list[Any] = []
        self.named: Any = None
        if any(field.dims is not None for field in fields):
            self._name(place)
            return
        Place(dims=place.dims).check(())
        if call.spacings:
            raise spacings.unknown(next(iter(call.spacings)), call.definition.name)
        kinds = tuple((field.shape, _native(field)) for field in fields)
        outcome = _outcome if _lasts(call, place.axes) else _outcome.__wrapped__
        axes = tuple(place.axes) if isinstance(place.axes, list) else place.axes
        made = outcome(call, kinds, axes, self.coloured)
        self.ndim, self.axes = made.ndim, made.axes
        self.shapes, self.dtypes = made.shapes, made.dtypes
        if made.least is not None:
            shape = whole_shape(fields)
            self.fields = tuple(
                field if field.ndim >= n else _node(stretched(_array(field), n, shape))
                for field, n in zip(fields, made.least, strict=True)
            )

    def _name(self, place: Place) -> None:
        """Find the dimensions along which the call works, and name its results."""
        # Imported here: xarray is optional, and the caller has it.
        from .arrays.xarray import Named

        Place(out=place.out).check(field.like for field in self.fields)
        graph, _ = _recorded(
            self.call.spaced(), tuple((f.shape, _native(f)) for f in self.fields), None
        )
        ndim, axes = graph.nodes[-1].ndim, place.axes
        if axes is None and place.dims is None:
            arrays = [field.value for field in self.fields if field.value is not None]
            axes = working_axes(arrays, ndim, self.call.definition.name) if arrays else None
            if axes is None and self.coloured and ndim < max(field.ndim for field in self.fields):
                axes = tuple(range(-1 - ndim, -1))
        likes = [_array(f) if f.dims is None else f.like for f in self.fields]
        named = Named(likes, ndim, place.dims, axes)
        if any(one is not like for one, like in zip(named.fields, likes, strict=True)):
            # What has not all dimensions of the call is done before, and is the same along them.
            arrays = [
                f.like if one is like else _array(f)
                for f, one, like in zip(self.fields, named.fields, likes, strict=True)
            ]
            named = Named(arrays, ndim, place.dims, axes)
            self.fields = tuple(
                f if one is f.like else _node(one)
                for f, one in zip(self.fields, named.fields, strict=True)
            )
        self.ndim, self.core = ndim, named.core
        found = spacings.found(self.call.spacings, named, self.call.definition, self.call.boundary)
        self.call = self.call.spaced(found)
        self.named = named
        self.likes = named_results(graph, named)
        self.shapes = [like.shape for like in self.likes]
        self.dtypes = [like.dtype for like in self.likes]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What is known of a recorded call before it is done.

    `least` are the axes that its fields need, if one has too few.
    """

    ndim: int
    axes: Behind | None
    least: Sequence[int] | None
    shapes: list[tuple[int, ...]]
    dtypes: list[np.dtype[Any]]


def _lasts(call: Call, axes: Any) -> bool:
    """Whether a call on axes such as these has the same outcome each time."""
    return call.is_plain and (axes is None or axes_key(axes) is not None)


@lru_cache(maxsize=256)
def _outcome(call: Call, kinds: Kinds, axes: Any, coloured: bool) -> _Outcome:
    """What a call on arrays without names for their axes gives."""
    graph, numbers = _recorded(call, kinds, None)
    ndim = graph.nodes[-1].ndim
    shapes = [shape for shape, _ in kinds]
    rank = max(map(len, shapes))
    along: Behind | None = None
    if axes is not None:
        if rank < ndim:
            raise on_numpy.too_few_axes(ndim, on_numpy.broadcast_shape(shapes))
        along = behind(axes, rank, ndim)
    elif coloured and ndim < rank:
        along = tuple(range(-1 - ndim, -1))
    least: list[int] | None = least_axes(graph.along(along), map(len, shapes))
    assert least is not None
    if any(len(one) < n <= rank for one, n in zip(shapes, least, strict=True)):
        shape = on_numpy.broadcast_shape(shapes)
        shapes = [
            shape if len(one) < n <= rank else one for one, n in zip(shapes, least, strict=True)
        ]
    else:
        least = None
    if along is not None:
        graph, numbers = _recorded(call, kinds, along)
    made = graph.shapes(shapes)
    return _Outcome(
        ndim,
        along,
        least,
        [made[number] for number in numbers],
        [graph.dtypes[n] for n in numbers],
    )


def _recorded(call: Call, kinds: Kinds, along: Behind | None) -> tuple[Graph, tuple[int, ...]]:
    """The graph of a call on fields of these kinds, and its results by number."""
    graph = Graph(call.definition.fields, [dtype for _, dtype in kinds])
    return graph.placed(graph.record(call, range(len(kinds)), (), along))


def _coloured(field: _Node) -> bool:
    return has_channels(field.value) if field.made is None else field.made.coloured


def _native(field: _Node) -> np.dtype[Any]:
    return accepted.native(np.dtype(field.dtype))


@door
def lazy(x: Any) -> Lazy:
    """Record what stencils and filters do with an array, to do it in one pass over memory.

    Parameters
    ----------
    x : array
        Of NumPy, CuPy, Dask or xarray, or anything that NumPy takes for an array.

    Returns
    -------
    Lazy
        Call stencils and filters with it; then `compute` what they give, or give that to NumPy.

    Raises
    ------
    TypeError
        If `x` is no array of numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> image = npt.lazy(np.eye(4, dtype="float32"))
    >>> smooth = npt.filters.gaussian(image, 1)
    >>> smooth
    <lazy 4x4 float32>
    >>> npt.filters.laplace(smooth).compute().shape
    (4, 4)
    """
    return x if isinstance(x, Lazy) else Lazy(_node(x))


@door
def compute(
    *values: Any, threads: int | None = None, device: str | None = None
) -> tuple[Any, ...]:
    """Compute several lazy values together: what they share is done once.

    Parameters
    ----------
    *values : Lazy or array
        What stencils gave for lazy arrays; other arrays are given back as they are.
    threads : int, optional
        The greatest number of threads; by default all that the process may use.
    device : {"cuda"}, optional
        Compute on the GPU what lies in the memory of the CPU; by default what some call of them
        was asked to be computed there is, with all others.

    Returns
    -------
    tuple of arrays
        One for each value.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> smooth = npt.filters.mean(npt.lazy(np.eye(5)))
    >>> edges = npt.filters.laplace(smooth)
    >>> [array.shape for array in npt.compute(smooth, edges)]
    [(5, 5), (5, 5)]
    """
    Place(threads=threads, device=device).check(())
    nodes = [v._node for v in values if isinstance(v, Lazy)]
    missing = {id(node): node for node in nodes if node.value is None}
    for with_names in (False, True):
        wanted = [node for node in missing.values() if (node.dims is not None) is with_names]
        if wanted:
            _compute(wanted, threads, device=device)
    return tuple(map(known, values))


def known(value: Any) -> Any:
    """The array of a lazy value, computed if need be; anything else as it is."""
    return _array(value._node) if isinstance(value, Lazy) else value


def _array(node: _Node) -> Any:
    if node.value is None:
        _compute([node], None)
    return node.value


def recorded(fields: Sequence[Any], call: Call, place: Place) -> Any:
    """What a call gives for fields of which one at least is lazy; done if it has an `out`."""
    Place(threads=place.threads, device=place.device).check(())
    if place.out is None and not call.is_plain:
        call = call.settled()
    made = _Made(call, [_node(field) for field in fields], place)
    nodes = [_Node(None, made, k) for k in range(len(made.dtypes))]
    if place.out is not None:
        _compute(nodes, None, place.out)
        results = tuple([node.value for node in nodes])
    else:
        results = tuple(map(Lazy, nodes))
        for node, result in zip(nodes, results, strict=True):
            wait(node, result)
    return results[0] if len(results) == 1 else results


def _leaves(wanted: Iterable[_Node], calls: dict[int, _Made]) -> dict[int, _Node]:
    """The arrays that values are computed from; the calls that make them are put into `calls`."""
    leaves: dict[int, _Node] = {}
    pending = list(wanted)
    while pending:
        node = pending.pop()
        if node.value is not None:
            leaves[id(node)] = node
        elif node.made is not None and id(node.made) not in calls:
            calls[id(node.made)] = node.made
            pending += node.made.fields
    return leaves


def _compute(
    wanted: Sequence[_Node], threads: int | None, out: Any = None, device: str | None = None
) -> None:
    calls: dict[int, _Made] = {}
    leaves = _leaves(wanted, calls)
    order = _after(calls)
    likes = _agreed(order)
    done = [_called(made, like) for made, like in zip(order, likes, strict=True)]
    for made in order:
        if made.threads is not None:
            threads = min(made.threads, made.threads if threads is None else threads)
    devices = (device, *(made.device for made in order))
    device = next((one for one in devices if one is not None), None)
    arrays = [leaf.value for leaf in leaves.values()]
    along = [like.axes for like in likes]
    dims: Dims = ()
    if wanted[0].dims is not None:
        # Imported here: xarray is optional, and the caller has it.
        from .arrays.xarray import arranged

        others = (dim for array in arrays for dim in array.dims if dim not in wanted[0].dims)
        dims = (*dict.fromkeys(others), *wanted[0].dims)
        arrays = [arranged(array, dims) for array in arrays]
        along = [tuple(dims.index(dim) - len(dims) for dim in like.core) for like in likes]
        done = [
            replace(call, boundary=unnamed(call.boundary, made.named, dims, made.ndim))
            for call, made in zip(done, order, strict=True)
        ]
    # Each value by the leaf that it is, or by the call that makes it and its place there.
    places = {one: k for k, one in enumerate((*leaves, *map(id, order)))}

    def place(node: _Node) -> tuple[int, int]:
        one = id(node) if node.value is not None else id(node.made)
        return places[one], node.position

    told = [[place(field) for field in made.fields] for made in order]
    goals = [place(value) for value in wanted]
    flows = [flow_of(call.definition) for call in done]
    numbers = [
        leaf for call, flow in zip(done, flows, strict=True) for leaf in flow.leaves(call.scalars)
    ]
    key = None
    if device is None:
        key = _key(done, along, told, goals, flows, numbers, arrays, threads, out)
    prepared = None if key is None else _programs.get(key)
    if prepared is not None:
        result = prepared(arrays, numbers, out)
        _settle(wanted, result if isinstance(result, tuple) else (result,), dims)
        return
    graph = Graph([f"x{k}" for k in range(len(leaves))], [_native(v) for v in leaves.values()])
    results: list[tuple[int, ...]] = [(k,) for k in range(len(leaves))]
    for call, axes, fields in zip(done, along, told, strict=True):
        given = [results[k][position] for k, position in fields]
        results.append(graph.record(call, given, (), axes))
    asked: Sequence[int] = [results[k][position] for k, position in goals]
    graph, asked = graph.placed(asked)
    if key is not None and not has_conditions(graph):
        options = Place(out=out, threads=threads)
        arrays = as_fields(arrays, graph.names[: len(arrays)])
        prepared = several(graph, asked, Schedule(), range(len(arrays)), arrays, options)
        result = prepared(arrays, numbers, out)
        _settle(wanted, result if isinstance(result, tuple) else (result,), dims)
        _programs[key] = prepared
        return
    found = evaluate(graph, arrays, asked, Schedule(), out=out, threads=threads, device=device)
    _settle(wanted, found, dims)


def _settle(wanted: Sequence[_Node], results: Sequence[Any], dims: Dims) -> None:
    for node, result in zip(wanted, results, strict=True):
        if node.dims is not None:
            # Imported here: xarray is optional, and the caller has it.
            from .arrays.xarray import restored

            result = node.like = restored(result, dims, node.like)
        node.value, node.made = result, None
        waiting.pop(id(node), None)


def _agreed(order: Sequence[_Made]) -> list[_Made]:
    """For each call the one along whose axes it is done: of ufuncs what they read, or its reader.

    To a ufunc all axes are alike, and along those of its neighbours it is a part of one pass.
    """
    chosen = {id(made): made for made in order if not made.call.definition.pointwise}

    def choose(one: _Made, other: _Made | None) -> None:
        like = chosen.get(id(other))
        if like is not None and id(one) not in chosen and _has_axes(one, like):
            chosen[id(one)] = like

    for made in order:
        for field in made.fields:
            choose(made, field.made)
    for made in reversed(order):
        for field in made.fields:
            if field.made is not None:
                choose(field.made, made)
    return [chosen.get(id(made), made) for made in order]


def _has_axes(made: _Made, like: _Made) -> bool:
    """Whether all that a call reads has the axes along which another one works."""
    if like.core:
        return all(set(like.core) <= set(field.dims or ()) for field in made.fields)
    depth = max([like.ndim, *(-axis for axis in like.axes or ())])
    return all(field.ndim >= depth and field.dims is None for field in made.fields)


def _called(made: _Made, like: _Made) -> Call:
    """The call, along as many axes as another one."""
    definition = made.call.definition
    if not definition.pointwise:
        return made.call
    return replace(made.call, definition=definition.along(like.ndim))


def _key(
    order: Sequence[Call],
    along: Sequence[Behind | None],
    told: Sequence[Sequence[tuple[int, int]]],
    goals: Sequence[tuple[int, int]],
    flows: Sequence[Flow],
    numbers: Leaves,
    arrays: Sequence[Any],
    threads: int | None,
    out: Any,
) -> Key | None:
    """What recorded calls depend on save for the data; None if it is none of plain arrays."""
    parts: list[Any] = [threads, tuple(goals)]
    if threads is not None and type(threads) is not int:
        return None
    if out is not None:
        parts.append(out_key(out))
    parts += map(array_key, arrays)
    for call, axes, fields in zip(order, along, told, strict=True):
        cval = call.cval
        cval = cval if type(cval) is int else number_key(cval)
        if cval is None:
            return None
        options = call.boundary, cval, call.dtypes, call.overflow, call.every
        parts.append((call.definition, axes, tuple(fields), *options))
    called = [definition for flow in flows for definition in flow.called]
    parts.append(leaves_key(numbers, called))
    # Whether these are colour images depends on their numbers.
    asked = None in along and any(map(may_hold, arrays))
    if asked or not all(flow.settled for flow in flows):
        return None
    return None if any(part is None for part in parts[1:]) else tuple(parts)


def _after(calls: Mapping[int, _Made]) -> list[_Made]:
    """The calls, each after those that it needs."""
    done: dict[int, _Made] = {}
    stack = list(calls.values())
    while stack:
        made = stack[-1]
        before = [
            field.made
            for field in made.fields
            if field.value is None and field.made is not None and id(field.made) not in done
        ]
        if before:
            stack += before
            continue
        done.setdefault(id(stack.pop()), made)
    return list(done.values())
