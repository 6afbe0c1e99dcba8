"""Zarr: arrays, groups of variables, and images of OME-Zarr.

an array                                 itself
a group that xarray wrote                a variable, with its coordinates
a group with "multiscales"               the image, of one of its levels (`ome`)
any other group                          the array that is named, or the only one
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..undisturbed import imported
from . import ome
from .blocks import natural
from .extras import need
from .labelled import labelled
from .marks import FILES, Mark, mark_of
from .named import Named
from .naming import listed, pick
from .stored import Array, Stored


@dataclass(frozen=True, slots=True)
class Zarr:
    """An array at a path of a store."""

    store: str
    path: str

    def open(self) -> Any:
        """Open it for reading."""
        need("Reading Zarr", "zarr")
        return imported("zarr").open_array(self.store, path=self.path, mode="r")

    def read(self, opened: Any, index: tuple[slice, ...]) -> Array:
        """Decode the pieces that hold these elements, and no others of a shard."""
        return np.asarray(opened[index])


def is_zarr(path: str) -> bool:
    """Whether a folder is an array or a group of Zarr."""
    return any(os.path.lexists(os.path.join(path, name)) for name in FILES)


def open_zarr(path: str, variable: str | None, level: int | None) -> Named:
    """Look for an array."""
    need("Reading Zarr", "zarr")
    zarr: Any = imported("zarr")
    if "://" not in path and not is_zarr(path):
        raise ValueError(f"{path!r} is no Zarr store: it has none of the files {listed(FILES)}.")
    for name in FILES:
        # Raises by its own name what keeps one from reading.
        if "://" not in path and os.path.lexists(os.path.join(path, name)):
            mark_of(os.path.join(path, name))
    node = zarr.open(path, mode="r")
    _refuse_unfinished(path, node)
    if isinstance(node, zarr.Array):
        if variable is not None:
            raise ValueError(f"{path!r} is one array, and holds no variable {variable!r}.")
        _refuse_level(path, level)
        return _array(path, "", node)
    if variable is None or variable.strip("/") not in node:
        return _from_group(path, node, variable, level)
    inner = node[variable.strip("/")]
    if isinstance(inner, zarr.Group):
        return _from_group(path, inner, None, level)
    parent, _, last = variable.strip("/").rpartition("/")
    return _from_group(path, node[parent] if parent else node, last, level)


def _from_group(path: str, group: Any, variable: str | None, level: int | None) -> Named:
    inside = group.path.strip("/")
    where = f"{path}/{inside}" if inside else path
    attrs = dict(group.attrs)
    scales = ome.multiscales(attrs)
    if scales is not None and variable is None:
        image = ome.image(where, scales, attrs, level)
        below = f"{inside}/{image.path}".strip("/")
        found = _array(path, below, group[image.path])
        return ome.labelled(found, image)
    _refuse_level(where, level)
    arrays = {name: one for name, one in group.arrays() if one.ndim and one.dtype.kind in "biufc"}
    if variable is None and not arrays:
        below_here = [name for name, _ in group.groups()]
        hint = f" Open one of its groups: {listed(below_here)}." if below_here else ""
        raise ValueError(f"{where!r} is a group of Zarr that holds no array itself.{hint}")
    if arrays and all(_dims(one) for one in arrays.values()):

        def mark(one: str) -> Mark:
            return _mark(path, f"{inside}/{one}".strip("/"), arrays[one])

        return labelled(mark, path, "zarr", inside, variable, where)
    name = pick(where, list(arrays), variable)
    return _array(path, f"{inside}/{name}".strip("/"), arrays[name])


def _array(store: str, path: str, array: Any) -> Named:
    mark = _mark(store, path, array)
    dtype, pieces = np.dtype(array.dtype), tuple(array.chunks)
    stored = Stored(Zarr(store if mark.sign else os.path.abspath(store), path), mark,
                    tuple(array.shape), dtype, pieces)  # fmt: skip
    blocks = natural(array.shape, dtype.itemsize, pieces, getattr(array, "shards", None))
    attrs = {k: v for k, v in dict(array.attrs).items() if k != "_ARRAY_DIMENSIONS"}
    return Named(stored, blocks, dims=_dims(array), attrs=attrs)


def _dims(array: Any) -> tuple[str, ...]:
    """The names of its dimensions, if it has them all."""
    named = getattr(array.metadata, "dimension_names", None)
    named = named or array.attrs.get("_ARRAY_DIMENSIONS")
    if not named or len(named) != array.ndim or not all(named) or len(set(named)) < len(named):
        return ()
    return tuple(map(str, named))


def _mark(store: str, path: str, node: Any) -> Mark:
    """Mark the file that describes an array or a group, or what it says."""
    if "://" not in store:
        for name in FILES:
            file = os.path.join(store, path, name)
            if os.path.isfile(file):
                return mark_of(file)
    text = json.dumps(node.metadata.to_dict(), sort_keys=True, default=str)
    return Mark(store, sign=hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


def _refuse_unfinished(path: str, node: Any) -> None:
    if node.attrs.get("incomplete"):
        raise ValueError(
            f"{path!r} is not finished: parts of it have not been written yet. Save it again with "
            "resume=True."
        )


def _refuse_level(path: str, level: int | None) -> None:
    if level:
        raise ValueError(
            f"level={level} is for OME-Zarr, which holds an image in several sizes; {path!r} "
            "holds one."
        )
