"""save: a result of any size, written unit by unit to a store that can be gone on with.

Zarr and images are written by many processes, and gone on with.  NetCDF and HDF5, GeoTIFF and
arrays of NumPy are files that one process writes as a whole: what is being written has another
name until it is complete.
"""

from __future__ import annotations

import errno
import operator
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays.accepted import is_dask, is_dataset, is_lazy, is_xarray
from ..arrays.grid import as_dask
from ..base.tracebacks import door
from ..base.undisturbed import imported
from ..language.dtypes import kind_of
from ..language.errors import MetadataWarning, warn
from .contents import (
    Contents,
    Cut,
    Variable,
    contents,
    lazily,
    stored_by_xarray,
)
from .formats import IMAGES, NUMBERS, TIFF
from .frames import parse_pattern, save_frames
from .paths import local_path, make_folder, need, replacement
from .progress import Progress
from .resume import check_not_read, check_same, note, noted
from .run import LOST, How, Region, alone
from .zarr import save_zarr


@door
def save(
    result: Any,
    path: str | PathLike[str],
    *,
    chunks: Cut = None,
    shards: Cut = None,
    resume: bool = False,
    part: tuple[int, int] | None = None,
    progress: Progress = None,
    overwrite: bool = False,
    memory: int | str | None = None,
    dry: bool = False,
) -> Any:
    """Write an array to a store, unit by unit, so that it may be larger than memory.

    Each task computes one unit and writes it; its files appear when they are whole. A unit is made
    of whole shards, or of whole chunks where there are no shards: nothing is written by two tasks,
    so the store is right whatever the chunks of the array are.

    Parameters
    ----------
    result : NumPy or Dask array, DataArray, Dataset, or what `lazy` gives of one
        Lazy ones are computed by the scheduler in use: threads, or the workers of a client.
    path : path
        The suffix tells the format. ``"out.zarr"``: a store of Zarr, version 3, with coordinates
        and attributes of an xarray object; ``"out.ome.zarr"``: an
        image of OME-Zarr 0.5 with axes, scales and names of channels. ``"out.nc"``, ``"out.h5"``:
        NetCDF. ``"out.npy"``: the elements alone. ``"out.tif"``: a GeoTIFF where the array has a
        projection. Other names are those of images, as `imsave` takes them. The folder that it
        lies in is made.
    chunks, shards : int, sequence of int, or mapping of dimensions to int, optional
        Lengths of what is compressed as one piece, and of files of many pieces. By default those
        that the array had in the store it was read from, else a chunk of the Dask array is a
        shard, of chunks of about 1 MiB; with `chunks` alone there are no shards. Of Zarr;
        NetCDF has chunks.
    resume : bool
        Go on with a store that is not complete, and leave out what is written. It has to mean
        the same: kernels, arguments, sources, dtype and chunks. Of Zarr and images.
    part : (int, int), optional
        ``(i, n)`` writes the part of number i, from 0, of n parts. Each may be written by a
        process of its own, in any order and at the same time; the last one completes the store.
        Of Zarr and numbered images.
    progress : bool, callable or None
        None: a bar on standard error if that is a terminal, or below the cell of a notebook, until
        the units are written. True or False: always or never. A function is called with the
        numbers of units done and in all.
    overwrite : bool
        Whether a store that is there is replaced.
    memory : int or str, optional
        How much memory may be used, in bytes or as in ``"2 GB"``; on a cluster that of all workers
        together. By default a quarter of what the machine, or the workers, may have. Units and
        the number of threads are chosen so that it is enough, and states of a long chain lie in
        files meanwhile if it is not. All parts of a store are given the same.
    dry : bool
        Whether nothing is computed and written, and it is told what would be: memory, bytes and
        units, those that are missing with `resume`, chunks and shards, and of what is computed
        what `explain` tells. What would be refused is refused.

    Returns
    -------
    pathlib.Path or str
        The store; what is told.

    Raises
    ------
    FileExistsError
        If `path` exists, and is neither to be replaced nor to be gone on with.
    ValueError
        If a store that was begun means something else; if shards are not made of
        whole chunks; if the array has chunks of unknown size, or is read from `path`.
    TypeError
        If the store cannot hold the dtype, or `result` is no array.
    ImportError
        If the format needs a package that is not installed, here or on a worker, or a worker has
        no ninepoint.
    ConnectionError
        If the Dask client in use is closed, or its scheduler or all of its workers are gone.
    MemoryError
        If one unit takes more than `memory`.
    OSError
        If a unit cannot be written. What is written stays, and `resume` goes on after it, as it
        does after Ctrl-C, and after a process or a worker that was killed.

    Notes
    -----
    Until its last unit is written a store of Zarr has the attribute ``incomplete``, and `open`
    refuses it; a file has its name when it is complete.
    Of OME-Zarr the full size is written, and no smaller copies.

    Each thread holds a unit of the result, what is read for it, and its compressed form, so the
    shards, or chunks, set how much memory is held. What is meant is noted in a folder of the
    store, or beside the images, whose name begins with a dot. Which units are written is told by
    the files of a store, so chunks of zeros are written, too.

    What a source means is told by the sizes and times of files that can be found in the graph,
    and by the names that Dask gives. Names that are new in each process, as those of
    ``dask.delayed`` and of random numbers without a seed, cannot be gone on with in another one.

    Examples
    --------
    >>> import dask.array as da
    >>> import ninepoint as npt
    >>> volume = da.zeros((60, 400, 400), chunks=(20, 400, 400), dtype="uint8")
    >>> store = npt.save(npt.filters.median(volume), "out.zarr", shards=(20, 400, 400))
    >>> store.name, da.from_zarr(store).shape
    ('out.zarr', (60, 400, 400))
    """
    part = _check_part(part)
    if part and overwrite:
        raise ValueError(
            "overwrite=True would remove what other parts have written; remove the store before, "
            "and save its parts without overwrite"
        )
    how = How(resume, part, progress, overwrite, memory=memory, dry=dry)
    result = as_dask(result.compute() if is_lazy(result) else result)
    text = local_path(path, "save writes local files, not to the URL {!r}")
    if not text:
        raise ValueError("the path of save is empty; give one such as 'out.zarr'")
    text = os.path.abspath(text)
    suffix = os.path.splitext(text)[1].lower()
    if suffix == ".zarr":
        told = save_zarr(result, text, chunks, shards, how)
    elif suffix in _HDF5:
        _refuse(suffix, shards=shards)
        told = _save_netcdf(result, text, chunks, how)
    elif suffix == ".npy":
        _refuse(suffix, chunks=chunks, shards=shards)
        told = _save_npy(result, text, how)
    elif suffix and suffix not in IMAGES:
        raise ValueError(
            f"save cannot tell the format of {text!r}: the name should end in .zarr, "
            f"{', '.join((*_HDF5, '.npy', *IMAGES))}"
        )
    else:
        _refuse(suffix or "folder of images", chunks=chunks, shards=shards)
        dtype = getattr(result, "dtype", None)
        if not suffix and dtype is not None and dtype.kind not in "bu":
            name = os.fspath(path)
            raise TypeError(
                f"{name!r} has no suffix, so it would be a folder of PNG images, which do not "
                f"hold {dtype}; write '{name}.zarr', '{name}.npy' or '{name}.tif'"
            )
        is_raster = suffix in TIFF.suffixes and _is_on_earth(result)
        told = (_save_raster if is_raster else _save_images)(result, text, how)
    return Path(path).expanduser() if told is None else told


