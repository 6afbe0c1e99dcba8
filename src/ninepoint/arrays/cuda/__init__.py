"""Apply a compiled stencil to arrays on a GPU.

fields         which arrays a call may be given, and where it may write
executable     what does calls on arrays that lie alike
"""

from __future__ import annotations

from ninepoint.arrays.cuda.executable import Executable, Work, single_call, understood
from ninepoint.arrays.cuda.fields import (
    are_apart,
    as_fields,
    beside,
    checked_out,
    taken_to,
)

__all__ = [
    "Executable",
    "Work",
    "are_apart",
    "as_fields",
    "beside",
    "checked_out",
    "single_call",
    "taken_to",
    "understood",
]
