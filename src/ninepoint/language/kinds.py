"""Kinds of parameters: fields of a type, numbers of a type, small arrays of a type and shape.

They stand for what is given where a kernel is read, and name what was compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .dtypes import DType


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter that is read relative to the point.

    In a function of numbers it is read at the point itself (`pointwise`), where it is the number
    that its name stands for.
    """

    name: str
    storage: np.dtype
    pointwise: bool = False

    @property
    def label(self) -> str:
        """Its name in the kernel."""
        return _label(self.name)


@dataclass(frozen=True, slots=True)
class Coefficients:
    """A parameter that is a small array read absolutely."""

    name: str
    storage: np.dtype
    shape: tuple[int, ...]

    @property
    def label(self) -> str:
        """Its name in the kernel."""
        return _label(self.name)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A parameter that is a number; a weak one is Python's."""

    name: str
    dtype: DType
    weak: bool = False

    @property
    def label(self) -> str:
        """Its name in the kernel: neither one of ours, such as t0, nor an array's.

        Nor is it a name that generated text uses for itself, such as `i`, `n` or `np`; none of
        those ends in an underscore.
        """
        return f"{self.name}_"


Argument: TypeAlias = Field | Coefficients | Scalar


def _label(name: str) -> str:
    """The name of a field or of coefficients in the kernel: never one of ours, such as v0."""
    return f"{name}_" if name[-1].isdigit() or name[-1] == "_" else name
