"""Opened: an array in a file or a store, which a process opens when it first reads of it.

It pickles as the place where it is and how it is opened, so a graph is as small for a terabyte as
for a byte, and no open file goes from process to process.

Here are the openers of `.npy`, HDF5, NetCDF, GeoTIFF and Zarr as well.  xarray knows about
coordinates, missing values and scaled numbers, rioxarray about projections; here every process
opens the file once, and reads regions of one variable.

Zarr                                     what it gives
an array                                 itself
a group that xarray wrote                a variable, with its coordinates
a group with "multiscales"               the image of OME-Zarr, of one of its levels
any other group                          the array that is named, or the only one

OME-Zarr: an image of microscopy in several sizes, with axes, scales and names of channels.

    group attributes     {"multiscales": [{axes, datasets: [{path, scale, translation}, ...]}]}
    level                number of the size, 0 for the full one

The convention of 0.4 (NGFF) has them at the top, that of 0.5, which is written, under "ome".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays.layout import Shape
from ..base.frozen import frozen
from ..base.undisturbed import imported
from .ome import Axis, image, labelled
from .paths import (
    CLEAR,
    DAMAGE,
    ZARR_FILES,
    ImageReadError,
    Stamp,
    need,
    opening,
    readable,
    said,
    spans,
    zarr_files,
)


def open_npy(path: str) -> Found:
    """Look at the header of an array of NumPy."""
    stamp = readable(path)
    return Found(opened(_npy, path, stamp, _npy(path), None))


def _npy(path: str) -> np.ndarray:
    """Map it; what is read is what the system then loads."""
    # Nothing can be mapped of an array without elements.
    is_small = os.path.getsize(path) < 2**10
    return np.asarray(np.load(path, mmap_mode=None if is_small else "r", allow_pickle=False))


def open_hdf5(path: str, variable: str | None) -> Found | None:
    """Look for datasets; None where xarray should read them, since they name their dimensions."""
    h5py = need("Reading HDF5", "h5py")
    stamp = readable(path)
    with h5py.File(stamp.path, "r") as file:
        # What is missing would be read as zeros.
        missing = file.id.get_filesize() - os.path.getsize(path)
        if missing > 0:
            raise ValueError(f"it is truncated: {missing:,} of its bytes are missing")
        if "_NCProperties" in file.attrs:
            return None
        names: list[str] = []
        file.visit(names.append)
        found = {name: one for name in names if isinstance(one := file[name], h5py.Dataset)}
        if any(len(dim) for one in found.values() for dim in one.dims):
            return None
        arrays = {
            name: opened(_hdf5, path, stamp, one, one.chunks, name)
            for name, one in found.items()
            if one.ndim and one.dtype.kind in "biufc"
        }
    if variable is None and len(arrays) > 1:
        return bare(arrays)
    return Found(arrays[pick(path, list(arrays), variable)])


def _hdf5(path: str, name: str) -> Any:
    """Open a dataset; h5py itself lets one thread in at a time."""
    return need("Reading HDF5", "h5py").File(path, "r")[name]


def open_labelled(
    path: str,
    engine: str,
    variable: str | None,
    group: str = "",
    stamps: Mapping[str, Stamp] | None = None,
) -> Found:
    """Look for variables, and take what the dataset says of them; all, or the one that is named.

    Variables have the file's stamp, or `stamps` of their own.
    """
    if not group:
        group, _, variable = (variable or "").strip("/").rpartition("/")
    where = f"{path}/{group}" if group else path
    with opening(where):
        dataset = _dataset(path, engine, group)
    every = {str(name): one for name, one in dataset.variables.items()}
    stamps = stamps or dict.fromkeys(every, readable(path))
    bounds = {one.attrs.get("bounds") or one.encoding.get("bounds") for one in every.values()}
    numeric = {name: one for name, one in every.items() if one.ndim and one.dtype.kind in "biufc"}
    names = [name for name in map(str, dataset.data_vars) if name in numeric]
    main = [name for name in names if name not in bounds]
    if variable or len(main) < 2:
        names = [pick(where if engine == "zarr" else path, main, variable, list(numeric))]
    arrays = {}
    for name in names:
        one, inner = numeric[name], f"{group}/{name}".strip("/")
        told = one.encoding.get("chunks") or one.encoding.get("chunksizes")
        shards = one.encoding.get("shards")
        arrays[name] = opened(
            _variable, path, stamps[name], one, told, inner, engine, shards=shards
        )
    return Found(arrays, dataset) if names[1:] else Found(arrays[name], dataset[name])


def _variable(path: str, inner: str, engine: str) -> Any:
    """Open a dataset and find a variable, decoded as xarray does it, and locked where it must."""
    group, _, name = inner.rpartition("/")
    return _dataset(path, engine, group).variables[name]


def _dataset(path: str, engine: str, group: str) -> Any:
    """Open a dataset without reading any variable but the coordinates along dimensions."""
    library = need("Reading this file", "xarray", engine)
    options: dict[str, Any] = {"phony_dims": "sort"} if engine == "h5netcdf" else {}
    if engine == "zarr":
        root = library.open_group(path, path=group, mode="r")
        options["consolidated"] = root.metadata.consolidated_metadata is not None
    return imported("xarray").open_dataset(
        path, engine=engine, group=group or None, cache=False, **options
    )


# What a reader finds among the attributes of a store that is being written.
INCOMPLETE = "incomplete"


def open_zarr(path: str, variable: str | None, level: int | None) -> Found:
    """Look for an array."""
    zarr = need("Reading Zarr", "zarr")
    if "://" not in path and not zarr_files(path):
        raise ValueError(
            f"{path!r} is no Zarr store: it has none of the files {listed(ZARR_FILES)}."
        )
    node = zarr.open(path, mode="r")
    if INCOMPLETE in node.attrs:
        raise ValueError(
            f"{path!r} is not finished: parts of it have not been written yet. Save it again with "
            "resume=True."
        )
    if isinstance(node, zarr.Array):
        refuse(path, variable, level)
        return _plain(path, node)
    name = (variable or "").strip("/")
    if name and name in node:
        parent, _, variable = name.rpartition("/")
        if isinstance(node[name], zarr.Group):
            parent, variable = name, None
        node = node[parent] if parent else node
    return _from_group(path, node, variable, level)


def _from_group(path: str, group: Any, variable: str | None, level: int | None) -> Found:
    inside = group.path.strip("/")
    where = f"{path}/{inside}" if inside else path
    # What it says of its image; without "multiscales" it holds none.
    inner = group.attrs.get("ome")
    said = inner if isinstance(inner, Mapping) else group.attrs
    if said.get("multiscales") is not None and variable is None:
        return _image(path, where, group, said, level)
    refuse(where, None, level)
    arrays = {name: one for name, one in group.arrays() if one.ndim and one.dtype.kind in "biufc"}
    if variable is None and not arrays:
        below_here = [name for name, _ in group.groups()]
        hint = f" Open one of its groups: {listed(below_here)}." if below_here else ""
        raise ValueError(f"{where!r} is a group of Zarr that holds no array itself.{hint}")
    if arrays and all(_dims(one) for one in arrays.values()):
        stamps = {name: _zarr_stamp(path, one) for name, one in arrays.items()}
        return open_labelled(path, "zarr", variable, inside, stamps)
    if variable is None and len(arrays) > 1:
        return bare({name: _array(path, one) for name, one in arrays.items()})
    return _plain(path, arrays[pick(where, list(arrays), variable)])


def _plain(store: str, node: Any) -> Found:
    """An array, with the names of its dimensions if it has them all."""
    array, dims = _array(store, node), _dims(node)
    attrs = dict(node.attrs)
    attrs.pop("_ARRAY_DIMENSIONS", None)
    return Found(array, labelled(array, dims, None, attrs) if dims else None)


def _array(store: str, node: Any) -> Opened:
    stamp, inner = _zarr_stamp(store, node), node.path.strip("/")
    return opened(_zarr, store, stamp, node, node.chunks, inner, shards=node.shards)


def _zarr(store: str, path: str) -> Any:
    """Open an array, of which the pieces that hold some elements are decoded, and no others."""
    return need("Reading Zarr", "zarr").open_array(store, path=path, mode="r")


def _dims(array: Any) -> tuple[str, ...]:
    """The names of its dimensions, if it has them all."""
    named = getattr(array.metadata, "dimension_names", None)
    named = named or array.attrs.get("_ARRAY_DIMENSIONS")
    if not named or not all(named) or len(set(named)) != array.ndim:
        return ()
    return tuple(map(str, named))


def _zarr_stamp(store: str, node: Any) -> Stamp:
    """Take the stamp of the file that describes an array or a group, or what it says."""
    for file in zarr_files(os.path.join(store, node.path.strip("/"))):
        return readable(file)
    return Stamp(store, sign=imported("dask.base").tokenize(node.metadata.to_dict()))


def _image(path: str, where: str, group: Any, said: Mapping[str, Any], level: int | None) -> Found:
    """An image of OME-Zarr in one of its sizes, with positions along axes that have a scale."""
    whole = said["multiscales"][0]
    sizes = whole["datasets"]
    # Before 0.4 axes were words.
    axes = [one if isinstance(one, Mapping) else {"name": one} for one in whole["axes"]]
    number = level or 0
    if number not in range(len(sizes)):
        raise ValueError(
            f"{where!r} has {len(sizes)} levels, from 0 for the full size on; there is no "
            f"level={level}."
        )
    array = _array(path, group[str(sizes[number]["path"])])
    scale, start = np.ones(len(axes)), np.zeros(len(axes))
    for one in (sizes[number], whole):
        for change in one.get("coordinateTransformations", ()):
            factor = np.asarray(change.get("scale", 1.0))
            scale, start = scale * factor, start * factor + change.get("translation", 0.0)
    names = [
        Axis(str(axis["name"]), step, first, axis.get("unit"))
        for axis, step, first in zip(axes, scale, start, strict=True)
    ]
    channels = (said.get("omero") or {}).get("channels") or ()
    labels = [str(one.get("label", k)) for k, one in enumerate(channels)]
    return Found(array, image(array, names, labels, whole.get("name", "")))


def pick(
    path: str, variables: Sequence[str], wanted: str | None, known: Sequence[str] = ()
) -> str:
    """The variable that is wanted, or the first one; `known` are all that can be asked for.

    Raises
    ------
    ValueError
        If there is none, or none of this name.
    """
    if wanted:
        name = wanted.strip("/")
        if name not in (*variables, *known):
            raise ValueError(
                f"{path!r} holds no array {wanted!r}; it holds {listed([*variables, *known])}."
            )
        return name
    if not variables:
        raise ValueError(f"{path!r} holds no array of numbers.")
    return variables[0]


def refuse(path: Any, variable: str | None, level: int | None) -> None:
    """Raise where a variable or a level is asked for of what has none."""
    if variable is not None:
        raise ValueError(f"{path!r} holds no variables, so variable={variable!r} means nothing.")
    if level:
        raise ValueError(
            f"level={level} means nothing for {path!r}: smaller copies of an image (overviews) "
            "are not read, only OME-Zarr has levels. Coarsen the array instead."
        )


def bare(arrays: dict[str, Opened]) -> Found:
    """A Dataset of arrays, whose dimensions are called by their lengths."""
    known: dict[tuple[int, int], str] = {}
    named = {}
    for name, one in arrays.items():
        # The lengths, and how many axes of the same length are before each.
        keys = [(n, one.shape[:axis].count(n)) for axis, n in enumerate(one.shape)]
        named[name] = labelled(one, [known.setdefault(k, f"dim_{len(known)}") for k in keys])
    return Found(arrays, imported("xarray").Dataset(named))


def listed(names: Sequence[str]) -> str:
    """Some names as a message has them, not too many."""
    shown = [repr(name) for name in dict.fromkeys(names)]
    more = len(shown) - 12
    return ", ".join(shown[:12]) + (f" and {more} more" if more > 0 else "") if shown else "none"


# What arrays of Dask are called, but those of images.
OPEN = "open-{}"


@frozen
class Opened:
    """An array that is read when it is sliced; `pieces` tells what is decoded at once.

    `opener` is called with what stands in `place`, and what it gives is sliced, by any thread at
    any time: by slices within the array, of step 1.  Pieces may lie together in `shards`.  Arrays
    of Dask are called as `layer`; damage of images is said as of other images.
    """

    opener: Callable[..., Any]
    place: tuple[str, ...]
    stamp: Stamp
    shape: Shape
    dtype: np.dtype
    pieces: Shape
    shards: Sequence[int] | None = None
    layer: str = OPEN

    def __getitem__(self, index: tuple[Any, ...]) -> np.ndarray:
        """Read of a file that is still the same, or say where it cannot be read.

        Dask joins its own slices with numbers and steps, but none that go backwards.
        """
        # What is read of each axis, in one piece, and what is taken of that.
        parts = [
            (slice(one.start, one.stop), slice(None, None, one.step))
            if isinstance(one, slice)
            else (slice(one, one + 1), 0)
            for one in index
        ]
        box, taken = zip(*parts, strict=True)
        path = self.stamp.path
        try:
            is_same = self.stamp.is_true
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{path!r} was there when it was opened, and is not any more, or is not on "
                "this machine."
            ) from error
        if not is_same:
            raise OSError(f"{path!r} has changed since it was opened; open it again.")
        try:
            held = _opened(self.opener, self.place, self.stamp)
            found: np.ndarray = np.asarray(held[box], self.dtype)[taken]
            return found
        except CLEAR:
            raise
        except DAMAGE as error:
            reason = f"{said(error)}, at the elements [{spans(box)}]"
            if self.layer == OPEN:
                # The file, and the array in it if that has a name.
                name = "/".join(filter(None, self.place[:2]))
                raise OSError(f"{name!r} cannot be read: {reason}") from error
        # Out here it has no cause: some libraries' errors cannot be sent to another process.
        raise ImageReadError(path, 0, reason)


def opened(
    opener: Callable[..., Any],
    path: str,
    stamp: Stamp,
    like: Any,
    pieces: Sequence[int] | None,
    *inner: str,
    shards: Sequence[int] | None = None,
) -> Opened:
    """An array in a file or a store, with the shape and dtype of another; `inner` begins where."""
    real = path if "://" in path else os.path.abspath(path)
    pieces = tuple(map(int, pieces or (1,) * like.ndim))
    shape, dtype = tuple(like.shape), np.dtype(like.dtype)
    return Opened(opener, (real, *inner), stamp, shape, dtype, pieces, shards)


@lru_cache(maxsize=64)
def _opened(opener: Callable[..., Any], place: tuple[str, ...], stamp: Stamp) -> Any:
    """Open once in a process what is still the same."""
    return opener(*place)


@frozen
class Found:
    """What a file holds: an array to read, or some by their names, and what it says about them.

    `like` is a DataArray, or a Dataset of several, whose data are to be replaced; None for an
    array whose dimensions have no names.
    """

    arrays: Opened | Mapping[str, Opened]
    like: Any = None
