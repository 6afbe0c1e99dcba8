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
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ..base.frozen import frozen
from ..base.undisturbed import imported
from .paths import (
    DAMAGE,
    ZARR_FILES,
    ImageReadError,
    Stamp,
    need,
    opening,
    readable,
    said,
    zarr_files,
)
from .run import Shape


def open_npy(path: str) -> Found:
    """Look at the header of an array of NumPy."""
    stamp = readable(path)
    return Found(opened(_npy, path, stamp, _npy(path), None))


def _npy(path: str) -> Array:
    """Map it; what is read is what the system then loads."""
    # Nothing can be mapped of an array without elements.
    is_small = os.path.getsize(path) < 2**10
    return np.asarray(np.load(path, mmap_mode=None if is_small else "r", allow_pickle=False))


def open_hdf5(path: str, variable: str | None) -> Found | None:
    """Look for a dataset; None where xarray should read it, since it names its dimensions."""
    h5py = need("Reading HDF5", "h5py")
    stamp = readable(path)
    with h5py.File(stamp.path, "r") as file:
        if "_NCProperties" in file.attrs:
            return None
        names: list[str] = []
        file.visit(names.append)
        datasets = {
            name: one
            for name in names
            if isinstance(one := file[name], h5py.Dataset)
            and one.ndim
            and one.dtype.kind in "biufc"
        }
        main = [n for n, one in datasets.items() if one.attrs.get("CLASS") != b"DIMENSION_SCALE"]
        name = pick(path, main, variable, [*datasets])
        one = datasets[name]
        if any(len(dim) for dim in one.dims):
            return None
        return Found(opened(_hdf5, path, stamp, one, one.chunks, name))


def _hdf5(path: str, name: str) -> Any:
    """Open a dataset; h5py itself lets one thread in at a time."""
    return need("Reading HDF5", "h5py").File(path, "r")[name]


def check_whole(path: str) -> None:
    """Raise where a file of HDF5 was cut short: what is missing would be read as zeros."""
    with need("Reading HDF5", "h5py").File(path, "r") as file:
        missing = file.id.get_filesize() - os.path.getsize(path)
    if missing > 0:
        raise ValueError(f"it is truncated: {missing:,} of its bytes are missing")


def open_netcdf(path: str, variable: str | None, engine: str) -> Found:
    """Look for a variable of a NetCDF or HDF5 file."""
    stamp = readable(path)
    group, _, name = (variable or "").strip("/").rpartition("/")
    return open_variable(lambda _: stamp, path, engine, group, name or None)


def open_variable(
    stamp: Callable[[str], Stamp], path: str, engine: str, group: str, variable: str | None
) -> Found:
    """Look for a variable, which may be the only one, and take what the dataset says of it.

    `stamp` gives the stamp of a variable.
    """
    where = f"{path}/{group}" if group else path
    with opening(where, lambda reason: ValueError(f"{where!r} cannot be opened: {reason}")):
        dataset = _dataset(path, engine, group)
    numeric = {
        str(name): one
        for name, one in dataset.variables.items()
        if one.ndim and one.dtype.kind in "biufc"
    }
    every = dataset.variables.values()
    bounds = {one.attrs.get("bounds") or one.encoding.get("bounds") for one in every}
    main = [n for n in map(str, dataset.data_vars) if n in numeric and n not in bounds]
    name = pick(where if engine == "zarr" else path, main, variable, list(numeric))
    one = numeric[name]
    told = one.encoding.get("chunks") or one.encoding.get("chunksizes")
    inner = f"{group}/{name}".strip("/")
    array = opened(_variable, path, stamp(name), one, told, inner, engine)
    return Found(array, one.encoding.get("shards"), dataset[name])


def _variable(path: str, inner: str, engine: str) -> Any:
    """Open a dataset and find a variable, decoded as xarray does it, and locked where it must."""
    group, _, name = inner.rpartition("/")
    return _dataset(path, engine, group).variables[name]


def _dataset(path: str, engine: str, group: str) -> Any:
    """Open a dataset without reading any variable but the coordinates along dimensions."""
    library = need("Reading this file", "xarray", engine)
    options: dict[str, Any] = {}
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
        if variable is not None:
            raise ValueError(f"{path!r} is one array, and holds no variable {variable!r}.")
        _refuse_level(path, level)
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
    said = said_of(group.attrs)
    if said.get("multiscales") is not None and variable is None:
        return _image(path, where, group, level)
    _refuse_level(where, level)
    arrays = {name: one for name, one in group.arrays() if one.ndim and one.dtype.kind in "biufc"}
    if variable is None and not arrays:
        below_here = [name for name, _ in group.groups()]
        hint = f" Open one of its groups: {listed(below_here)}." if below_here else ""
        raise ValueError(f"{where!r} is a group of Zarr that holds no array itself.{hint}")
    if arrays and all(_dims(one) for one in arrays.values()):
        return open_variable(
            lambda one: _zarr_stamp(path, arrays[one]), path, "zarr", inside, variable
        )
    return _plain(path, arrays[pick(where, list(arrays), variable)])


