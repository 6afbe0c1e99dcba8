"""What the tasks of a program on a Dask array run.

A job holds the recipe, never compiled code: the worker compiles or loads it, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...backends.threads import serial
from ..again import Again
from ..borders import Array
from ..layout import Region, Shape
from ..regions import Node
from ..run import Block
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
    def parted(self) -> bool:
        """Whether parts of a block may be computed apart, each of them into its place."""

    def run(
        self,
        block: Block,
        region: Region | None,
        outs: Mapping[int, Array] | None = None,
        *,
        noted: Again | None = None,
    ) -> list[Array]:
        """Compute the wanted values from a block, into arrays where it can.

        Only what is `parted` is given such.  It is `noted` how, if it can be done so again.
        """


@dataclass(frozen=True, slots=True)
class Job:
    """What every task of one program has in common."""

    work: Work
    shape: Shape
    field_dtypes: tuple[np.dtype[Any], ...]

    def on_whole(self, *blocks: Any) -> Any:
        """Compute blocks whose core axes are whole: as if they were arrays of their own."""
        with serial():
            return bare(self.work.run(Block(tuple(map(in_memory, blocks))), None))


def bare(results: list[Array]) -> Any:
    """The only result, or all."""
    return results[0] if len(results) == 1 else tuple(results)
