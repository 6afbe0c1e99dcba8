"""save and imsave: a result of any size, written unit by unit.

Zarr and numbered images are written by many processes, and gone on with.  NetCDF and HDF5, TIFF
and arrays of NumPy are files that are written as a whole: see `targets`.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays.accepted import is_chunked, is_lazy, is_xarray
from ..arrays.channels import coloured_shape
from ..base.tracebacks import door
from ..base.undisturbed import imported
from .contents import Contents, Variable, array_of, check_not_read, check_same, note, noted
from .formats import ANY_CHANNELS, IMAGES, TIFF, check_holds, check_options, encode, format_of
from .ome import told_to_tiff
from .paths import AnyPath, Names, local_path, make_folder, need, nth, write_whole
from .progress import Progress
from .run import WHOLE, Cut, How, Region
from .targets import HDF5, is_on_earth, netcdf, npy, raster, save_zarr, tiff

# How names of OME-TIFF end.
_OME = (".ome.tif", ".ome.tiff")

# What most systems allow [bytes].
LONGEST_NAME = 255

# A name, in which a whole number may be written, with so many digits at least.
_NAME = re.compile(r"[^{}]*(\{0?(?::0?[0-9]{0,2}d?)?\})?[^{}]*")


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
        NetCDF. ``"out.npy"``: the elements alone. ``"out.ome.tif"``: an OME-TIFF, as OME-Zarr.
        Other names are those of images, as `imsave` takes them. The folder that it lies in is
        made.
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
    if part is not None:
        try:
            number, parts = map(operator.index, part)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"part is a pair of whole numbers (i, n), the part of number i of n, not {part!r}"
            ) from error
        if not 0 <= number < parts:
            there = f"there are parts (0, {parts}) to ({parts - 1}, {parts})"
            raise ValueError(f"part={part!r}: {there}")
        part = number, parts
        if overwrite:
            raise ValueError(
                "overwrite=True would remove what other parts have written; remove the store "
                "before, and save its parts without overwrite"
            )
    how = How(resume, part, progress, overwrite, None, None, memory, dry, chunks, shards)
    result = result.compute() if is_lazy(result) else result
    text = local_path(path, "save writes local files, not to the URL {!r}")
    if not text:
        raise ValueError("the path of save is empty; give one such as 'out.zarr'")
    text = os.path.abspath(text)
    suffix = os.path.splitext(text)[1].lower()
    writers: dict[str, Any] = {
        ".zarr": save_zarr,
        **dict.fromkeys(HDF5, netcdf),
        ".npy": npy,
        **dict.fromkeys((*IMAGES, ""), _save_images),
    }
    if suffix not in writers:
        raise ValueError(
            f"save cannot tell the format of {text!r}: the name should end in "
            f"{', '.join(filter(None, writers))}"
        )
    cuts = ("chunks", chunks, (".zarr", *HDF5)), ("shards", shards, (".zarr",))
    for name, cut, kinds in cuts:
        if cut is not None and suffix not in kinds:
            what = suffix or "folder of images"
            raise ValueError(f"{name}={cut!r}: a {what} has no {name}; {', '.join(kinds)} has")
    dtype = getattr(result, "dtype", None)
    if not suffix and dtype is not None and dtype.kind not in "bu":
        name = os.fspath(path)
        raise TypeError(
            f"{name!r} has no suffix, so it would be a folder of PNG images, which do not "
            f"hold {dtype}; write '{name}.zarr', '{name}.npy' or '{name}.tif'"
        )
    told = writers[suffix](result, text, how)
    return told if isinstance(told, str) else Path(path).expanduser()


@door
def imsave(
    array: Any,
    pattern: AnyPath | Iterable[AnyPath],
    *,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress = None,
    compression: int | None = None,
    quality: int | None = None,
) -> list[Path]:
    """Write a stack of frames to image files, a few frames at a time.

    A Dask array is computed and written chunk by chunk, by the scheduler in use, so it need not
    fit into memory. Each file is written under a temporary name in its folder and renamed when
    it is whole: whatever happens, a name stands for the old file or for the new one.

    Parameters
    ----------
    array : NumPy or Dask array, DataArray, shape (frames, rows, columns[, channels]), or one image
        Up to 4 channels: grey, grey + alpha, RGB, RGBA. Bools are written as 0 and 255.
        What `lazy` gives of an array is computed.
    pattern : path, or list of paths
        ``"smooth/{:04d}.png"``: the braces stand for the number of the frame, from 0, and the
        suffix for the format: .png, .jpg or .tif. A folder means ``{:04d}.png`` in it. A
        .tif without braces takes the whole array, of any number of axes, a page for each image;
        of one with a projection it is a GeoTIFF. Another name without braces takes one image,
        (rows, columns) or with 3 or 4 channels. A list has a name for each frame. The folder is
        made.
    overwrite : bool
        Whether files that are there are replaced; if not, nothing is written when there is one.
    resume : bool
        Leave out frames whose file exists, and what only they need. The files are not compared.
    progress : bool, callable or None
        None: a bar on standard error if that is a terminal, or below the cell of a notebook, until
        the frames are written. True or False: always or never. A function is called with the
        numbers of frames, or pieces of a TIFF, done and in all.
    compression : int, optional
        Level of zlib, 0 (none) to 9. PNG: 1 by default. TIFF, of one image: 0 by default.
    quality : int, optional
        Of JPEG, 1 to 100; 95 by default.

    Returns
    -------
    list of pathlib.Path
        The files, in the order of the frames.

    Raises
    ------
    TypeError
        If the format cannot hold the dtype: nothing is scaled or rounded to make it fit.
    ValueError
        If the format cannot hold that shape, the pattern is not well formed, the array is empty or
        of unknown size, or a file would be written that the array is still read from, or that
        would lie among those that it is read from.
    ConnectionError
        If the Dask client in use is closed, or its scheduler or all of its workers are gone.
    FileExistsError
        If a file exists, and is neither to be replaced nor left out (`resume`).
    OSError
        If a file cannot be written; the finished ones stay.

    Notes
    -----
    Level 1 because Pillow's own default, 6, takes 2 to 6 times as long for files that are smaller
    by a tenth, or not at all. A stack in one TIFF is not compressed, so that frames can be
    written in any order. Workers on other machines must see the folder under the same name.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> frames = np.zeros((3, 40, 50), "uint8")
    >>> files = npt.imsave(npt.filters.median(frames), "smooth/{:04d}.png")
    >>> [file.name for file in files]
    ['0000.png', '0001.png', '0002.png']
    """
    how = How(
        resume, None, progress, overwrite, compression=compression, quality=quality, who="imsave"
    )
    given = array.compute() if is_lazy(array) else array
    paths: list[Path] = _save_images(given, pattern, how)
    return paths


def _save_images(result: Any, pattern: Any, how: How) -> Any:
    """Write images, each to a file of its own or all to one TIFF, and give these; or tell."""
    names = parse_pattern(pattern)
    listed = [names] if isinstance(names, str) else names
    several = len(listed) > 1 or "{" in listed[0]
    forms = set(map(format_of, listed))
    for form in forms:
        need("Writing images", "dask.array", "tifffile" if form == TIFF else "PIL")
        check_options(form, how.compression, how.quality)
    is_whole = not several and TIFF in forms and not how.compression
    array = array_of(result, known=how.who == "save" and not is_whole)
    if 0 in array.shape:
        raise ValueError(f"imsave got an empty array, of shape {array.shape}")
    if array.dtype == bool:
        array = array.astype(np.uint8) * np.uint8(255)
    # What is in the memory of this machine is written by this machine.
    in_chunks = is_chunked(result.data if is_xarray(result) else result)
    with nullcontext() if in_chunks else imported("dask.config").set(scheduler="threads"):
        if not is_whole:
            return _save_frames(array, names, several, how)
        path = nth(names, 0)
        if how.who == "imsave" and how.resume and os.path.lexists(path):
            return [Path(path)]
        if is_on_earth(result):
            told = raster(result, path, how)
        elif path.lower().endswith(_OME):
            said = told_to_tiff(result, path)
            frame = array.shape[-3 if result.dims[-1] == "s" else -2 :]
            told = tiff(array, frame, path, how, said)
        else:
            told = tiff(*_as_stack(array, path, False, True), path, how, {})
        return told or [Path(path)]


def _save_frames(array: Any, names: Names, several: bool, how: How) -> Any:
    """Write a file for each frame, by many processes, which may go on with what others began.

    What `save` means by them stands in folder/.{:04d}.png.ninepoint/ beside folder/0000.png, ...
    """
    template = names if isinstance(names, str) else names[0]
    stack, frame = _as_stack(array, template, several, False)
    frames, (folder, name) = len(stack), os.path.split(template)
    if not isinstance(names, str) and len(names) != frames:
        raise ValueError(f"there are {frames} frames, and {len(names)} names for their files")
    paths = [nth(names, number) for number in range(frames)]
    for form in set(map(format_of, paths)):
        check_holds(form, stack.dtype, frame)
    # So that a chunk of several frames is computed once, and not a frame at a time.
    if all(len(lengths) == 1 for lengths in stack.chunks[1:]):
        stack = stack.rechunk((1, *frame), method="tasks")
    found = Contents((Variable("", stack, chunks=(1, *frame), shards=(1, *frame)),)).laid(how)
    units = {unit: paths[unit[1]] for unit in found.share(how.part)}
    there = {path: None for path in units.values() if os.path.lexists(path)}
    if how.resume:
        units = {unit: path for unit, path in units.items() if path not in there}
    if units:
        check_not_read([stack], list(units.values()))
    if there and not (how.overwrite or how.resume):
        raise FileExistsError(f"{next(iter(there))!r} exists; overwrite=True replaces it")
    notes, means = os.path.join(folder, f".{name}.ninepoint"), ""
    if how.who == "save":
        means, begun = Contents((Variable("", array),)).meaning, noted(notes)
        if (how.resume or how.part) and (begun is not None or os.path.lexists(paths[0])):
            check_same(template, begun, means)
    if how.dry:
        return found.told(template, units, how)
    if units:
        make_folder(folder or ".")
        if means:
            note(notes, means)
        # Who hears of the progress does not go to a worker.
        put = partial(_put, names, replace(how, progress=None))
        found.write(units, put, names, how, WHOLE)
    return list(map(Path, paths))


def _put(names: Names, how: How, _: str, block: np.ndarray, region: Region) -> None:
    """Write a block, which is one frame, to its file; to do it twice does no harm."""
    path = nth(names, region[0].start)
    write_whole(path, encode(block[0], format_of(path), how.compression, how.quality))


def parse_pattern(pattern: AnyPath | Iterable[AnyPath]) -> Names:
    """Check a template such as "smooth/{:04d}.png", or a name for each frame.

    A folder, or a name without a suffix, stands for "{:04d}.png" in that folder.
    """
    urls = "imsave writes local files, not to the URL {!r}"
    if not isinstance(pattern, str | os.PathLike):
        return [_possible(local_path(path, urls)) for path in pattern]
    text = local_path(pattern, urls)
    if not text:
        raise ValueError("the pattern of imsave is empty; give one such as 'smooth/{:04d}.png'")
    is_folder = text.endswith(("/", os.sep)) or os.path.isdir(text)
    if is_folder or not (Path(text).suffix or "{" in text):
        text = os.path.join(text, "{:04d}.png")
    folder, name = os.path.split(text)
    if "{" in folder or "}" in folder:
        raise ValueError(f"only the name of the file can hold a {{}}, not its folder: {text!r}")
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"the pattern {text[:80]!r} should hold one {{}} for the number of the frame, with "
            "how many digits it has at least, such as 'smooth/{:04d}.png'"
        )
    _possible(name.format(0))
    return text


def _possible(path: str) -> str:
    """The path, unless it has a name that no file can have."""
    name = os.path.basename(path)
    if len(os.fsencode(name)) > LONGEST_NAME:
        raise ValueError(f"the name {name[:40]!r}... is too long for a file")
    return path


def _as_stack(array: Any, name: str, several: bool, is_whole: bool) -> tuple[Any, tuple[int, ...]]:
    """An array with frames along the axes before those of a frame, and the shape of a frame.

    There is one axis of frames; a TIFF that is written as a whole may have any.
    """
    ndim, last = array.ndim, array.shape[-1:]
    if ndim < 2 or (ndim > 4 and not is_whole):
        raise ValueError(
            "imsave takes an image or a stack (frames, rows, columns[, channels]), not an array "
            f"of {ndim} axes"
        )
    if ndim == 3 and several and coloured_shape(array.shape):
        raise ValueError(
            f"{array.shape[0]} frames of {array.shape[1]} x {array.shape[2]} pixels look like one "
            "colour image; save array[None] if it is one, and array[..., None] if it is not"
        )
    is_colour = ndim == 3 and last[0] in (3, 4) and not several
    has_channels = is_colour or (ndim > 3 and (not is_whole or last[0] in ANY_CHANNELS))
    if not is_whole and (ndim == 2 or is_colour):
        array = array[None]
    if not (several or is_whole) and len(array) > 1:
        stem, suffix = os.path.splitext(name)
        raise ValueError(
            f"{name!r} holds one image, and this array has {len(array)} frames; number the "
            f"files, '{stem}{{:04d}}{suffix}', or save one .tif, which is not compressed"
        )
    if has_channels and last == (1,):
        array, has_channels = array[..., 0], False
    return array, array.shape[-3 if has_channels else -2 :]
