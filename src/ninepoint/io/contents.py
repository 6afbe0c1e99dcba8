"""What is to be saved: lazy arrays, which are written in units, and what lies around them.

DataArray, Dataset    ->    variables that are lazy or large, encoded as xarray encodes them, and
                            a Dataset of the rest: coordinates, attributes, single numbers
NumPy, Dask array     ->    one variable without a name
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays.engines import as_dask
from ..arrays.recognise import is_chunked, is_dask, is_dataset, is_xarray
from ..undisturbed import imported
from .paths import need
from .progress import Progress
from .resume import Journal, Meaning, meaning
from .run import Item
from .units import Layout, Region, Shape, Units, units

# What an encoding may say that concerns the values; the rest is about the store they came from.
_OF_VALUES = ("scale_factor", "add_offset", "_FillValue", "missing_value", "dtype", "units",
              "calendar", "_Unsigned")  # fmt: skip


# How Dask ends the names of arrays.
_OF_DASK = re.compile(r"-[0-9a-f]{32}$")


@dataclass(frozen=True, slots=True)
class Variable:
    """A Dask array, as it is stored, with the names of its axes."""

    name: str
    array: Any
    dims: tuple[Hashable, ...] = ()
    known: Layout | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contents:
    """All that is saved; `dataset` holds placeholders of the variables, and is None for arrays.

    Variables without a dataset lie in a group with these `attributes`.
    """

    variables: tuple[Variable, ...]
    dataset: Any = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dims(self) -> list[Hashable]:
        """The names of all axes."""
        return list(dict.fromkeys(dim for variable in self.variables for dim in variable.dims))

    @property
    def facts(self) -> Meaning:
        """The values that lie around the variables, as far as they tell two contents apart."""
        if self.dataset is None:
            return [("the axes and channels", dict(self.attributes))] if self.attributes else []
        tokenize: Any = imported("dask.base").tokenize
        lazy = {variable.name for variable in self.variables}
        return [
            (f"the coordinate {name!r}", tokenize(np.asarray(one.values)))
            for name, one in sorted(self.dataset.variables.items(), key=lambda pair: str(pair[0]))
            if name not in lazy
        ]


@dataclass(frozen=True, slots=True)
class How:
    """What `save` was asked for besides the result and its place."""

    resume: bool = False
    part: tuple[int, int] | None = None
    progress: Progress = None
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """Writes units, and notes of each that it is written; `first` is the number of the first."""

    write: Callable[[np.ndarray, Region], None]
    path: str
    journal: Journal | None
    units: Units
    first: int

    def __call__(self, block: np.ndarray, place: Shape, region: Region) -> None:
        """Write one unit."""
        try:
            self.write(block, region)
            if self.journal is not None:
                self.journal.mark(self.first + self.units.number(place))
        except OSError as error:
            rest = (
                "what was written is of no use, and is written again"
                if self.journal is None
                else "what is written stays, and resume=True goes on after it"
            )
            where = ", ".join(f"{one.start}:{one.stop}" for one in region)
            raise OSError(
                error.errno,
                f"{error.strerror or error}: [{where}] is not written; {rest}",
                self.path,
            ) from error


def grids_of(contents: Contents, layouts: Mapping[str, Layout]) -> dict[str, Units]:
    """Divide the variables into units."""
    return {
        one.name: units(
            one.array.shape, one.array.dtype.itemsize, one.array.chunks, layouts[one.name]
        )
        for one in contents.variables
    }


def items_of(
    contents: Contents,
    grids: Mapping[str, Units],
    writes: Mapping[str, Callable[[np.ndarray, Region], None]],
    numbers: Container[int],
    path: str,
    journal: Journal | None,
) -> list[Item]:
    """What is written: the units of these numbers, which count through all variables."""
    items = []
    first = 0
    for variable in contents.variables:
        grid = grids[variable.name]
        own = {n: 1 for n in range(grid.count) if first + n in numbers}
        put = Put(writes[variable.name], path, journal, grid, first)
        items.append(Item(variable.array, grid, put, own))
        first += grid.count
    return items


def meaning_of(
    contents: Contents, layouts: Mapping[str, Layout], grids: Mapping[str, Units]
) -> Meaning:
    """What the variables mean, and how they lie in a store."""
    rest: Meaning = []
    for variable in contents.variables:
        of, lies = f" of '{variable.name}'" if variable.name else "", layouts[variable.name]
        rest += [
            (f"the chunks{of}", lies.chunks),
            (f"the shards{of}", lies.shards),
            (f"what a task writes{of}", grids[variable.name].size),
        ]
    return meaning({one.name: one.array for one in contents.variables}, rest + contents.facts)


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
        named = name and not _OF_DASK.search(name)
        return _labelled(result.to_dataset(name=result.name if named else "data"), of_zarr)
    if is_dataset(result):
        return _labelled(result, of_zarr)
    if isinstance(result, np.ma.MaskedArray):
        raise TypeError("save would lose the mask of this array; use array.filled(value)")
    result = as_dask(result)
    if not (isinstance(result, np.ndarray) or is_dask(result)):
        kind = type(result)
        raise TypeError(
            f"save takes an array of NumPy or Dask, a DataArray or a Dataset, not "
            f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        )
    return Contents((Variable("", lazily(result)),))


def lazily(array: Any, name: str = "") -> Any:
    """Give a Dask array of numbers, whose sizes are known."""
    of = f" {name!r}" if name else ""
    array = as_dask(array)
    if is_dask(array):
        if any(n != n for sizes in array.chunks for n in sizes):
            raise ValueError(
                f"the Dask array{of} has chunks of unknown sizes; "
                "call array.compute_chunk_sizes() first"
            )
        if isinstance(array._meta, np.ma.MaskedArray):
            raise TypeError(f"save would lose the mask of the array{of}; fill it first")
    else:
        da: Any = imported("dask.array")
        array = da.from_array(array, chunks=-1)
    return array


def _labelled(dataset: Any, of_zarr: bool) -> Contents:
    need("Saving a DataArray", "xarray")
    xr: Any = imported("xarray")
    kinds = {one.dtype.kind for one in dataset.data_vars.values()}
    if kinds and kinds <= set("mM"):
        raise TypeError(
            "times are saved as coordinates only, and npt.open reads no array of them; save "
            "numbers, such as (times - times[0]) / numpy.timedelta64(1, 's')"
        )
    variables, placed = [], dataset.copy()
    for name, one in dataset.variables.items():
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
        known = _known(one)
        one = one.copy(deep=False)
        one.data = lazily(one.data, name)
        one.encoding = {key: v for key, v in one.encoding.items() if key in _OF_VALUES}
        # NetCDF has numbers in the place of bools, Zarr has bools.
        is_kept = of_zarr and one.dtype == bool
        stored = one if is_kept else xr.conventions.encode_cf_variable(one, name=name)
        variables.append(Variable(name, stored.data, one.dims, known, dict(stored.attrs)))
        placeholder = one.copy(deep=False)
        placeholder.data = imported("dask.array").zeros(one.shape, dtype=one.dtype, chunks=-1)
        placed[name] = placeholder
    for one in placed.variables.values():
        one.encoding = {key: v for key, v in one.encoding.items() if key in _OF_VALUES}
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


def _known(variable: Any) -> Layout | None:
    """The chunks and shards that a variable had where it was read."""
    chunks, shards = variable.encoding.get("chunks"), variable.encoding.get("shards")
    lengths = [one for one in (chunks, shards) if one is not None]
    if chunks is None or any(not isinstance(n, int) for one in lengths for n in one):
        return None
    if any(len(one) != variable.ndim for one in lengths):
        return None
    return Layout(tuple(chunks), None if shards is None else tuple(shards))
