"""Kinds of parameters: fields of a type, numbers of a type, small arrays of a type and shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..undisturbed import Later
from .dtypes import DType

if TYPE_CHECKING:
    from . import ir, values
    from .parse import Argument
else:
    # A kernel that was compiled before is not read.
    ir = Later(".ir", __package__)
    values = Later(".values", __package__)


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kernel is given for a parameter.

    Fields and small arrays have a `storage`, these a `shape` as well; numbers have a `number`, and
    are `weak` if they are Python's.  A field of a function of numbers is `pointwise`.
    """

    name: str
    storage: np.dtype | None = None
    shape: tuple[int, ...] | None = None
    number: DType | None = None
    weak: bool = False
    pointwise: bool = False

    @property
    def argument(self) -> Argument:
        """What stands for it where a kernel is read."""
        if self.number is not None:
            return values.Value(ir.Ref(self.number, self.name), self.weak)
        assert self.storage is not None
        if self.shape is not None:
            return values.Coefficients(self.name, self.storage, self.shape)
        return values.Field(self.name, self.storage, self.pointwise)
