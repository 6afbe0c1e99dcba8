"""What a kernel is compiled for, besides the types of its arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .schedule import Schedule

if TYPE_CHECKING:
    from ..language.box import Neighborhood

# Set by the tests: look after every pass whether it kept what holds of every kernel, and compile
# what another process did, too.
VERIFY = "NINEPOINT_VERIFY"


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a kernel: the types of its results, how they are stored, which points."""

    neighborhood: Neighborhood | None = None
    dtypes: tuple[np.dtype, ...] | None = None
    overflow: str | None = None
    kept: int = 0
    fastmath: bool = False
    schedule: Schedule = field(default_factory=Schedule)
    upsample: tuple[int, ...] = ()
    every: tuple[int, ...] = ()
