"""save: a result of any size, written unit by unit to a store that can be gone on with."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import Any

from ..arrays.accepted import is_xarray
from ..arrays.engines import as_dask
from ..base.tracebacks import door
from .contents import Contents, Cut, Variable, lazily
from .formats import IMAGES
from .frames import parse_pattern, save_frames
from .paths import local_path
from .progress import Progress
from .resume import Journal, check_same
from .run import How
from .whole_files import is_on_earth, save_netcdf, save_npy, save_raster
from .zarr_writing import save_zarr


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
        Of Zarr and numbered images.
    progress : bool, callable or None
        None: a bar on standard error if that is a terminal, or below the cell of a notebook, until
        the units are written. True or False: always or never. A function is called with the
        numbers of units done and in all.
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
    refuses it; a file has its name when it is complete. All but Zarr and images is begun anew by
    `resume`, unless it is complete. Of OME-Zarr the full size is written, and no smaller copies.

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
    text = local_path(path, "save writes local files, not to the URL {!r}")
    if not text:
        raise ValueError("the path of save is empty; give one such as 'out.zarr'")
    text = os.path.abspath(text)
    suffix = os.path.splitext(text)[1].lower()
    if suffix == ".zarr":
        save_zarr(result, text, chunks, shards, how)
    elif suffix in _HDF5:
        _refuse(suffix, shards=shards)
        save_netcdf(result, text, chunks, how)
    elif suffix == ".npy":
        _refuse(suffix, chunks=chunks, shards=shards)
        save_npy(result, text, how)
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
        if suffix in (".tif", ".tiff") and is_on_earth(result):
            save_raster(result, text, how)
        else:
            _save_images(result, text, how)
    return Path(path).expanduser()


_HDF5 = (".nc", ".nc4", ".h5", ".hdf5")


def _refuse(what: str, **given: Cut) -> None:
    for name, cut in given.items():
        if cut is not None:
            cure = "a .zarr store has both" if name == "shards" else "a .zarr store or a .nc has"
            raise ValueError(f"{name}={cut!r}: a {what} has no {name}; {cure}")


def _save_images(result: Any, pattern: str, how: How) -> None:
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
    journal = Journal(os.path.join(target.folder, f".{target.name}.ninepoint"))
    old = journal.meaning()
    if how.resume or how.part:
        if old is not None:
            check_same(pattern, old, means)
        elif os.path.lexists(target.path(0)):
            raise FileExistsError(
                f"{target.path(0)!r} exists, and is nothing that save has begun; "
                "overwrite=True, without part=, replaces it"
            )
    elif not how.overwrite and os.path.lexists(target.path(0)):
        raise FileExistsError(f"{target.path(0)!r} exists; overwrite=True replaces it")
    if old is None or not (how.resume or how.part):
        journal.begin(means)
    save_frames(array, pattern, how)


def check_part(part: object) -> tuple[int, int] | None:
    """Raise unless `part` is None or (i, n) with 0 <= i < n."""
    if part is None:
        return None
    if not isinstance(part, tuple | list) or len(part) != 2:
        raise TypeError(f"part is a pair (i, n), the part of number i of n, not {part!r}")
    if not all(hasattr(one, "__index__") and not isinstance(one, bool) for one in part):
        raise TypeError(f"part is a pair of whole numbers (i, n), not {part!r}")
    number, parts = map(int, part)
    if not 0 <= number < parts:
        raise ValueError(
            f"part={part!r}: there are parts (0, {parts}) to ({parts - 1}, {parts})"
            if parts > 0
            else f"part={part!r}: there is at least one part, (0, 1)"
        )
    return number, parts
