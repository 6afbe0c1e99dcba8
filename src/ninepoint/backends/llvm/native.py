"""Machine code that needs no Numba to be loaded and called.

Numba takes half a second to be imported and set up.  So what it compiled is kept as object
code, with the names of what it calls; LLVM alone loads that.  Its entry is a function as those of
C extensions are, and a call of it takes half the time of a call through Numba's dispatcher.

The entry takes NumPy's arrays as they are in memory, reads where their elements lie, and
refuses arrays of another kind than it was compiled for.  What the fields of an array are, and
where, is part of NumPy's binary interface: NumPy's own headers compile it into other packages.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

# Where the fields of an array and of its dtype are [bytes]: `PyArrayObject_fields` and
# `_PyArray_DescrNumPy2` in NumPy's ndarraytypes.h, with 64-bit pointers.
TYPE, DATA, NDIM, SHAPE, STRIDES, DTYPE, FLAGS = 8, 16, 24, 32, 40, 56, 64
KIND, ORDER, ITEMSIZE = 24, 26, 40
ALIGNED, WRITEABLE = 0x100, 0x400

# What becomes of an array's memory (see `..memory`).
USED, FREE, OWN, PLAIN = range(4)

# Before an array's memory: what becomes of it, where its mapping begins, how long that is, and
# how many bytes the array may have.  64 bytes keep arrays aligned for every vector.
HEAD = 64

ENTRY, TOGETHER = "ninepoint_entry", "ninepoint_together"

# What computes a block, where no entry can be called.
BLOCK = "ninepoint_block"

# The loop over elements, which NumPy calls (see `elements`).
ELEMENTS = "ninepoint_elements"

# What carries out commands for the entries of all kernels.
COMMANDS = "ninepoint_commands"

_MAGIC = b"ninepoint machine code 1\n"


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


class _Method(ctypes.Structure):
    """`PyMethodDef` of Python's binary interface."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL = 0x80

# Machine code is never freed, not when the interpreter ends either: a thread may be running it.
_kept: list[Any] = []
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


@cache
def possible() -> bool:
    """Whether arrays lie in this process's memory as the entry reads them."""
    if struct.calcsize("P") != 8 or sys.byteorder != "little" or object.__basicsize__ != 16:
        return False
    if sys.platform == "win32" or np.dtype("O").itemsize != 8:
        return False
    array = np.empty((3, 5), dtype="int16")[:, ::2]
    at, dtype = id(array), id(array.dtype)
    return (
        _word(at + TYPE) == id(np.ndarray)
        and _word(at + DATA) == array.__array_interface__["data"][0]
        and ctypes.c_int.from_address(at + NDIM).value == 2
        and (_word(_word(at + SHAPE)), _word(_word(at + SHAPE) + 8)) == array.shape
        and (_word(_word(at + STRIDES)), _word(_word(at + STRIDES) + 8)) == array.strides
        and _word(at + DTYPE) == dtype
        and ctypes.c_int.from_address(at + FLAGS).value == array.flags.num
        and ctypes.c_char.from_address(dtype + KIND).value == b"i"
        and ctypes.c_char.from_address(dtype + ORDER).value == b"="
        and _word(dtype + ITEMSIZE) == 2
    )


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def packed(code: bytes, needs: Sequence[str]) -> bytes:
    """The content of a file: object code, and the names of what it calls."""
    body = " ".join(needs).encode() + b"\n" + code
    return _MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unpacked(content: bytes) -> tuple[bytes, list[str]]:
    """Object code and the names of what it calls.

    Raises
    ------
    ValueError
        If the content is not what `packed` gave.
    """
    digest, _, body = content.removeprefix(_MAGIC).partition(b"\n")
    if not content.startswith(_MAGIC) or hashlib.sha256(body).hexdigest().encode() != digest:
        raise ValueError("not what was written")
    needs, _, code = body.partition(b"\n")
    return code, needs.decode().split()


