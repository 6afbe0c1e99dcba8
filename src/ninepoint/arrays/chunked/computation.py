"""Computations: a program on fields that are cut, and what its results are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from dask._task_spec import TaskRef
from dask.base import tokenize

from ..layout import Shape
from .grid import Chunks
from .job import Job, Work
from .outputs import Output, outputs_of
from .rules import Rules, rules_of


@dataclass(frozen=True, eq=False)
class Computation:
    """A program on fields of a shape together, which are cut so; in Dask also as its `arrays`."""

    work: Work
    shape: Shape
    chunks: Chunks
    fields: Sequence[Any] = ()
    arrays: Sequence[Any] = ()

    @cached_property
    def job(self) -> Job:
        """What all its tasks have in common."""
        return Job(self.work, self.shape)

    @cached_property
    def outputs(self) -> list[Output]:
        """What the wanted values are; raises where the program cannot be done on such fields."""
        return outputs_of(self.work, self.shape)

    @cached_property
    def identity(self) -> str:
        """Names the results: equal identities, equal elements."""
        arrays = [(array.name, array.dtype.str) for array in self.arrays]
        wanted = list(self.work.wanted)
        return str(tokenize(self.work.token, wanted, self.shape, self.chunks, arrays))

    def __dask_tokenize__(self) -> str:
        return self.identity

    @property
    def inputs(self) -> list[tuple[Any, Any, Any]]:
        """Each field, the same as an array of Dask, and the type that the program takes it as."""
        return list(zip(self.fields, self.arrays, self.work.field_dtypes, strict=True))

    @property
    def names(self) -> list[str]:
        """The names of the results."""
        name, count = self.work.name, len(self.outputs)
        if count == 1:
            return [f"{name}-{self.identity}"]
        return [f"{name}-{k}-{self.identity}" for k in range(count)]

    @property
    def whole(self) -> str:
        """What blocks are called that are not results yet."""
        # Dask joins the names of tasks that it makes one: "all-x-0" may be one of its own.
        return f"{self.work.name}-all-{self.identity}"

    @property
    def alone(self) -> str:
        """What blocks are called, which are the only result."""
        return self.names[0] if len(self.outputs) == 1 else self.whole

    def rules(self) -> Rules:
        """The rules of blocks that are made of chunks and of faces of their neighbours."""
        inputs = [(array.name, array.chunks) for array in self.arrays]
        return rules_of(self.job, self.outputs, self.chunks, inputs, self.whole, self.names)

    def task(self, function: Any) -> tuple[Any, list[Any], dict[str, Any]]:
        """A function of the job as one of what a task is given, and the node that has the job."""
        apart = self.job.apart
        if not apart:
            return partial(function, self.job), [], {}
        return function, [TaskRef(apart), None], {apart: self.job}
