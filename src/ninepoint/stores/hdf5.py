"""Datasets of HDF5 that name no dimensions, through h5py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..undisturbed import imported
from .extras import need
from .marks import mark_of
from .naming import pick
from .stored import Array, Stored


@dataclass(frozen=True, slots=True)
class HDF5:
    """A dataset of a file; h5py itself lets one thread in at a time."""

    path: str
    name: str

    def open(self) -> Any:
        """Open the file and find the dataset."""
        need("Reading HDF5", "h5py")
        return imported("h5py").File(self.path, "r")[self.name]

    def read(self, opened: Any, index: tuple[slice, ...]) -> Array:
        """Read and decompress."""
        return np.asarray(opened[index])


def open_hdf5(path: str, variable: str | None) -> Stored | None:
    """Look for a dataset; None where xarray should read it, since it names its dimensions."""
    need("Reading HDF5", "h5py")
    h5py: Any = imported("h5py")
    mark = mark_of(path)
    found: dict[str, Any] = {}
    with h5py.File(mark.path, "r") as file:
        if "_NCProperties" in file.attrs:
            return None

        def look(name: str, one: Any) -> None:
            if isinstance(one, h5py.Dataset) and one.ndim and one.dtype.kind in "biufc":
                found[name] = one

        file.visititems(look)
        main = [n for n, one in found.items() if one.attrs.get("CLASS") != b"DIMENSION_SCALE"]
        name = pick(path, main, variable, [*found])
        if any(len(dim) for dim in found[name].dims):
            return None
        one = found[name]
        pieces = one.chunks or (1,) * one.ndim
        return Stored(HDF5(mark.path, name), mark, one.shape, one.dtype, pieces)
