"""save: a result of any size, written to a store that can be gone on with."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path
from typing import Any

from ..files.progress import Progress
from ..stores.extras import need_zarr
from .contents import Contents, contents
from .cutting import Cut, Layout, check_dims, layout, units
from .journal import Meaning
from .meaning import meaning
from .running import How, Part, fill
from .tasks import Item
from .units import check_part
from .zarr import ZarrStore, check_dtype


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
        ``"out.zarr"``: a store of Zarr, version 3, with the coordinates and attributes of an
        xarray object. The folder that it lies in is made.
    chunks, shards : int, sequence of int, or mapping of dimensions to int, optional
        Lengths of what is compressed as one piece, and of files of many pieces. By default those
        that the array had in the store it was read from, else a chunk of the Dask array is a
        shard, of chunks of about 1 MiB; with `chunks` alone there are no shards.
    resume : bool
        Go on with a store that is not complete, and leave out what is written. It has to mean
        the same: kernels, arguments, sources, dtype and chunks.
    part : (int, int), optional
        ``(i, n)`` writes the part of number i, from 0, of n parts. Each may be written by a
        process of its own, in any order and at the same time; the last one completes the store.
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
        If the format needs a package that is not installed, here or on a worker.
    ConnectionError
        If the Dask client in use is closed, or its scheduler or all of its workers are gone.
    OSError
        If a unit cannot be written. What is written stays, and `resume` goes on after it, as it
        does after Ctrl-C, and after a process or a worker that was killed.

    Notes
    -----
    Until its last unit is written a store has the attribute ``incomplete``. Each thread holds a
    unit of the result, what is read for it, and its compressed form. The numbers of the units
    that are written lie in a folder ``.ninepoint`` of the store, and are gone when all are.

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
    text = _checked_path(path)
    found = contents(result)
    _into_zarr(found, text, chunks, shards, how)
    return Path(text)


def _checked_path(path: str | PathLike[str]) -> str:
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"the path of save is text, not {path!r}")
    if "\0" in text:
        raise ValueError(f"a path cannot hold a NUL character: {text!r}")
    if "://" in text:
        raise ValueError(f"save writes local files, not to the URL {text!r}")
    return os.path.abspath(os.path.expanduser(text))


def _into_zarr(found: Contents, path: str, chunks: Cut, shards: Cut, how: How) -> None:
    need_zarr()
    layouts: dict[str, Layout] = {}
    dims = dict.fromkeys(dim for variable in found.variables for dim in variable.dims)
    check_dims(dims, chunks=chunks, shards=shards)
    for variable in found.variables:
        array = variable.array
        check_dtype(variable.name, array.dtype)
        layouts[variable.name] = layout(
            array.shape, array.dtype.itemsize, array.chunks, variable.dims,
            chunks, shards, variable.known,
        )  # fmt: skip
    _fill(ZarrStore(path, found, layouts), found, layouts, how)


def _fill(store: Any, found: Contents, layouts: dict[str, Layout], how: How) -> None:
    """Divide the variables into units, and write them."""
    items: list[Item] = []
    rest: Meaning = []
    first = 0
    for variable in found.variables:
        array, lies = variable.array, layouts[variable.name]
        grid = units(array.shape, array.dtype.itemsize, array.chunks, lies.whole)
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
