"""What the tasks of a program on a Dask array run, and arrays that lie where chunks lie.

A job holds the recipe, never compiled code: the worker compiles or loads it, once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from dask._task_spec import DataNode, TaskRef
from dask.base import tokenize

from ...backends.memory import empty
from ...backends.threads import serial
from ..accepted import is_cupy
from ..borders import Array
from ..layout import Region, Shape
from ..regions import Node
from ..work import Block


class Work(Protocol):
    """A program, as far as a graph of tasks knows it; pickles as its meaning.

    Its nodes work on fields of one shape, and none that gives "valid" results is read by
    another.  Along an axis that is cut they all take it as a ring or none does.
    """

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def wanted(self) -> Sequence[int]: ...

    @property
    def field_dtypes(self) -> Sequence[np.dtype[Any]]: ...

    @property
    def token(self) -> str:
        """Names the meaning: equal tokens, equal results."""

    @property
    def name(self) -> str:
        """Begins the name of the layers."""

    @property
    def schedule(self) -> Hashable:
        """With what choices it is planned, in which programs of one meaning may differ."""

    @property
    def held(self) -> int:
        """Bytes of the arrays of coefficients that it has."""

    def run(self, block: Block, region: Region | None) -> list[Array]:
        """Compute the wanted values from a block."""


# Bytes of coefficients up to which every task has them: as many as a task has besides.
WITHIN = 1 << 12


@dataclass(frozen=True, slots=True)
class Job:
    """What every task of one program has in common: the program, and the shapes of its fields.

    `shape` is that of all of them together.
    """

    work: Work
    shape: Shape
    fields: tuple[Shape, ...]

    @property
    def node(self) -> tuple[dict[Any, Any], Any]:
        """What tasks are given of it: itself, or the name of a node, which is given as well.

        With many coefficients it is sent to a worker once, not with every task.
        """
        if self.work.held <= WITHIN:
            return {}, self
        meaning = self.work.token, self.work.wanted, self.shape, self.fields
        key = f"job-{self.work.name}-{tokenize(meaning)}"
        return {key: DataNode(key, self)}, TaskRef(key)


def whole_of(job: Job, *blocks: Any) -> Any:
    """Compute blocks whose core axes are whole: as if they were arrays of their own."""
    with serial():
        return bare(job.work.run(Block(tuple(map(in_memory, blocks))), None))


def bare(results: list[Array]) -> Any:
    """The only result, or all."""
    return results[0] if len(results) == 1 else tuple(results)


def meta_of(like: Any, ndim: int, dtype: np.dtype[Any]) -> Any:
    """Give an array without elements, of the kind that chunks like this one make."""
    return nothing(like._meta, (0,) * ndim, dtype)


def nothing(like: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    """Give an array of this shape where another one lies."""
    if not is_cupy(like):
        return empty(shape, dtype)
    # Imported here: CuPy is optional, and the caller has it.
    from ninepoint.backends.cuda import driver

    return driver.empty(shape, dtype)


def uploaded(block: Any) -> Any:
    """Give a chunk on the GPU."""
    # Imported here: CuPy is optional, and the caller has it.
    from ninepoint.backends.cuda import driver

    return driver.uploaded(np.asarray(block))


def in_memory(block: Any, dtype: Any = None) -> Any:
    """Give a chunk as an array that can be computed with where it is."""
    return block if is_cupy(block) else np.asarray(block, dtype)
