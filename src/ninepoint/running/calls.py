"""Calls on arrays of any kind; on lazy values they are recorded, and done together when needed.

datasets                     variable by variable
lazy values, and with names  recorded
all others                   a program, evaluated on arrays of NumPy, of Dask, or of a GPU
as a call before             what did that one, which stencils remember
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..arrays.accepted import (
    Arrays,
    Dims,
    bare,
    core_dims,
    is_chunked,
    is_cupy,
    is_dataset,
    is_device,
    is_xarray,
    native,
    write,
)
from ..arrays.channels import has_channels, may_hold, working_axes
from ..arrays.executable import NOTHING, Given
from ..arrays.ghosts import unnamed
from ..arrays.keys import Key, array_key, option_key
from ..arrays.layout import Axes, Shape
from ..backends.memory import empty
from ..base.remembered import Remembered
from ..base.tracebacks import door
from ..lowering.schedule import Schedule
from ..program.definition import Call, Leaves, leaves_of, numbers_key, options_stay
from ..program.graph import Graph, Node
from ..program.options import ByName, Place
from ..program.program import (
    Bound,
    Program,
    as_fields,
    bound,
    program_of,
    targets,
    typed,
    types_of,
)
from ..program.waiting import before_writing, waiting
from .calling import Prepared

# What does programs that were computed, by what they depend on.
_programs: Remembered[Bound] = Remembered(64)

# Each recorded call has a number, and needs none that has a greater one.
_numbers = itertools.count()


# Methods of arrays that change them.
_WRITING = {"fill", "partition", "put", "resize", "setfield", "setflags", "sort"}


class Lazy(NDArrayOperatorsMixin):
    """An array, or what a stencil gives of lazy values, once it is asked for.

    Made by `lazy`.  Stencils and filters that are called with it give lazy values too.  Whatever
    else is done with it computes it first: operators, an index, functions of NumPy, and the
    methods and attributes that arrays have, such as ``sum()``, ``astype("uint8")`` or ``T``.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    ndim, size : int
    dims : tuple of str, or None
        The names of the axes, of an xarray object.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> smooth = npt.filters.mean(npt.lazy(np.arange(12.0).reshape(3, 4)))
    >>> smooth.shape, smooth.dtype
    ((3, 4), dtype('float64'))
    >>> bool(smooth.max() < 11), smooth.T.shape
    (True, (4, 3))
    """

    def __init__(self, node: _Node) -> None:
        # What calls read is the node: as long as this object is there, somebody wants the value.
        self._node = node
        self.shape: Shape = node.like.shape
        self.dtype: np.dtype[Any] = node.like.dtype
        self.ndim, self.dims = len(self.shape), node.dims
        self.size = math.prod(self.shape)

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

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "a lazy value cannot be written to; compute it first, as in y = x.compute()."
        )

    def __getattr__(self, name: str) -> Any:
        """What an array has by this name, of the computed one."""
        if name.startswith("_") or not hasattr(np.ndarray, name) or name in _WRITING:
            raise AttributeError(
                f"a lazy value has no '{name}'; compute it first, as in x.compute().{name}.",
                name=name,
                obj=self,
            )
        return getattr(self.compute(), name)

    def __dir__(self) -> list[str]:
        more = {name for name in dir(np.ndarray) if not name.startswith("_")} - _WRITING
        return sorted({*super().__dir__(), *more})

    def __bool__(self) -> bool:
        return bool(self.compute())

    def __int__(self) -> int:
        return int(self.compute())

    def __float__(self) -> float:
        return float(self.compute())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a lazy number has no length.")
        return self.shape[0]

    def __repr__(self) -> str:
        done = "" if self._node.value is None else ", computed"
        return f"<lazy {'x'.join(map(str, self.shape))} {self.dtype}{done}>"

    # What is asked before an array is written over.

    def _sources(self) -> Iterator[Any]:
        """The arrays that it is computed from, wherever they lie."""
        for leaf in _leaves([self._node], {}).values():
            yield leaf.value.variable._data if is_xarray(leaf.value) else leaf.value

    @staticmethod
    def _together(values: Sequence[Lazy]) -> None:
        """Compute several."""
        compute(*values)


class _Result(NamedTuple):
    """What a call gives without names."""

    shape: Shape
    dtype: np.dtype[Any]


@dataclass(slots=True, eq=False)
class _Node:
    """An array, or what a recorded call gives of others; `value` is None until it is computed.

    `like` has its shape and type, and its names if it has some: it is a DataArray then.
    """

    like: Any
    made: _Made | None = None
    position: int = 0
    value: Any = None

    @property
    def dims(self) -> Dims | None:
        """The names of the axes, if they have some."""
        return getattr(self.like, "dims", None)


def _node(x: Any, name: str = "") -> _Node:
    """The node of a lazy value, or of an array."""
    if isinstance(x, Lazy):
        return x._node
    (array,) = as_fields([x], [name])
    return _Node(array, value=array)


class _Made:
    """One recorded call; `likes` have the shapes, the types and the names of its results."""

    def __init__(self, call: Call, fields: Sequence[_Node], place: Place) -> None:
        self.call, self.place, self.number = call, place, next(_numbers)
        self.fields, likes = tuple(fields), [field.like for field in fields]
        # Whether the last axis is known to hold channels, of a field and so of the results.
        self.coloured: bool = any(
            has_channels(one.value) if one.made is None else one.made.coloured for one in fields
        )
        named = any(field.dims is not None for field in fields)
        if not named:
            call.check_spaced()
        types = types_of(call.fields, likes)
        program = program_of(call.spaced(), types)
        if place.device is None and not any(is_device(field.value) for field in fields):
            program.graph.warn()
        # How many axes the call works along, and which; where they have names, its dimensions, and
        # what is named as the fields are.
        self.ndim = program.last.ndim
        self.axes: Axes | None = None
        self.core: Dims = ()
        self.named: Any = None
        self.likes: Arrays
        arrays = [field.value for field in self.fields if field.value is not None]
        axes = _axes(program, arrays, place)
        asks = axes is place.dims is None and not call.definition.pointwise
        if asks and self.coloured and self.ndim < max(len(one.shape) for one in likes):
            # Of the channels of what others make only this is known.
            axes = tuple(range(-1 - self.ndim, -1))
        if named:
            self._name(program, axes)
            return
        if axes is not None:
            program = program_of(call.spaced(), types, axes, likes)
            self.axes = program.last.along
        self.likes = [_Result(*one) for one in program.results(likes)]

    def _name(self, program: Program, axes: Any) -> None:
        """Find the dimensions along which the call works, and name its results."""
        # Imported here: xarray is optional, and the caller has it.
        from ..arrays.xarray import Named, spacings

        named = [field.like for field in self.fields if field.dims is not None]
        # To a ufunc all dimensions are alike.
        first = next((one for one in named if one.dims), named[0])
        core = core_dims(first, self.ndim, self.place.dims, axes)
        # What has not all dimensions of the call is done before, and is the same along them.
        arrays = [f.like if set(core) <= set(f.dims or ()) else _array(f) for f in self.fields]
        own = self.named = Named(arrays, self.ndim, core)
        self.fields = tuple(
            f if one is f.like else _node(one)
            for f, one in zip(self.fields, own.fields, strict=True)
        )
        self.core = own.core
        self.call = self.call.spaced(spacings(self.call, own))
        self.likes = own.results(program.graph.nodes)


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
    place = Place(threads=threads, device=device)
    place.check(())
    nodes = {id(value._node): value._node for value in values if isinstance(value, Lazy)}
    missing = [node for node in nodes.values() if node.value is None]
    for with_names in (False, True):
        wanted = [node for node in missing if (node.dims is not None) is with_names]
        if wanted:
            _compute(wanted, place)
    return tuple(map(known, values))


def known(value: Any) -> Any:
    """The array of a lazy value, computed if need be; anything else as it is."""
    return _array(value._node) if isinstance(value, Lazy) else value


def _array(node: _Node) -> Any:
    if node.value is None:
        _compute([node], Place())
    return node.value


def called(call: Call, fields: Arrays, place: Place) -> Any:
    """What a call gives for fields of any kind."""
    place.check([one._node.like if isinstance(one, Lazy) else one for one in fields])
    if any(map(is_dataset, fields)):
        return _over_datasets(call, fields, place)
    lazily = any(isinstance(field, Lazy) for field in fields)
    if not (lazily or any(map(is_xarray, fields))):
        fields, types = typed(call.fields, fields)
        call.check_spaced()
        program = program_of(call, types)
        axes = _axes(program, fields, place)
        if axes is not None:
            program = program_of(call, types, axes, fields)
        return bare(evaluate(program, fields, place))
    # It is recorded, and done at once where no field is lazy, and where it has an `out`.
    later = place.out is None and lazily
    if later and not call.is_plain:
        call = call.settled()
    given = [_node(*pair) for pair in zip(fields, call.fields, strict=True)]
    made = _Made(call, given, place)
    nodes = [_Node(like, made, k) for k, like in enumerate(made.likes)]
    if not later:
        _compute(nodes, Place(out=place.out))
        return bare([node.value for node in nodes])
    results = list(map(Lazy, nodes))
    waiting.update(zip(map(id, nodes), results, strict=True))
    return bare(results)


def _axes(program: Program, arrays: Arrays, place: Place) -> Any:
    """The axes that a call names, or those before the channels of colour images."""
    definition = program.last.call.definition
    if not (place.axes is place.dims is None) or definition.pointwise:
        return place.axes
    return working_axes(arrays, program.last.ndim, definition.name)


def _over_datasets(call: Call, fields: Arrays, place: Place) -> Any:
    """The results for datasets among the fields, variable by variable."""
    from ..arrays.xarray import over_variables

    given = dict(zip(call.fields, fields, strict=True))

    def one(variables: dict[str, Any]) -> Any:
        return called(call, list((given | variables).values()), place)

    def ndim(variable: Any) -> int:
        types = [native(variable.dtype)] * len(fields)
        return program_of(call.spaced(), types).last.ndim

    return over_variables(one, given, place.dims, ndim)


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


# A recorded call, the axes along which it works, and where each of its fields is from: the number
# of an array or of a recorded call, and which of the results of that.
_Entry: TypeAlias = tuple[Call, Axes | None, tuple[tuple[int, int], ...]]


def _compute(wanted: Sequence[_Node], place: Place) -> None:
    calls: dict[int, _Made] = {}
    leaves = _leaves(wanted, calls)
    order = sorted(calls.values(), key=lambda made: made.number)
    places = [place, *(made.place for made in order)]
    most = (one.threads for one in places if one.threads is not None)
    device = next((one.device for one in places if one.device is not None), None)
    place = Place(out=place.out, threads=min(most, default=None), device=device)
    arrays = [leaf.value for leaf in leaves.values()]
    dims: Dims = ()
    if wanted[0].dims is not None:
        # Imported here: xarray is optional, and the caller has it.
        from ..arrays.xarray import arranged, restored

        others = (dim for array in arrays for dim in array.dims if dim not in wanted[0].dims)
        dims = (*dict.fromkeys(others), *wanted[0].dims)
        arrays = [arranged(array, dims) for array in arrays]
    numbers = {one: k for k, one in enumerate((*leaves, *map(id, order)))}

    def source(node: _Node) -> tuple[int, int]:
        return numbers[id(node) if node.value is not None else id(node.made)], node.position

    def nameless(number: int, node: Node) -> Node:
        named = order[number].named
        core = named.core[len(named.core) - node.ndim :]
        boundary = unnamed(node.boundary, core, partial(named.edge, dims=dims))
        return replace(node, call=node.call.with_options(boundary=boundary))

    # To a ufunc all axes are alike: along those of the first stencil it is a part of one pass.
    first = next((made for made in order if not made.call.definition.pointwise), None)

    recorded: list[_Entry] = []
    for made in order:
        pointwise = made.call.definition.pointwise
        like = first if first and pointwise and _has_axes(made, first) else made
        call = made.call.along(like.ndim)
        axes = tuple(dims.index(dim) - len(dims) for dim in like.core) if dims else like.axes
        recorded.append((call, axes, tuple(map(source, made.fields))))
    goals = [source(one) for one in wanted]
    results = _evaluated(recorded, goals, arrays, place, nameless if dims else None)
    for node, result in zip(wanted, results, strict=True):
        if node.dims is not None:
            result = node.like = restored(result, dims, node.like)
        node.value, node.made = result, None
        waiting.pop(id(node), None)


def _evaluated(
    recorded: Sequence[_Entry],
    goals: Sequence[tuple[int, int]],
    arrays: Arrays,
    place: Place,
    nameless: Callable[[int, Node], Node] | None,
) -> Arrays:
    """Some results of recorded calls, of which the first numbers are those of arrays.

    `nameless` gives a node, one of those of a recorded call, whose border has no names.
    """
    calls = [call for call, _, _ in recorded]
    leaves = [leaf for call in calls for leaf in leaves_of(call.definition, call.scalars)]
    # What it depends on, where that is no more than kinds of plain arrays.
    parts: list[Any] = [numbers_key(leaves), *map(array_key, arrays)]
    if place.out is not None:
        parts.append(option_key(place.out))
    kinds = [(call.kind, axes, fields) for call, axes, fields in recorded]
    key = (place.threads, *goals, *kinds, *parts)
    stays = all(options_stay(c.definition) and not c.options.boundary.conditions for c in calls)
    known = stays and place.device is None and None not in parts
    found = _programs.get(key) if known else None
    if found is not None:
        return found(arrays, Given(leaves), place.out)
    dtypes = [native(np.dtype(array.dtype)) for array in arrays]
    names, schedule = [f"x{k}" for k in range(len(arrays))], Schedule()
    if len(recorded) == 1:
        call, _, fields = recorded[0]
        for name, (k, _) in zip(call.fields, fields, strict=True):
            names[k] = name
        schedule = call.definition.schedule_for([dtypes[k] for k, _ in fields])
    graph = Graph(names, dtypes)
    results: list[tuple[int, ...]] = [(k,) for k in range(len(arrays))]
    for number, (call, axes, fields) in enumerate(recorded):
        count = len(graph.nodes)
        results.append(graph.record(call, [results[k][which] for k, which in fields], (), axes))
        if nameless is not None:
            graph.nodes[count:] = [nameless(number, node) for node in graph.nodes[count:]]
    program = Program(graph, tuple(results[k][which] for k, which in goals), schedule)
    if not known or graph.has_conditions:
        return evaluate(program, arrays, place)
    arrays = as_fields(arrays, graph.names[: len(arrays)])
    found = bound(program, arrays, place.out, place.threads)
    made = found(arrays, out=place.out)
    _programs[key] = found
    return made


def _has_axes(made: _Made, like: _Made) -> bool:
    """Whether all that a call reads has the axes along which another one works."""
    if like.core:
        return all(set(like.core) <= set(field.dims or ()) for field in made.fields)
    depth = max([like.ndim, *(-axis for axis in like.axes or ())])
    return all(len(f.like.shape) >= depth and f.dims is None for f in made.fields)


# Calls on arrays without names.


def first(
    known: Remembered[Prepared],
    call: Call,
    values: ByName,
    place: Place,
    key: Key | None,
    leaves: Leaves,
) -> Any:
    """Do a call of a kind that is not `known` yet, or that depends on more than its kind.

    `values` are those of all parameters, in order.
    """
    fields = [values[name] for name in call.fields]
    # What may be colour images is asked about each time.
    coloured = place.axes is None and not call.definition.pointwise and any(map(may_hold, fields))
    given = tuple(values.values())
    short = None if key is None or coloured else _prepared(call, given, place)
    if short is None:
        return called(call, fields, place)
    result = short(given, leaves, place.out)
    # Only what went well is remembered.
    known[key] = short
    return result


def _prepared(call: Call, values: Sequence[Any], place: Place) -> Prepared | None:
    """How calls like this one are done; nothing where that depends on more than their kind.

    What does the calls is bound to the arrays of the first one.
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
    program = program_of(call, types, place.axes, fields)
    if not options_stay(call.definition):
        return None
    if not there:
        program.graph.warn()
    run = bound(program, fields, place.out, place.threads)
    conditions = program.graph.has_conditions
    if conditions and len(program.nodes) > 1:
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
    on_device, cut = any(map(is_cupy, arrays)), any(map(is_chunked, arrays))
    graph.check_target(on_device or device is not None, cut)
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
    results = program.results(arrays)
    given, made = targets(place.out, results, arrays), [empty(*one) for one in results]
    sending.computed(program, arrays, made)
    for target, result in zip(given, made, strict=False):
        write(target, result)
    return given or made
