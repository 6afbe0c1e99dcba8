"""Apply a compiled stencil to arrays on a GPU.

    fields     which arrays a call may be given, and where it may write
    work       what a text does, and what it is given beside arrays
    settled    the launches for arrays that lie alike
    calls      one call, from arrays as they are given

The kernels of a GPU take whole arrays with any steps and know the border's rule, so a call is an
allocation and a few launches.  Nothing waits for the GPU, and nothing is copied to it or from it
but numbers.
"""

from __future__ import annotations

from ninepoint.arrays.cuda.calls import bind
from ninepoint.arrays.cuda.fields import (
    are_apart,
    as_fields,
    beside,
    change,
    checked_out,
    current,
    empties,
    overlap,
    taken_to,
)
from ninepoint.arrays.cuda.settled import Settled
from ninepoint.arrays.cuda.work import Work, one_pass, understood

__all__ = [
    "Settled",
    "Work",
    "are_apart",
    "as_fields",
    "beside",
    "bind",
    "change",
    "checked_out",
    "current",
    "empties",
    "one_pass",
    "overlap",
    "taken_to",
    "understood",
]
