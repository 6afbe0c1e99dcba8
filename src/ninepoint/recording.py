"""Lazy values: calls of stencils that are recorded, and done together when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .arrays import numpy as on_numpy
from .arrays.layout import layout
from .arrays.recognise import is_dask, is_xarray
from .graph import Graph
from .lowering.schedule import Schedule
from .running import evaluate

# Adds a call to a graph, on fields by number; gives the numbers of its results.
Record: TypeAlias = Callable[[Graph, Sequence[int]], tuple[int, ...]]


class Lazy(NDArrayOperatorsMixin):
    """An array, or what a stencil gives of lazy values, once it is asked for.

    Made by `lazy`.  Stencils and filters that are called with it give lazy values too; whatever
    else is done with it, computes it first.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    ndim : int
    """

    def __init__(self, value: Any = None, made: _Made | None = None, position: int = 0) -> None:
        self._value = value
        self._made = made
        self._position = position
        self.shape: tuple[int, ...] = made.shapes[position] if made else value.shape
        self.dtype: np.dtype[Any] = made.dtypes[position] if made else value.dtype

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    def compute(self, *, threads: int | None = None) -> Any:
        """Do all recorded calls that this value needs, as far as they were not done before.

        Parameters
        ----------
        threads : int, optional
            The greatest number of threads; by default all that the process may use.

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
        return compute(self, threads=threads)[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Compute it for NumPy."""
        return np.array(self.compute(), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute the operands of an operation of NumPy, and then its result."""
        return getattr(ufunc, method)(*map(known, inputs), **options)

    def __getitem__(self, index: Any) -> Any:
        return self.compute()[index]

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a lazy number has no length.")
        return self.shape[0]

    def __repr__(self) -> str:
        done = "" if self._value is None else ", computed"
        return f"<lazy {'x'.join(map(str, self.shape))} {self.dtype}{done}>"


class _Made:
    """One recorded call, and what it gives."""

    def __init__(self, record: Record, fields: Sequence[Lazy]) -> None:
        self.record = record
        self.fields = tuple(fields)
        graph = Graph([f"x{k}" for k in range(len(fields))], [_native(f) for f in fields])
        numbers = record(graph, range(len(fields)))
        shapes = [field.shape for field in fields]
        for node in graph.nodes:
            shape = on_numpy.broadcast_shape([shapes[value] for value in node.fields])
            lead, core = shape[: len(shape) - node.ndim], shape[len(shape) - node.ndim :]
            found = layout(core, node.compiled.reaches, node.border)
            shapes += [(*lead, *one) for one in found.out_shapes]
        self.shapes = [shapes[number] for number in numbers]
        self.dtypes = [graph.dtypes[number] for number in numbers]


def _native(field: Lazy) -> np.dtype[Any]:
    return on_numpy.native(np.dtype(field.dtype))


def lazy(x: Any) -> Lazy:
    """Record what stencils and filters do with an array, to do it in one pass over memory.

    Parameters
    ----------
    x : array
        Of NumPy, Dask or xarray, or anything that NumPy takes for an array.

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
    if isinstance(x, Lazy):
        return x
    return Lazy(x if is_dask(x) or is_xarray(x) else on_numpy.as_field(x))


def compute(*values: Any, threads: int | None = None) -> tuple[Any, ...]:
    """Compute several lazy values together: what they share is done once.

    Parameters
    ----------
    *values : Lazy or array
        What stencils gave for lazy arrays; other arrays are given back as they are.
    threads : int, optional
        The greatest number of threads; by default all that the process may use.

    Returns
    -------
    tuple of arrays
        One for each value.
    """
    wanted = [v for v in values if isinstance(v, Lazy) and v._value is None]
    if wanted:
        _compute(list({id(v): v for v in wanted}.values()), threads)
    return tuple(map(known, values))


def known(value: Any) -> Any:
    """The array of a lazy value, computed if need be; anything else as it is."""
    if not isinstance(value, Lazy):
        return value
    if value._value is None:
        _compute([value], None)
    return value._value


def recorded(fields: Sequence[Any], record: Record) -> Any:
    """What a call gives for fields of which one at least is lazy."""
    made = _Made(record, [lazy(field) for field in fields])
    results = tuple(Lazy(None, made, k) for k in range(len(made.dtypes)))
    return results[0] if len(results) == 1 else results


def _compute(wanted: Sequence[Lazy], threads: int | None) -> None:
    leaves: dict[int, Lazy] = {}
    calls: dict[int, _Made] = {}
    pending: list[Lazy] = list(wanted)
    while pending:
        value = pending.pop()
        if value._value is not None:
            leaves[id(value)] = value
        elif value._made is not None and id(value._made) not in calls:
            calls[id(value._made)] = value._made
            pending += value._made.fields
    graph = Graph([f"x{k}" for k in range(len(leaves))], [_native(v) for v in leaves.values()])
    numbers: dict[Any, Any] = dict(zip(leaves, range(len(leaves)), strict=True))

    def number(value: Lazy) -> int:
        if value._value is not None:
            return int(numbers[id(value)])
        assert value._made is not None
        return int(numbers[id(value._made)][value._position])

    for made in _in_order(calls):
        numbers[id(made)] = made.record(graph, [number(field) for field in made.fields])
    arrays = [leaf._value for leaf in leaves.values()]
    found = evaluate(graph, arrays, [number(v) for v in wanted], Schedule(), threads=threads)
    for value, result in zip(wanted, found, strict=True):
        value._value, value._made = result, None


def _in_order(calls: Mapping[int, _Made]) -> list[_Made]:
    """The calls, each after those that it needs."""
    done: dict[int, _Made] = {}
    stack = list(calls.values())
    while stack:
        made = stack[-1]
        before = [
            field._made
            for field in made.fields
            if field._value is None and field._made is not None and id(field._made) not in done
        ]
        if before:
            stack += before
            continue
        done.setdefault(id(stack.pop()), made)
    return list(done.values())
