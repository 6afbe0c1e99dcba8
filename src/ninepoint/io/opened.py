"""Opened: an array in a file or a store, which a process opens when it first reads of it.

It pickles as the place where it is and how it is opened, so a graph is as small for a terabyte as
for a byte, and no open file goes from process to process.

Here are the openers of `.npy`, HDF5, NetCDF and GeoTIFF as well, and of variables that xarray
knows: it knows about coordinates, missing values and scaled numbers, rioxarray about projections;
here every process opens the file once, and reads regions of one variable.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ..base.undisturbed import imported
from .paths import DAMAGE, ImageReadError, Stamp, need, opening, readable, said
from .run import Shape, Units


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
    datasets: dict[str, Any] = {}
    with h5py.File(stamp.path, "r") as file:
        if "_NCProperties" in file.attrs:
            return None

        def look(name: str, one: Any) -> None:
            if isinstance(one, h5py.Dataset) and one.ndim and one.dtype.kind in "biufc":
                datasets[name] = one

        file.visititems(look)
        main = [n for n, one in datasets.items() if one.attrs.get("CLASS") != b"DIMENSION_SCALE"]
        name = pick(path, main, variable, [*datasets])
        one = datasets[name]
        if any(len(dim) for dim in one.dims):
            return None
        return Found(opened(_hdf5, path, stamp, one, one.chunks, name))


def _hdf5(path: str, name: str) -> Any:
    """Open a dataset; h5py itself lets one thread in at a time."""
    return need("Reading HDF5", "h5py").File(path, "r")[name]


def open_raster(path: str) -> Found:
    """Look at a GeoTIFF, of which the full resolution is read: overviews are copies of it."""
    stamp = readable(path)
    rioxarray = need("Reading GeoTIFF", "xarray", "rasterio", "rioxarray")
    like = rioxarray.open_rasterio(path, cache=False)
    if not hasattr(like, "dims") or isinstance(like, list) or hasattr(like, "data_vars"):
        raise ValueError(
            f"{path!r} holds several images of different kinds; open the one you need with "
            "rioxarray.open_rasterio(path, variable=...)."
        )
    with imported("rasterio").open(path) as file:
        rows, columns = file.block_shapes[0]
        apart = file.interleaving is None or file.interleaving.name != "pixel"
    pieces = (1 if apart else like.shape[0], int(rows), int(columns))
    return Found(opened(_raster, path, stamp, like, pieces), like=like)


def _raster(path: str) -> Any:
    """Open the bands, of shape (band, y, x), for each thread anew: GDAL lets no two use one."""
    rioxarray = need("Reading GeoTIFF", "rioxarray")
    return rioxarray.open_rasterio(path, cache=False, lock=False).variable


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

# So many pieces are tried one by one for the one that is damaged.
_MOST_TRIED = 10_000

# Chunks of Dask hold whole pieces up to this size [bytes]: a thread holds two of them or a few,
# and the neighbours of a block are then a small part of it.
CHUNK_BYTES = 2**25
# An array is cut into at least so many chunks, so that every core has work until the end, unless
# they would be smaller than this [bytes].
LEAST_CHUNKS = 16
LEAST_BYTES = 2**20
# A shard is read whole up to this size [bytes].
SHARD_BYTES = 2**28
# A shard of this size is a chunk of its own [bytes]: a task that writes whole shards, too, then
# needs no other one.
SHARD_ENOUGH = 2**22


@dataclass(frozen=True, slots=True)
class Opened:
    """An array that is read when it is sliced; `pieces` tells what is decoded at once.

    `opener` is called with what stands in `place`, and what it gives is sliced, by any thread at
    any time: by slices within the array, of step 1.
    """

    opener: Callable[..., Any]
    place: tuple[str | int, ...]
    stamp: Stamp
    shape: Shape
    dtype: np.dtype
    pieces: Shape

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
            return self._read(box)
        except (FileNotFoundError, PermissionError, ImageReadError):
            raise
        except DAMAGE as error:
            raise self._damaged(box, error) from error

    def _read(self, box: Sequence[slice]) -> Array:
        return np.asarray(_opened(self.opener, self.place, self.stamp)[tuple(box)])

    def _damaged(self, box: Sequence[slice], error: BaseException) -> OSError:
        """The error that says where an array cannot be read."""
        ranges = [
            range(one.start // n, -(-one.stop // n))
            for one, n in zip(box, self.pieces, strict=True)
        ]
        where = ""
        if math.prod(self.pieces) > 1 and math.prod(map(len, ranges)) <= _MOST_TRIED:
            for place in itertools.product(*ranges):
                piece = Units(self.shape, self.pieces).region(place)
                try:
                    self._read(piece)
                except DAMAGE as cause:
                    spans = ", ".join(f"{s.start}:{s.stop}" for s in piece)
                    where, error = f" in chunk {place}, the elements [{spans}]", cause
                    break
        return OSError(f"{self.name!r} cannot be read{where}: {said(error)}")

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


@dataclass(frozen=True, slots=True)
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


def natural(
    shape: Sequence[int], itemsize: int, pieces: Sequence[int], shards: Sequence[int] | None = None
) -> Shape:
    """Choose lengths of chunks.

    Axes of which a piece has more than one element grow first, the shortest block first; then the
    others, from the last to the first.

    >>> natural((4000, 4000), 4, (500, 500))
    (1000, 1000)
    >>> natural((4000, 4000), 4, (100, 100), (2000, 2000))
    (2000, 2000)
    """
    if not math.prod(shape):
        return tuple(max(1, n) for n in shape)
    sizes = tuple(max(1, min(n, piece)) for n, piece in zip(shape, pieces, strict=True))
    most = max(LEAST_BYTES, min(CHUNK_BYTES, math.prod(shape) * itemsize // LEAST_CHUNKS))
    if shards is not None:
        whole = tuple(max(1, min(n, shard)) for n, shard in zip(shape, shards, strict=True))
        if math.prod(whole) * itemsize <= SHARD_BYTES:
            sizes = whole
        if math.prod(sizes) * itemsize >= SHARD_ENOUGH:
            return sizes
    wide = [k for k, piece in enumerate(pieces) if piece > 1]
    # Stored without pieces: images, most likely, which lie along the last two axes.
    wide = wide or list(range(len(shape)))[-2:]
    others = [k for k in reversed(range(len(shape))) if k not in wide]

    lengths, grows = list(sizes), True
    while grows:
        grows = False
        for axis in (*sorted(wide, key=lambda k: lengths[k]), *others):
            longer = min(2 * lengths[axis], shape[axis])
            nbytes = math.prod(lengths) // lengths[axis] * longer * itemsize
            if lengths[axis] < longer and nbytes <= most:
                lengths[axis], grows = longer, True
                break
    return tuple(lengths)
