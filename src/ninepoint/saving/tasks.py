"""One task for each unit: it computes the unit, writes it, and notes that it is written.

    array, cut to units  ->  Writer  ->  the store; the journal; a 1 for the scheduler

Only the 1 travels back.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..arrays.recognise import is_cupy
from ..files.computing import compute
from ..files.progress import Advance
from .journal import Journal
from .units import Region, Shape, Units


class Target(Protocol):
    """An array in a store; pickles as the place where it is."""

    @property
    def path(self) -> str:
        """The store, for what is said of it."""

    def write(self, block: np.ndarray, region: Region) -> None:
        """Write the elements of a region, which is made of whole units."""


@dataclass(frozen=True, slots=True)
class Item:
    """One lazy array and where it goes; `first` is the number of its first unit in the store."""

    name: str
    array: Any
    units: Units
    target: Target
    first: int = 0

    @property
    def numbers(self) -> range:
        """The numbers of its units."""
        return range(self.first, self.first + self.units.count)


@dataclass(frozen=True, slots=True)
class Writer:
    """The task for a unit."""

    units: Units
    target: Target
    first: int
    dtype: np.dtype[Any]
    journal: Journal | None

    def __call__(self, block: Any, block_id: Shape | None = None) -> np.ndarray:
        """Write the elements of `block`."""
        assert block_id is not None, "map_blocks passes it"
        region = self.units.region(block_id)
        if isinstance(block, np.ma.MaskedArray):
            raise TypeError("save would lose the mask of this array; fill it first")
        shape = tuple(one.stop - one.start for one in region)
        if block.dtype != self.dtype or block.shape != shape:
            raise TypeError(
                f"a chunk of the Dask array is {block.shape} {block.dtype}, but the array says "
                f"{shape} {self.dtype}; give map_blocks its dtype= and chunks="
            )
        try:
            self.target.write(block.get() if is_cupy(block) else np.asarray(block), region)
            if self.journal is not None:
                self.journal.mark(self.first + self.units.number(block_id))
        except OSError as error:
            rest = (
                "; what was written is of no use, and is written again"
                if self.journal is None
                else "; what is written stays, and resume=True goes on after it"
            )
            where = ", ".join(f"{one.start}:{one.stop}" for one in region)
            raise OSError(
                error.errno,
                f"{error.strerror or error}: [{where}] is not written{rest}",
                self.target.path,
            ) from error
        return np.ones((1,) * block.ndim, np.int8)


def write(
    items: Iterable[Item], numbers: Iterable[int], journal: Journal | None, advance: Advance
) -> None:
    """Compute and write the units of these numbers, which count through all items."""
    wanted: dict[tuple[Any, ...], int] = {}
    arrays = []
    numbers = set(numbers)
    for item in items:
        own = [number for number in item.numbers if number in numbers]
        if not own:
            continue
        name = f"save-{secrets.token_hex(16)}"
        arrays.append(
            cut(item.array, item.units.chunks).map_blocks(
                Writer(item.units, item.target, item.first, item.array.dtype, journal),
                name=name,
                dtype=np.int8,
                chunks=tuple((1,) * count for count in item.units.counts),
                meta=np.empty((0,) * item.array.ndim, np.int8),
            )
        )
        wanted |= {(name, *item.units.place(number - item.first)): 1 for number in own}
    if wanted:
        compute(arrays, wanted, advance)


def cut(array: Any, chunks: tuple[Shape, ...]) -> Any:
    """The same values in other chunks: by other reads of the sources, where that can be.

    Else Dask puts pieces of chunks together; never by sending all chunks through all workers
    ("p2p"), which is lost with one of them.
    """
    if array.chunks == chunks:
        return array
    # Imported here: Dask is optional, and the caller has it.
    from ..arrays.chunked.computation import recut

    made = recut(array, chunks)
    return array.rechunk(chunks, method="tasks") if made is None else made
