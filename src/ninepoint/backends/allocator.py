"""An allocator for NumPy that hands out the memory it was given, and says when that is free.

NumPy lets a thread choose who allocates (`PyDataMem_SetHandler`).  An array remembers who did,
and frees its memory there; in all else it is as any other array: it owns its data, has no base,
and is resized, pickled and copied in the usual way.

The memory of an array begins behind a head of 64 bytes, which says what becomes of it:

    USED     an array has it; once that is gone, it is FREE
    FREE     nobody has it, and it is kept
    OWN      an array has it, with which it goes
    PLAIN    an array has it from `malloc`, to which it goes back

The functions that NumPy calls are machine code made here: they may be called at any time, even
when the interpreter ends, and run no Python.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..undisturbed import imported
from .llvm.native import HEAD, USED

# Where functions are in the table of NumPy's C interface, which never changes.
_SET, _DEFAULT = 304, 306

_NAME = b"ninepoint"


class _Handler(ctypes.Structure):
    """`PyDataMem_Handler` of NumPy's binary interface."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


class Allocator:
    """What arrays are made of memory with, and memory is asked for and given back with."""

    def __init__(self) -> None:
        from .llvm import runtime

        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        core = imported("numpy._core._multiarray_umath")
        table = (ctypes.c_int64 * (_DEFAULT + 1)).from_address(pointer(core._ARRAY_API, None))
        self._default = ctypes.py_object.from_address(table[_DEFAULT]).value

        assembly = runtime.allocator()
        self._next = ctypes.c_int64(0)
        functions = [assembly.address(name) for name in ("malloc", "calloc", "realloc", "free")]
        handler = _Handler(_NAME, 1, ctypes.addressof(self._next), *functions)
        label = ctypes.c_char_p(b"mem_handler")
        self._handler = new(ctypes.addressof(handler), label, None)
        # Arrays outlive this module when the interpreter ends.
        for one in (assembly, self._next, handler, label, self._handler):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))

        word, size, number = ctypes.c_int64, ctypes.c_size_t, ctypes.c_int
        process = ctypes.CDLL(None)
        # Only what may take long lets other threads run: to get on again may take 5 ms.
        kind = ctypes.PYFUNCTYPE
        self._choose = kind(ctypes.py_object, ctypes.py_object)(table[_SET])
        self._swap: Callable[[int, int, int], int] = kind(word, word, word, word)(
            assembly.address("swap")
        )
        mmap_type = kind(word, word, size, number, number, number, word)
        self._map: Callable[..., int] = mmap_type(("mmap", process))
        self._unmap = ctypes.CFUNCTYPE(number, word, size)(("munmap", process))
        self._advise = kind(number, word, size, number)(("madvise", process))

    def array(self, at: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """An array whose memory begins at `at`; nothing where the user chose another allocator.

        One thread at a time may ask for one.
        """
        before = self._choose(self._handler)
        try:
            if before is not self._default and before is not self._handler:
                return None
            self._next.value = at
            made = np.empty(shape, dtype)
            # An interrupt's own call may have come between, and taken it.
            taken, self._next.value = not self._next.value, 0
            return made if taken and made.ctypes.data == at else None
        finally:
            self._choose(self._default if before is self._handler else before)

    def state(self, at: int) -> int:
        """What becomes of the memory at `at`."""
        return ctypes.c_int64.from_address(at - HEAD).value

    def changed(self, at: int, before: int, after: int) -> bool:
        """Say that the memory becomes something else, if it was what it is thought to be."""
        return self._swap(at, before, after) == before

    def mapped(self, size: int, shift: int, huge: int, count: int) -> int | None:
        """Memory of the process's own for an array, which is USED; nothing if there is none.

        It begins `shift` bytes, HEAD or more, behind the begin of a page.  The first `count` of
        its pages are `huge` bytes long, as far as the system has them.
        """
        length = -(-(size + shift) // mmap.PAGESIZE) * mmap.PAGESIZE
        if count:
            length = max(length, count * huge) + huge
        kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        base = self._map(0, length, mmap.PROT_READ | mmap.PROT_WRITE, kind, -1, 0)
        if base == -1:
            return None
        begin = base
        if count:
            begin = -(-base // huge) * huge
            self._advise(begin, count * huge, mmap.MADV_HUGEPAGE)
        at = begin + shift
        head = (ctypes.c_int64 * 4).from_address(at - HEAD)
        head[:] = [USED, base, length, size]
        return at

    def unmap(self, at: int) -> None:
        """Give the memory at `at` back to the system; it must be nobody's."""
        _, base, length, _ = (ctypes.c_int64 * 4).from_address(at - HEAD)
        self._unmap(base, length)


def allocator() -> Allocator | None:
    """The allocator; nothing where NumPy, or the system, is not as it needs them."""
    if struct.calcsize("P") != 8 or sys.platform == "win32":
        return None
    return Allocator() if sys.implementation.name == "cpython" else None
