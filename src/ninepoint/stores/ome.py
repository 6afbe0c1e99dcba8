"""OME-Zarr: an image of microscopy in several sizes, with axes, scales and names of channels.

    group attributes     {"multiscales": [{axes, datasets: [{path, scale, translation}, ...]}]}
    level                number of the size, 0 for the full one

The convention of 0.4 (NGFF) has them at the top, that of 0.5 under "ome".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .named import Named
from .naming import listed


@dataclass(frozen=True, slots=True)
class Image:
    """One size of an image: its array, and for each axis its name, unit, scale and start."""

    path: str
    title: str | None
    axes: tuple[str, ...]
    units: tuple[str | None, ...]
    scale: tuple[float, ...]
    start: tuple[float, ...]
    channels: tuple[str, ...]


def multiscales(attrs: Mapping[str, Any]) -> Any:
    """What a group says of the sizes of its image; None if it holds no image."""
    return _ome(attrs).get("multiscales")


def _ome(attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = attrs.get("ome")
    return inner if isinstance(inner, Mapping) else attrs


def image(where: str, scales: Any, attrs: Mapping[str, Any], level: int | None) -> Image:
    """Read what is said of one size.

    Raises
    ------
    ValueError
        If there is no such level, or what is said makes no sense.
    """
    try:
        first = scales[0]
        datasets = first["datasets"]
        # Before 0.4 axes were words.
        axes = [one if isinstance(one, Mapping) else {"name": one} for one in first["axes"]]
        names = tuple(str(axis["name"]) for axis in axes)
    except (LookupError, TypeError) as error:
        raise ValueError(
            f"{where!r} is no OME-Zarr that can be read: its 'multiscales' lack {error}."
        ) from error
    number = level or 0
    if not 0 <= number < len(datasets):
        raise ValueError(
            f"{where!r} has {len(datasets)} levels, from 0 for the full size on; there is no "
            f"level={level}."
        )
    one = datasets[number]
    scale, start = np.ones(len(names)), np.zeros(len(names))
    for change in (
        *one.get("coordinateTransformations", ()), *first.get("coordinateTransformations", ())
    ):  # fmt: skip
        if "scale" in change:
            scale, start = scale * change["scale"], start * change["scale"]
        if "translation" in change:
            start = start + change["translation"]
    labels: Sequence[Mapping[str, Any]] = (_ome(attrs).get("omero") or {}).get("channels") or ()
    return Image(
        path=str(one["path"]),
        title=first.get("name") or None,
        axes=names,
        units=tuple(axis.get("unit") for axis in axes),
        scale=tuple(map(float, scale)),
        start=tuple(map(float, start)),
        channels=tuple(str(channel.get("label", k)) for k, channel in enumerate(labels)),
    )


def labelled(found: Named, image: Image) -> Named:
    """Give an array the axes of its image: positions along those that have a scale."""
    shape = found.stored.shape
    if len(image.axes) != len(shape):
        raise ValueError(
            f"the image at {found.stored.mark.path!r} has {len(shape)} axes, and its metadata "
            f"name {len(image.axes)}: {listed(image.axes)}."
        )
    coords: dict[Any, Any] = {}
    for name, n, unit, scale, start in zip(
        image.axes, shape, image.units, image.scale, image.start, strict=True
    ):
        if name == "c":
            if len(image.channels) == n:
                coords[name] = (name, list(image.channels))
        else:
            said = {} if unit is None else {"units": unit}
            coords[name] = (name, start + scale * np.arange(n), said)
    return replace(found, dims=image.axes, coords=coords, title=image.title)
