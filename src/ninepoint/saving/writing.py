"""save: a result of any size, written to a store that can be gone on with."""

from __future__ import annotations

import os
from collections.abc import Hashable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays.engines import as_dask
from ..arrays.recognise import is_dask, is_dataset, is_xarray
from ..files.formats import FORMATS
from ..files.progress import Progress
from ..language.dtypes import kind_of
from ..language.warned import MetadataWarning, warn
from ..stores.extras import need, need_zarr
from ..tracebacks import door
from ..undisturbed import imported
from . import hdf5, npy, ome, raster
from .contents import Contents, Variable, contents, lazily
from .cutting import Cut, Layout, check_dims, layout, units
from .frames import save_images
from .journal import Meaning
from .meaning import meaning
from .raster import is_on_earth
from .running import How, Part, fill
from .tasks import Item
from .units import check_part
from .whole_file import WholeFile
from .zarr import ZarrStore, check_dtype


@door
def save(
    result: Any,
    path: str | PathLike[str],
    *,
    chunks: Cut = None,
    shards: Cut = None,
    resume: bool = False,
    part: Part = None,
    progress: Progress = None,
    overwrite: bool = False,
) -> Path:
    """Write an array to a store, unit by unit, so that it may be larger than memory.

    Each task computes one unit, writes it and notes that it is written. A unit is made of whole
    shards, or of whole chunks where there are no shards: nothing is written by two tasks, so the
    store is right whatever the chunks of the array are.

    Parameters
    ----------
    result : NumPy or Dask array, DataArray or Dataset
        Lazy ones are computed by the scheduler in use: threads, or the workers of a client.
    path : path
        The suffix tells the format. ``"out.zarr"``: a store of Zarr, version 3, with coordinates
        and attributes of an xarray object; ``"out.ome.zarr"``, and what comes from an OME-Zarr: an
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
        the same: kernels, arguments, sources, dtype and chunks.
    part : (int, int), optional
        ``(i, n)`` writes the part of number i, from 0, of n parts. Each may be written by a
        process of its own, in any order and at the same time; the last one completes the store.
        Of Zarr, ``.npy`` and numbered images.
    progress : bool, callable or None
        None: a bar on standard error if that is a terminal and Rich is installed, or below the
        cell of a notebook until the units are written. True or False: always or never. A
        function is called with the numbers of units done and in all.
    overwrite : bool
        Whether a store that is there is replaced.

    Returns
    -------
    pathlib.Path
        The store.

    Raises
    ------
    FileExistsError
        If `path` exists, and is neither to be replaced nor to be gone on with.
    ValueError
        If a store that was begun means something else, which is named; if shards are not made of
        whole chunks; if the array has chunks of unknown size, or is read from `path`.
    TypeError
        If the store cannot hold the dtype, or `result` is no array.
    ImportError
        If the format needs a package that is not installed, here or on a worker, or a worker has
        no ninepoint.
    ConnectionError
        If the Dask client in use is closed, or its scheduler or all of its workers are gone.
    OSError
        If a unit cannot be written. What is written stays, and `resume` goes on after it, as it
        does after Ctrl-C, and after a process or a worker that was killed.

    Notes
    -----
    Until its last unit is written a store of Zarr has the attribute ``incomplete``, and `open`
    refuses it; a file has its name when it is complete. NetCDF and GeoTIFF, which a process that
    is killed may leave unreadable, are begun anew by `resume`. Of OME-Zarr the full size is
    written, and no smaller copies.

    Each thread holds a unit of the result, what is read for it, and its compressed form, so the
    shards, or chunks, set how much memory is held. What is written is noted in a folder of the
    store, or beside the file, whose name begins with a dot.

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
    part = check_part(part)
    if part and overwrite:
        raise ValueError(
            "overwrite=True would remove what other parts have written; remove the store before, "
            "and save its parts without overwrite"
        )
    how = How(resume, part, progress, overwrite)
    result = as_dask(result)
    text = _checked_path(path)
    suffix = os.path.splitext(text)[1].lower()
    if suffix == ".zarr":
        _into_zarr(
            ome.image(result, text) or contents(result, of_zarr=True), text, chunks, shards, how
        )
    elif suffix in _HDF5:
        _refuse(suffix, shards=shards)
        _into_hdf5(result, text, chunks, how)
    elif suffix == ".npy":
        _refuse(suffix, chunks=chunks, shards=shards)
        _into_npy(result, text, how)
    elif suffix and suffix not in _IMAGES:
        raise ValueError(
            f"save cannot tell the format of {text!r}: the name should end in .zarr, "
            f"{', '.join((*_HDF5, '.npy', *_IMAGES))}"
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
        if suffix in (".tif", ".tiff") and is_on_earth(result):
            _into_raster(result, text, how)
        else:
            save_images(result, text, how)
    return Path(path).expanduser()


_HDF5 = (".nc", ".nc4", ".h5", ".hdf5")
_IMAGES = tuple(suffix for form in FORMATS for suffix in form.suffixes)


def _refuse(what: str, **given: Cut) -> None:
    for name, cut in given.items():
        if cut is not None:
            cure = "a .zarr store has both" if name == "shards" else "a .zarr store or a .nc has"
            raise ValueError(f"{name}={cut!r}: a {what} has no {name}; {cure}")


def _checked_path(path: str | PathLike[str]) -> str:
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"the path of save is text, not {path!r}")
    if not text:
        raise ValueError("the path of save is empty; give one such as 'out.zarr'")
    if "\0" in text:
        raise ValueError(f"a path cannot hold a NUL character: {text!r}")
    if "://" in text:
        raise ValueError(f"save writes local files, not to the URL {text!r}")
    return os.path.abspath(os.path.expanduser(text))


def _into_zarr(found: Contents, path: str, chunks: Cut, shards: Cut, how: How) -> None:
    need_zarr()
    layouts: dict[str, Layout] = {}
    check_dims(_dims(found), chunks=chunks, shards=shards)
    for variable in found.variables:
        array = variable.array
        check_dtype(variable.name, array.dtype)
        layouts[variable.name] = layout(
            array.shape, array.dtype.itemsize, array.chunks, variable.dims,
            chunks, shards, variable.known,
        )  # fmt: skip
    _fill(ZarrStore(path, found, layouts), found, layouts, how)


def _into_hdf5(result: Any, path: str, chunks: Cut, how: How) -> None:
    need("Writing NetCDF or HDF5", "xarray", "h5netcdf")
    if isinstance(result, np.ndarray) or is_dask(result):
        dims = [f"dim_{axis}" for axis in range(result.ndim)]
        result = imported("xarray").DataArray(result, dims=dims, name="data")
    found = contents(result)
    layouts: dict[str, Layout] = {}
    check_dims(_dims(found), chunks=chunks)
    for variable in found.variables:
        array = variable.array
        hdf5.check_dtype(variable.name, array.dtype)
        lies = layout(
            array.shape, array.dtype.itemsize, array.chunks, variable.dims, chunks
        )  # fmt: skip
        layouts[variable.name] = Layout(lies.chunks, None)
    targets = {one.name: partial(hdf5.Dataset, name=one.name) for one in found.variables}
    store = WholeFile(path, partial(hdf5.lay_out, contents=found, layouts=layouts), targets, False)
    _fill(store, found, layouts, how)


def _into_npy(result: Any, path: str, how: How) -> None:
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
    found = contents(result)
    (variable,) = found.variables
    array = variable.array
    # What NumPy would read as bytes without a meaning.
    if array.dtype.hasobject or kind_of(array.dtype) != array.dtype.kind:
        raise TypeError(f"a .npy file of {array.dtype} cannot be written; convert it to numbers")
    layouts = {"": Layout(npy.run_size(array.shape, array.dtype.itemsize, array.chunks), None)}
    of = {"shape": array.shape, "dtype": array.dtype}
    store = WholeFile(path, partial(npy.lay_out, **of), {"": partial(npy.run, **of)}, True)
    _fill(store, found, layouts, how)


def _into_raster(result: Any, path: str, how: How) -> None:
    raster.check(result)
    array = lazily(result.data)
    found = Contents((Variable("", array, result.dims),), result.to_dataset(name="data")[[]])
    whole = (*array.shape[:-2], raster.TILE, raster.TILE)
    store = WholeFile(path, partial(raster.lay_out, result=result), {"": raster.Raster}, False)
    _fill(store, found, {"": Layout(whole, None)}, how)


def _dims(found: Contents) -> list[Hashable]:
    return list(dict.fromkeys(dim for variable in found.variables for dim in variable.dims))


def _fill(store: Any, found: Contents, layouts: dict[str, Layout], how: How) -> None:
    """Divide the variables into units, and write them."""
    items: list[Item] = []
    rest: Meaning = []
    first = 0
    for variable in found.variables:
        array, lies = variable.array, layouts[variable.name]
        grid = units(array.shape, array.dtype.itemsize, array.chunks, lies)
        items.append(Item(variable.name, array, grid, store.target(variable.name), first))
        first += grid.count
        of = f" of '{variable.name}'" if variable.name else ""
        rest += [
            (f"the chunks{of}", lies.chunks),
            (f"the shards{of}", lies.shards),
            (f"what a task writes{of}", grid.size),
        ]
    means = meaning({item.name: item.array for item in items}, rest + found.facts)
    fill(store, items, means, how)
