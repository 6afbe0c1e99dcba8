"""A kernel that looks at no neighbour, as a function of NumPy's.

NumPy finds in a microsecond what broadcasts how, makes results, and knows what overlaps; it calls
the kernel's machine code for each run of elements, wherever they lie.
"""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from .universal import Universal


class Elements:
    """A function of NumPy's for exact types: fields, then numbers.

    Attributes
    ----------
    call : numpy.ufunc
        Takes arrays and numbers, and gives arrays.  What it could not do it tells `check`.
    """

    __slots__ = ("_failed", "_made", "_name", "call", "out_dtypes")

    def __init__(
        self,
        loop: int,
        inputs: Sequence[np.dtype[Any]],
        outputs: Sequence[np.dtype[Any]],
        name: str,
    ) -> None:
        self._failed = array.array("q", [0])
        self._name = name
        self._made = Universal(loop, self._failed.buffer_info()[0], inputs, outputs, name)
        self.call: Any = self._made.call
        self.out_dtypes = tuple(outputs)

    def check(self) -> None:
        """Raise where a call found no memory."""
        if self._failed[0]:
            self._failed[0] = 0
            raise MemoryError(f"'{self._name}' found no memory.")
