"""Apply a compiled stencil to arrays on a GPU.

    fields     which arrays a call may be given, and where it may write
    work       what a text does, and what it is given beside arrays
    settled    the launches for arrays that lie alike

The kernels of a GPU take whole arrays with any steps and know the border's rule, so a call is an
allocation and a few launches.  Nothing waits for the GPU, and nothing is copied to it or from it
but numbers.
"""

from __future__ import annotations

from ninepoint.arrays.cuda.fields import (
    are_apart,
    as_fields,
    beside,
    change,
    checked_out,
    taken_to,
)
from ninepoint.arrays.cuda.settled import bind
from ninepoint.arrays.cuda.work import Work, one_call, one_pass, understood

__all__ = [
    "Work",
    "are_apart",
    "as_fields",
    "beside",
    "bind",
    "change",
    "checked_out",
    "one_call",
    "one_pass",
    "taken_to",
    "understood",
]
