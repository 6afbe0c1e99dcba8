"""The formats that are written unit by unit: Zarr by many processes, other files as a whole.

A store of Zarr says whether it is complete, and is gone on with.

out.zarr/zarr.json           the attribute "incomplete" is there until the last unit is written
out.zarr/u/zarr.json         a variable; an array without names is the root itself
out.zarr/u/.ninepoint/       what is meant

The store is laid out under a temporary name and renamed, so there is never half of its metadata,
and of several processes that begin it one is first.

not there                    laid out, then written
there, incomplete            with resume, or another part of it: if it means the same, gone on with
there, complete              with resume and the same meaning: nothing is done
there, anything else         an error, unless it is to be replaced

An image of OME-Zarr is written as its convention 0.5 has it.  Of the smaller copies that a source
may have (levels 1, 2, ...) none is written: they would not be what a stencil gives of the larger
ones.

NetCDF and HDF5, TIFF and arrays of NumPy have another name until they are complete.  Each has a
function that lays it out at a path and gives what writes there:

    lay_out(path, contents) ->  put(name, block, region)
"""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays.accepted import is_dataset, is_xarray
from ..arrays.layout import Shape
from ..base.undisturbed import imported
from ..language.dtypes import kind_of
from ..language.errors import MetadataWarning, warn
from .contents import (
    CHUNK_BYTES,
    Contents,
    Put,
    Variable,
    array_of,
    check_not_read,
    check_same,
    contents,
    divided,
    note,
    noted,
    stored_by_xarray,
)
from .formats import IMAGES, NUMBERS, STORABLE, TIFF, check_holds, tiff_layout
from .ome import KINDS, axes_of, labels_of
from .opened import INCOMPLETE
from .opening import open
from .paths import make_folder, need, replacement, temporary_folder, write_whole, zarr_files
from .run import LOST, STAYS, How, Region, Room, Unit, Units

# The folder of a store in which what is meant lies, beside the pieces of an array: readers of Zarr
# look for nested arrays in groups, and would wonder about it there.
FOLDER = ".ninepoint"

UNFINISHED = "ninepoint.save has not finished this store: parts of it are missing"


def save_zarr(result: Any, path: str, how: How) -> str | None:
    """Write what a store lacks: all of it, what an earlier run has left, or one part of many."""
    need("Writing a .zarr store", "dask.array", "zarr")
    is_image = path.lower().endswith(".ome.zarr")
    found = _image(result, path) if is_image else contents(result, of_zarr=True)
    found.check_types("a .zarr store", STORABLE)
    return _save(found.laid(how), path, how)


# What is set for zarr is set for all threads, and an array keeps what was set when it was opened.
_opening = threading.Lock()


def _save(found: Contents, path: str, how: How) -> str | None:
    own = found.share(how.part)
    begun = _begun(path, found, own, how)
    units = set(own) & _missing(path, found) if how.resume else own
    if how.dry:
        return found.told(path, units, how)
    if not begun:
        return None
    zarr = imported("zarr")
    # A piece of zeros is a file as well: it tells that it is written.
    with _opening, zarr.config.set({"array.write_empty_chunks": True}):
        arrays = {
            one.name: zarr.open_array(path, path=one.name, mode="r+") for one in found.variables
        }
    scratch = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.scratch")
    if not how.part:
        # Each part of a store would need all of what lies there.
        found = _scratched(found, scratch, how)
    found.write(units, partial(_write, arrays), path, how, STAYS)
    if not _missing(path, found):
        _finish(path)
        shutil.rmtree(scratch, ignore_errors=True)
    return None


