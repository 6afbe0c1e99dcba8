"""Arrays in files of `.npy`, HDF5, NetCDF and GeoTIFF, and variables that xarray knows.

xarray knows about coordinates, missing values and scaled numbers, rioxarray about projections;
here every process opens the file once, and reads regions of one variable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..undisturbed import imported
from .errors import opening
from .opened import Array, Found, opened
from .paths import Stamp, need, readable


def open_npy(path: str) -> Found:
    """Look at the header of an array of NumPy."""
    stamp = readable(path)
    return Found(opened(_npy, path, stamp, _npy(path), None))


def _npy(path: str) -> Array:
    """Map it; what is read is what the system then loads."""
    # Nothing can be mapped of an array without elements.
    is_small = os.path.getsize(path) < 2**10
    return np.asarray(np.load(path, mmap_mode=None if is_small else "r", allow_pickle=False))


def open_hdf5(path: str, variable: str | None) -> Found | None:
    """Look for a dataset; None where xarray should read it, since it names its dimensions."""
    h5py = need("Reading HDF5", "h5py")
    stamp = readable(path)
    datasets: dict[str, Any] = {}
    with h5py.File(stamp.path, "r") as file:
        if "_NCProperties" in file.attrs:
            return None

        def look(name: str, one: Any) -> None:
            if isinstance(one, h5py.Dataset) and one.ndim and one.dtype.kind in "biufc":
                datasets[name] = one

        file.visititems(look)
        main = [n for n, one in datasets.items() if one.attrs.get("CLASS") != b"DIMENSION_SCALE"]
        name = pick(path, main, variable, [*datasets])
        one = datasets[name]
        if any(len(dim) for dim in one.dims):
            return None
        return Found(opened(_hdf5, path, stamp, one, one.chunks, name))


def _hdf5(path: str, name: str) -> Any:
    """Open a dataset; h5py itself lets one thread in at a time."""
    return need("Reading HDF5", "h5py").File(path, "r")[name]


def open_raster(path: str) -> Found:
    """Look at a GeoTIFF, of which the full resolution is read: overviews are copies of it."""
    stamp = readable(path)
    rioxarray = need("Reading GeoTIFF", "xarray", "rasterio", "rioxarray")
    like = rioxarray.open_rasterio(path, cache=False)
    if not hasattr(like, "dims") or isinstance(like, list) or hasattr(like, "data_vars"):
        raise ValueError(
            f"{path!r} holds several images of different kinds; open the one you need with "
            "rioxarray.open_rasterio(path, variable=...)."
        )
    with imported("rasterio").open(path) as file:
        rows, columns = file.block_shapes[0]
        apart = file.interleaving is None or file.interleaving.name != "pixel"
    pieces = (1 if apart else like.shape[0], int(rows), int(columns))
    return Found(opened(_raster, path, stamp, like, pieces), like=like)


def _raster(path: str) -> Any:
    """Open the bands, of shape (band, y, x), for each thread anew: GDAL lets no two use one."""
    rioxarray = need("Reading GeoTIFF", "rioxarray")
    return rioxarray.open_rasterio(path, cache=False, lock=False).variable


def open_netcdf(path: str, variable: str | None) -> Found:
    """Look for a variable of a NetCDF or HDF5 file."""
    stamp = readable(path)
    with open(path, "rb") as file:
        engine = "scipy" if file.read(3) == b"CDF" else "h5netcdf"
    group, _, name = (variable or "").strip("/").rpartition("/")
    return open_variable(lambda _: stamp, path, engine, group, name or None)


def open_variable(
    stamp: Callable[[str], Stamp], path: str, engine: str, group: str, variable: str | None
) -> Found:
    """Look for a variable, which may be the only one, and take what the dataset says of it.

    `stamp` gives the stamp of a variable.
    """
    where = f"{path}/{group}" if group else path
    with opening(where, lambda reason: ValueError(f"{where!r} cannot be opened: {reason}")):
        dataset = _dataset(path, engine, group)
    numeric = {
        str(name): one
        for name, one in dataset.variables.items()
        if one.ndim and one.dtype.kind in "biufc"
    }
    every = dataset.variables.values()
    bounds = {one.attrs.get("bounds") or one.encoding.get("bounds") for one in every}
    main = [n for n in map(str, dataset.data_vars) if n in numeric and n not in bounds]
    name = pick(where if engine == "zarr" else path, main, variable, list(numeric))
    one = numeric[name]
    told = one.encoding.get("chunks") or one.encoding.get("chunksizes")
    inner = f"{group}/{name}".strip("/")
    array = opened(_variable, path, stamp(name), one, told, inner, engine)
    return Found(array, one.encoding.get("shards"), dataset[name])


def _variable(path: str, inner: str, engine: str) -> Any:
    """Open a dataset and find a variable, decoded as xarray does it, and locked where it must."""
    group, _, name = inner.rpartition("/")
    return _dataset(path, engine, group).variables[name]


def _dataset(path: str, engine: str, group: str) -> Any:
    """Open a dataset without reading any variable but the coordinates along dimensions."""
    library = need("Reading this file", "xarray", engine)
    options: dict[str, Any] = {}
    if engine == "zarr":
        root = library.open_group(path, path=group, mode="r")
        options["consolidated"] = root.metadata.consolidated_metadata is not None
    return imported("xarray").open_dataset(
        path, engine=engine, group=group or None, cache=False, **options
    )


def pick(
    path: str, variables: Sequence[str], wanted: str | None, known: Sequence[str] = ()
) -> str:
    """The variable that is wanted, or the only one; `known` are all that can be asked for.

    Raises
    ------
    ValueError
        If there is none, if there are several and none is named, or none of this name.
    """
    if wanted is not None:
        name = wanted.strip("/")
        if name not in (*variables, *known):
            raise ValueError(
                f"{path!r} holds no array {wanted!r}; it holds {listed([*variables, *known])}."
            )
        return name
    if not variables:
        raise ValueError(f"{path!r} holds no array of numbers.")
    if len(variables) > 1:
        raise ValueError(
            f"{path!r} holds several arrays: {listed(variables)}. Name the one to open, "
            f"variable={variables[0]!r}."
        )
    return variables[0]


def listed(names: Sequence[str]) -> str:
    """Some names as a message has them, not too many."""
    shown = [repr(name) for name in dict.fromkeys(names)]
    more = len(shown) - 12
    return ", ".join(shown[:12]) + (f" and {more} more" if more > 0 else "") if shown else "none"
