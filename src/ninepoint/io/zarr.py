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
from typing import Any

from . import ome
from .opened import Found, Opened, labelled, opened
from .paths import Stamp, need, readable
from .stored import listed, open_variable, pick

# The files that describe an array or a group of Zarr, of version 3 and 2.
FILES = ("zarr.json", ".zarray", ".zgroup")


def is_zarr(path: str) -> bool:
    """Whether a folder is an array or a group of Zarr."""
    return any(os.path.lexists(os.path.join(path, name)) for name in FILES)


def open_zarr(path: str, variable: str | None, level: int | None) -> Found:
    """Look for an array."""
    zarr = need("Reading Zarr", "zarr")
    if "://" not in path and not is_zarr(path):
        raise ValueError(f"{path!r} is no Zarr store: it has none of the files {listed(FILES)}.")
    for name in FILES:
        # Raises by its own name what keeps one from reading.
        if "://" not in path and os.path.lexists(os.path.join(path, name)):
            readable(os.path.join(path, name))
    node = zarr.open(path, mode="r")
    _refuse_unfinished(path, node)
    if isinstance(node, zarr.Array):
        if variable is not None:
            raise ValueError(f"{path!r} is one array, and holds no variable {variable!r}.")
        _refuse_level(path, level)
        return _plain(path, node)
    if variable is None or variable.strip("/") not in node:
        return _from_group(path, node, variable, level)
    inner = node[variable.strip("/")]
    if isinstance(inner, zarr.Group):
        return _from_group(path, inner, None, level)
    parent, _, last = variable.strip("/").rpartition("/")
    return _from_group(path, node[parent] if parent else node, last, level)


def _from_group(path: str, group: Any, variable: str | None, level: int | None) -> Found:
    inside = group.path.strip("/")
    where = f"{path}/{inside}" if inside else path
    said = ome.said_of(dict(group.attrs))
    if said.get("multiscales") is not None and variable is None:
        image, size = ome.size_of(where, said, level)
        node = group[str(size["path"])]
        array = _array(path, node)
        return Found(array, node.shards, ome.with_axes(array, said, image, size))
    _refuse_level(where, level)
    arrays = {name: one for name, one in group.arrays() if one.ndim and one.dtype.kind in "biufc"}
    if variable is None and not arrays:
        below_here = [name for name, _ in group.groups()]
        hint = f" Open one of its groups: {listed(below_here)}." if below_here else ""
        raise ValueError(f"{where!r} is a group of Zarr that holds no array itself.{hint}")
    if arrays and all(_dims(one) for one in arrays.values()):
        return open_variable(lambda one: _stamp(path, arrays[one]), path, "zarr", inside, variable)
    return _plain(path, arrays[pick(where, list(arrays), variable)])


def _plain(store: str, node: Any) -> Found:
    """An array, with the names of its dimensions if it has them all."""
    array = _array(store, node)
    dims = _dims(node)
    attrs = {k: v for k, v in dict(node.attrs).items() if k != "_ARRAY_DIMENSIONS"}
    like = labelled(array, dims, None, attrs, None) if dims else None
    return Found(array, node.shards, like)


def _array(store: str, node: Any) -> Opened:
    return opened(_zarr, store, _stamp(store, node), node, node.chunks, node.path.strip("/"))


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


def _stamp(store: str, node: Any) -> Stamp:
    """Take the stamp of the file that describes an array or a group, or what it says."""
    if "://" not in store:
        for name in FILES:
            file = os.path.join(store, node.path.strip("/"), name)
            if os.path.isfile(file):
                return readable(file)
    text = json.dumps(node.metadata.to_dict(), sort_keys=True, default=str)
    return Stamp(store, sign=hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


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
