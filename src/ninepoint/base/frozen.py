"""Records: classes whose fields are given once, compare by value and take no others.

@frozen
class Box:
    lo: Offset          Box(lo, hi).lo = other     ->     FrozenInstanceError
    hi: Offset
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(kind: type[T]) -> type[T]:
    """A class of records: a dataclass that is frozen and has slots."""
    return dataclass(frozen=True, slots=True)(kind)
