"""Variables that xarray opens: NetCDF, HDF5 with dimension scales, Zarr with named dimensions.

xarray knows about coordinates, missing values and scaled numbers; here every process opens the
file once, and reads regions of the variable.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..undisturbed import imported
from .blocks import natural
from .damage import opening
from .extras import need
from .marks import Mark, mark_of
from .named import Named
from .naming import pick
from .stored import Array, Stored


@dataclass(frozen=True, slots=True)
class Labelled:
    """A variable of a dataset, decoded as xarray does it."""

    path: str
    engine: str
    group: str
    name: str

    def open(self) -> Any:
        """Open the dataset and find the variable."""
        return dataset(self.path, self.engine, self.group).variables[self.name]

    def read(self, opened: Any, index: tuple[slice, ...]) -> Array:
        """Read and decode; xarray locks what must be locked."""
        return np.asarray(opened[index].values)


def dataset(path: str, engine: str, group: str) -> Any:
    """Open a dataset without reading any variable but the coordinates along dimensions."""
    need("Reading this file", "xarray", *_NEEDED.get(engine, ()))
    options: dict[str, Any] = {"consolidated": None} if engine == "zarr" else {}
    if engine == "zarr":
        options["consolidated"] = _consolidated(path, group)
    return imported("xarray").open_dataset(
        path, engine=engine, group=group or None, cache=False, **options
    )


_NEEDED = {"h5netcdf": ("h5netcdf",), "zarr": ("zarr",), "scipy": ("scipy",)}


def _consolidated(path: str, group: str) -> bool:
    found: Any = imported("zarr").open_group(path, path=group, mode="r")
    return getattr(found.metadata, "consolidated_metadata", None) is not None


def open_netcdf(path: str, variable: str | None) -> Named:
    """Look for a variable of a NetCDF or HDF5 file."""
    mark = mark_of(path)
    with open(path, "rb") as file:
        engine = "scipy" if file.read(3) == b"CDF" else "h5netcdf"
    if engine == "h5netcdf":
        need("Reading NetCDF", "xarray", "h5netcdf")
    group, _, name = (variable or "").strip("/").rpartition("/")
    return labelled(lambda _: mark, path, engine, group, name or None)


def labelled(
    mark: Callable[[str], Mark],
    path: str,
    engine: str,
    group: str,
    variable: str | None,
    where: str = "",
) -> Named:
    """Look for a variable, which may be the only one, and take what the dataset says of it.

    `mark` gives the mark of a variable.
    """
    with opening(f"{path}/{group}" if group else path):
        found = dataset(path, engine, group)
    numeric = {
        str(name): one
        for name, one in found.variables.items()
        if one.ndim and one.dtype.kind in "biufc"
    }
    every = found.variables.values()
    bounds = {one.attrs.get("bounds") or one.encoding.get("bounds") for one in every}
    main = [name for name in map(str, found.data_vars) if name in numeric and name not in bounds]
    name = pick(where or path, main, variable, list(numeric))
    one = numeric[name]
    told = one.encoding.get("chunks") or one.encoding.get("chunksizes")
    pieces = tuple(map(int, told)) if told else (1,) * one.ndim
    place = path if "://" in path else os.path.abspath(path)
    format = Labelled(place, engine, group, name)
    stored = Stored(format, mark(name), one.shape, one.dtype, pieces)
    shards = one.encoding.get("shards")
    blocks = natural(one.shape, one.dtype.itemsize, pieces, shards)
    return Named(stored, blocks, dims=one.dims, like=found[name])
