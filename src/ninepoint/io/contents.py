"""What is to be saved: lazy arrays, which are written in units, and what lies around them.

DataArray, Dataset    ->    variables that are lazy or large, encoded as xarray encodes them, and
                            a Dataset of the rest: coordinates, attributes, single numbers
NumPy, Dask array     ->    one variable without a name
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..arrays.accepted import is_chunked, is_dask, is_dataset, is_xarray
from ..arrays.engines import as_dask
from ..undisturbed import imported
from .paths import AmongInputsError, need
from .resume import Journal, Meaning, Seen, facts_of
from .run import Item, Writer
from .units import NONE, UNKNOWN, Layout, Region, Shape, Units, units

# What an encoding may say that concerns the values; the rest is about the store they came from.
_OF_VALUES = ("scale_factor", "add_offset", "_FillValue", "missing_value", "dtype", "units",
              "calendar", "_Unsigned")  # fmt: skip


# How Dask ends the names of arrays.
_OF_DASK = re.compile(r"-[0-9a-f]{32}$")


@dataclass(frozen=True, slots=True)
class Variable:
    """A Dask array, as it is stored, with the names of its axes.

    How it `lies` in a store is what it was where it was read, if anything, until that is chosen;
    then it has `units`, of which `first` is the number of the first in the store.
    """

    name: str
    array: Any
    dims: tuple[Hashable, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    lies: Layout = UNKNOWN
    units: Units = NONE
    first: int = 0

    @property
    def of(self) -> str:
        """Which one it is, for what is said of it."""
        return f" of '{self.name}'" if self.name else ""


@dataclass(frozen=True, slots=True)
class Contents:
    """All that is saved; `dataset` holds placeholders of the variables, and is None for arrays.

    Variables without a dataset lie in a group with these `attributes`.
    """

    variables: tuple[Variable, ...]
    dataset: Any = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def laid(self, choose: Callable[[Variable], Layout]) -> Contents:
        """Choose how each variable lies in the store, and divide it into units."""
        variables: list[Variable] = []
        first = 0
        for one in self.variables:
            lies = choose(one)
            grid = units(one.array, lies)
            variables.append(replace(one, lies=lies, units=grid, first=first))
            first += grid.count
        return replace(self, variables=tuple(variables))

    @property
    def dims(self) -> list[Hashable]:
        """The names of all axes."""
        return list(dict.fromkeys(dim for variable in self.variables for dim in variable.dims))

    @property
    def count(self) -> int:
        """How many units there are."""
        return sum(one.units.count for one in self.variables)

    @property
    def meaning(self) -> Meaning:
        """What is computed, how it lies in a store, and the values that lie around it."""
        facts = facts_of([one.array for one in self.variables])
        for one in self.variables:
            facts[f"the dtype{one.of}"] = np.dtype(one.array.dtype).str
            facts[f"the shape{one.of}"] = one.array.shape
            if one.lies is not UNKNOWN:
                facts[f"the chunks{one.of}"] = one.lies.chunks
                facts[f"the shards{one.of}"] = one.lies.shards
                facts[f"what a task writes{one.of}"] = one.units.size
        if self.attributes:
            facts["the axes and channels"] = dict(self.attributes)
        tokenize: Any = imported("dask.base").tokenize
        lazy = {one.name for one in self.variables}
        around = {} if self.dataset is None else self.dataset.variables
        for name in sorted(around.keys() - lazy, key=str):
            facts[f"the coordinate {name!r}"] = tokenize(np.asarray(around[name].values))
        for one in self.variables:
            facts[
                f"the lazy array{one.of} (the chunks of its sources, functions of others, sources "
                "without a lasting name)"
            ] = one.array.name
        return list(facts.items())

    def check_not_read(self, path: str) -> None:
        """Raise `ValueError` if a variable is read from what it would replace."""
        real = os.path.realpath(path)
        for variable in self.variables:
            for one in Seen(variable.array.dask).paths:
                if one == real or one.startswith(real + os.sep):
                    raise AmongInputsError(
                        f"save would replace {path!r}, from which the array is still to be read; "
                        "save under another name"
                    )

    def items(
        self,
        numbers: Container[int],
        write: Callable[[Variable], Callable[[np.ndarray, Region], None]],
        path: str,
        journal: Journal | None,
    ) -> list[Item]:
        """What is written: the units of these numbers, which count through all variables."""
        items = []
        for one in self.variables:
            own = {n: 1 for n in range(one.units.count) if one.first + n in numbers}
            put = Put(write(one), path, journal, one.units, one.first)
            items.append(Item(one.array, Writer(one.units, put, one.array.dtype), own))
        return items


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
        return array
    return imported("dask.array").from_array(array, chunks=-1)


def _labelled(dataset: Any, of_zarr: bool) -> Contents:
    xr = need("Saving a DataArray", "xarray")
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
        variables.append(Variable(name, stored.data, one.dims, dict(stored.attrs), known))
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


def _known(variable: Any) -> Layout:
    """The chunks and shards that a variable had where it was read."""
    chunks, shards = variable.encoding.get("chunks"), variable.encoding.get("shards")
    for lengths in (chunks, shards or chunks):
        whole = lengths is not None and all(isinstance(n, int) for n in lengths)
        if not whole or len(lengths) != variable.ndim:
            return UNKNOWN
    return Layout(tuple(chunks), None if shards is None else tuple(shards))
