"""imread and open: a folder of images, or an array in a file or a store, as a lazy array.

Of images a `Part` holds all that its task needs, so any worker can do a task, and a graph tells
by its parts which files it reads.
"""

from __future__ import annotations

import glob
import itertools
import math
import os
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from ..arrays.channels import stack_name
from ..arrays.layout import Shape
from ..base.frozen import frozen
from ..base.tracebacks import door
from ..base.undisturbed import imported
from ..language.errors import MetadataWarning, warn
from ..shapes import whole
from . import formats
from .formats import ARRAYS, IMAGES, TIFF, TIFF_SIGNATURES, Header
from .opened import Found, Opened, open_hdf5, open_labelled, open_npy, open_zarr, refuse
from .paths import (
    DAMAGE,
    AnyPath,
    ImageReadError,
    Stamp,
    local_path,
    natural_key,
    need,
    opening,
    said,
    stamp,
    zarr_files,
)
from .progress import SOON, Advance, Progress, shown
from .run import Room, follow, grown, lengths

if TYPE_CHECKING:
    import dask.array as da
    import xarray as xr

_builtin_open = open

# Several small frames share a task, up to this size [bytes]: decoding it takes some 0.1 s, a
# thousand times what Dask spends on a task, and two cores hold a few of them in memory.
STACK_BYTES = 2**24
# A stack is cut into at least so many chunks, so that every core has work until the end.
LEAST_PARTS = 64

# Files that a thread looks at in one go: a picture on a disk takes some 20 us, a TIFF 40 us, and
# either on a file system of a network milliseconds.
BATCH = 16

_URLS = "imread reads local files, not the URL {!r}; download it first"


@frozen
class Frame:
    """A frame in a file as that was when the stack was opened.

    `place` is the byte at which its page of a TIFF starts, and None for a picture.  Of a file of
    several frames `page` is its number.
    """

    stamp: Stamp
    place: int | None = None
    page: int | None = None


@frozen
class Part:
    """Consecutive frames of a stack with one header; `first` is the number of the first.

    `folders` are those of its files, if there are several.
    """

    first: int
    header: Header
    frames: tuple[Frame, ...]
    folders: tuple[str, ...] = ()


