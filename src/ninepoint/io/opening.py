"""open: an array in a file or a store, lazily, with its labels."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..base.tracebacks import door
from .formats import TIFF, TIFF_SIGNATURES
from .images import imread
from .opened import Found, lazy, open_hdf5, open_labelled, open_npy, open_zarr, refuse_level
from .paths import AnyPath, ImageReadError, local_path, need, opening, zarr_files
from .progress import Progress
from .tiff import open_tiff

if TYPE_CHECKING:
    import dask.array as da
    import xarray as xr

_builtin_open = open


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
        if level is not None and (isinstance(level, bool) or not isinstance(level, int)):
            raise TypeError(f"level is a number, not {level!r}")
        need("Opening a file lazily", "dask.array")
        with opening(text, lambda reason: ValueError(f"{text!r} cannot be opened: {reason}")):
            found = _find(text, variable, level)
    else:
        text, found = "", None
        refuse_level(str(path), level)
        _refuse_variable(path, variable)
    if found is None:
        stack = imread(path, chunks="auto" if chunks is None else chunks, progress=progress)
        # An image that is not read by tiles: of few bits, or with a palette.
        alone = len(stack) == 1 and text.lower().endswith(TIFF.suffixes)
        return stack[0] if alone else stack
    made: da.Array | xr.DataArray | xr.Dataset = lazy(found, chunks)
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
    refuse_level(path, level)
    if start.startswith(b"CDF"):
        return open_labelled(path, "scipy", variable)
    if start.startswith(b"\x89HDF\r\n\x1a\n"):
        return open_hdf5(path, variable) or open_labelled(path, "h5netcdf", variable)
    _refuse_variable(path, variable)
    if start.startswith(b"\x93NUMPY"):
        return open_npy(path)
    if start.startswith(b"PK") and suffix == ".npz":
        raise ValueError(
            f"{path!r} holds several arrays, compressed as a whole: numpy.load(path)[name] reads "
            "one; save it as .npy to open it lazily."
        )
    if start.startswith(TIFF_SIGNATURES):
        with opening(path, lambda reason: ImageReadError(path, 0, reason)):
            return open_tiff(path)
    if suffix in _KNOWN and os.path.isfile(path):
        raise ValueError(f"{path!r} is no {suffix} file: it does not begin as one.")
    return None


_KNOWN = (".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".hdf", ".npy", ".npz", ".zarr", *TIFF.suffixes)


def _refuse_variable(path: Any, variable: str | None) -> None:
    if variable is not None:
        raise ValueError(f"{path!r} holds no variables, so variable={variable!r} means nothing.")
