"""NetCDF and HDF5: laid out by xarray and h5netcdf, then filled by one task at a time.

A file that was cut off in the middle of a write may not be readable at all, so nobody goes on
with it: what was left is written again from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..stores.extras import need
from ..undisturbed import imported
from .alone import alone
from .contents import Contents, stored_by_xarray
from .cutting import Layout
from .units import Region


@dataclass(frozen=True, slots=True)
class Dataset:
    """A variable of a file."""

    path: str
    name: str

    def write(self, block: np.ndarray, region: Region) -> None:
        """Write whole chunks."""
        need("Writing NetCDF or HDF5", "h5py")
        with alone(self.path), imported("h5py").File(self.path, "r+") as file:
            file[self.name][region] = block


def check_dtype(name: str, dtype: np.dtype[Any]) -> None:
    """Raise where NetCDF has no type for these numbers."""
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or dtype == np.float16:
        of = f" of {name!r}" if name else ""
        cure = (
            "save as .zarr" if dtype.kind == "c" else "convert them, with array.astype('float64')"
        )
        raise TypeError(f"NetCDF cannot hold the {dtype} values{of}: {cure}")


def lay_out(path: str, contents: Contents, layouts: Mapping[str, Layout]) -> None:
    """Write everything but the values of the variables."""
    need("Writing NetCDF or HDF5", "xarray", "h5netcdf")
    dataset = contents.dataset
    encoded, attributes = imported("xarray").conventions.encode_dataset_coordinates(dataset)
    rest = dataset.drop_vars([variable.name for variable in contents.variables])
    with stored_by_xarray():
        rest.assign_attrs(attributes).to_netcdf(path, engine="h5netcdf")
    with imported("h5netcdf").File(path, "r+") as file:
        for variable in contents.variables:
            for dim, n in zip(variable.dims, variable.array.shape, strict=True):
                if dim not in file.dimensions:
                    file.dimensions[dim] = n
            attrs = dict(variable.attrs)
            if "coordinates" in (near := encoded[variable.name].attrs):
                attrs["coordinates"] = near["coordinates"]
            made = file.create_variable(
                variable.name,
                variable.dims,
                variable.array.dtype.newbyteorder("="),
                chunks=layouts[variable.name].chunks,
                fillvalue=attrs.pop("_FillValue", None),
            )
            made.attrs.update(attrs)