@cache
def _keep_freed_memory() -> None:
    """Let malloc keep what is freed, up to 32 MB, as it does once it has freed a large block.

    Strips along the borders and rows that are kept are made anew in each call.  Where malloc
    gives their pages back every time, Harris corners take 9 % longer (2560x3072 float32, Zen 4).
    """
    np.empty(1 << 24, np.uint8)


def entries(engine: Any) -> tuple[Callable[..., None], Callable[..., None], int]:
    """What runs a block or a list of commands, what shares such lists, and the loop over elements.

    Of the last where it begins; 0 if there is none.
    """
    _keep_freed_memory()
    entry, together = (_function(engine.get_function_address(name)) for name in (ENTRY, TOGETHER))
    return entry, together, int(engine.get_function_address(ELEMENTS))


def block(engine: Any, kinds: Sequence[Kind]) -> Callable[..., None]:
    """What runs a block, for a Python whose objects are not known here: called by `ctypes`."""
    _keep_freed_memory()
    words = ctypes.c_int64
    block = ctypes.CFUNCTYPE(words, words, words)(engine.get_function_address(BLOCK))
    arrays = len(kinds) - [kind.mutable for kind in kinds][::-1].index(True)

    def band(*arguments: Any) -> None:
        described = [word for array in arguments[:arrays] for word in _view(array)]
        views = (words * len(described))(*described)
        others = _others(kinds[arrays:], arguments[arrays:])
        if block(ctypes.addressof(views), others.ctypes.data):
            raise MemoryError

    return band


def _view(array: np.ndarray) -> tuple[int, ...]:
    """Where an array begins, its shape and the bytes between its elements."""
    return array.ctypes.data, *array.shape, *array.strides


def _others(kinds: Sequence[Kind], values: Sequence[Any]) -> np.ndarray:
    """Coefficients and numbers, as machine code takes them: one after the other."""
    fields: list[np.dtype] = []
    held: list[Any] = []
    for kind, value in zip(kinds, values, strict=True):
        words = _view(value) if kind.ndim else (value,)
        fields += [np.dtype("int64") if kind.ndim else kind.dtype] * len(words)
        held += words
    named = [(f"f{k}", one) for k, one in enumerate(fields)]
    return np.array(tuple(held), np.dtype(named, align=True))


def _function(address: int) -> Callable[..., None]:
    """Machine code as a function of Python."""
    method = _Method(b"band", address, _FASTCALL, None)
    _kept.append(method)
    # Bound to the type of arrays, which the entry compares with its arguments'.
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., None] = new(ctypes.addressof(method), np.ndarray, None)
    return function


def share(code: bytes, needs: Sequence[str]) -> bool:
    """Let the entries of kernels call this object code by the name `COMMANDS`, if it loads."""
    import llvmlite.binding as llvm

    shared = engine(code, needs, {})
    if shared is not None:
        llvm.add_symbol(COMMANDS, shared.get_function_address(COMMANDS))
    return shared is not None


def compiler(text: str) -> Any:
    """What compiles a text for LLVM, and holds its machine code."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)


def engine(code: bytes, needs: Sequence[str], numbers: Mapping[str, np.ndarray]) -> Any:
    """What holds object code and its numbers; nothing if something it calls is not found."""
    import llvmlite.binding as llvm

    # One for each: names that two hold never meet.
    made = compiler("")
    # Only with an engine are the process's own functions found.
    if not all(map(llvm.address_of_symbol, needs)):
        # Numba brings functions of its own.
        from numba.core.registry import cpu_target

        _ = cpu_target.target_context
        if not all(map(llvm.address_of_symbol, needs)):
            return None
    made.add_object_file(llvm.ObjectFileRef.from_data(code))
    made.finalize_object()
    for name, values in numbers.items():
        ctypes.memmove(made.get_global_value_address(name), values.ctypes.data, values.nbytes)
    _kept.append(made)
    return made
