"""What the tasks of a program on a Dask array run.

A job holds the recipe, never compiled code: the worker compiles or loads it, once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from dask._task_spec import DataNode, TaskRef
from dask.base import tokenize

from ...backends.threads import serial
from ..borders import Array
from ..layout import Region, Shape
from ..regions import Node
from ..work import Block
from .places import in_memory


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
    def choices(self) -> Hashable:
        """With what choices it is planned, in which programs of one meaning may differ."""

    @property
    def held(self) -> int:
        """Bytes of the arrays of coefficients that it has."""

    @property
    def is_local(self) -> bool:
        """Whether a call of it may be done where the chunks lie."""

    def run(self, block: Block, region: Region | None) -> list[Array]:
        """Compute the wanted values from a block."""


# Bytes of coefficients up to which every task has them: as many as a task has besides.
WITHIN = 1 << 12


@dataclass(frozen=True, slots=True)
class Job:
    """What every task of one program has in common: the program, and the shape of the fields."""

    work: Work
    shape: Shape

    @property
    def node(self) -> tuple[dict[Any, Any], Any]:
        """What tasks are given of it: itself, or the name of a node, which is given as well.

        With many coefficients it is sent to a worker once, not with every task.
        """
        if self.work.held <= WITHIN:
            return {}, self
        key = f"job-{self.work.name}-{tokenize(self.work.token, self.work.wanted, self.shape)}"
        return {key: DataNode(key, self)}, TaskRef(key)


def whole_of(job: Job, *blocks: Any) -> Any:
    """Compute blocks whose core axes are whole: as if they were arrays of their own."""
    with serial():
        return bare(job.work.run(Block(tuple(map(in_memory, blocks))), None))


def bare(results: list[Array]) -> Any:
    """The only result, or all."""
    return results[0] if len(results) == 1 else tuple(results)
