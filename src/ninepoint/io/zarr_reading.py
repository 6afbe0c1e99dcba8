"""Zarr and OME-Zarr read.

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
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from ..base.undisturbed import imported
from .opened import Found, Opened, labelled, listed, open_variable, opened, pick
from .paths import ZARR_FILES, Stamp, need, readable, zarr_files

# What a reader finds among the attributes of a store that is being written.
INCOMPLETE = "incomplete"


def open_zarr(path: str, variable: str | None, level: int | None) -> Found:
    """Look for an array."""
    zarr = need("Reading Zarr", "zarr")
    described = zarr_files(path)
    if "://" not in path and not described:
        raise ValueError(
            f"{path!r} is no Zarr store: it has none of the files {listed(ZARR_FILES)}."
        )
    for name in described:
        # Raises by its own name what keeps one from reading.
        readable(name)
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
        return open_variable(lambda one: _stamp(path, arrays[one]), path, "zarr", inside, variable)
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
    try:
        image = said["multiscales"][0]
        sizes = image["datasets"]
        # Before 0.4 axes were words.
        axes = [one if isinstance(one, Mapping) else {"name": one} for one in image["axes"]]
        known = range(len(sizes))
    except (LookupError, TypeError) as error:
        raise ValueError(
            f"{where!r} is no OME-Zarr that can be read: its 'multiscales' lack {error}."
        ) from error
    number = level or 0
    if number not in known:
        raise ValueError(
            f"{where!r} has {len(known)} levels, from 0 for the full size on; there is no "
            f"level={level}."
        )
    node = group[str(sizes[number]["path"])]
    array = _array(path, node)
    names = [str(axis["name"]) for axis in axes]
    if len(names) != array.ndim:
        raise ValueError(
            f"the image at {array.name!r} has {array.ndim} axes, and its metadata name "
            f"{len(names)}: {', '.join(map(repr, names))}."
        )
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