_HDF5 = (".nc", ".nc4", ".h5", ".hdf5")


def _refuse(what: str, **given: Cut) -> None:
    for name, cut in given.items():
        if cut is not None:
            cure = "a .zarr store has both" if name == "shards" else "a .zarr store or a .nc has"
            raise ValueError(f"{name}={cut!r}: a {what} has no {name}; {cure}")


def _save_images(result: Any, pattern: str, how: How) -> str | None:
    """Write frames, as `imsave` does: a frame is a unit, and its file says that it is written.

    What they mean stands in folder/.{:04d}.png.ninepoint/ beside folder/0000.png, 0001.png, ...
    """
    array = lazily(result.data if is_xarray(result) else result)
    means = Contents((Variable("", array),)).meaning
    target = parse_pattern(pattern)
    if how.part and not target.numbered:
        raise ValueError(
            f"part={how.part!r}: one file of images cannot be written by several processes; "
            "give each frame a file of its own, 'frames/{:04d}.tif', or save as .zarr"
        )
    notes = os.path.join(target.folder, f".{target.name}.ninepoint")
    is_there, old = os.path.lexists(target.path(0)), noted(notes)
    goes_on = how.resume or how.part is not None
    if goes_on and (is_there or old is not None):
        check_same(pattern, old, means)
    elif is_there and not how.overwrite:
        raise FileExistsError(f"{target.path(0)!r} exists; overwrite=True replaces it")
    elif not how.dry:
        note(notes, means)
    told = save_frames(array, pattern, how)
    return told if isinstance(told, str) else None


def _check_part(part: Any) -> tuple[int, int] | None:
    """Raise unless `part` is None or (i, n) with 0 <= i < n."""
    if part is None:
        return None
    try:
        number, parts = map(operator.index, part)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"part is a pair of whole numbers (i, n), the part of number i of n, not {part!r}"
        ) from error
    if not 0 <= number < parts:
        raise ValueError(f"part={part!r}: there are parts (0, {parts}) to ({parts - 1}, {parts})")
    return number, parts


