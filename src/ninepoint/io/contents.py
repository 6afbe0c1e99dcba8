"""What is to be saved: lazy arrays, which are written in units, and what lies around them.

DataArray, Dataset    ->    variables that are lazy or large, encoded as xarray encodes them, and
                            a Dataset of the rest: coordinates, attributes, single numbers
NumPy, Dask array     ->    one variable without a name

How an array lies in a store:

chunks    what is compressed, and read, as one piece
shards    files, each of many chunks; without them every chunk is a file

Two tasks that write into one shard or chunk each read it, change their part and write it back:
one of the two is lost, without an error.  So units are made of whole shards or chunks.

Who goes on with what was begun must mean the same:

    smooth(da.from_zarr("a.zarr"), weight=2)   ->   Dask's name: kernel, arguments, functions
                                                    '/data/a.zarr': its size and time
                                                    one fingerprint of these, and of how it lies

Two processes that mean the same find the same, so a store that was begun by one can be finished by
another.  Sources are looked for in what would be sent to a worker: each object that would be
pickled.  What is written is seen: the files of a unit appear when they are whole.
"""

from __future__ import annotations

import io
import itertools
import math
import os
import pickle
import re
import secrets
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import numpy as np

from ..arrays.accepted import is_chunked, is_dask, is_dataset, is_xarray, named
from ..arrays.blocks import as_dask
from ..arrays.layout import Shape
from ..base import limits
from ..base.frozen import frozen
from ..base.undisturbed import imported
from ..language.dtypes import is_masked
from ..language.signature import Explanation, Lines, counted, many
from .formats import IMAGES, STORABLE
from .paths import ZARR_FILES, AmongInputsError, Names, need, stamp, write_whole
from .progress import shown
from .run import (
    HELD,
    How,
    Region,
    Room,
    Unit,
    Units,
    Writer,
    boxes,
    compute,
    grown,
    lengths,
)

# Writes the elements of a variable, of that name, to where they belong.
Put: TypeAlias = Callable[[str, np.ndarray, Region], None]

# What one piece of a store is where nobody says it [bytes]: small enough to look at a tile of it,
# and large enough to be compressed well and not to cost more than it holds.
CHUNK_BYTES = 2**20

# A unit is no longer than this where nobody asks for more [bytes]: each thread holds a few.
UNIT_BYTES = 2**26

# Lengths are divided by these.
_PRIMES = (2, 3, 5, 7)

# What an encoding may say that concerns the values; the rest is about the store they came from.
_OF_VALUES = ("scale_factor", "add_offset", "_FillValue", "missing_value", "dtype", "units",
              "calendar", "_Unsigned")  # fmt: skip


# How Dask ends the names of arrays.
_OF_DASK = re.compile(r"-[0-9a-f]{32}$")