def _scratched(found: Contents, folder: str, how: How) -> Contents:
    """The same contents, where states of long chains that are large lie in stores meanwhile.

        x -> 16 steps -> a -> 16 steps -> b -> 16 steps -> what is saved

    A block of `b` needs the blocks of `a` around it.  Of a volume these are two of its layers,
    which grow with the volume.  Where all that waits so takes half of the room, `a` is written to
    a store in the folder, read from there as any source is, and removed once `b` is written.
    """
    # Imported here: Dask is optional.
    from ..arrays.chunked.computation import Computation, chain, cut_anew, lazily, maker

    most = Room.of(how.memory).memory // 2
    # Who is told numbers of units counts those of the target.
    progress = None if callable(how.progress) else how.progress
    how = How(resume=True, progress=progress, memory=how.memory)

    def path(state: Computation) -> str:
        return os.path.join(folder, f"{state.identity}.zarr")

    def is_stored(state: Computation) -> bool:
        return bool(zarr_files(path(state))) and not _is_unfinished(path(state))

    def computed(state: Computation) -> list[Any]:
        fields = [
            cut_anew(open(path(made.computation), variable=str(made.which)), field.chunks)
            if made
            else field
            for made, field in zip(state.makers, state.arrays, strict=True)
        ]
        return lazily(state.program, fields)

    def scratched(array: Any) -> Any:
        last = maker(array)
        states = chain(last.computation) if last else []
        types = [output.dtype.name for state in states[:-1] for output in state.outputs]
        # What a store has no type for stays in memory.
        if not last or sum(one.waits for one in states) <= most or not STORABLE.issuperset(types):
            return array
        states = chain(last.computation, is_stored)
        for number, state in enumerate(states[:-1], 1):
            if not is_stored(state):
                results = enumerate(computed(state))
                variables = [Variable(str(k), one, chunks=one.chunksize) for k, one in results]
                _save(Contents(tuple(variables)), path(state), how)
            # By their names: equal states of which there are several are one store.
            later = [made for one in states[number:] for made in one.makers if made]
            needed = {path(made.computation) for made in later}
            for done in set(map(path, states[:number])) - needed:
                shutil.rmtree(done, ignore_errors=True)
        return computed(last.computation)[last.which]

    variables = [replace(one, array=scratched(one.array)) for one in found.variables]
    return replace(found, variables=tuple(variables))


