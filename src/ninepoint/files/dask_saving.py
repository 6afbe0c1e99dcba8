"""Write a Dask array: each task computes a chunk and writes its frames, whole.

Only a count travels back, so what is in memory is what the scheduler holds: about a chunk for
each worker.
"""

from __future__ import annotations

import os
import secrets
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from .among import found_by
from .computing import compute
from .errors import AmongInputsError
from .parts import read_paths
from .progress import Advance

if TYPE_CHECKING:
    import dask.array as da

# Where chunks cut the frames they are merged to whole frames, as many as fit [bytes].
MERGED_BYTES = 2**26


def is_dask(array: Any) -> TypeGuard[da.Array]:
    """Answer without importing Dask."""
    dask_array = sys.modules.get("dask.array")
    return dask_array is not None and isinstance(array, dask_array.Array)


def check_not_read(array: da.Array, targets: Sequence[str], missing: Sequence[str]) -> None:
    """Raise `ValueError` if `targets` lie among the files that `array` is read from.

    Those of `targets` that are `missing` are to be written; they are not even to be sources.
    """
    sources, patterns = read_paths(array.dask)
    if not sources:
        return
    folder = os.path.realpath(os.path.dirname(targets[0]) or ".")
    for target in missing:
        if os.path.join(folder, os.path.basename(target)) in sources:
            raise AmongInputsError(
                f"imsave would overwrite {target!r}, from which the array is still to be read; "
                "save into another folder"
            )
    for target in targets:
        path = os.path.join(folder, os.path.basename(target))
        pattern = next((one for one in patterns if found_by(one, path)), None)
        if pattern is not None:
            raise AmongInputsError(
                f"imsave would write {target!r} among the files that the array is read from "
                f"({pattern}), where the next run would take it for one of them; save into "
                "another folder"
            )


@dataclass(frozen=True, slots=True)
class BlockWriter:
    """The task for one chunk.

    `starts` are the numbers of the first frame of each chunk; if all chunks are equally long, as
    nearly always, that length alone: the object goes to every worker with every task.
    """

    write: Callable[[NDArray[Any], int], None]
    starts: tuple[int, ...] | int
    frame_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __call__(
        self, block: NDArray[Any], block_id: tuple[int, ...] | None = None
    ) -> NDArray[np.int64]:
        """Write the frames of `block` and give their number."""
        assert block_id is not None, "map_blocks passes it"
        place = block_id[0]
        first = place * self.starts if isinstance(self.starts, int) else self.starts[place]
        if isinstance(block, np.ma.MaskedArray):
            raise TypeError("imsave would lose the mask of this array; fill it first")
        if block.dtype != self.dtype or block.shape[1:] != self.frame_shape:
            raise TypeError(
                f"a chunk of the Dask array is {block.shape[1:]} {block.dtype}, but the array "
                f"says {self.frame_shape} {self.dtype}; give map_blocks its dtype= and chunks="
            )
        for number, frame in enumerate(block, first):
            self.write(np.asarray(frame), number)
        return np.full((1,) * block.ndim, len(block), np.int64)


def save(
    array: Any,
    numbers: Sequence[int],
    write: Callable[[NDArray[Any], int], None],
    advance: Advance,
) -> None:
    """Compute and write the chunks that hold the frames `numbers`; `write` skips the others."""
    array = _whole_frames(array)
    lengths = array.chunks[0]
    starts = tuple(accumulate(lengths, initial=0))[:-1]
    uniform = all(length == lengths[0] for length in lengths[:-1])
    name = f"imsave-{secrets.token_hex(16)}"
    written = array.map_blocks(
        BlockWriter(write, lengths[0] if uniform else starts, array.shape[1:], array.dtype),
        name=name,
        dtype=np.int64,
        chunks=((1,) * len(lengths), *((1,) for _ in array.shape[1:])),
        meta=np.empty((0,) * array.ndim, np.int64),
    )
    wanted: dict[tuple[Any, ...], int] = {}
    for number in numbers:
        key = (name, bisect_right(starts, number) - 1, *(0,) * (array.ndim - 1))
        wanted[key] = wanted.get(key, 0) + 1
    compute([written], wanted, advance)


def _whole_frames(array: Any) -> Any:
    """Merge chunks that cut frames; a deep chunk is then cut between frames to bound memory."""
    if all(len(lengths) == 1 for lengths in array.chunks[1:]):
        return array
    frame = int(np.prod(array.shape[1:])) * array.dtype.itemsize
    fitting = max(1, MERGED_BYTES // frame)
    depth = array.chunks[0] if max(array.chunks[0]) <= fitting else fitting
    return array.rechunk({0: depth, **dict.fromkeys(range(1, array.ndim), -1)})