def _refuse_level(path: str, level: int | None) -> None:
    if level:
        raise ValueError(
            f"level={level} is for OME-Zarr, which holds an image in several sizes; {path!r} "
            "holds one."
        )


def _plain(store: str, node: Any) -> Found:
    """An array, with the names of its dimensions if it has them all."""
    array = _array(store, node)
    dims = _dims(node)
    attrs = {k: v for k, v in dict(node.attrs).items() if k != "_ARRAY_DIMENSIONS"}
    like = labelled(array, dims, None, attrs, None) if dims else None
    return Found(array, node.shards, like)


def _array(store: str, node: Any) -> Opened:
    return opened(_zarr, store, _zarr_stamp(store, node), node, node.chunks, node.path.strip("/"))


def _zarr(store: str, path: str) -> Any:
    """Open an array, of which the pieces that hold some elements are decoded, and no others."""
    return need("Reading Zarr", "zarr").open_array(store, path=path, mode="r")


def _dims(array: Any) -> tuple[str, ...]:
    """The names of its dimensions, if it has them all."""
    named = getattr(array.metadata, "dimension_names", None)
    named = named or array.attrs.get("_ARRAY_DIMENSIONS")
    if not named or len(named) != array.ndim or not all(named) or len(set(named)) < len(named):
        return ()
    return tuple(map(str, named))


def _zarr_stamp(store: str, node: Any) -> Stamp:
    """Take the stamp of the file that describes an array or a group, or what it says."""
    for file in zarr_files(os.path.join(store, node.path.strip("/"))):
        return readable(file)
    return Stamp(store, sign=imported("dask.base").tokenize(node.metadata.to_dict()))