def _missing(path: str, found: Contents) -> set[Unit]:
    """The units of which a file is missing; each appears when it is whole."""
    missing = set()
    for one in found.variables:
        files = Units(one.array.shape, one.shards or one.chunks or ())
        for place in np.ndindex(files.counts):
            if not os.path.lexists(os.path.join(path, one.name, "c", *map(str, place))):
                sizes = zip(place, files.size, one.units.size, strict=True)
                unit = [at * file // size for at, file, size in sizes]
                missing.add((one.name, *unit))
    return missing


def _begun(path: str, found: Contents, own: Collection[Unit], how: How) -> bool:
    """Lay out the store, or find the one that is being written; false if that is complete."""
    means = found.meaning
    fresh = not os.path.lexists(path)
    if not fresh and how.overwrite and not how.resume:
        check_not_read(found.arrays, [path])
        _remove(path, how.dry)
        fresh = True
    if fresh:
        if how.dry:
            return True
        make_folder(os.path.dirname(path))
        lay_out = _lay_out_arrays if found.dataset is None else _lay_out_group
        with temporary_folder(path) as name:
            lay_out(name, found)
            note(_notes(name, found), means)
            try:
                os.rename(name, path)
            except OSError:
                # Another process may have been first.
                if not os.path.isdir(path):
                    raise
            else:
                return True
    old = noted(_notes(path, found))
    if not (how.resume or how.part):
        more = "resume=True goes on with it, " if old and _is_unfinished(path) else ""
        raise FileExistsError(f"{path!r} exists; {more}overwrite=True replaces it")
    check_same(path, old, means)
    unfinished = _is_unfinished(path)
    # There may be more parts than units, and this one empty.
    if not unfinished and own and not how.resume:
        raise FileExistsError(f"{path!r} exists and is complete; resume=True takes it as it is")
    return unfinished


def _write(arrays: Mapping[str, Any], name: str, block: np.ndarray, region: Region) -> None:
    """Write whole shards or chunks."""
    arrays[name][region] = block


def _notes(path: str, found: Contents) -> str:
    """The folder of what is meant; readers of Zarr look for nested arrays in groups alone."""
    names = [one.name for one in found.variables] or list(found.dataset.variables)
    return os.path.join(path, *names[:1], FOLDER)


def _is_unfinished(path: str) -> bool:
    """Whether a store says that it is not complete."""
    return INCOMPLETE in imported("zarr").open(path, mode="r").attrs


def _finish(path: str) -> None:
    """Take away what says that it is not complete; to do it twice does no harm."""
    name = os.path.join(path, "zarr.json")
    described = json.loads(Path(name).read_text(encoding="utf-8"))
    if described.get("attributes", {}).pop(INCOMPLETE, None) is not None:
        write_whole(name, json.dumps(described, indent=2).encode())


def _remove(path: str, dry: bool) -> None:
    """Remove a store, and nothing else; of a dry run raise alone."""
    if os.path.islink(path):
        raise FileExistsError(
            f"{path!r} is a link, which save does not replace; save to {os.path.realpath(path)!r}"
        )
    if not os.path.isdir(path):
        raise FileExistsError(f"{path!r} is no folder; save replaces stores of Zarr only")
    if os.listdir(path) and not zarr_files(path):
        raise FileExistsError(
            f"{path!r} is a folder that is no store of Zarr, which save does not remove"
        )
    if not dry:
        # By another name: nobody finds one that is half gone.
        with temporary_folder(path) as gone:
            os.rename(path, gone)
            shutil.rmtree(gone)


def _lay_out_arrays(path: str, found: Contents) -> None:
    zarr = imported("zarr")
    said = {INCOMPLETE: UNFINISHED}
    if all(variable.name for variable in found.variables):
        zarr.create_group(path, zarr_format=3, attributes=said)
    for variable in found.variables:
        zarr.create_array(
            path,
            name=variable.name or None,
            shape=variable.array.shape,
            dtype=variable.array.dtype.newbyteorder("="),
            chunks=variable.chunks,
            shards=variable.shards,
            zarr_format=3,
            attributes=said,
        )


def _lay_out_group(path: str, found: Contents) -> None:
    """Let xarray write all but the values: it knows how it wants to read them."""
    # It takes the place of all that a variable says of how it is stored.
    encoding = {
        one.name: found.dataset[one.name].encoding | {"chunks": one.chunks, "shards": one.shards}
        for one in found.variables
    }
    with warnings.catch_warnings(), stored_by_xarray():
        # That consolidated metadata, which xarray looks for, and the types of texts are no part of
        # the format yet.
        warnings.filterwarnings("ignore", "Consolidated metadata")
        warnings.filterwarnings("ignore", "The data type")
        found.dataset.assign_attrs({INCOMPLETE: UNFINISHED}).to_zarr(
            path,
            zarr_format=3,
            compute=False,
            consolidated=True,
            safe_chunks=False,
            encoding=encoding,
        )
        root = imported("zarr").open_group(path, mode="r")
    for one in found.variables:
        assert root[one.name].dtype == one.array.dtype.newbyteorder("="), one


def _image(result: Any, path: str) -> Contents:
    """Take a result for an image, as the name of its store says it is."""
    axes, labels = axes_of(result, path), labels_of(result)
    told = [
        {"name": axis.name, "type": KINDS[axis.name]} | ({"unit": axis.unit} if axis.unit else {})
        for axis in axes
    ]
    changes = [
        {"type": "scale", "scale": [axis.step for axis in axes]},
        {"type": "translation", "translation": [axis.start for axis in axes]},
    ]
    image = {
        "name": str(result.name or ""),
        "axes": told,
        "datasets": [{"path": "0", "coordinateTransformations": changes}],
    }
    said: dict[str, Any] = {"version": "0.5", "multiscales": [image]}
    if labels:
        # The channels as a viewer shows them first.
        low, high = 0.0, 1.0
        if result.dtype.kind in "iu":
            low, high = map(float, (np.iinfo(result.dtype).min, np.iinfo(result.dtype).max))
        window = {"min": low, "max": high, "start": low, "end": high}
        plain = {"active": True, "color": "FFFFFF", "window": window}
        said["omero"] = {"channels": [plain | {"label": label} for label in labels]}
    alone = result.drop_vars(result.coords).to_dataset(name="0").assign_attrs(ome=said)
    return contents(alone, of_zarr=True)


HDF5 = (".nc", ".nc4", ".h5", ".hdf5")

# Tiles of a GeoTIFF are squares of so many pixels: a multiple of 16, as the format asks for.
TILE = 512


def _fill(
    path: str, found: Contents, lay_out: Callable[[str, Contents], Put], how: How
) -> str | None:
    """Lay a file out under another name, write its units, and give it its name; or tell of it."""
    if how.part or how.resume:
        raise ValueError(
            f"a {os.path.splitext(path)[1]} file is written as a whole: it cannot be written by "
            "several processes (part=), nor gone on with (resume=); save as .zarr, which can"
        )
    path = os.path.abspath(path)
    is_there = os.path.lexists(path)
    if is_there:
        if not how.overwrite:
            raise FileExistsError(f"{path!r} exists; overwrite=True replaces it")
        if os.path.isdir(path):
            raise FileExistsError(f"{path!r} is a folder, which a file does not replace")
    if is_there or path.lower().endswith(IMAGES):
        check_not_read(found.arrays, [path])
    found = found.laid(how, sharded=False)
    units = found.share(None)
    if how.dry:
        return found.told(path, units, how)
    make_folder(os.path.dirname(path))
    with replacement(path) as temporary:
        found.write(units, lay_out(temporary, found), path, how, LOST)
    return None


def netcdf(result: Any, path: str, how: How) -> str | None:
    """NetCDF or HDF5: laid out by xarray, then filled by one task at a time."""
    need("Writing NetCDF or HDF5", "xarray", "h5netcdf")
    if not (is_xarray(result) or is_dataset(result)):
        result = imported("xarray").DataArray(array_of(result), name="data")
    found = contents(result)
    found.check_types("NetCDF", (*NUMBERS, "bool", "float32", "float64"))

    def lay_out(path: str, laid: Contents) -> Put:
        """Let xarray write everything but the values of the variables, which are lazy."""
        dataset = laid.dataset
        # What is said here takes the place of all that a variable says of how it is stored.
        encoding = {
            one.name: dataset[one.name].encoding | {"chunksizes": one.chunks or None}
            for one in laid.variables
        }
        store = imported("xarray.backends").H5NetCDFStore.open(path, mode="w")
        with closing(store), stored_by_xarray():
            dims = {dim for one in laid.variables for dim in one.dims}
            unlimited = dims.intersection(dataset.encoding.get("unlimited_dims", ()))
            dataset.dump_to_store(store, encoding=encoding, unlimited_dims=unlimited)
        return partial(_write_netcdf, path)

    return _fill(path, found, lay_out, how)


def _write_netcdf(path: str, name: str, block: np.ndarray, region: Region) -> None:
    """Write whole chunks."""
    h5py = need("Writing NetCDF or HDF5", "h5py")
    with _alone(path), h5py.File(path, "r+") as file:
        file[name][region] = block


_lock = threading.Lock()


def _cluster() -> Any:
    """What workers of a cluster have locks of; None where this is none."""
    distributed: Any = sys.modules.get("distributed")
    with suppress(AttributeError, ValueError):
        distributed.get_worker()
        return distributed
    return None


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Keep others from writing to a file meanwhile: threads, processes, workers of a cluster."""
    with _lock, ExitStack() as held:
        if cluster := _cluster():
            held.enter_context(cluster.Lock(f"ninepoint-{path}"))
        elif os.name != "nt":
            # No folder can be locked there; HDF5 says if two processes write at once.  Against
            # processes of this machine, as those of Dask's scheduler "processes".
            fcntl = imported("fcntl")
            descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
            held.callback(os.close, descriptor)
            # Some file systems of networks have no such locks.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def is_on_earth(result: Any) -> bool:
    """Whether a result says where on Earth it is."""
    if not is_xarray(result):
        return False
    if "rioxarray" not in sys.modules and "spatial_ref" not in result.coords:
        return False
    need("Writing GeoTIFF", "rioxarray")
    return result.rio.crs is not None


def raster(result: Any, path: str, how: How) -> str | None:
    """A GeoTIFF: laid out by rioxarray, which knows of projections, then tile by tile."""
    array = array_of(result)
    found = Contents((Variable("", array, chunks=(*array.shape[:-2], TILE, TILE)),))

    def lay_out(path: str, _: Contents) -> Put:
        """Write everything but the pixels."""
        zeros = imported("dask.array").zeros(result.shape, dtype=result.dtype, chunks=-1)
        result.copy(data=zeros).rio.to_raster(
            path, driver="GTiff", tiled=True, blockxsize=TILE, blockysize=TILE,
            bigtiff="IF_SAFER", lock=threading.Lock(), compute=False,
        )  # fmt: skip
        return partial(_write_raster, path)

    return _fill(path, found, lay_out, how)


def _write_raster(path: str, _: str, block: np.ndarray, region: Region) -> None:
    """Write whole tiles."""
    writing = need("Writing GeoTIFF", "rioxarray", "rioxarray.raster_writer")
    with _alone(path):
        writing.RasterioWriter(path)[region] = block


def npy(result: Any, path: str, how: How) -> str | None:
    """An array of NumPy."""
    if is_dataset(result):
        raise TypeError("a .npy file holds one array; save a Dataset as .zarr or .nc")
    if is_xarray(result) and (result.coords or result.attrs):
        warn(
            "a .npy file keeps neither coordinates nor attributes; a .zarr store or a .nc "
            "file does",
            MetadataWarning,
        )
    array = array_of(result)
    # What NumPy would read as bytes without a meaning.
    if array.dtype.hasobject or kind_of(array.dtype) != array.dtype.kind:
        raise TypeError(f"a .npy file of {array.dtype} cannot be written; convert it to numbers")

    def lay_out(path: str, _: Contents) -> Put:
        """Write the header; the elements are missing."""
        dtype = array.dtype.newbyteorder("=")
        header = np.lib.format.open_memmap(path, "w+", dtype, array.shape)
        return _mapped(header.offset, array, path)

    return _fill(path, Contents((Variable("", array),)), lay_out, how)


def tiff(stack: Any, frame: Shape, path: str, how: How, described: dict[str, Any]) -> str | None:
    """A TIFF with a page for each frame, whose shape is the end of that of the stack.

    Pages are not compressed, so all have the same size, and are written in any order.
    """
    check_holds(TIFF, stack.dtype, frame)
    # Of a large page some rows are written at once, which follow each other.
    row = math.prod(frame[1:]) * stack.dtype.itemsize
    rows = divided(frame[:1], row, CHUNK_BYTES)
    pieces = (*(1 for _ in stack.shape[: -len(frame)]), *rows, *frame[1:])

    def lay_out(path: str, _: Contents) -> Put:
        """Describe every page; the pixels are missing, and follow each other."""
        options = tiff_layout(frame) | described
        dtype = stack.dtype.newbyteorder("=")
        start, _ = imported("tifffile").imwrite(
            path, shape=stack.shape, dtype=dtype, returnoffset=True, **options
        )
        return _mapped(start, stack, path)

    return _fill(path, Contents((Variable("", stack, chunks=pieces),)), lay_out, how)


# What says that there is no room; a system that cannot take room beforehand says other things.
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def _mapped(start: int, array: Any, path: str) -> Put:
    """Write elements that follow each other from a byte on, through a map of the file.

    On a disk that is full a map would end the process, so room is taken where the system can.
    """
    if hasattr(os, "posix_fallocate"):
        with Path(path).open("rb+") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))
            except OSError as error:
                if error.errno in _FULL:
                    words = f"{error.strerror}: the array takes {array.nbytes} bytes"
                    raise OSError(error.errno, words) from error
    dtype = array.dtype.newbyteorder("=")
    return partial(_write_elements, (path, dtype, "r+", start, array.shape))


def _write_elements(place: Any, _: str, block: np.ndarray, region: Region) -> None:
    """Write some elements; two machines that write into one page of memory would lose some."""
    cluster = _cluster()
    with cluster.Lock(f"ninepoint-{place[0]}") if cluster else nullcontext():
        target = np.memmap(*place)
        target[region] = block
        if cluster:
            target.flush()
