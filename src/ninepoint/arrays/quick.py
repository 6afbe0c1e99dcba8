"""Quick calls: a function of numbers, on arrays of one shape that is not large, once more.

    power(x, y)  like one that went well  ->  NumPy's function for these types (x, y)

To look at types and shapes takes a fraction of the microseconds in which all else that a call
may be is found out (see `keys`).  What is not quick after all gives nothing, and is done so.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from ..backends.memory import LEAST
from ..backends.threads import CREW_HANDOFF
from ..backends.universal import Elements
from .parts import SPLIT_POINTS

# Calls on more elements are done the ordinary way, which shares them among threads.
MOST = 1 << 16


class Quick:
    """Calls of values of given types, in the order of the parameters.

    `kinds` are the types of the values, `at` where the fields are that are arrays, `order` where
    the function of NumPy's finds what it takes.  Calls that take long are none of these: the
    ordinary way shares them among threads.
    """

    __slots__ = (
        "_at", "_call", "_check", "_first", "_most", "_order", "_out", "_pace", "kinds",
    )  # fmt: skip

    def __init__(
        self,
        elements: Elements,
        values: Sequence[Any],
        at: Sequence[int],
        order: Sequence[int],
    ) -> None:
        self.kinds = list(map(type, values))
        self._first = at[0]
        self._at = tuple([(k, values[k].dtype) for k in at])
        self._order = None if list(order) == list(range(len(values))) else tuple(order)
        self._call, self._check = elements.call, elements.check
        (self._out, *more) = elements.out_dtypes
        itemsize = max(dtype.itemsize for dtype in (self._out, *more))
        # Larger results are made of memory that is warm.
        self._most = min(MOST, (LEAST - 1) // itemsize)
        # How long an element took the last time [s], as far as that was measured.
        self._pace = 0.0

    def call(self, values: Sequence[Any], out: Any) -> Any:
        """What a call gives; nothing if it is not one of these."""
        first = values[self._first]
        shape, size = first.shape, first.size
        if not shape or size > self._most:
            return None
        for k, dtype in self._at:
            one = values[k]
            if (one.dtype is not dtype and one.dtype != dtype) or one.shape != shape:
                return None
        if out is not None and (
            type(out) is not np.ndarray or out.dtype != self._out or out.shape != shape
        ):
            return None
        if size < SPLIT_POINTS:
            return self._alone(values, out)
        if self._pace * size > CREW_HANDOFF:
            # A call that was slow for another reason is one of these again in a while.
            self._pace *= 0.99
            return None
        began = perf_counter()
        made = self._alone(values, out)
        self._pace = (perf_counter() - began) / size
        return made

    def _alone(self, values: Sequence[Any], out: Any) -> Any:
        if self._order is not None:
            values = [values[k] for k in self._order]
        try:
            made = self._call(*values) if out is None else self._call(*values, out=out)
        except (TypeError, ValueError, OverflowError):
            # What is wrong is said in our own words.
            return None
        self._check()
        return made
