"""Zarr: a store that many processes write at once, and that says whether it is complete.

out.zarr/zarr.json           the attribute "incomplete" is there until the last unit is written
out.zarr/u/zarr.json         a variable; an array without names is the root itself
out.zarr/u/.ninepoint/       the journal

The store is laid out under a temporary name and renamed, so there is never half of its metadata,
and of several processes that begin it one is first.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any

import numpy as np

from ..files.replacing import replacement, write_all
from ..stores.extras import need_zarr
from ..stores.zarr import is_zarr
from ..undisturbed import imported
from .contents import Contents, stored_by_xarray
from .cutting import Layout
from .folders import removed, renamed, temporary
from .journal import FOLDER, INCOMPLETE, UNFINISHED, Journal, Meaning
from .units import Region

# Arrays that this process has opened for writing, by their folder and the name of the task.
_opened: dict[tuple[str, str], Any] = {}
_MOST_OPENED = 16


@dataclass(frozen=True, slots=True)
class ZarrArray:
    """An array of a store; `once` tells this store from another one that has had its name."""

    path: str
    folder: str
    once: str

    def write(self, block: np.ndarray, region: Region) -> None:
        """Write whole shards or chunks."""
        need_zarr()
        array = _opened.get((self.folder, self.once))
        if array is None:
            array = imported("zarr").open_array(self.folder, mode="r+")
            if len(_opened) >= _MOST_OPENED:
                _opened.clear()
            _opened[self.folder, self.once] = array
        array[region] = block


def check_dtype(name: str, dtype: np.dtype[Any]) -> None:
    """Raise where Zarr has no type for these numbers."""
    if dtype.kind not in "biufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        of = f" of {name!r}" if name else ""
        raise TypeError(
            f"a .zarr store cannot hold the {dtype} values{of}: convert them first, "
            "such as array.astype('float64')"
        )


@dataclass(frozen=True, slots=True)
class ZarrStore:
    """A store at `path` for these contents, which lie in it so."""

    path: str
    contents: Contents
    layouts: Mapping[str, Layout]

    # What a process that is killed leaves is whole, and others may write at the same time.
    is_shared = True

    @property
    def journal(self) -> Journal:
        """The journal; readers of Zarr look for nested arrays in groups, not in arrays."""
        names = [variable.name for variable in self.contents.variables]
        if not names and self.contents.dataset is not None:
            names = list(map(str, self.contents.dataset.variables))
        return Journal(os.path.join(self.path, *names[:1], FOLDER))

    def target(self, name: str) -> ZarrArray:
        """Where the units of a variable are written."""
        return ZarrArray(self.path, os.path.join(self.path, name), token_hex(8))

    def is_there(self) -> bool:
        """Whether there is anything by this name."""
        return os.path.lexists(self.path)

    def is_unfinished(self) -> bool:
        """Whether it says that it is not complete."""
        try:
            with open(os.path.join(self.path, "zarr.json"), encoding="utf-8") as file:
                return INCOMPLETE in json.load(file).get("attributes", {})
        except (OSError, ValueError):
            return False

    def is_begun(self) -> bool:
        """Whether there is a store."""
        return os.path.isfile(os.path.join(self.path, "zarr.json"))

    def create(self, meaning: Meaning) -> bool:
        """Lay the store out, without its values; false if there is one by now."""
        with temporary(self.path) as name:
            if self.contents.dataset is None:
                _lay_out_arrays(name, self.contents, self.layouts)
            else:
                _lay_out_group(name, self.contents, self.layouts)
            replace(self, path=name).journal.begin(meaning)
            return renamed(name, self.path)

    def finish(self) -> None:
        """Take away what says that it is not complete; to do it twice does no harm."""
        path = os.path.join(self.path, "zarr.json")
        with open(path, encoding="utf-8") as file:
            described = json.load(file)
        if described.get("attributes", {}).pop(INCOMPLETE, None) is not None:
            with replacement(path) as (descriptor, _):
                write_all(descriptor, memoryview(json.dumps(described, indent=2).encode()), 0)
        self.journal.forget()

    def remove(self) -> None:
        """Remove the store, and nothing else.

        Raises
        ------
        FileExistsError
            If what lies there is no store of Zarr.
        """
        path = self.path
        if os.path.islink(path):
            raise FileExistsError(
                f"{path!r} is a link, which save does not replace; save to "
                f"{os.path.realpath(path)!r}"
            )
        if not os.path.isdir(path):
            raise FileExistsError(f"{path!r} is no folder; save replaces stores of Zarr only")
        if os.listdir(path) and not is_zarr(path):
            raise FileExistsError(
                f"{path!r} is a folder that is no store of Zarr, which save does not remove"
            )
        removed(path)


def _lay_out_arrays(path: str, contents: Contents, layouts: Mapping[str, Layout]) -> None:
    zarr: Any = imported("zarr")
    said: dict[str, Any] = {INCOMPLETE: UNFINISHED, **contents.attributes}
    for variable in contents.variables:
        is_root = not variable.name
        if not is_root:
            zarr.create_group(path, zarr_format=3, attributes=said, overwrite=True)
        layout = layouts[variable.name]
        zarr.create_array(
            path,
            name=variable.name or None,
            shape=variable.array.shape,
            dtype=variable.array.dtype.newbyteorder("="),
            chunks=layout.chunks,
            shards=layout.shards,
            zarr_format=3,
            dimension_names=list(map(str, variable.dims)) or None,
            attributes=said if is_root else dict(variable.attrs),
        )


def _lay_out_group(path: str, contents: Contents, layouts: Mapping[str, Layout]) -> None:
    """Let xarray write all but the values: it knows how it wants to read them."""
    encoding: dict[str, Any] = {}
    for variable in contents.variables:
        layout = layouts[variable.name]
        encoding[variable.name] = {"chunks": layout.chunks}
        if layout.shards is not None:
            encoding[variable.name]["shards"] = layout.shards
    zarr = imported("zarr")
    with warnings.catch_warnings():
        # That consolidated metadata, which xarray looks for, and the types of texts are no part of
        # the format yet.
        warnings.filterwarnings("ignore", "Consolidated metadata")
        warnings.filterwarnings("ignore", "The data type")
        with stored_by_xarray():
            contents.dataset.to_zarr(
                path,
                mode="w-",
                zarr_format=3,
                compute=False,
                consolidated=False,
                safe_chunks=False,
                encoding=encoding,
            )
        root = zarr.open_group(path, mode="r+")
        root.attrs[INCOMPLETE] = UNFINISHED
        zarr.consolidate_metadata(path)
    for variable in contents.variables:
        stored = root[variable.name]
        assert stored.dtype == variable.array.dtype.newbyteorder("="), (stored, variable)
