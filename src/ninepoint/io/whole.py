"""Files that are written as a whole: NetCDF and HDF5, TIFF, arrays of NumPy.

What is being written has another name until it is complete.  A kind of file is what lies in it,
and a function that lays it out at a path and gives what writes there:

    kind(result)  ->  contents, lay_out
    lay_out(path) ->  put(name, block, region)
"""

from __future__ import annotations

import errno
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..arrays.accepted import is_dataset, is_xarray
from ..arrays.layout import Shape
from ..base.undisturbed import imported
from ..language.dtypes import kind_of
from ..language.errors import MetadataWarning, warn
from .contents import (
    CHUNK_BYTES,
    Contents,
    Put,
    Variable,
    array_of,
    check_not_read,
    contents,
    divided,
    stored_by_xarray,
)
from .formats import IMAGES, NUMBERS, TIFF, check_holds, tiff_layout
from .paths import make_folder, need, replacement
from .run import LOST, How, Region

HDF5 = (".nc", ".nc4", ".h5", ".hdf5")

# Tiles of a GeoTIFF are squares of so many pixels: a multiple of 16, as the format asks for.
TILE = 512

LayOut: TypeAlias = Callable[[str], Put]
Kind: TypeAlias = tuple[Contents, LayOut]


def fill(path: str, found: Contents, lay_out: LayOut, how: How) -> str | None:
    """Lay a file out under another name, write its units, and give it its name; or tell of it."""
    if how.part or how.resume:
        raise ValueError(
            f"a {os.path.splitext(path)[1]} file is written as a whole: it cannot be written by "
            "several processes (part=), nor gone on with (resume=); save as .zarr, which can"
        )
    path = os.path.abspath(path)
    is_there = os.path.lexists(path)
    if is_there:
        if not how.overwrite:
            raise FileExistsError(f"{path!r} exists; overwrite=True replaces it")
        if os.path.isdir(path):
            raise FileExistsError(f"{path!r} is a folder, which {how.who} does not replace")
    if is_there or path.lower().endswith(IMAGES):
        check_not_read(how.who, found.arrays, [path])
    units = found.share(None)
    if how.dry:
        return found.told(path, units, how)
    make_folder(os.path.dirname(path), how.who)
    with replacement(path) as temporary:
        found.write(units, lay_out(temporary), path, how, LOST)
    return None


def netcdf(result: Any, how: How) -> Kind:
    """NetCDF or HDF5: laid out by xarray, then filled by one task at a time."""
    need("Writing NetCDF or HDF5", "xarray", "h5netcdf")
    if not (is_xarray(result) or is_dataset(result)):
        result = imported("xarray").DataArray(array_of(result), name="data")
    found = contents(result)
    for one in found.variables:
        dtype = one.array.dtype
        if dtype.name not in (*NUMBERS, "bool", "float32", "float64"):
            cure = "convert them, with array.astype('float64')"
            cure = "save as .zarr" if dtype.kind == "c" else cure
            raise TypeError(f"NetCDF cannot hold the {dtype} values{one.of}: {cure}")
    found = found.laid(how, sharded=False)
    return found, partial(_lay_out_netcdf, found)


def _lay_out_netcdf(found: Contents, path: str) -> Put:
    """Let xarray write everything but the values of the variables, which are lazy."""
    store = imported("xarray.backends").H5NetCDFStore.open(path, mode="w")
    # What is said here takes the place of all that a variable says of how it is stored.
    encoding = {
        one.name: found.dataset[one.name].encoding | {"chunksizes": one.chunks or None}
        for one in found.variables
    }
    try:
        with stored_by_xarray():
            dims = {dim for one in found.variables for dim in one.dims}
            unlimited = dims.intersection(found.dataset.encoding.get("unlimited_dims", ()))
            found.dataset.dump_to_store(store, encoding=encoding, unlimited_dims=unlimited)
    finally:
        store.close()
    return partial(_write_netcdf, path)


def _write_netcdf(path: str, name: str, block: np.ndarray, region: Region) -> None:
    """Write whole chunks."""
    h5py = need("Writing NetCDF or HDF5", "h5py")
    with _alone(path), h5py.File(path, "r+") as file:
        file[name][region] = block


_lock = threading.Lock()


