"""OME-Zarr: an image of microscopy in several sizes, with axes, scales and names of channels.

    group attributes     {"multiscales": [{axes, datasets: [{path, scale, translation}, ...]}]}
    level                number of the size, 0 for the full one

The convention of 0.4 (NGFF) has them at the top, that of 0.5, which is written, under "ome".  Of
the smaller copies that a source may have (levels 1, 2, ...) none is written: they would not be
what a stencil gives of the larger ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from ..arrays.accepted import is_dask, is_xarray
from .contents import Contents, Variable, lazily
from .opened import Opened, labelled
from .resume import Seen

SUFFIX = ".ome.zarr"

# The axes that the convention has, in the order that it asks for.
_TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}


def said_of(attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a group says of its image; without "multiscales" it holds none."""
    inner = attrs.get("ome")
    return inner if isinstance(inner, Mapping) else attrs


def size_of(where: str, said: Mapping[str, Any], level: int | None) -> tuple[Any, Any]:
    """What is said of an image, and of one of its sizes.

    Raises
    ------
    ValueError
        If there is no such level, or what is said makes no sense.
    """
    try:
        image = said["multiscales"][0]
        datasets, _ = image["datasets"], image["axes"]
        known = range(len(datasets))
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
    return image, datasets[number]


def with_axes(array: Opened, said: Mapping[str, Any], image: Any, size: Any) -> Any:
    """A DataArray like an array, with positions along those of its axes that have a scale."""
    # Before 0.4 axes were words.
    axes = [one if isinstance(one, Mapping) else {"name": one} for one in image["axes"]]
    names = [str(axis["name"]) for axis in axes]
    if len(names) != array.ndim:
        raise ValueError(
            f"the image at {array.name!r} has {array.ndim} axes, and its metadata name "
            f"{len(names)}: {', '.join(map(repr, names))}."
        )
    scale, start = np.ones(len(names)), np.zeros(len(names))
    for one in (size, image):
        for change in one.get("coordinateTransformations", ()):
            factor = np.asarray(change.get("scale", 1.0))
            scale, start = scale * factor, start * factor + change.get("translation", 0.0)
    channels = (said.get("omero") or {}).get("channels") or ()
    coords: dict[Hashable, Any] = {}
    for axis, name, n, step, first in zip(axes, names, array.shape, scale, start, strict=True):
        if name != "c":
            unit = axis.get("unit")
            units = {} if unit is None else {"units": unit}
            coords[name] = (name, first + step * np.arange(n), units)
        elif len(channels) == n:
            coords[name] = (name, [str(one.get("label", k)) for k, one in enumerate(channels)])
    return labelled(array, names, coords, {}, image.get("name") or None)


def image(result: Any, path: str) -> Contents | None:
    """Take a result for an image, where its name or that of its source says so; else None.

    Raises
    ------
    ValueError
        If the name says so, and it is none.
    """
    asked = path.lower().endswith(SUFFIX)
    source: Mapping[str, Any] | None = None
    if is_xarray(result) and is_dask(result.data):
        source = _source(Seen(result.data.dask).paths)
    if not asked and source is None:
        return None
    reason = _unfit(result)
    if reason is None:
        array = lazily(result.data)
        attributes = _attributes(result, source or {})
        variable = Variable("0", array, result.dims, _plain(result.attrs))
        return Contents((variable,), attributes=attributes)
    if not asked:
        return None
    raise ValueError(f"{path!r} would be an image of OME-Zarr, and {reason}")


def _unfit(result: Any) -> str | None:
    """Say why a result is no image of OME-Zarr."""
    if not is_xarray(result):
        return "this array names no axes; give a DataArray, with dimensions such as z, y, x"
    dims = [str(dim) for dim in result.dims]
    if dims != [name for name in _TYPES if name in dims] or dims[-2:] != ["y", "x"]:
        return (
            "its axes are t, c, z, y, x, in this order and as far as there are any, not "
            f"{', '.join(dims)}; rename and transpose the array"
        )
    uneven = next((dim for dim in dims if _scale(result, dim) is None), None)
    if uneven is not None:
        return f"its positions along {uneven!r} are not evenly spaced; save as .zarr"
    return None


def _attributes(result: Any, source: Mapping[str, Any]) -> dict[str, Any]:
    units = {dim: one.attrs.get("units") for dim, one in result.coords.items() if dim != "c"}
    axes = [
        {"name": dim, "type": _TYPES[dim]} | ({"unit": str(units[dim])} if units.get(dim) else {})
        for dim in map(str, result.dims)
    ]
    steps = [_scale(result, dim) or (1.0, 0.0) for dim in result.dims]
    scale, start = [step for step, _ in steps], [first for _, first in steps]
    changes: list[dict[str, Any]] = [{"type": "scale", "scale": scale}]
    if any(start):
        changes.append({"type": "translation", "translation": start})
    scales = {
        "name": str(result.name or ""),
        "axes": axes,
        "datasets": [{"path": "0", "coordinateTransformations": changes}],
    }
    ome: dict[str, Any] = {"version": "0.5", "multiscales": [scales]}
    channels = _channels(result, source)
    if channels:
        ome["omero"] = {"channels": channels}
    return {"ome": ome}


def _channels(result: Any, source: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The channels as the source shows them, by their names."""
    if "c" not in result.coords or result.coords["c"].dims != ("c",):
        return []
    known = {one.get("label"): one for one in (source.get("omero") or {}).get("channels") or ()}
    dtype = np.dtype(result.dtype)
    low, high = (0.0, 1.0)
    if dtype.kind in "iu":
        low, high = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    window = {"min": low, "max": high, "start": low, "end": high}
    plain = {"active": True, "color": "FFFFFF", "window": window}
    return [
        plain | known.get(label, {}) | {"label": label}
        for label in map(str, result.coords["c"].values)
    ]


def _scale(result: Any, dim: str) -> tuple[float, float] | None:
    """The step and the start of evenly spaced positions; None for others."""
    if dim not in result.coords or dim == "c":
        return 1.0, 0.0
    places = result.coords[dim].values
    if places.dtype.kind not in "iuf" or not len(places):
        return None
    if len(places) == 1:
        return 1.0, float(places[0])
    step = (float(places[-1]) - float(places[0])) / (len(places) - 1)
    even = float(places[0]) + step * np.arange(len(places))
    if step <= 0 or not np.allclose(places, even, rtol=0, atol=1e-6 * step):
        return None
    # As it was before it was multiplied by the number of each place.
    return float(f"{step:.12g}"), float(places[0])


def _source(paths: set[str]) -> Mapping[str, Any] | None:
    """What an OME-Zarr among the sources says of its image."""
    for path in sorted(paths):
        for name in ("zarr.json", ".zattrs"):
            try:
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    found = json.load(file)
            except (OSError, ValueError):
                continue
            found = said_of(found.get("attributes", found))
            if "multiscales" in found:
                return found
    return None


def _plain(attrs: Mapping[Hashable, Any]) -> dict[str, Any]:
    """The attributes that JSON has a form for."""
    kept = {}
    for name, value in attrs.items():
        value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            continue
        kept[str(name)] = value
    return kept
