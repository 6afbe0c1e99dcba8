"""What a TIFF says about its pages besides their numbers, to say that it is dropped.

OME-TIFF, T=5 Z=2 C=3     imread gives 30 frames, and a warning with `x.reshape(5, 2, 3, ...)`
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffPage

# OME's metadata is XML, of which one element is wanted: it is found, not parsed.
_PIXELS = re.compile(r"<(?:\w+:)?Pixels\s[^>]*>")
_ATTRIBUTE = re.compile(r'(\w+)\s*=\s*"([^"]*)"')

# Kinds of files whose axes only tifffile knows, by its names.
_OTHERS = ("lsm", "stk", "fluoview", "micromanager", "ndtiff", "nih", "philips", "scn")


@dataclass(frozen=True, slots=True)
class Labels:
    """Axes of the pages, slowest first, with their lengths; and the size of a pixel, in words."""

    kind: str
    axes: tuple[tuple[str, int], ...]
    size: str = ""
    images: int = 1

    def dropped(self, path: str, frames: int) -> str | None:
        """Say what is lost when the pages become `frames` frames; None if that is nothing."""
        axes = [(name, length) for name, length in self.axes if length > 1]
        if self.images == 1 and len(axes) < 2 and not self.size:
            return None
        what = [f"{self.images} images"] if self.images > 1 else []
        if axes:
            named = ", ".join(f"{name}={length}" for name, length in axes if name)
            what.append(f"the axes {named or ' x '.join(str(length) for _, length in axes)}")
        if self.size:
            what.append(f"pixels of {self.size}")
        words = (
            f"{os.path.basename(path)} is {self.kind} with {' and '.join(what)}, which imread "
            f"drops: it gives the pages as {frames} frame{'s' * (frames > 1)} in the file's order."
        )
        lengths = [length for _, length in axes]
        if len(axes) > 1 and math.prod(lengths) == frames:
            shape = ", ".join(map(str, lengths))
            words += f" x.reshape({shape}, *x.shape[1:]) gives the axes back."
        return words


def labels(tiff: TiffFile, page: TiffPage) -> Labels | None:
    """Read what the first page of a file says about all of them."""
    if page.is_ome:
        return _ome(page)
    if tiff.is_imagej:
        return _imagej(tiff.imagej_metadata or {}, page)
    if page.is_shaped:
        (shaped, *_) = tiff.shaped_metadata or ({},)
        return _shaped(shaped, page)
    for kind in _OTHERS:
        if getattr(tiff, f"is_{kind}", False):
            series = tiff.series[0]
            pairs = zip(series.axes, series.shape, strict=True)
            pages = tuple((name, length) for name, length in pairs if name not in "YXS")
            return Labels(f"a file of kind {kind.upper()}", pages)
    return None


def _ome(page: TiffPage) -> Labels | None:
    images = [dict(_ATTRIBUTE.findall(found)) for found in _PIXELS.findall(page.description)]
    if not images:
        return None
    pixels = images[0]
    lengths = {}
    for name in "TZC":
        text = pixels.get(f"Size{name}", "1")
        lengths[name] = int(text) if text.isdecimal() else 1
    # Channels that lie in one page, as those of colour, are no axis of the pages.
    lengths["C"] = max(1, lengths["C"] // page.samplesperpixel)
    order = pixels.get("DimensionOrder", "XYCZT")[:1:-1]
    axes = tuple((name, lengths[name]) for name in order if name in lengths)
    sizes = []
    for name in "ZYX":
        if f"PhysicalSize{name}" in pixels:
            unit = pixels.get(f"PhysicalSize{name}Unit", "µm")
            sizes.append(f"{name} {pixels[f'PhysicalSize{name}']} {unit}")
    return Labels("OME-TIFF", axes, ", ".join(sizes), len(images))


def _imagej(note: Mapping[str, Any], page: TiffPage) -> Labels:
    names = {"T": "frames", "Z": "slices", "C": "channels"}
    lengths = {name: int(note.get(word, 1)) for name, word in names.items()}
    lengths["C"] = max(1, lengths["C"] // page.samplesperpixel)
    if math.prod(lengths.values()) == 1 and "images" in note:
        lengths["Z"] = int(note["images"])
    sizes = []
    unit = str(note.get("unit", ""))
    if unit and unit.lower() not in ("pixel", "pixels"):
        if "spacing" in note and lengths["Z"] > 1:
            sizes.append(f"Z {note['spacing']} {unit}")
        for name, tag in (("Y", "YResolution"), ("X", "XResolution")):
            found = page.tags.get(tag)
            if found is not None and 0 not in found.value:
                top, bottom = found.value
                sizes.append(f"{name} {bottom / top:.4g} {unit}")
    return Labels("an ImageJ stack", tuple(lengths.items()), ", ".join(sizes))


def _shaped(note: Mapping[str, Any], page: TiffPage) -> Labels | None:
    """Take the note that tifffile leaves, whose shape has all axes of what was written."""
    shape = [int(length) for length in note.get("shape", ())]
    inside = 3 if page.samplesperpixel > 1 else 2
    lead = shape[: max(0, len(shape) - inside)]
    names = list(str(note.get("axes", "")))
    if len(names) != len(shape):
        names = [""] * len(shape)
    return Labels("a stack", tuple(zip(names, lead, strict=False)))
