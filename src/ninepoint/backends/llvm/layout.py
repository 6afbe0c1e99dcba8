"""Where things lie in memory: NumPy's arrays, what is known of a kernel, heads of memory.

What the fields of an array are, and where, is part of NumPy's binary interface: NumPy's own
headers compile it into other packages.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...undisturbed import imported

# Where the fields of an array and of its dtype are, in words, with 64-bit pointers:
# `PyArrayObject_fields` and `_PyArray_DescrNumPy2` in NumPy's ndarraytypes.h.  Axes and flags are
# the first half of theirs; the letter of the kind is the first byte of its word, and the byte
# order begins so many bits on.
TYPE, DATA, NDIM, SHAPE, STRIDES, DTYPE, FLAGS = 1, 2, 3, 4, 5, 7, 8
KIND, ORDER, ITEMSIZE = 3, 16, 5
ALIGNED, WRITEABLE = 0x100, 0x400

# What becomes of an array's memory (see `..memory`).
USED, FREE, OWN, PLAIN = range(4)

# Before an array's memory: what becomes of it, where its mapping begins, how long that is, and
# how many bytes the array may have.  64 bytes keep arrays aligned for every vector.
HEAD = 64

# What computes a block of a kernel.
BLOCK = "ninepoint_block"

# The record of a kernel, in words: where its machine code begins, where a part of a job does, the
# type of arrays, None, how many arguments there are, arrays and fields among them, axes of these,
# words of all values; then what a list of commands is, and what each argument is [bytes].
CODE, PART, TYPE_OF_ARRAYS, NONE, KINDS, ARRAYS, FIELDS, AXES, WORDS, LISTS = range(10)
# Of each its axes, flags, the letter of its kind, its size, and where it is among the values.
OF_AXES, OF_FLAGS, OF_LETTER, OF_SIZE, OF_VALUE, PER_KIND = range(6)
FIRST = LISTS + PER_KIND


@dataclass(frozen=True, slots=True)
class Kind:
    """What an argument is: a number, or an array of so many axes, which may be written."""

    dtype: np.dtype
    ndim: int = 0
    mutable: bool = False

    @property
    def machine(self) -> str:
        """Its machine type."""
        return self.dtype.name

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