def _cluster() -> Any:
    """What workers of a cluster have locks of; None where this is none."""
    distributed: Any = sys.modules.get("distributed")
    with suppress(AttributeError, ValueError):
        distributed.get_worker()
        return distributed
    return None


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Keep others from writing to a file meanwhile: threads, processes, workers of a cluster."""
    with _lock, ExitStack() as held:
        if cluster := _cluster():
            held.enter_context(cluster.Lock(f"ninepoint-{path}"))
        elif os.name != "nt":
            # No folder can be locked there; HDF5 says if two processes write at once.  Against
            # processes of this machine, as those of Dask's scheduler "processes".
            fcntl = imported("fcntl")
            descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
            held.callback(os.close, descriptor)
            # Some file systems of networks have no such locks.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def is_on_earth(result: Any) -> bool:
    """Whether a result says where on Earth it is."""
    if not is_xarray(result):
        return False
    if "rioxarray" not in sys.modules and "spatial_ref" not in result.coords:
        return False
    need("Writing GeoTIFF", "rioxarray")
    return result.rio.crs is not None


def raster(result: Any) -> Kind:
    """A GeoTIFF: laid out by rioxarray, which knows of projections, then tile by tile."""
    array = array_of(result)
    variable = Variable("", array, result.dims, chunks=(*array.shape[:-2], TILE, TILE))
    found = Contents((variable,), result.to_dataset(name="data")[[]])
    return found, partial(_lay_out_raster, result)


def _lay_out_raster(result: Any, path: str) -> Put:
    """Write everything but the pixels."""
    zeros = imported("dask.array").zeros(result.shape, dtype=result.dtype, chunks=-1)
    result.copy(data=zeros).rio.to_raster(
        path, driver="GTiff", tiled=True, blockxsize=TILE, blockysize=TILE, bigtiff="IF_SAFER",
        lock=threading.Lock(), compute=False,
    )  # fmt: skip
    return partial(_write_raster, path)


def _write_raster(path: str, _: str, block: np.ndarray, region: Region) -> None:
    """Write whole tiles."""
    writing = need("Writing GeoTIFF", "rioxarray", "rioxarray.raster_writer")
    with _alone(path):
        writing.RasterioWriter(path)[region] = block


def npy(result: Any, how: How) -> Kind:
    """An array of NumPy."""
    if is_dataset(result):
        raise TypeError("a .npy file holds one array; save a Dataset as .zarr or .nc")
    if is_xarray(result) and (result.coords or result.attrs):
        warn(
            "a .npy file keeps neither coordinates nor attributes; a .zarr store or a .nc "
            "file does",
            MetadataWarning,
        )
    array = array_of(result)
    # What NumPy would read as bytes without a meaning.
    if array.dtype.hasobject or kind_of(array.dtype) != array.dtype.kind:
        raise TypeError(f"a .npy file of {array.dtype} cannot be written; convert it to numbers")
    return Contents((Variable("", array),)).laid(how), partial(_lay_out_npy, array)


def _lay_out_npy(array: Any, path: str) -> Put:
    """Write the header; the elements are missing."""
    dtype = array.dtype.newbyteorder("=")
    return _mapped(np.lib.format.open_memmap(path, "w+", dtype, array.shape).offset, array, path)


def tiff(stack: Any, frame: Shape, how: How, described: dict[str, Any] | None = None) -> Kind:
    """A TIFF with a page for each frame, whose shape is the end of that of the stack.

    Pages are not compressed, so all have the same size, and are written in any order.
    """
    check_holds(TIFF, stack.dtype, frame)
    # Of a large page some rows are written at once, which follow each other.
    row = math.prod(frame[1:]) * stack.dtype.itemsize
    rows = divided(frame[:1], row, CHUNK_BYTES)
    pieces = (*(1 for _ in stack.shape[: -len(frame)]), *rows, *frame[1:])
    found = Contents((Variable("", stack, chunks=pieces),)).laid(how)
    return found, partial(_lay_out_tiff, stack, tiff_layout(frame) | (described or {}))


def _lay_out_tiff(stack: Any, options: Mapping[str, Any], path: str) -> Put:
    """Describe every page; the pixels are missing."""
    tifffile = imported("tifffile")
    dtype = stack.dtype.newbyteorder("=")
    tifffile.imwrite(path, shape=stack.shape, dtype=dtype, **options)
    with tifffile.TiffFile(path) as file:
        count = len(file.pages)
        start, last = (file.pages[number].dataoffsets[0] for number in (0, count - 1))
    assert last == start + stack.nbytes // count * (count - 1), "pages follow each other"
    return _mapped(start, stack, path)


# What says that there is no room; a system that cannot take room beforehand says other things.
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def _mapped(start: int, array: Any, path: str) -> Put:
    """Write elements that follow each other from a byte on, through a map of the file.

    On a disk that is full a map would end the process, so room is taken where the system can.
    """
    if hasattr(os, "posix_fallocate"):
        with open(path, "rb+") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))
            except OSError as error:
                if error.errno in _FULL:
                    words = f"{error.strerror}: the array takes {array.nbytes} bytes"
                    raise OSError(error.errno, words) from error
    dtype = array.dtype.newbyteorder("=")
    return partial(_write_elements, (path, dtype, "r+", start, array.shape))


def _write_elements(place: Any, _: str, block: np.ndarray, region: Region) -> None:
    """Write some elements; two machines that write into one page of memory would lose some."""
    cluster = _cluster()
    with cluster.Lock(f"ninepoint-{place[0]}") if cluster else nullcontext():
        target = np.memmap(*place)
        target[region] = block
        if cluster:
            target.flush()
