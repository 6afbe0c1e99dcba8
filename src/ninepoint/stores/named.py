"""What opening a store gives: an array to read, and what the store says about it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .stored import Shape, Stored


@dataclass(frozen=True, slots=True)
class Named:
    """An array, and its labels if the store names its dimensions.

    `like` is a DataArray whose data are to be replaced; else `dims`, coordinates and attributes
    make one.  `blocks` are the chunks to read it in, if nobody says others, and `name` that of
    its layer where it tells something.
    """

    stored: Stored
    blocks: Shape
    dims: tuple[Hashable, ...] = ()
    coords: Mapping[Hashable, Any] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    title: str | None = None
    like: Any = None
    name: str = ""
