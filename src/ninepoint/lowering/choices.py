"""Choices: what the passes decided, as facts for `explain`; the words are in `notes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..language.dtypes import DType

# How a part of a window is done.
Method: TypeAlias = Literal[
    "at once",
    "doubling",
    "running",
    "sorted",
    "merged",
    "element",
    "squared",
    "histogram",
    "boxes",
    "counted",
    "placed",
]


@dataclass(frozen=True, slots=True)
class Way:
    """One part of a window: how it is done, and for what.

    `length` counts elements along `axis`, which is -1 for what is done to each element.
    `kept` says that neighbours read the result too.  Of a window of any shape `boxes` are those
    that are kept, by how many planes they are kept for, and `length` counts what is read.
    """

    method: Method
    axis: int
    length: int
    kept: bool
    dtype: DType
    weighted: bool = False
    idempotent: bool = False
    boxes: tuple[tuple[int, int], ...] = ()


class Refused(Exception):
    """Raised where something is not done; it says why: a clause that can stand after "because"."""
