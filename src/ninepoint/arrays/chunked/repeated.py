"""Run a program on a block as it was run on one like it before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ...remembered import Remembered
from ..again import Again
from ..borders import Array
from ..layout import Region
from ..work import Block

if TYPE_CHECKING:
    from .job import Work

# How blocks of some kind are done, by the types and the layout of their arrays.
Known: TypeAlias = Remembered[Any, Again]


def repeated(
    work: Work,
    block: Block,
    region: Region | None,
    outs: Mapping[int, Array],
    known: Known,
    there: bool,
) -> list[Array]:
    """Give what a program makes of a block, see `Work.run`; `known` is for blocks that stand so.

    For arrays that are `there`, on a GPU, it settles calls by how these lie, itself.
    """
    if there or not work.token or not work.parted:
        return work.run(block, region, outs)
    arrays = (*block.arrays, *outs.values())
    key = tuple([(one.dtype, one.shape, one.strides, one.flags.aligned) for one in arrays])
    again = known.get(key)
    if again is None:
        known[key] = again = Again()
    elif not again.other:
        # Another thread may be about to note it.
        made = again(dict(enumerate(block.arrays)), outs) if again.ready else None
        return work.run(block, region, outs) if made is None else made
    return work.run(block, region, outs, noted=again)
