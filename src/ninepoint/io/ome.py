"""Axes of images, as OME-Zarr and TIFF tell of them, from DataArrays and back.

axis      its name, the step and the start of its positions, their unit     t, c, z, y, x
labels    the names of the channels, along c
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..arrays.accepted import is_xarray
from ..base.frozen import frozen
from ..base.undisturbed import imported
from ..language.errors import MetadataWarning, warn
from .paths import need

# The axes that OME has, in the order that it asks for.
KINDS = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}

# How TIFF writes units; "pixel" is none.
_SYMBOLS = {"micrometer": "µm", "nanometer": "nm", "millimeter": "mm", "meter": "m",
            "second": "s", "millisecond": "ms", "minute": "min", "hour": "h"}  # fmt: skip
_UNITS: dict[Any, str | None] = {symbol: unit for unit, symbol in _SYMBOLS.items()}
_UNITS |= {"um": "micrometer", "micron": "micrometer", "sec": "second", "pixel": None}


@frozen
class Axis:
    """An axis, with evenly spaced positions."""

    name: str
    step: float = 1.0
    start: float = 0.0
    unit: str | None = None


def labelled(array: Any, dims: Sequence[str], coords: Any = None, attrs: Any = None) -> Any:
    """A DataArray of the shape of an array, with labels."""
    need("Reading an array with names of dimensions", "xarray")
    data = np.broadcast_to(np.zeros((), array.dtype), array.shape)
    return imported("xarray").DataArray(data, dims=dims, coords=coords, attrs=attrs)


def image(array: Any, axes: Sequence[Axis], labels: Sequence[str], title: str) -> Any:
    """A DataArray of the shape of an array."""
    coords: dict[Hashable, Any] = {}
    for axis, n in zip(axes, array.shape, strict=True):
        if axis.name != "c":
            units = {} if axis.unit is None else {"units": axis.unit}
            coords[axis.name] = (axis.name, axis.start + axis.step * np.arange(n), units)
        elif len(labels) == n:
            coords["c"] = ("c", labels)
    return labelled(array, [axis.name for axis in axes], coords).rename(title or None)


def axes_of(result: Any, path: str, ordered: bool = True) -> list[Axis]:
    """The axes of what is to be an image at a path; `ordered` where those of planes have an order.

    Raises
    ------
    ValueError
        If it is none.
    """
    if not is_xarray(result):
        raise ValueError(
            f"{path!r} would be an image of OME, and this array names no axes; give a "
            "DataArray, with dimensions such as z, y, x"
        )
    dims = [str(dim) for dim in result.dims]
    known = [name for name in KINDS if name in dims]
    fits = dims == known if ordered else set(dims) == set(known)
    if not fits or dims[-2:] != ["y", "x"]:
        raise ValueError(
            "the axes of an image of OME are t, c, z, y, x, in this order and as far as "
            f"there are any, not {', '.join(dims)}; rename and transpose the array"
        )
    return [_axis(result, dim) for dim in dims]


def _axis(result: Any, name: str) -> Axis:
    """An axis of a DataArray; raises where its positions are not evenly spaced."""
    if name not in result.coords or name == "c":
        return Axis(name)
    # Imported here: xarray is optional.
    from ..arrays.xarray import step_of

    places = result.coords[name]
    values = places.values
    if values.dtype.kind in "iuf" and len(values):
        step = step_of(values) if len(values) > 1 else 1.0
        if step is not None and step > 0:
            unit = places.attrs.get("units")
            # The step as it was before it was multiplied by the number of each place.
            step = float(f"{step:.12g}")
            return Axis(name, step, float(values[0]), None if unit is None else str(unit))
    raise ValueError(
        f"the positions along {name!r} are not evenly spaced, as those of an image of "
        "OME are; save under a name that ends in .zarr alone"
    )


def labels_of(result: Any) -> list[str]:
    """The names of the channels of a DataArray, if they have some."""
    labels = result.coords.get("c")
    return [] if labels is None or labels.dims != ("c",) else list(map(str, labels.values))


def told_to_tiff(result: Any, path: str) -> dict[str, Any]:
    """The options with which tifffile describes an image.

    Warns
    -----
    MetadataWarning
        If positions do not begin at 0, of which OME-TIFF says nothing.
    """
    colours = is_xarray(result) and result.dims[-1] == "s"
    axes = axes_of(result[..., 0] if colours else result, path, ordered=False)
    labels, names = labels_of(result), "".join(map(str, result.dims))
    said: dict[str, Any] = {"axes": names.upper(), "Name": str(result.name or "")}
    if labels:
        said["Channel"] = {"Name": labels}
    for axis in axes:
        if axis.start:
            warn(
                f"an OME-TIFF does not say where an axis begins: positions along {axis.name!r}, "
                f"which begin at {axis.start}, are read from 0 on",
                MetadataWarning,
            )
        if (axis.step, axis.unit) != (1.0, None):
            key, unit = _key(axis.name), axis.unit or "pixel"
            said[key], said[f"{key}Unit"] = axis.step, _SYMBOLS.get(unit, unit)
    return {"ome": True, "metadata": said}


def told_by_tiff(tiff: Any) -> tuple[list[Axis], list[str], str]:
    """The axes of the first image of a TIFF; names of its channels, and its own."""
    scales: dict[str, tuple[Any, Any]] = {}
    labels, title, noted = list[str](), "", tiff.imagej_metadata or {}
    if tiff.is_ome:
        (found, *_) = _all(imported("tifffile").xml2dict(tiff.ome_metadata)["OME"]["Image"])
        pixels, title = found["Pixels"], str(found.get("Name", ""))
        labels = [str(one["Name"]) for one in _all(pixels.get("Channel", [])) if "Name" in one]
        for name in "tzyx":
            key = _key(name)
            if key in pixels:
                unit = pixels.get(f"{key}Unit", "s" if name == "t" else "µm")
                scales[name] = pixels[key], unit
    elif noted.get("unit", "pixel") not in ("", "pixel", "pixels"):
        across, down = tiff.pages.first.resolution
        steps = {"z": noted.get("spacing", 1.0), "y": 1 / down, "x": 1 / across}
        scales = {name: (step, noted["unit"]) for name, step in steps.items()}
    axes = []
    for name in tiff.series[0].axes.lower():
        step, unit = scales.get(name, (1.0, None))
        axes.append(Axis(name, float(step), 0.0, _UNITS.get(unit, unit)))
    return axes, labels, title


def _key(name: str) -> str:
    """What OME-TIFF calls the step along an axis."""
    return "TimeIncrement" if name == "t" else f"PhysicalSize{name.upper()}"


def _all(found: Any) -> list[Any]:
    """What XML has once or several times."""
    return found if isinstance(found, list) else [found]
