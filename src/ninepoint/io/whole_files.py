"""Files that one process writes: NetCDF and HDF5, GeoTIFF, arrays of NumPy.

What is being written has another name until it is complete, and what a process that was killed
has left is written again from the start.

.out.nc.ninepoint/meaning.json     what was written, and of which size and time the file then was:
                                   a later run that means the same has nothing to do
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

from ..arrays.accepted import is_dask, is_dataset, is_xarray
from ..base.undisturbed import imported
from ..language.dtypes import kind_of
from ..language.warned import MetadataWarning, warn
from .contents import (
    Contents,
    Cut,
    Layout,
    Variable,
    check_dims,
    contents,
    layout,
    lazily,
    stored_by_xarray,
)
from .paths import make_folder, need, replacement, stamp
from .resume import Journal, check_same
from .run import How, Region

# Tiles of a GeoTIFF are squares of so many pixels: a multiple of 16, as the format asks for.
TILE = 512

# What says that there is no room; a system that cannot take room beforehand says other things.
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)

_lock = threading.Lock()


def save_netcdf(result: Any, path: str, chunks: Cut, how: How) -> None:
    """Write NetCDF or HDF5: laid out by xarray, then filled by one task at a time."""
    need("Writing NetCDF or HDF5", "xarray", "h5netcdf")
    if isinstance(result, np.ndarray) or is_dask(result):
        dims = [f"dim_{axis}" for axis in range(result.ndim)]
        result = imported("xarray").DataArray(result, dims=dims, name="data")
    found = contents(result)
    check_dims(found.dims, chunks=chunks)

    for one in found.variables:
        _check_netcdf(one)
    found = found.laid(lambda one: Layout(layout(one.array, one.dims, chunks).chunks, None))
    _fill(path, found, partial(_lay_out_netcdf, found), _write_netcdf, how)


def _check_netcdf(one: Variable) -> None:
    """Raise where NetCDF has no type for these numbers."""
    dtype = one.array.dtype
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or dtype == np.float16:
        cure = (
            "save as .zarr" if dtype.kind == "c" else "convert them, with array.astype('float64')"
        )
        raise TypeError(f"NetCDF cannot hold the {dtype} values{one.of}: {cure}")


def _lay_out_netcdf(found: Contents, path: str) -> None:
    """Let xarray write everything but the values of the variables, which are lazy."""
    store = imported("xarray.backends").H5NetCDFStore.open(path, mode="w")
    # What is said here takes the place of all that a variable says of how it is stored.
    encoding = {
        one.name: found.dataset[one.name].encoding | {"chunksizes": one.lies.chunks or None}
        for one in found.variables
    }
    try:
        with stored_by_xarray():
            unlimited = set(found.dataset.encoding.get("unlimited_dims", ())) & set(found.dims)
            found.dataset.dump_to_store(store, encoding=encoding, unlimited_dims=unlimited)
    finally:
        store.close()


def _write_netcdf(path: str, name: str, block: np.ndarray, region: Region) -> None:
    """Write whole chunks."""
    h5py = need("Writing NetCDF or HDF5", "h5py")
    with _alone(path), h5py.File(path, "r+") as file:
        file[name][region] = block


def is_on_earth(result: Any) -> bool:
    """Whether a result says where on Earth it is."""
    if not is_xarray(result):
        return False
    if "rioxarray" not in sys.modules and "spatial_ref" not in result.coords:
        return False
    need("Writing GeoTIFF", "rioxarray")
    return result.rio.crs is not None


def save_raster(result: Any, path: str, how: How) -> None:
    """Write a GeoTIFF: laid out by rioxarray, which knows of projections, then tile by tile."""
    if not imported("rasterio").dtypes.check_dtype(result.dtype):
        raise TypeError(
            f"a GeoTIFF cannot hold {result.dtype} values: convert them first, such as "
            "array.astype('float32')"
        )
    x, y = result.rio.x_dim, result.rio.y_dim
    if result.ndim not in (2, 3) or result.dims[-2:] != (y, x):
        raise ValueError(
            f"a GeoTIFF holds ({y}, {x}) or (band, {y}, {x}), not {result.dims}; "
            "transpose the array first"
        )
    array = lazily(result.data)
    found = Contents((Variable("", array, result.dims),), result.to_dataset(name="data")[[]])
    found = found.laid(lambda _: Layout((*array.shape[:-2], TILE, TILE), None))
    _fill(path, found, partial(_lay_out_raster, result), _write_raster, how)


def _lay_out_raster(result: Any, path: str) -> None:
    """Write everything but the pixels."""
    zeros = imported("dask.array").zeros(result.shape, dtype=result.dtype, chunks=-1)
    result.copy(data=zeros).rio.to_raster(
        path, driver="GTiff", tiled=True, blockxsize=TILE, blockysize=TILE, bigtiff="IF_SAFER",
        lock=threading.Lock(), compute=False,
    )  # fmt: skip


def _write_raster(path: str, _: str, block: np.ndarray, region: Region) -> None:
    """Write whole tiles."""
    rasterio = need("Writing GeoTIFF", "rasterio")
    *bands, rows, columns = region
    first = bands[0].start if bands else 0
    block = block if bands else block[None]
    window = ((rows.start, rows.stop), (columns.start, columns.stop))
    with _alone(path), rasterio.open(path, "r+") as file:
        file.write(block, range(first + 1, first + 1 + len(block)), window=window)


def save_npy(result: Any, path: str, how: How) -> None:
    """Write an array of NumPy, through a map of the file."""
    if is_xarray(result):
        if result.coords or result.attrs:
            warn(
                "a .npy file keeps neither coordinates nor attributes; a .zarr store or a .nc "
                "file does",
                MetadataWarning,
            )
        result = result.data
    elif is_dataset(result):
        raise TypeError("a .npy file holds one array; save a Dataset as .zarr or .nc")
    found = contents(result).laid(lambda one: layout(one.array, one.dims))
    array = found.variables[0].array
    # What NumPy would read as bytes without a meaning.
    if array.dtype.hasobject or kind_of(array.dtype) != array.dtype.kind:
        raise TypeError(f"a .npy file of {array.dtype} cannot be written; convert it to numbers")
    _fill(path, found, partial(_lay_out_npy, array), _write_npy, how)


def _lay_out_npy(array: Any, path: str) -> None:
    """Write the header, and take the room of the elements, where the system can do that.

    On a disk that is full a map would end the process.
    """
    dtype = array.dtype.newbyteorder("=")
    np.lib.format.open_memmap(path, "w+", dtype, array.shape)
    if hasattr(os, "posix_fallocate"):
        with open(path, "rb+") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))
            except OSError as error:
                if error.errno in _FULL:
                    words = f"{error.strerror}: the array takes {array.nbytes} bytes"
                    raise OSError(error.errno, words) from error


def _write_npy(path: str, _: str, block: np.ndarray, region: Region) -> None:
    """Write some elements; two machines that write into one page of memory would lose some."""
    with _alone(path) as on_cluster:
        target = np.load(path, mmap_mode="r+")
        target[region] = block
        if on_cluster:
            target.flush()


def _fill(
    path: str,
    found: Contents,
    lay_out: Callable[[str], None],
    put: Callable[[str, str, np.ndarray, Region], None],
    how: How,
) -> None:
    """Lay a file out under another name, write its units, and give it its name.

    `put` takes a path, the name of a variable, its elements, and where they belong.
    """
    if how.part:
        suffix = os.path.splitext(path)[1]
        raise ValueError(
            f"part={how.part!r}: a {suffix} file cannot be written by several processes; "
            "save as .zarr, or the parts of the array in files of their own"
        )
    folder, name = os.path.split(path)
    journal = Journal(os.path.join(folder, f".{name}.ninepoint"))
    means = found.meaning
    if os.path.lexists(path):
        if how.resume:
            old = journal.meaning()
            is_same = old and old.pop() == _finished(path)
            check_same(path, old if is_same else None, means)
            return
        if not how.overwrite:
            raise FileExistsError(f"{path!r} exists; overwrite=True replaces it")
        if os.path.isdir(path):
            raise FileExistsError(f"{path!r} is a folder, which save does not replace")
        found.check_not_read(path)
    make_folder(folder, "save")
    with replacement(path) as temporary:
        lay_out(temporary)

        found.write(range(found.count), partial(put, temporary), path, how.progress)
    journal.begin([*means, _finished(path)])


def _finished(path: str) -> tuple[str, Any]:
    """What is noted of a file that is complete."""
    now = stamp(path)
    return "the file", [now.size, now.changed]


@contextmanager
def _alone(path: str) -> Iterator[bool]:
    """Keep others from writing to a file meanwhile: threads, processes, workers of a cluster.

    Gives whether there is a cluster.
    """
    with _lock:
        distributed: Any = sys.modules.get("distributed")
        try:
            worker = None if distributed is None else distributed.get_worker()
        except ValueError:
            worker = None
        if worker is not None:
            with distributed.Lock(f"ninepoint-{path}"):
                yield True
            return
        if os.name == "nt":
            # No folder can be locked there; HDF5 says if two processes write at once.
            yield False
            return
        # Against processes of this machine, as those of Dask's scheduler "processes".
        fcntl = imported("fcntl")
        descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Some file systems of networks have no such locks.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield False
        finally:
            os.close(descriptor)
