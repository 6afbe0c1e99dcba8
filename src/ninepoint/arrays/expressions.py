"""Programs on arrays of the library dask-array, which are expressions.

    smooth(x)     ->     Results(recipe, 0, x), a node of the expression

The node names the program and its sources.  Its tasks are those that arrays of Dask get
(`chunked.rules`); they are written out when the expression is computed, for the chunks that its
sources have then.  Nodes of several results of one call write the same tasks of its blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from dask.base import tokenize
from dask_array._expr import ArrayExpr
from dask_array._new_collection import new_collection

from . import accepted
from . import numpy as on_numpy
from .chunked.grid import Chunks, cut_as, grid
from .chunked.halos import grouped
from .chunked.job import Job, Work
from .chunked.layer import Rule
from .chunked.outputs import Output, outputs_of
from .chunked.places import check_places, meta_of, refuse_unknown
from .chunked.rules import blocks_of, is_direct, results_of
from .recognise import is_expression, library_of


@dataclass(frozen=True, slots=True)
class Recipe:
    """A program on arrays of a shape, and how its results are cut; equal tokens, equal results."""

    job: Job
    outputs: tuple[Output, ...]
    chunks: Chunks
    metas: tuple[Any, ...]
    token: str

    def __dask_tokenize__(self) -> str:
        return self.token


class Results(ArrayExpr):
    """One of the results of a program."""

    _parameters: ClassVar[list[str]] = ["recipe", "which"]

    @cached_property
    def _name(self) -> str:
        return f"{self.operand('recipe').job.work.name}-{self.deterministic_token}"

    @cached_property
    def _meta(self) -> Any:
        return self.operand("recipe").metas[self.operand("which")]

    @cached_property
    def chunks(self) -> Chunks:
        recipe: Recipe = self.operand("recipe")
        output: Output = recipe.outputs[self.operand("which")]
        return output.chunks(recipe.chunks)

    def _layer(self) -> dict[Any, Any]:
        recipe: Recipe = self.operand("recipe")
        which, sources = self.operand("which"), self.operands[len(self._parameters) :]
        groups = grouped(recipe.job.work, recipe.chunks)
        name = self._name
        if not is_direct(recipe.outputs, recipe.chunks, groups):
            names = [source.name for source in sources]
            name = f"{recipe.job.work.name}-all-{tokenize(recipe, names)}"
        inputs = [(source.name, source.chunks) for source in sources]
        recut, blocks = blocks_of(recipe.job, groups, name, inputs)
        rules: list[Rule] = [*recut, blocks]
        if name != self._name:
            names = [self._name] * len(recipe.outputs)
            rules.append(results_of(recipe.outputs, recipe.chunks, groups, name, names)[which])
        tasks: dict[Any, Any] = {}
        for rule in rules:
            tasks |= rule.tasks(itertools.product(*map(range, rule.counts)))
        return tasks


def lazily(work: Work, fields: Sequence[Any]) -> list[Any]:
    """Give the wanted values as lazy arrays, in the chunks of the fields; see `chunked.lazily`."""
    library = library_of(next(filter(is_expression, fields)))
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    outputs = outputs_of(work, shape)
    chunks = grid([getattr(field, "chunks", None) for field in fields], shape)
    arrays = [_lazy(field, chunks, library) for field in fields]
    metas = tuple(meta_of(arrays[0], len(shape), output.dtype) for output in outputs)
    token = tokenize(work.token, list(work.wanted), shape, chunks)
    recipe = Recipe(Job(work, shape), tuple(outputs), chunks, metas, token)
    sources = [array.expr for array in arrays]
    return [new_collection(Results(recipe, k, *sources)) for k in range(len(outputs))]


def check(fields: Sequence[Any]) -> None:
    """Raise where a field is no array that one can compute with."""
    check_places(fields)
    for field in fields:
        if not is_expression(field):
            accepted.as_field(field)
            continue
        accepted.refuse_mask(field._meta)
        accepted.check_dtype(field.dtype)
        refuse_unknown(field)


def _lazy(field: Any, chunks: Chunks, library: Any) -> Any:
    if is_expression(field):
        return field
    array = accepted.as_field(field)
    return library.from_array(array, chunks=cut_as(array.shape, chunks))
