"""Engines: what computes lazy arrays in chunks, block by block with what is near each of them.

dask.array    `chunked`       a graph of tasks
dask-array    `expressions`   a node of an expression, which makes the tasks
Cubed         `on_cubed`      an operation that reads the chunks of stores

An engine is a module with two functions: `check(fields)` raises where a field cannot be computed
with, and `lazily(work, fields)` gives the wanted values as arrays of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .recognise import is_chunked, is_cubed, is_dask, is_expression

if TYPE_CHECKING:
    from .chunked import Work


class Engine(Protocol):
    """A module that computes the lazy arrays of a library."""

    def check(self, fields: Sequence[Any]) -> None:
        """Raise where a field is no array that one can compute with."""

    def lazily(self, work: Work, fields: Sequence[Any]) -> list[Any]:
        """Give the wanted values as lazy arrays, in the chunks of the fields."""


def engine_of(fields: Sequence[Any]) -> Engine:
    """What computes these arrays, at least one of which is cut in chunks.

    Raises
    ------
    TypeError
        If they are of several libraries.
    """
    lazy = [field for field in fields if is_chunked(field)]
    kinds = {type(field): field for field in lazy}
    if len(kinds) > 1:
        names = " and ".join(sorted(_named(kind) for kind in kinds))
        raise TypeError(
            f"{names} are lazy arrays of different libraries, which no one computes together; "
            "make them one kind, for example with x.compute() of the small ones."
        )
    # Imported here: each library is optional, and the caller has the one of the arrays.
    if is_cubed(lazy[0]):
        from . import on_cubed

        return on_cubed
    if is_expression(lazy[0]):
        from . import expressions

        return expressions
    if hasattr(lazy[0], "expr"):
        raise TypeError(
            "Dask was imported with array.query-planning, whose arrays no stencil takes: set "
            '"array.query-planning" to False by dask.config.set before dask.array is imported, or '
            "use the library dask-array."
        )
    from . import chunked

    return chunked


def as_dask(array: Any) -> Any:
    """An array of dask-array as one of Dask, with the tasks that it has when it is computed.

    Raises
    ------
    TypeError
        If it is one of Cubed, which Dask cannot compute.
    """
    if is_cubed(array):
        raise TypeError(
            "an array of Cubed is written by Cubed: cubed.to_zarr(x, path), which "
            "ninepoint.open(path) opens."
        )
    if is_dask(array) or not is_expression(array):
        return array
    # Imported here: dask-array has it.
    import dask.array

    untyped: Any = dask.array
    return untyped.Array(dict(array.__dask_graph__()), array.name, array.chunks, meta=array._meta)


def _named(kind: type) -> str:
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
