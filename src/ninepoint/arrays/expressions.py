"""Programs on arrays of the library dask-array, which are expressions.

    smooth(x)     ->     Results(computation, 0, x), a node of the expression

The node names the program and its sources.  Its tasks are those that arrays of Dask get
(`chunked.layer`); they are written out when the expression is computed, for the chunks that its
sources have then.  Nodes of several results of one call write the same tasks of its blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import getitem
from typing import Any, ClassVar

from dask._task_spec import Task, TaskRef
from dask_array._expr import ArrayExpr
from dask_array._new_collection import new_collection

from ..base.remembered import cached_property
from .accepted import is_expression, library_of
from .blocks import meta_of
from .chunked.computation import Computation
from .grid import Chunks, Output, grid_of, lazy, refuse_unknown
from .regions import Program


class Results(ArrayExpr):
    """One of the results of a program."""

    _parameters: ClassVar[list[str]] = ["computation", "which"]

    @property
    def _output(self) -> Output:
        return self.computation.outputs[self.which]  # type: ignore[no-any-return]

    @cached_property
    def _name(self) -> str:
        return f"{self.computation.program.name}-{self.deterministic_token}"

    @cached_property
    def _meta(self) -> Any:
        chunks = self.computation.chunks
        return meta_of(self.dependencies()[0], len(chunks), self._output.dtype)

    @cached_property
    def chunks(self) -> Chunks:
        one = self.computation
        found = self._output.chunks if one.alone else self._output.blocks
        return found(one.chunks)

    def _layer(self) -> dict[Any, Any]:
        one = replace(self.computation, arrays=self.dependencies())
        if len(one.outputs) == 1:
            return dict(one.blocks(self._name))
        blocks = one.blocks()
        picks = {
            (self._name, *key[1:]): Task((self._name, *key[1:]), getitem, TaskRef(key), self.which)
            for key in blocks.get_output_keys()
        }
        return {**blocks, **picks}


def lazily(program: Program, fields: Sequence[Any]) -> list[Any]:
    """Give the wanted values as lazy arrays, in the chunks of the fields; see `chunked.lazily`."""
    library = library_of(next(filter(is_expression, fields)))
    for field in filter(is_expression, fields):
        refuse_unknown(field)
    shape, chunks = grid_of(fields)
    one = Computation(program, shape, chunks, [lazy(field, chunks, library) for field in fields])
    if not one.alone:
        one = one.grouped()
    node = Computation(program, shape, one.chunks)
    sources = [array.expr for array in one.arrays]
    return [
        new_collection(Results(node, k, *sources)).rechunk(output.chunks(chunks), method="tasks")
        for k, output in enumerate(one.outputs)
    ]
