"""What the arguments of a kernel's machine code are, and what NumPy's interface has."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from ...base.frozen import frozen
from ...base.undisturbed import imported

# What computes a block of a kernel.
BLOCK = "ninepoint_block"


@frozen
class Kind:
    """What an argument is: a number, or an array of so many axes, which may be written."""

    dtype: np.dtype
    ndim: int = 0
    mutable: bool = False

    @property
    def words(self) -> int:
        """How many words it takes among the values of a call."""
        return 1 + 2 * self.ndim if self.ndim else -(-self.dtype.itemsize // 8)


def arrays_of(kinds: Sequence[Kind]) -> int:
    """How many arguments are fields and results: these come last, and nothing else is written."""
    return len(kinds) - [kind.mutable for kind in kinds][::-1].index(True)


def numpys(table: str, place: int) -> int:
    """What stands at a place of one of the tables of NumPy's C interface, which never change."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    begin = pointer(vars(imported("numpy._core._multiarray_umath"))[table], None)
    return ctypes.c_int64.from_address(begin + 8 * place).value
