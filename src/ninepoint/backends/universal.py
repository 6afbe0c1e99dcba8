"""Generalised universal functions of NumPy, made of machine code.

NumPy broadcasts the arrays, finds their core axes (`axes=`, `axis=`), makes results, takes care
of memory that overlaps, and calls the loop.  They are made by NumPy's own function
for that, which is part of its binary interface: other packages are compiled against it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from .llvm.layout import numpys

# The place of `PyUFunc_FromFuncAndDataAndSignature` in NumPy's table, in __ufunc_api.h, and
# what says there that a function has no identity.
_MAKE, _NO_IDENTITY = 31, -1

_POINTERS = ctypes.POINTER(ctypes.c_void_p)


@cache
def _maker() -> Any:
    numbers = [ctypes.c_int] * 4
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object, _POINTERS, _POINTERS, ctypes.c_char_p, *numbers,
        ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p,
    )  # fmt: skip
    return kind(numpys("_UFUNC_API", _MAKE))


def universal(
    loop: int,
    inputs: Sequence[np.dtype[Any]],
    outputs: Sequence[np.dtype[Any]],
    name: str,
    signature: str,
) -> tuple[Any, Any]:
    """A function of NumPy that calls a loop of machine code, and the memory that it reads."""
    loops, datas = (ctypes.c_void_p * 1)(loop), (ctypes.c_void_p * 1)()
    types = bytes(dtype.num for dtype in (*inputs, *outputs))
    texts = name.encode(), b"", signature.encode()
    counts = 1, len(inputs), len(outputs), _NO_IDENTITY
    call = _maker()(loops, datas, types, *counts, *texts[:2], 0, texts[2])
    return call, (loops, datas, types, texts)