# Tiles of a GeoTIFF are squares of so many pixels: a multiple of 16, as the format asks for.
TILE = 512

# What says that there is no room; a system that cannot take room beforehand says other things.
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def _save_netcdf(result: Any, path: str, chunks: Cut, how: How) -> str | None:
    """Write NetCDF or HDF5: laid out by xarray, then filled by one task at a time."""
    need("Writing NetCDF or HDF5", "xarray", "h5netcdf")
    if isinstance(result, np.ndarray) or is_dask(result):
        dims = [f"dim_{axis}" for axis in range(result.ndim)]
        result = imported("xarray").DataArray(result, dims=dims, name="data")
    found = contents(result)
    for one in found.variables:
        _check_netcdf(one)
    found = found.laid(how, chunks, sharded=False)
    return _fill(path, found, partial(_lay_out_netcdf, found), _write_netcdf, how)


def _check_netcdf(one: Variable) -> None:
    """Raise where NetCDF has no type for these numbers."""
    dtype = one.array.dtype
    if dtype.name not in (*NUMBERS, "bool", "float32", "float64"):
        cure = (
            "save as .zarr" if dtype.kind == "c" else "convert them, with array.astype('float64')"
        )
        raise TypeError(f"NetCDF cannot hold the {dtype} values{one.of}: {cure}")


def _lay_out_netcdf(found: Contents, path: str) -> None:
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


def _write_netcdf(path: str, name: str, block: np.ndarray, region: Region) -> None:
    """Write whole chunks."""
    h5py = need("Writing NetCDF or HDF5", "h5py")
    with alone(path), h5py.File(path, "r+") as file:
        file[name][region] = block


def _is_on_earth(result: Any) -> bool:
    """Whether a result says where on Earth it is."""
    if not is_xarray(result):
        return False
    if "rioxarray" not in sys.modules and "spatial_ref" not in result.coords:
        return False
    need("Writing GeoTIFF", "rioxarray")
    return result.rio.crs is not None


def _save_raster(result: Any, path: str, how: How) -> str | None:
    """Write a GeoTIFF: laid out by rioxarray, which knows of projections, then tile by tile."""
    array = lazily(result.data)
    tiles = (*array.shape[:-2], TILE, TILE)
    variable = Variable("", array, result.dims, chunks=tiles)
    found = Contents((variable,), result.to_dataset(name="data")[[]])
    return _fill(path, found, partial(_lay_out_raster, result), _write_raster, how)


def _lay_out_raster(result: Any, path: str) -> None:
    """Write everything but the pixels."""
    zeros = imported("dask.array").zeros(result.shape, dtype=result.dtype, chunks=-1)
    result.copy(data=zeros).rio.to_raster(
        path, driver="GTiff", tiled=True, blockxsize=TILE, blockysize=TILE, bigtiff="IF_SAFER",
        lock=threading.Lock(), compute=False,
    )  # fmt: skip


def _write_raster(path: str, _: str, block: np.ndarray, region: Region) -> None:
    """Write whole tiles."""
    writing = need("Writing GeoTIFF", "rioxarray", "rioxarray.raster_writer")
    with alone(path):
        writing.RasterioWriter(path)[region] = block


def _save_npy(result: Any, path: str, how: How) -> str | None:
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
    found = contents(result).laid(how)
    array = found.variables[0].array
    # What NumPy would read as bytes without a meaning.
    if array.dtype.hasobject or kind_of(array.dtype) != array.dtype.kind:
        raise TypeError(f"a .npy file of {array.dtype} cannot be written; convert it to numbers")
    return _fill(path, found, partial(_lay_out_npy, array), _write_npy, how)


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
    with alone(path) as on_cluster:
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
) -> str | None:
    """Lay a file out under another name, write its units, and give it its name.

    `put` takes a path, the name of a variable, its elements, and where they belong.
    """
    if how.part or how.resume:
        raise ValueError(
            f"a {os.path.splitext(path)[1]} file is written as a whole: it cannot be written by "
            "several processes (part=), nor gone on with (resume=); save as .zarr, which can"
        )
    if os.path.lexists(path):
        if not how.overwrite:
            raise FileExistsError(f"{path!r} exists; overwrite=True replaces it")
        if os.path.isdir(path):
            raise FileExistsError(f"{path!r} is a folder, which save does not replace")
        check_not_read("save", found.arrays, [path])
    if how.dry:
        return found.told(path, found.share(None), how)
    make_folder(os.path.dirname(path), "save")
    with replacement(path) as temporary:
        lay_out(temporary)
        found.write(found.share(None), partial(put, temporary), path, how.progress, LOST)
    return None
