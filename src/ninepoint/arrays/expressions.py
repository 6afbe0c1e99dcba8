"""Programs on arrays of the library dask-array, which are expressions.

    smooth(x), x of dask-array     ->     Blocks(recipe, x), a node of the expression

The node names the program and its sources.  Its tasks are those that arrays of Dask get
(`chunked.edges`); they are written out when the expression is computed, for the chunks that its
sources have then.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from dask._task_spec import Task
from dask.base import tokenize
from dask_array._expr import ArrayExpr
from dask_array._new_collection import new_collection

from . import accepted
from . import numpy as on_numpy
from .chunked.built import cut_of, depths_of, joined, source_of
from .chunked.edges import Edges, Source
from .chunked.grid import Chunks, grid, kept_of
from .chunked.groups import Picked, grouped
from .chunked.job import Job, Work
from .chunked.layer import Rule
from .chunked.outputs import Output, outputs_of
from .chunked.places import check_places, meta_of, refuse_unknown
from .layout import Shape
from .recognise import is_expression, library_of


@dataclass(frozen=True, slots=True)
class Recipe:
    """A program on arrays of a shape, and how its results are cut; equal tokens, equal results.

    Blocks are computed in `groups` of the chunks.
    """

    job: Job
    outputs: tuple[Output, ...]
    chunks: Chunks
    groups: Chunks
    metas: tuple[Any, ...]
    token: str

    def __dask_tokenize__(self) -> str:
        return self.token

    @property
    def direct(self) -> bool:
        """Whether a block is a chunk of the only result."""
        return len(self.outputs) == 1 and self.groups == self.chunks

    def kept(self, output: int) -> list[list[tuple[int, int]]]:
        """For each axis, the chunks that a result has something of, each with its size there."""
        return kept_of(self.outputs[output].extent, self.chunks)

    def places(self, output: int) -> tuple[tuple[int, ...], ...]:
        """For each axis, the chunks that a result has something of."""
        return tuple(tuple(place for place, _ in axis) for axis in self.kept(output))

    def cut(self, output: int) -> Chunks:
        """The chunks of a result."""
        return self.outputs[output].chunks(self.chunks)


class _Node(ArrayExpr):
    """What both nodes have in common."""

    _parameters: ClassVar[list[str]]

    @cached_property
    def recipe(self) -> Recipe:
        found: Recipe = self.operand("recipe")
        return found

    @cached_property
    def _name(self) -> str:
        return f"{self.recipe.job.work.name}-{self.deterministic_token}"


class _Blocks(_Node):
    """The blocks of a program: arrays, or tuples of them where it has several results."""

    _parameters: ClassVar[list[str]] = ["recipe"]

    @cached_property
    def _meta(self) -> Any:
        metas = self.recipe.metas
        return metas[0] if len(metas) == 1 else np.empty((0,) * len(self.recipe.chunks), object)

    @cached_property
    def chunks(self) -> Chunks:
        return self.recipe.cut(0) if self.recipe.direct else self.recipe.groups

    def _layer(self) -> dict[Any, Task]:
        recipe = self.recipe
        job, groups = recipe.job, recipe.groups
        depths = depths_of(job, groups)
        tasks: dict[Any, Task] = {}
        fields: list[Source] = []
        for source, dtype in zip(
            self.operands[len(self._parameters) :], job.field_dtypes, strict=True
        ):
            cut = cut_of(source, groups)
            rule = joined(source, cut, groups, dtype)
            if rule is not None:
                tasks |= _tasks(rule)
            name = source.name if rule is None else rule.name
            fields.append(source_of(name, source.ndim, cut, depths))
        places = recipe.places(0) if recipe.direct else [range(len(axis)) for axis in groups]
        kept = tuple(
            None if len(own) == len(axis) else tuple(own)
            for own, axis in zip(places, groups, strict=True)
        )
        return tasks | _tasks(Edges(self._name, job, groups, tuple(fields), kept))


class _Result(_Node):
    """One of several results, or a result in smaller chunks than the blocks."""

    _parameters: ClassVar[list[str]] = ["recipe", "which", "blocks"]

    @cached_property
    def _meta(self) -> Any:
        return self.recipe.metas[self.operand("which")]

    @cached_property
    def chunks(self) -> Chunks:
        return self.recipe.cut(self.operand("which"))

    def _layer(self) -> dict[Any, Task]:
        recipe, which = self.recipe, self.operand("which")
        extent = recipe.outputs[which].extent
        return _tasks(
            Picked(
                self._name,
                self.operand("blocks")._name,
                which if len(recipe.outputs) > 1 else None,
                recipe.chunks,
                recipe.groups,
                recipe.places(which),
                extent.start,
                extent.stop,
                recipe.outputs[which].factors,
            )
        )


def _tasks(rule: Rule) -> dict[Any, Task]:
    return rule.tasks(itertools.product(*map(range, rule.counts)))


def lazily(work: Work, fields: Sequence[Any]) -> list[Any]:
    """Give the wanted values as lazy arrays, in the chunks of the fields; see `chunked.lazily`."""
    first = next(filter(is_expression, fields))
    shape = on_numpy.broadcast_shape([field.shape for field in fields])
    outputs = outputs_of(work, shape)
    chunks = grid([getattr(field, "chunks", None) for field in fields], shape)
    arrays = [_lazy(field, shape, chunks, library_of(first)) for field in fields]
    job = Job(work, shape, tuple(work.field_dtypes))
    metas = tuple(meta_of(arrays[0], len(shape), output.dtype) for output in outputs)
    token = tokenize(work.token, list(work.wanted), shape, chunks)
    recipe = Recipe(job, tuple(outputs), chunks, grouped(work, chunks), metas, token)
    together = _Blocks(recipe, *(array.expr for array in arrays))
    if recipe.direct:
        return [new_collection(together)]
    return [new_collection(_Result(recipe, k, together)) for k in range(len(outputs))]


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


def _lazy(field: Any, shape: Shape, chunks: Chunks, library: Any) -> Any:
    if is_expression(field):
        return field
    array = accepted.as_field(field)
    cut = chunks[len(shape) - array.ndim :]
    cut = tuple(c if n == sum(c) else (n,) for n, c in zip(array.shape, cut, strict=True))
    return library.from_array(array, chunks=cut)