@frozen
class Variable:
    """A Dask array, as it is stored, with the names of its axes.

    Its `chunks` and `shards` are those of the store that it was read from, if of any, until they
    are chosen; then None for `shards` is that there are none.  A unit has `most` bytes, if it may.
    """

    name: str
    array: Any
    dims: tuple[Hashable, ...] = ()
    chunks: Shape | None = None
    shards: Shape | None = None
    most: int = UNIT_BYTES

    @property
    def units(self) -> Units:
        """What a task writes: a shard, or as many chunks as a chunk of Dask holds.

        A task for each piece of a store whose pieces are small would cost more than it does.
        """
        array, chunks = self.array, self.chunks
        assert chunks is not None, "they are chosen by now"
        pairs = zip(array.chunks, chunks, strict=True)
        longest = [max(1, max(sizes, default=1) // one) * one for sizes, one in pairs]
        size = self.shards or grown(chunks, longest, self.most // array.itemsize)
        return Units(array.shape, size)

    def laid(self, how: How, dims: Collection[Hashable]) -> Variable:
        """Choose chunks and shards; those of the store that it was read from are kept."""
        array, shape = self.array, self.array.shape
        pieces, files = (
            None if cut is None else lengths(name, cut, shape, self.dims, shape, dims)
            for name, cut in (("chunks", how.chunks), ("shards", how.shards))
        )
        if pieces is None:
            if files is None and self.chunks is not None:
                return self
            if files is None:
                largest = tuple(max(sizes, default=1) or 1 for sizes in array.chunks)
                files = divided(largest, array.itemsize, UNIT_BYTES)
            pieces = divided(files, array.itemsize, CHUNK_BYTES)
            if pieces == files and how.shards is None:
                files = None
        elif files is not None:
            for axis, (file, piece, n) in enumerate(zip(files, pieces, shape, strict=True)):
                if file % piece and file < n:
                    near = max(1, round(file / piece)) * piece
                    raise ValueError(
                        f"shards of {file} are not made of whole chunks of {piece} along axis "
                        f"{axis}; {near} would be"
                    )
            files = tuple(-(-f // c) * c for f, c in zip(files, pieces, strict=True))
        return replace(self, chunks=pieces, shards=files)


@frozen
class Contents:
    """All that is saved; `dataset` holds placeholders of the variables, and is None for arrays."""

    variables: tuple[Variable, ...]
    dataset: Any = None

    def laid(self, how: How, sharded: bool = True) -> Contents:
        """Choose how each variable lies in the store; `sharded` if that can have shards.

        Raises
        ------
        ValueError
            If a mapping names a dimension that there is not, or the lengths cannot be.
        TypeError
            If they are no lengths.
        MemoryError
            If a unit takes more memory than there may be.
        """
        room = Room.of(how.memory)
        most = room.unit
        if how.part:
            # Parts of a store are written on machines that may have more threads, or memory.
            most = UNIT_BYTES if how.memory is None else room.memory // HELD
        most = min(UNIT_BYTES, most)
        dims = dict.fromkeys(dim for one in self.variables for dim in one.dims)
        found = [replace(one.laid(how, dims), most=most) for one in self.variables]
        if not sharded:
            found = [replace(one, shards=None) for one in found]
        laid = replace(self, variables=tuple(found))
        held = laid.held
        if how.memory is not None and held > room.memory:
            raise MemoryError(
                f"a unit of {held // HELD / 1e6:.3g} MB takes about {held / 1e6:.3g} MB to be "
                f"computed and written, and memory={how.memory!r} is less; give shorter shards= "
                "or chunks=, or more memory"
            )
        return laid

    def check_types(self, what: str, names: Collection[str]) -> None:
        """Raise `TypeError` for values of types other than these."""
        for one in self.variables:
            dtype, of = one.array.dtype, f" of '{one.name}'" if one.name else ""
            if dtype.name not in names:
                cure = "convert them first, such as array.astype('float64')"
                if dtype.name in STORABLE:
                    cure = "save as .zarr"
                raise TypeError(f"{what} cannot hold the {dtype} values{of}: {cure}")

    @property
    def held(self) -> int:
        """About how many bytes a thread holds that computes the largest unit."""
        sizes = [math.prod(one.units.size) * one.array.itemsize for one in self.variables]
        return HELD * max(sizes, default=0)

    def share(self, part: tuple[int, int] | None) -> list[Unit]:
        """The units of a part, of each variable neighbours: it reads little beside its own."""
        number, parts = part or (0, 1)
        found = list[Unit]()
        for one in self.variables:
            counts = one.units.counts
            units = [(one.name, *place) for place in np.ndindex(counts)]
            near = boxes({one.name: counts}, units, max(1, len(units) // parts))
            first, last = (len(units) * n // parts for n in (number, number + 1))
            found += list(itertools.chain(*near))[first:last]
        return found

    @property
    def arrays(self) -> list[Any]:
        """The Dask arrays."""
        return [one.array for one in self.variables]

    @property
    def meaning(self) -> str:
        """A fingerprint of what is computed, how it lies in a store, and what lies around it.

        Dask's name of an array covers its kernels, their arguments, and its chunks.
        """
        named = [(one.name, one.dtype.str, one.shape) for one in self.arrays]
        lying = [(one.name, one.chunks, one.shards) for one in self.variables]
        around = self.dataset
        if around is not None:
            around = around.drop_vars([one.name for one in self.variables], errors="ignore")
        facts = (named, lying, around, sources(self.arrays))
        return str(imported("dask.base").tokenize(facts))

    def told(self, path: str, units: Collection[Unit], how: How) -> Explanation:
        """What it takes to write some units, in words."""
        page = Lines([f"Give each thread {counted(self.held, 'B')}."])
        arrays = [in_units(one.array, one.units.size) for one in self.variables]
        # Imported here, as in all that follows: Dask is optional.
        from ..arrays.chunked.computation import told

        page = told(arrays, limits.current.window_units) or page
        count, own = (len(self.share(part)) for part in (None, how.part))
        size = sum(one.nbytes for one in arrays) * len(units) / max(1, count)
        part = f" of part {how.part}" if how.part else ""
        page[0] += f" To write: {counted(size, 'B')}, {len(units)} of {many(own, 'unit')}{part}."
        page.add("path", path)
        for one in self.variables:
            page.add("variable", f"{one.name} {one.array.dtype} {one.array.shape}".strip())
            page.add("", f"chunks {one.chunks}, shards {one.shards}, units {one.units.size}")
        return Explanation("\n".join(page))

    def write(self, units: Collection[Unit], put: Put, path: Names, how: How, rest: str) -> None:
        """Write some units.

        `put` takes the name of a variable, its elements, and where they belong.  `rest` is what
        becomes of the other units where one cannot be written.
        """
        arrays, wanted = [], dict[Unit, None]()
        for one in self.variables:
            name = f"{how.who}-{secrets.token_hex(16)}"
            own = [(name, *unit[1:]) for unit in units if unit[0] == one.name]
            if own:
                dtype, grid = one.array.dtype, one.units
                task = Writer(grid, dtype, partial(put, one.name), path, rest)
                meta = np.empty((0,) * one.array.ndim, np.int8)
                # Dask makes one task of a chunk and what writes it.
                made = in_units(one.array, grid.size).map_blocks(
                    task, name=name, dtype=np.int8, meta=meta
                )
                arrays.append(made)
                wanted |= dict.fromkeys(own)
        with shown(how.progress, len(units)) as advance:
            if wanted:
                room = Room.of(how.memory)
                threads = max(1, min(room.threads, room.memory // max(1, self.held)))
                compute(arrays, wanted, advance, threads, _window(arrays, room))


def in_units(array: Any, size: Shape) -> Any:
    """The same values in chunks of a size: by other reads of the sources, where that can be.

    Else Dask puts pieces of chunks together; never by sending all chunks through all workers
    ("p2p"), which is lost with one of them.
    """
    from ..arrays.chunked.computation import recut

    chunks = imported("dask.array").core.normalize_chunks(size, array.shape)
    return recut(array, chunks).rechunk(chunks, method="tasks")


def _window(arrays: Sequence[Any], room: Room) -> int:
    """How many units of arrays may be asked for at once: fewer where too much would wait.

    Each worker goes through a part of the units, with layers of its own that wait.
    """
    from ..arrays.chunked.computation import costs_of

    most, each = limits.current.window_units, room.memory // max(1, room.workers)
    while (
        most > limits.current.least_units
        and sum(one.room for one in costs_of(arrays, most)[0]) > each
    ):
        most //= 2
    return most


def contents(result: Any, *, of_zarr: bool = False) -> Contents:
    """Take a result apart, for Zarr or another format.

    Raises
    ------
    TypeError
        If it is nothing that can be saved.
    ValueError
        If a size is not known.
    """
    need("Saving an array", "dask.array")
    if is_xarray(result):
        name = str(result.name or "")
        # Without a name of its own xarray takes that of Dask, which is another one each time.
        is_named = name and not _OF_DASK.search(name)
        return _labelled(result.to_dataset(name=result.name if is_named else "data"), of_zarr)
    if is_dataset(result):
        return _labelled(result, of_zarr)
    return Contents((Variable("", array_of(result)),))


def array_of(result: Any, name: str = "", known: bool = True) -> Any:
    """Give a Dask array of numbers, whose sizes are known, and whose name says what is in it.

    Raises
    ------
    TypeError
        If it is none, or masked.
    ValueError
        If a size is not known.
    """
    of = f" {name!r}" if name else ""
    array = as_dask(result.data if is_xarray(result) else result)
    if is_dask(array):
        if any(n != n for sizes in array.chunks for n in sizes):
            raise ValueError(
                f"the Dask array{of} has chunks of unknown sizes; "
                "call array.compute_chunk_sizes() first"
            )
    elif not isinstance(array, np.ndarray):
        what = named(type(array))
        raise TypeError(
            f"what is saved is an array of NumPy or Dask, a DataArray or a Dataset, not {what}"
        )
    if is_masked(getattr(array, "_meta", array)):
        raise TypeError(f"to save it would lose the mask of the array{of}; fill it first")
    if is_dask(array):
        return array
    return imported("dask.array").from_array(array, chunks=-1, name=None if known else False)


def _labelled(dataset: Any, of_zarr: bool) -> Contents:
    encoded = imported("xarray.conventions").encode_cf_variable
    kinds = {one.dtype.kind for one in dataset.data_vars.values()}
    if kinds and kinds <= set("mM"):
        raise TypeError(
            "times are saved as coordinates only, and npt.open reads no array of them; save "
            "numbers, such as (times - times[0]) / numpy.timedelta64(1, 's')"
        )
    variables, placed = [], dataset.copy()
    for one in placed.variables.values():
        one.encoding = {key: v for key, v in one.encoding.items() if key in _OF_VALUES}
    for name, one in list(placed.variables.items()):
        is_lazy = one.chunks is not None and is_chunked(one.data)
        if not is_lazy and (
            name in dataset.coords or not one.ndim or one.dtype.kind not in "biufc"
        ):
            continue
        if not isinstance(name, str):
            raise TypeError(f"the variable {name!r} cannot be saved: its name is no text")
        if one.dtype.kind not in "biufcmM":
            raise TypeError(
                f"the variable {name!r} is lazy and {one.dtype}, which is no number; "
                "load it first, with .load()"
            )
        one = one.copy(deep=False, data=array_of(one.data, name))
        # NetCDF has numbers in the place of bools, Zarr has bools.
        is_kept = of_zarr and one.dtype == bool
        stored = one if is_kept else encoded(one, name=name)
        # The chunks and shards that it had in the store it was read from.
        told = dataset.variables[name].encoding if of_zarr else {}
        chunks, shards = told.get("chunks"), told.get("shards")
        if chunks is None or len(chunks) != one.ndim:
            chunks = shards = None
        known = chunks and tuple(chunks), shards and tuple(shards)
        variables.append(Variable(name, stored.data, one.dims, *known))
        empty = imported("dask.array").zeros(one.shape, dtype=one.dtype, chunks=-1)
        placed[name] = one.copy(deep=False, data=empty)
    return Contents(tuple(variables), placed)


@contextmanager
def stored_by_xarray() -> Iterator[None]:
    """Say which coordinate or attribute it is that a format cannot hold."""
    try:
        yield
    except (NotImplementedError, TypeError, ValueError) as error:
        notes = [note.partition(" with value")[0] for note in getattr(error, "__notes__", ())]
        raise TypeError(
            f"the coordinates or attributes cannot be stored: {'; '.join([str(error), *notes])}"
        ) from error


def divided(size: Shape, itemsize: int, most: int) -> Shape:
    """Divide lengths by small numbers, the longest first, until so many bytes hold them all."""
    lengths = list(size)
    while math.prod(lengths) * itemsize > most:
        axes = enumerate(lengths)
        ways = [(-n, axis, p) for axis, n in axes for p in _PRIMES if n % p == 0 and n > p]
        if not ways:
            break
        _, axis, prime = min(ways)
        lengths[axis] //= prime
    return tuple(lengths)


# The file that says it.
NAME = "meaning"


def note(folder: str, meaning: str) -> None:
    """Write down in a folder what will be computed."""
    os.makedirs(folder, exist_ok=True)
    write_whole(os.path.join(folder, NAME), meaning.encode())


def noted(folder: str) -> str | None:
    """What was to be computed; None if nobody has written it down."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return Path(folder, NAME).read_text(encoding="utf-8")
    return None


def check_same(path: str, old: str | None, new: str) -> None:
    """Raise unless what was begun at `path` means the same."""
    if old is None:
        raise FileExistsError(
            f"{path!r} exists, and is nothing that save has begun with these variables; "
            "remove it, or save under another name"
        )
    if old != new:
        raise ValueError(
            f"{path!r} was begun with another computation, so save cannot go on with it: kernels, "
            "arguments, sources, dtype, chunks and coordinates have to be the same. "
            "overwrite=True, without part=, begins anew"
        )


def check_not_read(arrays: Iterable[Any], targets: Sequence[str]) -> None:
    """Raise if arrays are read from files or stores that would be replaced, or from among them."""
    paths, folders = seen(arrays)
    read = paths | {str(folder) for path in paths for folder in PurePath(path).parents}
    real = cache(os.path.realpath)
    for target in targets:
        folder, name = os.path.split(target)
        if os.path.join(real(folder), name) in read:
            raise AmongInputsError(
                f"this would overwrite {target!r}, from which the array is still to be read; "
                "save under another name, or into another folder"
            )
        if real(folder) in folders and name.lower().endswith(IMAGES):
            raise AmongInputsError(
                f"this would write {target!r} among the files that the array is read from, where "
                "the next run would take it for one of them; save into another folder"
            )


def sources(arrays: Iterable[Any]) -> list[Any]:
    """The files and stores that arrays are read from, with what tells each from another one.

    These are the sizes and times of what is there.
    """
    found = []
    for path in sorted(seen(arrays)[0]):
        for name in (path, *(os.path.join(path, one) for one in ZARR_FILES)):
            with suppress(OSError):
                now = stamp(name)
                found.append((name, 0 if os.path.isdir(name) else now.size, now.changed))
    return found


# Kernels lie in files too, and an edit of another line there changes no result.
_PROGRAMS = (".py", ".pyc", ".ipynb", ".so")

# What pickling objects of others may raise.
_UNPICKLED = (
    AttributeError, LookupError, NotImplementedError, OSError, RecursionError, RuntimeError,
    TypeError, ValueError, pickle.PicklingError,
)  # fmt: skip


def seen(arrays: Iterable[Any]) -> tuple[set[str], set[str]]:
    """The paths that graphs of Dask arrays hold, and folders of which several images are read."""
    paths, folders = set[str](), set[str]()
    real = cache(os.path.realpath)

    def note_path(text: str) -> None:
        """Take note of a text that is the name of something that is there."""
        text = text.removeprefix("file://")
        suffix = os.path.splitext(text)[1]
        if suffix in _PROGRAMS or not (suffix or os.path.isabs(text)) or len(text) >= 4096:
            return
        with suppress(OSError, ValueError):
            if os.path.lexists(text):
                # A name that is a link, and what it leads to.
                folder, name = os.path.split(text)
                paths.update((os.path.join(real(folder), name), os.path.realpath(text)))

    class Looking(imported("cloudpickle").Pickler):  # type: ignore[misc]
        """What its method gives anything but None for is not pickled."""

        def persistent_id(self, one: Any) -> Any:
            # By their names: images alone need no kernels, and do not import what these need.
            kind = f"{type(one).__module__}.{type(one).__name__}"
            if isinstance(one, str | PurePath):
                note_path(str(one))
            elif isinstance(one, np.ndarray):
                # Of a map in memory the file.
                note_path(str(getattr(one, "filename", "")))
                return None if one.dtype.hasobject else "array"
            elif kind.startswith("h5py."):
                note_path(str(getattr(getattr(one, "file", None), "filename", "")))
                return "h5py"
            elif kind == "ninepoint.io.opening.Part":
                folders.update(map(real, one.folders))
            elif kind.startswith(("builtins.function", "ninepoint.program.")) or (
                kind.startswith("ninepoint.") and hasattr(one, "signature")
            ):
                # Dask names functions and kernels by what they do; the files they may mention are
                # theirs.
                return "function"
            return None

    layers = {name: layer for array in arrays for name, layer in array.dask.layers.items()}
    for layer in layers.values():
        # A layer that is a rule is pickled at once.
        written = type(layer).__name__ == "MaterializedLayer" or isinstance(layer, dict)
        for piece in layer.values() if written else (layer,):
            with suppress(*_UNPICKLED):
                Looking(io.BytesIO(), protocol=5, buffer_callback=[].append).dump(piece)
    return paths, folders
