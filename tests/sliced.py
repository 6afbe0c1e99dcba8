"""Arrays that can be sliced, as those of files are, and Dask arrays that are views of them."""

from typing import Any

import numpy as np

from seams import view


class Sliced:
    """An array with slices, a shape, and pieces of its own; `asked` are all slices."""

    def __init__(self, array: np.ndarray, chunks: tuple[int, ...]) -> None:
        self.array, self.chunks = array, chunks
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self.asked: list[Any] = []

    def __getitem__(self, index: Any) -> np.ndarray:
        self.asked.append(index)
        return self.array[index]

    def __dask_tokenize__(self) -> Any:
        return "sliced", self.array.tobytes(), str(self.dtype), self.shape, self.chunks


def sliced(array: np.ndarray, chunks: Any, piece: int = 1) -> Any:
    """A Dask array that is a view of something that can be sliced."""
    held = Sliced(array, (piece,) * array.ndim)
    return view(held, chunks, held.chunks)