@door
def imread(
    source: AnyPath | Iterable[AnyPath],
    *,
    chunks: int | Literal["auto"] = "auto",
    max_pixels: int | None = 2**28,
    progress: Progress = None,
) -> da.Array:
    """Open images as a lazy stack of frames, without decoding any of them.

    Only the header of the first frame is read, to learn shape and dtype, and the table of pages
    of every TIFF, to count them. Each frame is decoded once when the array is computed, and
    checked against the first one then.

    Parameters
    ----------
    source : path, or iterable of paths
        A pattern such as ``"frames/*.png"`` or ``"scans/**/*.tif"``; a folder (its PNG, JPEG
        and TIFF files); or a file. They are sorted as a person counts: ``f2`` before
        ``f10``. The files of a list are taken in its order.
    chunks : int or "auto"
        Frames that one task reads. By default as many as fit into 16 MiB, fewer for a short stack.
    max_pixels : int or None
        Largest number of pixels that a frame may claim to have, checked before any memory is
        taken for it. By default 2**28, that is 16384 x 16384; None for no limit.
    progress : bool, callable or None
        None: a bar, while a person waits for more than a second for files to be looked at. True
        or False: always or never. A function is called with the numbers of files done and in all.

    Returns
    -------
    dask.array.Array, shape (frames, rows, columns[, channels])
        Every page of a TIFF is a frame, also of several files one after another, save for smaller
        copies of others (overviews, thumbnails) and masks. A picture of
        1 bit is bool; a palette becomes RGB, or RGBA with transparency; the rest keeps its dtype.
        Stencils know the axis of the channels, and work on the axes before it.

    Raises
    ------
    FileNotFoundError
        If nothing matches, a folder holds no image, or a file is missing.
    ImageReadError
        If a file is damaged or no image: here for the first one, for the others when the array
        is computed. Then also if a file differs from the first frame in shape or dtype, or has
        changed in the meantime.

    Warns
    -----
    MetadataWarning
        If the first file is OME-TIFF, of ImageJ or their like, and what it says about axes or the
        size of a pixel is dropped.

    Notes
    -----
    The name of the array covers the size and the time of the last change of every file, so a
    rewritten file never meets results that were cached for the old one. EXIF rotation, gamma and
    the transparent colour of an unpaletted PNG are ignored: the numbers are those in the file.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> files = npt.imsave(np.zeros((3, 40, 50), "uint8"), "frames/{:04d}.png")
    >>> frames = npt.imread("frames/*.png")
    >>> frames.shape, frames.dtype, frames.chunks[0]
    ((3, 40, 50), dtype('uint8'), (1, 1, 1))
    """
    need("Reading and writing images", "dask.array", "PIL", "tifffile")
    if max_pixels is not None:
        whole("max_pixels", max_pixels, 1)
    frames = _find_frames(source, progress)
    header, dropped = _read_header(frames, max_pixels)
    if dropped is not None:
        warn(dropped, MetadataWarning)
    # Of several files, for who would write among them.
    files = {one.stamp.path for one in frames}
    folders = tuple({os.path.dirname(path) for path in files if len(files) > 1})
    if chunks == "auto":
        nbytes = math.prod(header.shape) * header.dtype.itemsize
        step = max(1, min(STACK_BYTES // nbytes, -(-len(frames) // LEAST_PARTS)))
    else:
        step = whole("chunks", chunks, 1)
    parts = [
        Part(first, header, tuple(frames[first : first + step]), folders)
        for first in range(0, len(frames), step)
    ]

    # By its files, their sizes and times, and the way it is cut.
    token = imported("dask.base").tokenize(repr(frames), step)
    name = stack_name(header.shape, token)
    zeros = (0,) * len(header.shape)
    tasks = {(name, number, *zeros): (read_part, part) for number, part in enumerate(parts)}
    lengths = (tuple(len(part.frames) for part in parts), *((length,) for length in header.shape))
    array: da.Array = imported("dask.array").Array(tasks, name, chunks=lengths, dtype=header.dtype)
    return array


def _find_frames(source: AnyPath | Iterable[Any], progress: Progress) -> list[Frame]:
    """Find the frames of `source`: a pattern, a folder or a file; or of a list, in its order."""
    if isinstance(source, (str, os.PathLike)):
        paths = matching(local_path(source, _URLS))
    elif isinstance(source, bytes) or not isinstance(source, Iterable):
        raise TypeError(
            f"imread takes a pattern, a folder, a file or a list of files, not {source!r}"
        )
    else:
        paths = [local_path(path, _URLS) for path in source]
        if not paths:
            raise ValueError("imread got an empty list of files")
    frames: list[Frame] = []

    def look(tell: Advance) -> None:
        def look_at(first: int) -> list[Frame]:
            found: list[Frame] = []
            batch = paths[first : first + BATCH]
            for path in batch:
                # Raises once nobody waits any more.
                tell(0)
                found += _frames_of(path, len(found))
            tell(len(batch))
            return found

        # More threads than cores, since they wait for files.
        with ThreadPoolExecutor() as pool:
            for found in pool.map(look_at, range(0, len(paths), BATCH)):
                frames.extend(found)

    try:
        with shown(progress, len(paths), "looking at files", SOON) as advance:
            follow(look, advance)
    except ImageReadError as error:
        # Only now it is known how many frames the files before have.
        number = len(frames) + error.frame
        raise ImageReadError(error.path, number, error.reason) from error
    return frames


def matching(text: str) -> list[str]:
    """The files that a text names, in order."""
    is_folder = os.path.isdir(text)
    if not is_folder and (os.path.lexists(text) or not glob.has_magic(text)):
        return [text]  # a file, also one with [ or * in its name, or a plain mistake
    pattern = os.path.join(glob.escape(text), "*") if is_folder else text
    suffixes: tuple[str, ...] = IMAGES if is_folder else ("",)
    found = [
        path
        for path in glob.iglob(pattern, recursive=True)
        if path.lower().endswith(suffixes) and not os.path.isdir(path)
    ]
    if not found:
        raise FileNotFoundError(
            f"the folder {text!r} holds no image ({', '.join(IMAGES)}); for other names or "
            "for folders inside it give a pattern such as 'folder/**/*.png'; ninepoint.open reads "
            "stores of Zarr"
            if is_folder
            else f"no file matches {text!r} (in {os.getcwd()!r})"
        )
    return sorted(found, key=natural_key)


def alike_images(paths: Sequence[str], progress: Progress) -> list[list[str]]:
    """The files in groups that are stacks: images of one shape and dtype; others are alone."""
    groups: dict[Any, list[str]] = {}
    frames = _find_frames(paths, progress)
    for path, found in itertools.groupby(frames, lambda one: one.stamp.path):
        own = list(found)
        key = path if len(own) > 1 else _read_header(own, None)[0]
        groups.setdefault(key, []).append(path)
    return list(groups.values())


def _frames_of(path: str, number: int) -> list[Frame]:
    """The frames of a file, of which the first has this number."""
    now = stamp(path)
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path!r} is a folder, not an image")
    if not os.path.isfile(path):
        # Opening a pipe would wait for ever.
        raise ImageReadError(path, number, "it is a pipe or a device, not a file")
    # The name costs nothing; the first bytes tell of an unusual one.
    is_tiff = path.lower().endswith(TIFF.suffixes)
    if path.lower().endswith(IMAGES) and not is_tiff:
        return [Frame(now)]
    with _builtin_open(path, "rb") as file, opening(path, number):
        if not is_tiff and file.read(4) not in TIFF_SIGNATURES:
            return [Frame(now)]
        file.seek(0)
        places = formats.page_places(file)
    if len(places) == 1:
        return [Frame(now, *places)]
    return [Frame(now, place, page) for page, place in enumerate(places)]


def _read_header(frames: list[Frame], max_pixels: int | None) -> tuple[Header, str | None]:
    """Read the shape and the dtype of the first frame, and what the labels of its file lose."""
    now = frames[0].stamp
    places = [one.place for one in frames if one.stamp is now and one.place is not None]
    with _opened(now, 0) as file, opening(now.path, 0):
        if places:
            found, dropped = formats.pages_header(file, places)
        else:
            found, dropped = formats.picture_header(file, now.size), None
        rows, columns = found.shape[:2]
        if rows < 1 or columns < 1:
            raise ValueError(f"it claims to be {rows} x {columns} pixels")
        if max_pixels is not None and rows * columns > max_pixels:
            raise ValueError(
                f"it claims {rows} x {columns} pixels, more than max_pixels={max_pixels}; "
                "if you trust the file, raise max_pixels or pass max_pixels=None"
            )
    return found, dropped


def read_part(part: Part) -> np.ndarray:
    """Read the frames of `part`, as an array `(frames, rows, columns[, channels])`.

    Every file is opened once and every frame is decoded once.

    Raises
    ------
    ImageReadError
        If a file has changed since the stack was opened, is damaged, or differs in shape or
        dtype from the first frame of the stack.
    """
    header = part.header
    stack = np.empty((len(part.frames), *header.shape), header.dtype)
    done, damage = 0, None
    for now, group in itertools.groupby(part.frames, lambda one: one.stamp):
        frames = list(group)
        places = [one.place for one in frames if one.place is not None]
        with _opened(now, part.first + done) as file:
            try:
                decoded = formats.pages(file, places, header)
                if not places:
                    decoded = itertools.repeat(formats.picture(file.read(), header), len(frames))
                for frame in decoded:
                    stack[done] = frame
                    done += 1
            except DAMAGE as error:
                page, number = part.frames[done].page, part.first + done
                damage = ImageReadError(now.path, number, said(error), page)
        # Out here it has no cause: some libraries' errors cannot be sent to another process.
        if damage is not None:
            raise damage
    return stack


def _opened(then: Stamp, number: int) -> BinaryIO:
    """Open a file, or raise `ImageReadError` if it is no longer the same."""
    if not then.is_true:
        raise ImageReadError(
            then.path, number, "the file has changed since imread; call imread again"
        )
    return _builtin_open(then.path, "rb")


# An array in a file or a store, with its labels.

# Chunks of Dask hold whole pieces up to this size [bytes]: a thread holds two of them or a few,
# and the neighbours of a block are then a small part of it.
CHUNK_BYTES = 2**23
# An array is cut into at least so many chunks, so that every core has work until the end, unless
# they would be smaller than this [bytes].
LEAST_CHUNKS = 16
LEAST_BYTES = 2**20
# A shard is read whole up to this size [bytes].
SHARD_BYTES = 2**28
# A shard of this size is a chunk of its own [bytes]: a task that writes whole shards, too, then
# needs no other one.
SHARD_ENOUGH = 2**22


@door
def open(
    path: AnyPath | Iterable[AnyPath],
    *,
    variable: str | None = None,
    level: int | None = None,
    chunks: Any = None,
    progress: Progress = None,
) -> da.Array | xr.DataArray | xr.Dataset:
    """Open arrays in a file or a store, without reading any of their elements.

    A stencil that is called with it reads what each block needs from the file itself, where that
    decodes little twice; `explain` tells.

    Parameters
    ----------
    path : path, or iterable of paths
        A Zarr array or group (version 2 or 3, also OME-Zarr), NetCDF, HDF5, GeoTIFF, an array of
        NumPy (``.npy``), TIFF; or images, as `imread` takes them. A URL of a Zarr store that
        fsspec knows.
    variable : str, optional
        Which of several arrays of a store, with the groups around it: ``"model/wind"``; by
        default all of them.
    level : int, optional
        Which size of an image in OME-Zarr; by default 0, the full one.
    chunks : int, tuple, mapping or "auto", optional
        What one task reads: a length for each axis, or for some dimensions by their names, or what
        Dask chooses. By default a shard, or pieces of the store, of up to 8 MiB together. For
        images the number of frames.
    progress : bool, callable or None
        What is shown while many images are looked at, as of `imread`.

    Returns
    -------
    xarray.DataArray, xarray.Dataset or dask.array.Array
        A DataArray with coordinates and attributes where the file names its dimensions: NetCDF,
        HDF5 with dimension scales, OME-Zarr and OME-TIFF (positions along its axes, with units;
        names of channels), GeoTIFF, Zarr with names of dimensions. Else an array of Dask. A
        Dataset of several variables. A TIFF with one image has shape (rows, columns[, channels]);
        several are a stack, as of `imread`, or of the shape that it tells.

    Raises
    ------
    FileNotFoundError, PermissionError
        If there is nothing at `path`, or you may not read it.
    ValueError
        If it holds no array, none of this name, or no such level.
    ImportError
        If the library of this format is missing, with the command that installs it: extras
        ``zarr``, ``netcdf``, ``raster`` and ``images``. A worker without it raises this, too.
    ImageReadError
        If an image is damaged.
    OSError
        When it is computed: if the file, or what describes the array, has changed in the meantime.

    Warns
    -----
    MetadataWarning
        If an OME-TIFF holds several images, of which the first is opened.

    Notes
    -----
    The name of the result covers the path, size and time of the file (of a Zarr array: of the file
    that describes it) and the chunks. A Zarr store whose elements alone are written anew is not
    told from the one before.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> np.save("heights.npy", np.arange(12.0).reshape(3, 4))
    >>> heights = npt.open("heights.npy")
    >>> heights.shape, heights.dtype
    ((3, 4), dtype('float64'))
    >>> npt.filters.mean(heights, size=3).compute()[1, 1]
    np.float64(5.0)
    """
    if isinstance(path, str | os.PathLike):
        text = local_path(path)
        if variable is not None and not isinstance(variable, str):
            raise TypeError(f"variable is the name of an array, not {variable!r}")
        if level is not None:
            whole("level", level, 0)
        need("Opening a file lazily", "dask.array")
        with opening(text):
            found = _find(text, variable, level)
    else:
        text, found = "", None
        refuse(path, variable, level)
    if found is None:
        stack = imread(path, chunks="auto" if chunks is None else chunks, progress=progress)
        # An image that is not read by tiles: of few bits, or with a palette.
        alone = len(stack) == 1 and text.lower().endswith(TIFF.suffixes)
        return stack[0] if alone else stack
    made: da.Array | xr.DataArray | xr.Dataset = _lazy(found, chunks)
    return made


def _find(path: str, variable: str | None, level: int | None) -> Found | None:
    """Open by what it is; None for images that `imread` reads."""
    suffix = os.path.splitext(path.rstrip("/" + os.sep))[1].lower()
    if "://" in path or (os.path.isdir(path) and (zarr_files(path) or suffix == ".zarr")):
        return open_zarr(path, variable, level)
    if not os.path.lexists(path) and suffix in _KNOWN:
        raise FileNotFoundError(f"there is no file {path!r} (in {os.getcwd()!r})")
    start = b""
    if os.path.isfile(path):
        with _builtin_open(path, "rb") as file:
            start = file.read(8)
    refuse(path, None, level)
    if start.startswith(b"CDF"):
        return open_labelled(path, "scipy", variable)
    if start.startswith(b"\x89HDF\r\n\x1a\n"):
        return open_hdf5(path, variable) or open_labelled(path, "h5netcdf", variable)
    refuse(path, variable, None)
    if start.startswith(b"\x93NUMPY"):
        return open_npy(path)
    if start.startswith(b"PK") and suffix == ".npz":
        raise ValueError(
            f"{path!r} holds several arrays, compressed as a whole: numpy.load(path)[name] reads "
            "one; save it as .npy to open it lazily."
        )
    if start.startswith(TIFF_SIGNATURES):
        with opening(path, 0):
            return formats.open_tiff(path)
    if suffix in _KNOWN and os.path.isfile(path):
        raise ValueError(f"{path!r} is no {suffix} file: it does not begin as one.")
    return None


_KNOWN = (*ARRAYS, ".npz", *TIFF.suffixes)


def _lazy(found: Found, chunks: Any) -> Any:
    """Make what a user gets of what was found."""
    arrays, like = found.arrays, found.like
    if isinstance(arrays, Opened):
        dims = range(len(arrays.shape)) if like is None else like.dims
        data = _view(arrays, tuple(dims), chunks)
        return data if like is None else like.copy(data=data)
    made = {}
    for name, array in arrays.items():
        one = like.variables[name]
        made[name] = one.copy(data=_view(array, one.dims, chunks, tuple(like.dims)))
    return like.assign(made)


def _view(
    array: Opened, dims: Sequence[Hashable], chunks: Any, known: Sequence[Hashable] = ()
) -> da.Array:
    """An array of Dask, cut as is asked for; `known` are the dimensions of all."""
    own = _natural(array)
    if chunks is None:
        chunks = own
    elif not isinstance(chunks, str):
        chunks = lengths("chunks", chunks, array.shape, dims, own, known)
    cut = imported("dask.array").core.normalize_chunks(
        chunks, array.shape, dtype=array.dtype, previous_chunks=own
    )
    # Imported here: Dask is optional.
    from ..arrays.chunked.layer import Source

    name = array.layer.format(imported("dask.base").tokenize(array, cut))
    view: da.Array = Source(array, array.shape, array.dtype, array.pieces, name).view(cut)
    return view


def _natural(array: Opened) -> Shape:
    """Choose lengths of chunks.

    Axes of which a piece has more than one element grow first, the shortest block first; then the
    others, from the last to the first.

        (4000, 4000) of 4 bytes in pieces (500, 500)                          (1000, 1000)
        (4000, 4000) of 4 bytes in pieces (100, 100), shards (2000, 2000)     (2000, 2000)
    """
    shape, pieces, itemsize = array.shape, array.pieces, array.dtype.itemsize
    if not math.prod(shape):
        return tuple(max(1, n) for n in shape)
    sizes = tuple(max(1, min(n, piece)) for n, piece in zip(shape, pieces, strict=True))
    least = math.prod(shape) * itemsize // LEAST_CHUNKS
    most = max(LEAST_BYTES, min(CHUNK_BYTES, least, Room.of(None).unit))
    if array.shards is not None:
        shard = tuple(max(1, min(n, one)) for n, one in zip(shape, array.shards, strict=True))
        if math.prod(shard) * itemsize <= SHARD_BYTES:
            sizes = shard
        if math.prod(sizes) * itemsize >= SHARD_ENOUGH:
            return sizes
    wide = [k for k, piece in enumerate(pieces) if piece > 1]
    # Stored without pieces: images, most likely, which lie along the last two axes.
    return grown(sizes, shape, most // itemsize, wide or range(len(shape))[-2:])
