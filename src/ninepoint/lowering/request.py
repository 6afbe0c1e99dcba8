"""What a kernel is compiled for, besides the types of its arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .schedule import Schedule

if TYPE_CHECKING:
    from ..language.box import Neighborhood

# Set by the tests, which look at every kernel after every pass: what another process compiled is
# compiled again.
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
