"""What the tasks of a program on a Dask array run.

A job holds the recipe, never compiled code: the worker compiles or loads it, once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...backends.threads import serial
from ..again import Again
from ..blocks import Part, assemble
from ..borders import Array
from ..layout import Region, Shape
from ..regions import Node, Span
from ..run import Block, Domain
from .outputs import outputs_of
from .places import in_memory, nothing


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
            return _bare(self.work.run(Block(tuple(map(in_memory, blocks))), None))

    def on_block(
        self,
        region: tuple[Span, ...],
        start: tuple[int, ...],
        recipes: tuple[tuple[Part, ...], ...],
        *chunks: Any,
    ) -> Any:
        """Compute the block `region` from the chunks that `recipes` ask for."""
        wanted = Region(tuple(a for a, _ in region), tuple(b for _, b in region))
        if not wanted.points:
            return _bare(
                [
                    nothing(
                        next(iter(chunks), None), wanted.clip(output.extent).shape, output.dtype
                    )
                    for output in outputs_of(self.work, self.shape)
                ]
            )
        arrays: list[Array] = []
        taken = 0
        for own, dtype in zip(recipes, self.field_dtypes, strict=True):
            count = math.prod(len(part.chunks) for part in own)
            blocks = [in_memory(chunk) for chunk in chunks[taken : taken + count]]
            taken += count
            # An axis that a field lacks has length 1.
            blocks = [block[(None,) * (len(own) - block.ndim)] for block in blocks]
            arrays.append(assemble(own, blocks, dtype))
        block = Block(tuple(arrays), start, Domain(self.shape))
        with serial():
            return _bare(self.work.run(block, wanted))


def _bare(results: list[Array]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)