def said_of(attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a group says of its image; without "multiscales" it holds none."""
    inner = attrs.get("ome")
    return inner if isinstance(inner, Mapping) else attrs


def _image(path: str, where: str, group: Any, level: int | None) -> Found:
    """An image of OME-Zarr in one of its sizes, with positions along axes that have a scale."""
    said = said_of(group.attrs)
    image = said["multiscales"][0]
    sizes = image["datasets"]
    # Before 0.4 axes were words.
    axes = [one if isinstance(one, Mapping) else {"name": one} for one in image["axes"]]
    number = level or 0
    if number not in range(len(sizes)):
        raise ValueError(
            f"{where!r} has {len(sizes)} levels, from 0 for the full size on; there is no "
            f"level={level}."
        )
    node = group[str(sizes[number]["path"])]
    array = _array(path, node)
    names = [str(axis["name"]) for axis in axes]
    scale, start = np.ones(len(names)), np.zeros(len(names))
    for one in (sizes[number], image):
        for change in one.get("coordinateTransformations", ()):
            factor = np.asarray(change.get("scale", 1.0))
            scale, start = scale * factor, start * factor + change.get("translation", 0.0)
    coords: dict[Hashable, Any] = {}
    for axis, name, n, step, first in zip(axes, names, array.shape, scale, start, strict=True):
        if name != "c":
            unit = axis.get("unit")
            units = {} if unit is None else {"units": unit}
            coords[name] = (name, first + step * np.arange(n), units)
    channels = (said.get("omero") or {}).get("channels") or ()
    if "c" in names and len(channels) == array.shape[names.index("c")]:
        coords["c"] = ("c", [str(one.get("label", k)) for k, one in enumerate(channels)])
    return Found(array, node.shards, labelled(array, names, coords, {}, image.get("name") or None))


def pick(
    path: str, variables: Sequence[str], wanted: str | None, known: Sequence[str] = ()
) -> str:
    """The variable that is wanted, or the only one; `known` are all that can be asked for.

    Raises
    ------
    ValueError
        If there is none, if there are several and none is named, or none of this name.
    """
    if wanted is not None:
        name = wanted.strip("/")
        if name not in (*variables, *known):
            raise ValueError(
                f"{path!r} holds no array {wanted!r}; it holds {listed([*variables, *known])}."
            )
        return name
    if not variables:
        raise ValueError(f"{path!r} holds no array of numbers.")
    if len(variables) > 1:
        raise ValueError(
            f"{path!r} holds several arrays: {listed(variables)}. Name the one to open, "
            f"variable={variables[0]!r}."
        )
    return variables[0]


def listed(names: Sequence[str]) -> str:
    """Some names as a message has them, not too many."""
    shown = [repr(name) for name in dict.fromkeys(names)]
    more = len(shown) - 12
    return ", ".join(shown[:12]) + (f" and {more} more" if more > 0 else "") if shown else "none"


Array: TypeAlias = np.ndarray


@frozen
class Opened:
    """An array that is read when it is sliced; `pieces` tells what is decoded at once.

    `opener` is called with what stands in `place`, and what it gives is sliced, by any thread at
    any time: by slices within the array, of step 1.  Damage of what `is_image` is
    said as of other images.
    """

    opener: Callable[..., Any]
    place: tuple[str | int, ...]
    stamp: Stamp
    shape: Shape
    dtype: np.dtype
    pieces: Shape
    is_image: bool = False

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """Where a user would say it is: the file, and the array in it if that has a name."""
        return "/".join(one for one in self.place[:2] if one and isinstance(one, str))

    def __getitem__(self, index: Any) -> Array:
        entries = index if isinstance(index, tuple) else (index,)
        entries += (slice(None),) * (self.ndim - len(entries))
        boxes = [_box(entry, n) for entry, n in zip(entries, self.shape, strict=True)]
        places = [place for place, _ in boxes]
        if all(place.start < place.stop for place in places):
            found = self._checked(places)
        else:
            found = np.empty([place.stop - place.start for place in places], self.dtype)
        taken: Array = found[tuple(left for _, left in boxes)]
        return taken

    def _checked(self, box: Sequence[slice]) -> Array:
        """Read of a file that is still the same, or say where it cannot be read."""
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
            return np.asarray(_opened(self.opener, self.place, self.stamp)[tuple(box)], self.dtype)
        except (FileNotFoundError, PermissionError, ImageReadError):
            raise
        except DAMAGE as error:
            spans = ", ".join(f"{one.start}:{one.stop}" for one in box)
            reason = f"{said(error)}, at the elements [{spans}]"
            if not self.is_image:
                raise OSError(f"{self.name!r} cannot be read: {reason}") from error
        # Out here it has no cause: some libraries' errors cannot be sent to another process.
        raise ImageReadError(path, 0, reason)

    def __dask_tokenize__(self) -> Any:
        return self.opener.__qualname__, self.place, repr(self.stamp), self.dtype.str


def opened(
    opener: Callable[..., Any],
    path: str,
    stamp: Stamp,
    like: Any,
    pieces: Sequence[int] | None,
    *inner: str,
) -> Opened:
    """An array in a file or a store, with the shape and dtype of another; `inner` begins where."""
    real = path if "://" in path else os.path.abspath(path)
    pieces = tuple(map(int, pieces or (1,) * like.ndim))
    return Opened(opener, (real, *inner), stamp, tuple(like.shape), np.dtype(like.dtype), pieces)


@lru_cache(maxsize=64)
def _opened(opener: Callable[..., Any], place: tuple[str | int, ...], stamp: Stamp) -> Any:
    """Open once in a process what is still the same."""
    return opener(*place)


def _box(entry: Any, n: int) -> tuple[slice, Any]:
    """What an entry of an index reads, in order, and what it then takes of that."""
    if not isinstance(entry, slice):
        at = range(n)[entry]
        return slice(at, at + 1), 0
    places = range(n)[entry]
    first, last = sorted((places[0], places[-1])) if places else (0, -1)
    return slice(first, last + 1), slice(None, None, places.step)


@frozen
class Found:
    """What a store holds: an array to read, and what the store says about it.

    `shards` are the files of its pieces; `like` is a DataArray whose data are to be replaced,
    where dimensions have names; `layer` names the array where that tells something.
    """

    array: Opened
    shards: Sequence[int] | None = None
    like: Any = None
    layer: str = "open-{}"


def labelled(array: Opened, dims: Sequence[str], coords: Any, attrs: Any, title: Any) -> Any:
    """A DataArray of the shape of an array, with labels."""
    need("Reading an array with names of dimensions", "xarray")
    data = np.broadcast_to(np.zeros((), array.dtype), array.shape)
    return imported("xarray").DataArray(data, dims=dims, coords=coords, attrs=attrs, name=title)
